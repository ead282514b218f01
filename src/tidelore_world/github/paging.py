"""GitHub's pages: which rows a request asks for, and the `Link` header that leads on.

Owns the page query, the `since` floor, the opaque cursors and the refusals that depend on them. Pure: settings and
request in, decision out.
"""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass
from urllib.parse import urlencode

from tidelore_world.clock import DAY_US, SECOND_US, parse_iso
from tidelore_world.github.failure import ApiFailure
from tidelore_world.github.settings import GitHubSettings
from tidelore_world.wire import Request

_DEFAULT, _MAXIMUM = 30, 100
_TOO_DEEP = (
    "In order to keep the API fast for everyone, pagination is limited for this resource. Check the rel=last "
    "link relation in the Link response header to see how far back you can traverse."
)
_USE_CURSORS = (
    "Pagination with the page parameter is not supported for large datasets, please use cursor based pagination "
    "(after/before)"
)


@dataclass(frozen=True, slots=True)
class Window:
    """The rows one request asks for."""

    page: int
    per_page: int
    after: tuple[int, int] | None = None
    backwards: bool = False

    @property
    def offset(self) -> int:
        """How many rows lie before this page."""
        return (self.page - 1) * self.per_page


def read_window(request: Request, settings: GitHubSettings) -> Window:
    """Read `page` and `per_page`; nonsense means the default, too much means the maximum."""
    window = Window(
        max(1, _number(request.first("page"), 1)),
        min(_MAXIMUM, _number(request.first("per_page"), _DEFAULT) or _DEFAULT),
    )
    if window.offset + window.per_page > settings.deep_offset:
        raise ApiFailure(422, _TOO_DEEP)
    return window


def read_issues_window(request: Request, settings: GitHubSettings) -> Window:
    """Read the page of the list of issues: a cursor in `after` decides alone, `page` works for the first rows only."""
    window = Window(
        max(1, _number(request.first("page"), 1)),
        min(_MAXIMUM, _number(request.first("per_page"), _DEFAULT) or _DEFAULT),
    )
    for name in ("after", "before"):
        cursor = request.first(name)
        if cursor:
            key = read_cursor(cursor)
            if key is None:
                raise ApiFailure(422, "Validation Failed", ({"field": name, "code": "invalid"},))
            return Window(window.page, window.per_page, key, name == "before")
    if settings.issues_cursor_links and window.offset + window.per_page > max(settings.issues_page_rows, _MAXIMUM):
        raise ApiFailure(422, _USE_CURSORS)
    return window


def write_cursor(key: tuple[int, int]) -> str:
    """An opaque cursor; the real service's are MessagePack behind `cursor:v2:`, and so are these."""
    value, row_id = key
    packed = b"\x92" + struct.pack(">BQ", 0xCF, value * 1000) + struct.pack(">BQ", 0xCF, row_id)
    return base64.urlsafe_b64encode(b"cursor:v2:" + packed).decode()


def read_cursor(text: str) -> tuple[int, int] | None:
    """The key in a cursor; None when it is not one of ours."""
    try:
        raw = base64.urlsafe_b64decode(text)
    except ValueError:
        return None
    if not raw.startswith(b"cursor:v2:\x92") or len(raw) != 29:
        return None
    value, row_id = struct.unpack(">xQxQ", raw[11:])
    return value // 1000, row_id


def cursor_links(
    request: Request, window: Window, keys: list[tuple[int, int]], numeric_path: str, *, more: bool
) -> str | None:
    """The `Link` header of the list of issues: it leads on by cursors, knows no last page and names the id."""
    fixed = [
        (name, value)
        for name, values in request.query.items()
        if name not in ("page", "after", "before")
        for value in values
    ]
    links = []
    if more:
        query = urlencode([*fixed, ("after", write_cursor(keys[-1])), ("page", str(window.page + 1))])
        links.append(f'<{request.origin}{numeric_path}?{query}>; rel="next"')
    if window.page > 1 and keys:
        query = urlencode([*fixed, ("before", write_cursor(keys[0])), ("page", str(window.page - 1))])
        links.append(f'<{request.origin}{numeric_path}?{query}>; rel="prev"')
    return ", ".join(links) or None


def read_floor(request: Request, window: Window, settings: GitHubSettings, now_us: int) -> int | None:
    """The first whole second that `since` lets through; None without one. Refuses an old one."""
    since = request.first("since")
    if since is None:
        return None
    try:
        since_us = parse_iso(since)
    except ValueError as error:
        raise ApiFailure(422, "Validation Failed", ({"field": "since", "code": "invalid"},)) from error
    days = settings.gateway_since_days
    if days is not None and now_us - since_us > days * DAY_US and window.per_page > settings.gateway_per_page:
        raise ApiFailure(502, "Server Error")
    if settings.since_exclusive:
        return since_us // SECOND_US + 1
    return -(-since_us // SECOND_US)


def link_header(
    request: Request, window: Window, total: int, settings: GitHubSettings, numeric_path: str
) -> str | None:
    """The `Link` header; None when everything fits on one page."""
    last = -(-min(total, settings.deep_offset) // window.per_page)
    pages: dict[str, int] = {}
    if window.page > 1:
        pages["prev"] = min(window.page - 1, max(1, last))
    if window.page < last:
        pages["next"] = window.page + 1
        pages["last"] = last
    if window.page > 1:
        pages["first"] = 1
    switched = settings.numeric_links_from_page is not None and window.page >= settings.numeric_links_from_page
    path = numeric_path if switched else request.path
    fixed = [(name, value) for name, values in request.query.items() if name != "page" for value in values]
    links = (
        f'<{request.origin}{path}?{urlencode([*fixed, ("page", str(page))])}>; rel="{rel}"'
        for rel, page in pages.items()
    )
    return ", ".join(links) or None


def _number(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() else default
