"""One configured GitLab host: opens it and provides its projects, lists and statuses.

A host that cannot be opened stores the reason; every call raises it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from urllib.parse import urlsplit

from tidelore.core.clock import Clock
from tidelore.core.config import Config, GitLabHost
from tidelore.core.errors import CredentialsMissing, RemoteNotFound, RemotePermanent, TideloreError
from tidelore.core.model import (
    ChildRecord,
    CommentRecord,
    ListedRecord,
    MemberRecord,
    ProjectRecord,
    PullRecord,
    StatusRecord,
    pull_of,
)
from tidelore.engine.ports import Lister, Pages, Parent
from tidelore.http.client import private_token
from tidelore.sources.credentials import find_token
from tidelore.sources.gitlab import hooks as hook_api
from tidelore.sources.gitlab import notes
from tidelore.sources.gitlab.client import GitLabClient
from tidelore.sources.gitlab.conversations import ConversationBatches, ConversationList, ParentList
from tidelore.sources.gitlab.graphql import GitLabGraphQl, read_statuses
from tidelore.sources.gitlab.notes import NoteList, post_note, project_members
from tidelore.sources.gitlab.quick_actions import find_quick_actions
from tidelore.sources.gitlab.surfaces import child_lists, group_projects, issue_list, merge_request_list
from tidelore.sources.hooks import InstalledHook, SentDelivery
from tidelore.sources.ports import AnswerPlace, Greeting, Resource, Wiring, WriteRequest, skew_of


class GitLabSource:
    """One configured GitLab host, with a client or with the reason why there is none."""

    kind = "gitlab"
    resources: Mapping[str, Resource] = MappingProxyType(
        {
            "issues": Resource(("discussions", "resource_events"), asides=("status",)),
            "merge_requests": Resource(
                ("discussions", "resource_events", "closes_issues", "diffs", "reviewers", "positions"), sign="!"
            ),
        }
    )
    feeds: Mapping[str, str] = MappingProxyType({})
    owns_names = False
    has_discussions = True

    def __init__(
        self, host: GitLabHost, door: GitLabClient | TideloreError, config: Config, clock: Clock, *, signed_in: bool
    ) -> None:
        self.name = host.name
        self.closed = door if isinstance(door, TideloreError) else None
        self._door = door
        self._clock = clock
        self._signed_in = signed_in
        self._per_page = config.http.per_page
        self._login: str | None = None
        self._graphql = GitLabGraphQl(lambda: self._client, host.name, _why_unused(host, signed_in=signed_in))
        self._batches = ConversationBatches(self._graphql)

    @property
    def _client(self) -> GitLabClient:
        if isinstance(self._door, TideloreError):
            raise self._door
        return self._door

    async def greet(self) -> Greeting:
        """Return our login, the clock difference, and the remaining requests of the rate limit."""
        if self._signed_in:
            user, response = await self._client.user()
            parts, login = [f"signed in as {user.username}"], user.username
        else:
            login = None
            response = await self._client.greet()
            parts = ["reachable without a token"]
        if self._client.governor.remaining is not None:
            parts.append(f"{self._client.governor.remaining:,} requests left")
        await self._graphql.probe()
        parts.append(self._path)
        return Greeting(", ".join(parts), skew_of(response, self._clock.now_ms()), login)

    async def login(self) -> str | None:
        """Return our username, requested once; None without a token."""
        if self._login is None and self._signed_in:
            user, _ = await self._client.user()
            self._login = user.username
        return self._login

    @property
    def _path(self) -> str:
        """How discussions are read, and why."""
        if self._graphql.unused is not None:
            return f"discussions by REST ({self._graphql.unused})"
        measured = self._graphql.complexity
        limit = "" if measured is None else f" (complexity limit {measured.limit})"
        return f"discussions by GraphQL{limit}"

    async def resolve(self, configured: str | int) -> ProjectRecord:
        return await self._client.project(configured)

    async def group(self, path: str) -> Sequence[ProjectRecord]:
        return await group_projects(self._client, path, per_page=self._per_page)

    def listing(
        self,
        resource: str,
        remote_id: int,
        *,
        by_creation: bool = False,
        keyset: bool = False,
        backfill: bool = False,  # noqa: ARG002 - pages are always as large as possible
    ) -> Lister[ListedRecord]:
        build = issue_list if resource == "issues" else merge_request_list
        return build(
            self._client,
            remote_id,
            per_page=self._per_page,
            by_creation=by_creation,
            keyset=keyset and not by_creation,
        )

    def children(self, kind: str, resource: str, remote_id: int, parent: Parent) -> Sequence[Pages[ChildRecord]]:
        lists = child_lists(self._client, kind, resource, remote_id, parent.iid, per_page=self._per_page)
        if kind != "discussions":
            return lists
        return [ConversationList(self._batches, resource, remote_id, parent.iid, by_rest) for by_rest in lists]

    @property
    def skew_ms(self) -> int | None:
        """How far the server's clock is ahead of ours, from the last response; None before the first."""
        return None if self.closed is not None else self._client.governor.skew_ms

    async def ask_clock(self) -> None:
        """Learn the server's clock by a cheap request."""
        await self.greet()

    async def pull(self, remote_id: int, number: int) -> PullRecord:
        """Return the current state of one merge request."""
        page = await merge_request_list(self._client, remote_id, per_page=1).fetch_one(str(number))
        for rejected in page.rejected:
            raise RemotePermanent(f"could not parse merge request !{number}: {rejected.error}", reason="bad_shape")
        for item in page.items:
            return pull_of(item.record)
        raise RemoteNotFound(
            f"merge request !{number} does not exist",
            status=404,
            reason="not_found",
            fix="check the number of the merge request",
        )

    async def compare(self, remote_id: int, base: str, head: str) -> str:
        """Return how a head relates to a base: "ahead", "behind", "diverged" or "identical"."""
        if base == head:
            return "identical"
        common = await self._client.merge_base(remote_id, base, head)
        return "ahead" if common == base else "behind" if common == head else "diverged"

    async def members(self, remote_id: int) -> Sequence[MemberRecord]:
        """Return everyone with access to a project, whether given by the project or by a group around it."""
        return await project_members(self._client, remote_id, per_page=self._per_page)

    def answers(self, place: AnswerPlace) -> Pages[CommentRecord]:
        """Return the notes of an issue or a merge request, the newest first."""
        return NoteList(self._client, place, self._per_page)

    def comment_lists(self, remote_id: int, number: int) -> Mapping[str, Pages[CommentRecord]]:
        """Return all notes of one merge request."""
        return {"mr_notes": self.answers(AnswerPlace(remote_id, "pr", number))}

    def commands_in(self, body: str) -> Sequence[str]:
        """Return the lines of a text that are quick actions."""
        return find_quick_actions(body)

    def answer_request(self, place: AnswerPlace, body: str) -> WriteRequest:
        """Return the request that `post_answer` sends."""
        return notes.note_request(self._client, place, body)

    async def post_answer(self, place: AnswerPlace, body: str) -> CommentRecord:
        """Write a note, in a discussion if one is given, without retries."""
        return await post_note(self._client, place, body)

    async def is_resolved(self, place: AnswerPlace) -> bool | None:
        """Return whether a discussion is resolved; None if it cannot be."""
        return await notes.read_resolved(self._client, place)

    def resolve_request(self, place: AnswerPlace, *, resolved: bool) -> WriteRequest:
        """Return the request that `set_resolved` sends."""
        return notes.resolve_request(self._client, place, resolved=resolved)

    async def set_resolved(self, place: AnswerPlace, *, resolved: bool) -> bool | None:
        """Resolve or unresolve a discussion, without retries."""
        return await notes.set_resolved(self._client, place, resolved=resolved)

    async def first_of_thread(self, _place: AnswerPlace) -> None:
        """Return None: a reply may name any note of its discussion."""

    def announce(self, kind: str, resource: str, remote_id: int, path: str, parents: Sequence[Parent]) -> None:
        """Say whose discussions will be requested next; each other list of children is a request by itself."""
        if kind == "discussions":
            self._batches.announce(ParentList(resource, remote_id, path), [parent.iid for parent in parents])

    def parents_per_request(self, kind: str) -> int:
        """Return how many parents one request reads the children of."""
        return self._batches.parents_per_request if kind == "discussions" else 1

    def shared_requests(self, kind: str) -> str:
        """Return the kind: no request reads two kinds of children."""
        return kind

    async def hooks(self, remote_id: int) -> Sequence[InstalledHook]:
        """Return the webhooks of a project."""
        return await hook_api.list_hooks(self._client, remote_id)

    async def save_hook(self, remote_id: int, hook_id: int | None, url: str, secret: str) -> InstalledHook:
        """Create a webhook, or complete the one with this id."""
        return await hook_api.save_hook(self._client, remote_id, hook_id, url, secret)

    async def hook_deliveries(self, remote_id: int, hook_id: int) -> Sequence[SentDelivery]:
        """Return the last deliveries of a webhook, the newest first."""
        return await hook_api.list_deliveries(self._client, remote_id, hook_id)

    async def statuses(self, path: str, iids: Sequence[int]) -> Mapping[int, StatusRecord | None] | None:
        return await read_statuses(self._client, path, iids)


def _why_unused(host: GitLabHost, *, signed_in: bool) -> str | None:
    if host.graphql == "off":
        return 'graphql = "off" in the configuration'
    return None if signed_in else "GraphQL allows too little without a token"


@asynccontextmanager
async def open_gitlab(host: GitLabHost, wiring: Wiring) -> AsyncIterator[GitLabSource]:
    """Open a GitLab host; its connections close with the block. Without a token it is closed."""
    tool = ("glab", "config", "get", "token", "--host", urlsplit(host.base_url).hostname or "")
    config = wiring.config
    try:
        token = find_token(host.base_url, host.token_env, tool, wiring.environ, host.name)
    except CredentialsMissing as error:
        yield GitLabSource(host, error, config, wiring.clock, signed_in=False)
        return
    secret = token.value if token else None
    async with wiring.http_client(host.name, host.base_url, secret, private_token) as http:
        yield GitLabSource(host, GitLabClient(http), config, wiring.clock, signed_in=token is not None)
