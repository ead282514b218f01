"""The floor: what any mirror must do. Owns the recording of a run's requests and their repetition.

The repetition asks for the same addresses in the same order, the two lists side by side and each one page
after another, through the product's own client and readers; it stores nothing. What a mirror takes longer
is the price of keeping what was read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx2
from msgspec import Struct

from tidelore.model import IssueRecord, Item, MergeRequestRecord
from tidelore.sources.gitlab.client import ISSUES, MERGE_REQUESTS, GitLabClient, Reader
from tidelore.sources.http import HttpClient, private_token
from tidelore.sources.transport import Transport, open_transport

Keep = Callable[[str, Sequence[Item[Any]]], None]
READERS: dict[str, Reader[Any, Any]] = {"issues": ISSUES, "merge_requests": MERGE_REQUESTS}


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
    """The requests of a run: what was asked first, then each list's pages."""

    first: Sequence[str]
    pages: dict[str, list[str]]

    @property
    def total(self) -> int:
        return len(self.first) + sum(len(addresses) for addresses in self.pages.values())


def recorder(url: str) -> RecordingTransport:
    """Return a transport to hand to a run whose requests are to be recorded."""
    return RecordingTransport(open_transport(url, connections=10))


def sorted_out(addresses: Sequence[str]) -> Requests:
    """Tell the pages of the lists from the requests before them."""
    first: list[str] = []
    pages: dict[str, list[str]] = {resource: [] for resource in READERS}
    for address in addresses:
        pages.get(urlsplit(address).path.rpartition("/")[2], first).append(address)
    return Requests(first, pages)


def fetch_again(url: str, requests: Requests, keep: Keep = lambda _resource, _items: None) -> int:
    """Fetch and decode what a run asked for; return how many items that brought. `keep` is handed each page."""
    return asyncio.run(_fetch(url, requests, keep))


async def _fetch(url: str, requests: Requests, keep: Keep) -> int:
    async with HttpClient(url, auth=private_token) as http:
        client = GitLabClient(http)
        for address in requests.first:
            await http.get(address)
        counts = await asyncio.gather(
            *(_read_pages(client, resource, addresses, keep) for resource, addresses in requests.pages.items())
        )
    return sum(counts)


async def _read_pages(client: GitLabClient, resource: str, addresses: Sequence[str], keep: Keep) -> int:
    count = 0
    for address in addresses:
        raws, _ = await client.list_page(address, None, etag=None, route="floor")
        found = READERS[resource].read(raws or [], _updated_at)
        keep(resource, found.items)
        count += len(found.items)
    return count


def _updated_at(record: IssueRecord | MergeRequestRecord) -> int:
    return record.updated_at
