"""GitHub's pages: which rows a request asks for, and the `Link` header that leads on.

Owns the page query, the `since` floor and the refusals that depend on them. Pure: settings and request in,
decision out.
"""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class Window:
    """The rows one request asks for."""

    page: int
    per_page: int

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
