"""The lists of Bluesky, as the engine reads them: author feeds, the records of repositories, and lists of accounts.

The feed is newest first and its cursor leads only to older posts; the repository is listed in the order of writing and
its cursor, the last record key, is a stable resume token. An empty page of a feed with a cursor is not the end; a short
page of a repository is, even with a cursor. A cursor that does not advance is the end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from tidelore.core.model import Item, PostRecord, Rejected, RemoteId, Version
from tidelore.engine.log import KeyScheme
from tidelore.engine.ports import ListRequest, Page
from tidelore.sources.bluesky.client import XrpcClient
from tidelore.sources.bluesky.payloads import POST, ProfileView, key_before, split_uri, tid_instant
from tidelore.sources.bluesky.transform import read_feed, read_records
from tidelore.sources.items import reject

_PROFILE = msgspec.json.Decoder(ProfileView)

Server = Callable[[], AbstractAsyncContextManager[XrpcClient]]
"""Opens a client for the server of one list."""

Repository = Callable[[str], AbstractAsyncContextManager[XrpcClient]]
"""Opens a client for the server that stores the records of a DID."""


def _place(uri: RemoteId) -> tuple[str, str]:
    address = split_uri(str(uri))
    return address.collection, address.rkey


RECORD_KEYS = KeyScheme(_place, tid_instant, key_before)
"""The parts of a repository are its collections. Most record keys are TIDs, which encode the time of writing."""


class AuthorFeed:
    """The posts and reposts of one account, newest first."""

    def __init__(
        self, appview: XrpcClient, repository: Repository, did: str, *, per_page: int, pins: bool = False
    ) -> None:
        self._appview = appview
        self._repository = repository
        self._did = did
        self._per_page = per_page
        self._pins = pins

    async def fetch(self, request: ListRequest) -> Page[PostRecord]:
        answer, response = await self._appview.author_feed(
            self._did, limit=self._per_page, cursor=request.token, pins=self._pins
        )
        found = read_feed(answer.feed)
        return Page(
            items=found.items,
            rejected=found.rejected,
            next_token=_onward(request.token, answer.cursor),
            server_at=response.server_at,
            pinned=frozenset(found.pinned),
        )

    async def fetch_one(self, locator: str) -> Page[PostRecord]:
        """Request one post or repost by its URI. It is gone if its repository reports so.

        The AppView is not used: it does not return single reposts, and hides posts that still exist.
        """
        address = split_uri(locator)
        if address.collection == POST:
            answer, response = await self._appview.posts([locator])
            found = read_feed([Raw(b'{"post":' + bytes(raw) + b"}") for raw in answer.posts])
            if found.items or found.rejected:
                return Page(items=found.items, rejected=found.rejected, server_at=response.server_at)
        async with self._repository(address.did) as client:
            return await _record_page(client, locator)


class RecordList:
    """One collection of one account's repository, in the order of writing. The token is a record key."""

    def __init__(self, server: Server, did: str, collection: str, *, per_page: int) -> None:
        self._server = server
        self._did = did
        self._collection = collection
        self._per_page = per_page

    async def fetch(self, request: ListRequest) -> Page[PostRecord]:
        async with self._server() as client:
            answer, response = await client.list_records(
                self._did, self._collection, limit=self._per_page, cursor=request.token
            )
        found = read_records(answer.records, response.server_at)
        following = _onward(request.token, answer.cursor) if len(answer.records) >= self._per_page else None
        return Page(items=found.items, rejected=found.rejected, next_token=following, server_at=response.server_at)

    async def fetch_one(self, locator: str) -> Page[PostRecord]:
        """Request one record by its URI. It is gone if its repository reports so."""
        async with self._server() as client:
            return await _record_page(client, locator)


class Profile(Struct, frozen=True):
    """An account as the AppView shows it."""

    did: str
    handle: str
    display_name: str | None
    posts_count: int | None


class ProfileList:
    """The accounts of a list, or those that an account follows; `ask` requests the page after a cursor."""

    def __init__(self, ask: Callable[[str | None], Awaitable[tuple[list[Raw], str | None]]]) -> None:
        self._ask = ask

    async def fetch(self, request: ListRequest) -> Page[Profile]:
        raws, cursor = await self._ask(request.token)
        return replace(read_profiles(raws), next_token=_onward(request.token, cursor))


def read_profiles(raws: Sequence[Raw]) -> Page[Profile]:
    """Parse accounts; the version of one is its DID, because nothing else of it is compared."""
    items: list[Item[Profile]] = []
    rejected: list[Rejected] = []
    for raw in raws:
        try:
            view = _PROFILE.decode(raw)
        except msgspec.DecodeError as error:
            rejected.append(reject(bytes(raw), str(error)))
            continue
        name = (view.display_name or "").replace("\x00", "").strip()
        profile = Profile(view.did, view.handle, name or None, view.posts_count)
        items.append(Item(Version(view.did, 0, b""), 0, bytes(raw), profile))
    return Page(items=items, rejected=rejected)


async def _record_page(client: XrpcClient, locator: str) -> Page[PostRecord]:
    address = split_uri(locator)
    answer = await client.get_record(address.did, address.collection, address.rkey)
    if answer is None:
        return Page()
    stored, response = answer
    found = read_records([Raw(msgspec.json.encode(stored))], response.server_at)
    return Page(items=found.items, rejected=found.rejected, server_at=response.server_at)


def _onward(asked: str | None, told: str | None) -> str | None:
    return None if not told or told == asked else told
