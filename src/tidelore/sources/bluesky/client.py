"""The calls of the AT Protocol, and one HTTP client for each server of the network.

No credentials: everything read here is public. `XrpcClient` sends requests to one origin, an AppView or the server of
an account. `Origins` manages the clients and refuses URLs that are not public https, because an account itself
publishes where its records are stored and must not point this program at private machines; the IP addresses of a name
are checked by `http/tls.py`. Servers on this machine are allowed only if a configured one is there. Invariant: a
client in use is never closed; of the idle ones only the most recently used are kept.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import TypeVar
from urllib.parse import urlsplit

from msgspec import Raw

from tidelore.core.errors import RemotePermanent
from tidelore.http.client import HttpClient
from tidelore.http.pagination import Param
from tidelore.http.response import Response
from tidelore.http.tls import is_loopback
from tidelore.sources.bluesky.payloads import (
    FeedPage,
    FollowsPage,
    ListPage,
    PostsAnswer,
    ProfilesAnswer,
    RecordsPage,
    RepoStatus,
    Resolved,
    StarterPackAnswer,
    StoredRecord,
)

MOST_IDLE = 32

_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LOCAL_ENDINGS = (".localhost", ".local", ".internal", ".lan", ".home.arpa")


class Origins:
    """HTTP clients by origin, opened when first needed. Use `close` when done."""

    def __init__(self, connect: Callable[[str], HttpClient], *, local: bool, most_idle: int = MOST_IDLE) -> None:
        self._connect = connect
        self._local = local
        self._most_idle = most_idle
        self._clients: OrderedDict[str, HttpClient] = OrderedDict()
        self._users: dict[str, int] = {}

    @asynccontextmanager
    async def using(self, url: str) -> AsyncIterator[HttpClient]:
        """Yield the client of an origin; raise RemotePermanent if the origin is not allowed."""
        origin = allowed_origin(url, local=self._local)
        client = self._clients.get(origin)
        if client is None:
            client = self._clients[origin] = self._connect(origin)
        self._users[origin] = self._users.get(origin, 0) + 1
        self._clients.move_to_end(origin)
        try:
            yield client
        finally:
            self._users[origin] -= 1
            if not self._users[origin]:
                del self._users[origin]
            await self._close_oldest()

    async def close(self) -> None:
        """Close every client."""
        while self._clients:
            await self._clients.popitem()[1].aclose()

    async def _close_oldest(self) -> None:
        idle = [origin for origin in self._clients if origin not in self._users]
        closing = [self._clients.pop(origin) for origin in idle[: max(0, len(idle) - self._most_idle)]]
        for client in closing:
            await client.aclose()


def allowed_origin(url: str, *, local: bool) -> str:
    """Return the origin of a URL, or raise RemotePermanent if it is not allowed."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        host, port = "", None
    if host and ((local and is_loopback(url)) or (parts.scheme == "https" and _is_public(host))):
        shown = f"[{host}]" if ":" in host else host
        return f"{parts.scheme}://{shown}" + (f":{port}" if port else "")
    raise RemotePermanent(
        f"refused to contact the server named by an account: {url[:200]}",
        url=url[:200],
        reason="server_refused",
    )


def _is_public(host: str) -> bool:
    try:
        return ip_address(host).is_global
    except ValueError:
        name = host.rstrip(".")
        # A name whose last part is a number is an IP address in an old notation (127.1, 0x7f.1).
        return "." in name and not name.endswith(_LOCAL_ENDINGS) and not _NUMBER.fullmatch(name.rpartition(".")[2])


T = TypeVar("T")

MOST_PROFILES = 25
_PAGE = 100
"""How many accounts a page of a list has; more is refused."""
_MISSING = '"RecordNotFound"'


class XrpcClient:
    """One server of the network."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    async def author_feed(
        self, actor: str, *, limit: int, cursor: str | None, pins: bool = False
    ) -> tuple[FeedPage, Response]:
        """Return a page of an account's posts, newest first; `cursor` continues with older ones.

        Uses the default filter, because `posts_and_author_threads` drops a self-reply whose parent is on another page.
        """
        params: dict[str, Param] = {
            "actor": actor,
            "limit": limit,
            "cursor": cursor,
            "includePins": True if pins else None,
        }
        return await self._query("app.bsky.feed.getAuthorFeed", params, FeedPage)

    async def posts(self, uris: Sequence[str]) -> tuple[PostsAnswer, Response]:
        """Return posts by their URIs, at most 25; those that cannot be shown are left out."""
        return await self._query("app.bsky.feed.getPosts", {"uris": tuple(uris)}, PostsAnswer)

    async def profiles(self, actors: Sequence[str]) -> ProfilesAnswer:
        """Return accounts, at most 25; those that cannot be shown are left out."""
        answer, _ = await self._query("app.bsky.actor.getProfiles", {"actors": tuple(actors)}, ProfilesAnswer)
        return answer

    async def follows(self, actor: str, cursor: str | None) -> tuple[list[Raw], str | None]:
        """Return a page of the accounts that an account follows, and the cursor of the next one."""
        params: dict[str, Param] = {"actor": actor, "limit": _PAGE, "cursor": cursor}
        answer, _ = await self._query("app.bsky.graph.getFollows", params, FollowsPage)
        return answer.follows, answer.cursor

    async def list_members(self, uri: str, cursor: str | None) -> tuple[list[Raw], str | None]:
        """Return a page of the accounts in a list, and the cursor of the next one."""
        params: dict[str, Param] = {"list": uri, "limit": _PAGE, "cursor": cursor}
        answer, _ = await self._query("app.bsky.graph.getList", params, ListPage)
        return [item.subject for item in answer.items], answer.cursor

    async def starter_pack(self, uri: str) -> StarterPackAnswer:
        """Return a starter pack, which contains the URI of the list of its accounts."""
        answer, _ = await self._query("app.bsky.graph.getStarterPack", {"starterPack": uri}, StarterPackAnswer)
        return answer

    async def resolve_handle(self, handle: str) -> str:
        """Return the DID of a handle."""
        answer, _ = await self._query("com.atproto.identity.resolveHandle", {"handle": handle}, Resolved)
        return answer.did

    async def repo_status(self, did: str) -> RepoStatus:
        """Return whether a server holds a repository, and whether it is active."""
        answer, _ = await self._query("com.atproto.sync.getRepoStatus", {"did": did}, RepoStatus)
        return answer

    async def list_records(
        self, repo: str, collection: str, *, limit: int, cursor: str | None
    ) -> tuple[RecordsPage, Response]:
        """Return a page of a collection in the order of writing, after the record key `cursor`."""
        params: dict[str, Param] = {
            "repo": repo,
            "collection": collection,
            "limit": limit,
            "cursor": cursor,
            "reverse": True,
        }
        return await self._query("com.atproto.repo.listRecords", params, RecordsPage)

    async def get_record(self, repo: str, collection: str, rkey: str) -> tuple[StoredRecord, Response] | None:
        """Return one record; None if its repository reports that it does not exist."""
        params = {"repo": repo, "collection": collection, "rkey": rkey}
        try:
            return await self._query("com.atproto.repo.getRecord", params, StoredRecord)
        except RemotePermanent as error:
            # Only this error is about the record; all others are about the account or the server.
            if error.status in (400, 404) and _MISSING in str(error.details.get("said")):
                return None
            raise

    async def _query(self, method: str, params: Mapping[str, Param], as_type: type[T]) -> tuple[T, Response]:
        found = await self._http.get_json(f"xrpc/{method}", params, as_type=as_type, route=method)
        # Processing this response takes a while.
        await self._http.give_way()
        return found
