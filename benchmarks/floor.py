"""The floor: what any mirror must do. Owns the recording of a run's requests and their repetition.

The repetition asks for the same addresses through the product's own client and readers: the two lists side by side
and each one page after another, then everything under their items, as many at once as the product asks for. It
stores nothing. What a mirror takes longer is the price of keeping what was read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx2
from msgspec import Struct

from tidelore.core.config import Sync
from tidelore.core.model import IssueRecord, Item, MergeRequestRecord
from tidelore.engine.ports import ListRequest
from tidelore.http.client import HttpClient, private_token
from tidelore.http.transport import Transport, open_transport
from tidelore.sources.gitlab.client import GitLabClient
from tidelore.sources.gitlab.surfaces import ISSUES, LISTS, MERGE_REQUESTS, ChildList, Understand
from tidelore.sources.items import ItemReader

Keep = Callable[[str, Sequence[Item[Any]]], None]
READERS: dict[str, ItemReader[Any, Any]] = {"issues": ISSUES, "merge_requests": MERGE_REQUESTS}
CHILDREN: dict[str, Understand] = {name: read for lists in LISTS.values() for name, read in lists.items()}
AT_ONCE = Sync().dependent_concurrency
PER_PAGE = 100


class RecordingTransport(httpx2.AsyncBaseTransport):
    """Passes requests on and keeps their addresses in the order in which they were sent."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.addresses: list[str] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.addresses.append(str(request.url))
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


class Requests(Struct, frozen=True):
    """The requests of a run: what was asked first, each list's pages, then what hangs on their items."""

    first: Sequence[str]
    pages: dict[str, list[str]]
    children: Sequence[str]

    @property
    def total(self) -> int:
        return len(self.first) + sum(len(addresses) for addresses in self.pages.values()) + len(self.children)


def recorder(url: str) -> RecordingTransport:
    """Return a transport to hand to a run whose requests are to be recorded."""
    return RecordingTransport(open_transport(url, connections=AT_ONCE))


def sorted_out(addresses: Sequence[str]) -> Requests:
    """Tell the pages of the lists from the requests before them and from the lists under their items."""
    first: list[str] = []
    children: list[str] = []
    pages: dict[str, list[str]] = {resource: [] for resource in READERS}
    for address in addresses:
        name = _list_of(address)
        (children if name in CHILDREN else pages.get(name, first)).append(address)
    return Requests(first, pages, children)


def fetch_again(url: str, requests: Requests, keep: Keep = lambda _list, _items: None) -> int:
    """Fetch and decode what a run asked for; return how many items that brought. `keep` is handed each page."""
    return asyncio.run(_fetch(url, requests, keep))


async def _fetch(url: str, requests: Requests, keep: Keep) -> int:
    async with HttpClient(url, auth=private_token, max_concurrency=AT_ONCE) as http:
        client = GitLabClient(http)
        for address in requests.first:
            await http.get(address)
        counts = await asyncio.gather(
            *(_read_pages(client, resource, addresses, keep) for resource, addresses in requests.pages.items())
        )
        queue = iter(requests.children)
        counts += await asyncio.gather(*(_read_children(client, queue, keep) for _ in range(AT_ONCE)))
    return sum(counts)


async def _read_pages(client: GitLabClient, resource: str, addresses: Sequence[str], keep: Keep) -> int:
    count = 0
    for address in addresses:
        raws, _ = await client.list_page(address, None, etag=None, route="floor")
        found = READERS[resource].read(raws or [], _updated_at)
        keep(resource, found.items)
        count += len(found.items)
    return count


async def _read_children(client: GitLabClient, queue: Iterator[str], keep: Keep) -> int:
    count = 0
    for address in queue:
        name = _list_of(address)
        page = await ChildList(client, address, "floor", CHILDREN[name], PER_PAGE).fetch(ListRequest(token=address))
        keep(name, page.items)
        count += len(page.items)
    return count


def _list_of(address: str) -> str:
    return urlsplit(address).path.rpartition("/")[2]


def _updated_at(record: IssueRecord | MergeRequestRecord) -> int:
    return record.updated_at
