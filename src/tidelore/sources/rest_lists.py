"""Lists of REST APIs: the children of one item, page by page, and lists that are read to their end at once.

Both forges page these lists in the same way. A next link to another origin is not followed (`items.next_address`).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from tidelore.core.errors import RemoteNotFound
from tidelore.core.model import Item
from tidelore.engine.ports import ListRequest, Page
from tidelore.http.response import Response
from tidelore.sources.items import next_address, parse_items, refuse_nul

_LOG = logging.getLogger(__name__)

C = TypeVar("C", bound=Struct)
T = TypeVar("T")
Params = Mapping[str, str | int]


class ListClient(Protocol):
    """The part of a forge's client that reads a page of a list."""

    async def list_page(
        self, address: str, params: Params | None, *, etag: str | None, route: str
    ) -> tuple[list[Raw] | None, Response]: ...


class ChildList(Struct, Generic[C], frozen=True):
    """One list of one parent; entries for which `understand` returns None are passed over.

    If several lists make up one kind, `prefix` keeps the keys of rejected items distinct. `locator` is the field by
    which an item is known besides its id; `check` refuses a record that cannot be stored.
    """

    client: ListClient
    address: str
    route: str
    understand: Callable[[bytes], Item[C] | None]
    per_page: int
    prefix: str = ""
    locator: str | None = None
    check: Callable[[Struct], None] = refuse_nul

    async def fetch(self, request: ListRequest) -> Page[C]:
        params: Params | None = {"per_page": self.per_page} if request.token is None else None
        address = request.token or self.address
        raws, response = await self.client.list_page(address, params, etag=None, route=self.route)
        return self.page(raws or (), response, next_address(response, len(raws or ()), self.per_page, self.route))

    def page(self, raws: Iterable[Raw], response: Response, following: str | None = None) -> Page[C]:
        """Return the page that a response contains."""
        items, refused = parse_items(raws, self._understand, self.locator)
        rejected = [replace(one, key=self.prefix + one.key) for one in refused]
        return Page(items=items, rejected=rejected, next_token=following, server_at=response.server_at)

    def _understand(self, payload: bytes) -> Item[C] | None:
        item = self.understand(payload)
        if item is not None and b"\\u0000" in payload:
            self.check(item.record)
        return item


async def read_whole(
    client: ListClient, address: str, params: Params, parse: Callable[[Raw], T], *, route: str, what: str
) -> AsyncIterator[T]:
    """Yield the entries of a whole list; an entry that cannot be parsed is logged, as `what`, and passed over."""
    following: str | None = address
    asked: set[str] = set()
    query: Params | None = params
    while following is not None and following not in asked:
        asked.add(following)
        raws, response = await client.list_page(following, query, etag=None, route=route)
        for entry in _parse_each(raws or (), parse, what):
            yield entry
        # An empty page is the last one.
        following = next_address(response, len(raws), int(params["per_page"]), route) if raws else None
        query = None


def not_visible(error: RemoteNotFound, what: str, setting: str, **named: str) -> RemoteNotFound:
    """Return the error for something that a `setting` of a host names and that the server does not show."""
    return RemoteNotFound(
        f"{what} does not exist or is not visible to the token",
        fix=f"correct its {setting} of this host, or give the token access to it",
        status=error.status,
        url=error.url,
        **named,
    )


def _parse_each(raws: Iterable[Raw], parse: Callable[[Raw], T], what: str) -> Iterator[T]:
    for raw in raws:
        try:
            yield parse(raw)
        except (msgspec.DecodeError, ValueError) as error:
            _LOG.warning("could not parse %s: %s", what, error)
