"""How a list request is read and a page of it is framed: filters, order, offset and keyset paging, headers.

Owns query parsing and the pagination headers. Refuses to touch rows. Invariant: pure functions of the
request and of counts; `x-total`, `x-total-pages` and `rel=last` vanish above 10,000 rows.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from tidelore_world.clock import parse_iso
from tidelore_world.gitlab.shelf import Key, Order, OrderBy
from tidelore_world.gitlab.state import Kind
from tidelore_world.wire import Request

DEFAULT_PER_PAGE = 20
MAX_PER_PAGE = 100
COUNT_LIMIT = 10_000

_STATES: Mapping[Kind, frozenset[str]] = {
    "issues": frozenset({"opened", "closed", "all"}),
    "merge_requests": frozenset({"opened", "closed", "merged", "all"}),
}
_SCOPES = frozenset({"created_by_me", "assigned_to_me", "all", "created-by-me", "assigned-to-me"})


class BadQuery(ValueError):
    """A query parameter GitLab refuses with 400; the text is the message it sends."""


@dataclass(frozen=True, slots=True)
class Paging:
    """Which page is asked for."""

    page: int
    per_page: int

    @property
    def offset(self) -> int:
        """Rows before this page."""
        return (self.page - 1) * self.per_page


@dataclass(frozen=True, slots=True)
class ItemQuery:
    """A parsed list request for issues or merge requests."""

    order: Order
    paging: Paging
    state: str | None = None
    scope: str = "all"
    iids: frozenset[int] | None = None
    updated_after_us: int | None = None
    updated_before_us: int | None = None
    created_after_us: int | None = None
    created_before_us: int | None = None
    keyset: bool = False
    cursor: Key | None = None

    @property
    def order_span(self) -> tuple[int | None, int | None]:
        """The bounds on the instant the list is ordered by; an index answers these without a scan."""
        if self.order.by == "updated_at":
            return self.updated_after_us, self.updated_before_us
        return self.created_after_us, self.created_before_us

    @property
    def needs_scan(self) -> bool:
        """Whether a filter is left that no ordered index can answer."""
        other = (
            (self.created_after_us, self.created_before_us)
            if self.order.by == "updated_at"
            else (self.updated_after_us, self.updated_before_us)
        )
        return self.state is not None or self.scope != "all" or self.iids is not None or other != (None, None)


def parse_paging(request: Request) -> Paging:
    """Read `page` and `per_page`; a page size above the maximum is cut down, not refused."""
    per_page = _integer(request, "per_page", DEFAULT_PER_PAGE)
    if per_page == 0:
        raise BadQuery("per_page has a value not allowed")
    return Paging(max(1, _integer(request, "page", 1)), min(MAX_PER_PAGE, max(1, per_page)))


def parse_items(request: Request, kind: Kind, *, ties_follow_sort: bool = False) -> ItemQuery:
    """Read an issues or merge requests list request."""
    keyset = _choice(request, "pagination", {"keyset", "legacy", "offset"}, "offset") == "keyset"
    order = parse_order(request, ties_follow_sort=ties_follow_sort)
    state = _choice(request, "state", _STATES[kind], "all")
    scope = _choice(request, "scope", _SCOPES, "all").replace("-", "_")
    return ItemQuery(
        order=order,
        paging=parse_paging(request),
        state=None if state == "all" else state,
        scope=scope,
        iids=_iids(request),
        updated_after_us=_instant(request, "updated_after"),
        updated_before_us=_instant(request, "updated_before"),
        created_after_us=_instant(request, "created_after"),
        created_before_us=_instant(request, "created_before"),
        keyset=keyset,
        cursor=_cursor(request) if keyset else None,
    )


def parse_order(request: Request, *, ties_follow_sort: bool = False) -> Order:
    """Read `order_by` and `sort`; the default is newest creation first."""
    by: OrderBy = (
        "updated_at"
        if _choice(request, "order_by", {"created_at", "updated_at"}, "created_at") == "updated_at"
        else "created_at"
    )
    descending = _choice(request, "sort", {"asc", "desc"}, "desc") == "desc"
    return Order(by, descending, ties_descending=descending if ties_follow_sort else True)


def offset_headers(request: Request, paging: Paging, total: int) -> dict[str, str]:
    """Pagination headers of one offset page."""
    last = max(1, -(-total // paging.per_page))
    following = str(paging.page + 1) if paging.page < last else ""
    previous = str(paging.page - 1) if paging.page > 1 else ""
    headers = {
        "x-page": str(paging.page),
        "x-per-page": str(paging.per_page),
        "x-next-page": following,
        "x-prev-page": previous,
    }
    links = {"prev": previous, "next": following, "first": "1"}
    if total <= COUNT_LIMIT:
        headers["x-total"] = str(total)
        headers["x-total-pages"] = str(last)
        links["last"] = str(last)
    headers["link"] = ", ".join(
        _link(request, rel, {"page": page, "per_page": str(paging.per_page)}) for rel, page in links.items() if page
    )
    return headers


def keyset_headers(request: Request, paging: Paging, last_key: Key | None) -> dict[str, str]:
    """Pagination headers of one keyset page: only a link with a cursor, and none on the last page."""
    if last_key is None:
        return {}
    text = base64.urlsafe_b64encode(json.dumps(last_key).encode()).decode()
    return {"link": _link(request, "next", {"cursor": text, "per_page": str(paging.per_page)})}


def _link(request: Request, rel: str, changes: Mapping[str, str]) -> str:
    query = {name: values for name, values in request.query.items() if name not in changes}
    query |= {name: [value] for name, value in changes.items()}
    return f'<{request.origin}{request.path}?{urlencode(query, doseq=True)}>; rel="{rel}"'


def _integer(request: Request, name: str, default: int) -> int:
    text = request.first(name)
    if text is None or text == "":
        return default
    try:
        return int(text)
    except ValueError:
        raise BadQuery(f"{name} is invalid") from None


def _instant(request: Request, name: str) -> int | None:
    text = request.first(name)
    if not text:
        return None
    try:
        return parse_iso(text)
    except ValueError:
        raise BadQuery(f"{name} is invalid") from None


def _choice(request: Request, name: str, allowed: frozenset[str] | set[str], default: str) -> str:
    text = request.first(name) or default
    if text not in allowed:
        raise BadQuery(f"{name} does not have a valid value")
    return text


def _iids(request: Request) -> frozenset[int] | None:
    values = request.query.get("iids[]") or request.query.get("iids")
    if not values:
        return None
    try:
        return frozenset(int(number) for value in values for number in value.split(","))
    except ValueError:
        raise BadQuery("iids is invalid") from None


def _cursor(request: Request) -> Key | None:
    text = request.first("cursor")
    if not text:
        return None
    try:
        first, second = json.loads(base64.urlsafe_b64decode(text))
        return int(first), int(second)
    except (ValueError, TypeError, binascii.Error):
        raise BadQuery("cursor is invalid") from None
