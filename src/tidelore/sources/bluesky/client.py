"""The AT Protocol as calls. Owns methods and their parameters; refuses to decide what to ask.

No credentials: everything here is public. One `XrpcClient` speaks to one origin, an AppView or an account's own
server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from tidelore.core.errors import RemotePermanent
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
from tidelore.sources.http import HttpClient, Reply
from tidelore.sources.origin import Param

T = TypeVar("T")

MOST_PROFILES = 25
_MISSING = '"RecordNotFound"'


class XrpcClient:
    """One server of the network."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    async def author_feed(
        self, actor: str, *, limit: int, cursor: str | None, pins: bool = False
    ) -> tuple[FeedPage, Reply]:
        """Return a page of what an account posted, newest first; `cursor` leads into the past.

        The default filter: `posts_and_author_threads` drops a self-reply whose parent is on another page.
        """
        params: dict[str, Param] = {
            "actor": actor,
            "limit": limit,
            "cursor": cursor,
            "includePins": True if pins else None,
        }
        return await self._query("app.bsky.feed.getAuthorFeed", params, FeedPage)

    async def posts(self, uris: Sequence[str]) -> tuple[PostsAnswer, Reply]:
        """Return posts by their addresses, at most 25; those that cannot be shown are left out."""
        return await self._query("app.bsky.feed.getPosts", {"uris": tuple(uris)}, PostsAnswer)

    async def profiles(self, actors: Sequence[str]) -> ProfilesAnswer:
        """Return accounts, at most 25; those that cannot be shown are left out."""
        answer, _ = await self._query("app.bsky.actor.getProfiles", {"actors": tuple(actors)}, ProfilesAnswer)
        return answer

    async def follows(self, actor: str, *, limit: int, cursor: str | None) -> FollowsPage:
        """Return a page of the accounts somebody follows."""
        params: dict[str, Param] = {"actor": actor, "limit": limit, "cursor": cursor}
        answer, _ = await self._query("app.bsky.graph.getFollows", params, FollowsPage)
        return answer

    async def list_members(self, uri: str, *, limit: int, cursor: str | None) -> ListPage:
        """Return a page of the accounts in a list."""
        params: dict[str, Param] = {"list": uri, "limit": limit, "cursor": cursor}
        answer, _ = await self._query("app.bsky.graph.getList", params, ListPage)
        return answer

    async def starter_pack(self, uri: str) -> StarterPackAnswer:
        """Return a starter pack, which names the list of its accounts."""
        answer, _ = await self._query("app.bsky.graph.getStarterPack", {"starterPack": uri}, StarterPackAnswer)
        return answer

    async def resolve_handle(self, handle: str) -> str:
        """Return the DID a handle stands for."""
        answer, _ = await self._query("com.atproto.identity.resolveHandle", {"handle": handle}, Resolved)
        return answer.did

    async def repo_status(self, did: str) -> RepoStatus:
        """Return whether a server holds a repository, and whether it is active."""
        answer, _ = await self._query("com.atproto.sync.getRepoStatus", {"did": did}, RepoStatus)
        return answer

    async def list_records(
        self, repo: str, collection: str, *, limit: int, cursor: str | None
    ) -> tuple[RecordsPage, Reply]:
        """Return a page of a collection in the order of writing, behind the record key `cursor`."""
        params: dict[str, Param] = {
            "repo": repo,
            "collection": collection,
            "limit": limit,
            "cursor": cursor,
            "reverse": True,
        }
        return await self._query("com.atproto.repo.listRecords", params, RecordsPage)

    async def get_record(self, repo: str, collection: str, rkey: str) -> tuple[StoredRecord, Reply] | None:
        """Return one record; None when its repository says that it holds none."""
        params = {"repo": repo, "collection": collection, "rkey": rkey}
        try:
            return await self._query("com.atproto.repo.getRecord", params, StoredRecord)
        except RemotePermanent as error:
            # Only this very answer tells of the record; every other refusal is about the account or the server.
            if error.status in (400, 404) and _MISSING in str(error.details.get("said")):
                return None
            raise

    async def _query(self, method: str, params: Mapping[str, Param], as_type: type[T]) -> tuple[T, Reply]:
        found = await self._http.get_json(f"xrpc/{method}", params, as_type=as_type, route=method)
        # To understand and store this answer takes a while.
        await self._http.give_way()
        return found
