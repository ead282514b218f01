"""The sources that can be read. Owns the one place where a configured host becomes something to list.

Adding a forge means adding a builder here and a package beside this file; nothing above changes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from tidelore.core.clock import Clock
from tidelore.core.config import Config, GitLabHost
from tidelore.core.errors import CredentialsMissing, TideloreError
from tidelore.core.model import ChildRecord, ParentRecord, ProjectRecord, StatusRecord
from tidelore.engine.ports import Lister, Pages
from tidelore.sources.credentials import find_token
from tidelore.sources.gitlab.children import child_lists
from tidelore.sources.gitlab.client import GitLabClient
from tidelore.sources.gitlab.groups import group_projects
from tidelore.sources.gitlab.statuses import read_statuses
from tidelore.sources.gitlab.surfaces import issue_list, merge_request_list
from tidelore.sources.http import HttpClient, RequestMetric, private_token
from tidelore.sources.reply import Greeting, skew_of
from tidelore.sources.transport import Transport

RESOURCES = ("issues", "merge_requests")


class ProjectSource(Protocol):
    """A forge that holds projects with lists in them. `closed` says why nothing may be asked of it, if so."""

    name: str
    kind: str
    closed: TideloreError | None

    async def greet(self) -> Greeting:
        """Return who we are there, and what else a person wants to know of a host."""
        ...

    async def resolve(self, configured: str) -> ProjectRecord:
        """Find a project by the name the user gave it."""
        ...

    async def group(self, path: str) -> Sequence[ProjectRecord]:
        """Return every project of a group, of the groups inside it too."""
        ...

    def listing(
        self, resource: str, remote_id: int, *, by_creation: bool = False, keyset: bool = False
    ) -> Lister[ParentRecord]:
        """Return one list of one project."""
        ...

    def children(self, kind: str, resource: str, remote_id: int, iid: int) -> Sequence[Pages[ChildRecord]]:
        """Return the lists of one kind that hang on one item."""
        ...

    async def statuses(self, path: str, iids: Sequence[int]) -> Mapping[int, StatusRecord | None] | None:
        """Return the status of each of these issues, None where it shows none; None at all: this forge has none."""
        ...


class PauseBook(Protocol):
    """Where the pauses that sources asked for outlive the process that was told."""

    def until(self, source: str) -> int | None:
        """Return until when a source is to be left alone (epoch milliseconds), or None."""
        ...

    def keep(self, source: str, until_ms: int) -> None:
        """Remember a pause."""
        ...


class Wiring(Struct, frozen=True):
    """What every source is given."""

    config: Config
    clock: Clock
    environ: Mapping[str, str]
    on_request: Callable[[RequestMetric], None]
    transport: Transport | None = None
    patience_seconds: float = 300.0
    pauses: PauseBook | None = None

    def paused_until(self, source: str) -> int | None:
        """Return until when a source asked an earlier process for a pause, if it did."""
        return None if self.pauses is None else self.pauses.until(source)

    def keep_pause(self, source: str, until_ms: int) -> None:
        """Let other processes know of a pause."""
        if self.pauses is not None:
            self.pauses.keep(source, until_ms)


class GitLabSource:
    """One configured GitLab host. In place of a client it may be given the reason why there is none."""

    kind = "gitlab"

    def __init__(
        self, host: GitLabHost, door: GitLabClient | TideloreError, config: Config, clock: Clock, *, signed_in: bool
    ) -> None:
        self.name = host.name
        self.closed = door if isinstance(door, TideloreError) else None
        self._door = door
        self._clock = clock
        self._signed_in = signed_in
        self._per_page = config.http.per_page

    @property
    def _client(self) -> GitLabClient:
        if isinstance(self._door, TideloreError):
            raise self._door
        return self._door

    async def greet(self) -> Greeting:
        """Return who we are there, how far the clocks are apart, and what the rate limit leaves."""
        if self._signed_in:
            user, reply = await self._client.user()
            parts = [f"signed in as {user.username}"]
        else:
            reply = await self._client.greet()
            parts = ["reachable without a token"]
        if self._client.remaining is not None:
            parts.append(f"{self._client.remaining:,} requests left")
        return Greeting(", ".join(parts), skew_of(reply, self._clock.now_ms()))

    async def resolve(self, configured: str) -> ProjectRecord:
        return await self._client.project(configured)

    async def group(self, path: str) -> Sequence[ProjectRecord]:
        return await group_projects(self._client, path, per_page=self._per_page)

    def listing(
        self, resource: str, remote_id: int, *, by_creation: bool = False, keyset: bool = False
    ) -> Lister[ParentRecord]:
        build = issue_list if resource == "issues" else merge_request_list
        return build(
            self._client,
            remote_id,
            per_page=self._per_page,
            by_creation=by_creation,
            keyset=keyset and not by_creation,
        )

    def children(self, kind: str, resource: str, remote_id: int, iid: int) -> Sequence[Pages[ChildRecord]]:
        return child_lists(self._client, kind, resource, remote_id, iid, per_page=self._per_page)

    async def statuses(self, path: str, iids: Sequence[int]) -> Mapping[int, StatusRecord | None] | None:
        return await read_statuses(self._client, path, iids)


@asynccontextmanager
async def open_gitlab(host: GitLabHost, wiring: Wiring) -> AsyncIterator[GitLabSource]:
    """Open a GitLab host; its connections close with the block."""
    tool = ("glab", "config", "get", "token", "--host", urlsplit(host.base_url).hostname or "")
    token = find_token(host.base_url, host.token_env, tool, wiring.environ, host.name)
    config = wiring.config
    async with HttpClient(
        host.base_url,
        token=token.value if token else None,
        auth=private_token,
        timeout_seconds=config.http.timeout_seconds,
        max_retries=config.http.max_retries,
        retry_backoff_seconds=config.http.retry_backoff_seconds,
        ca_file=config.http.ca_file,
        proxy=config.http.proxy,
        max_concurrency=config.sync.dependent_concurrency,
        rate_limit_rps=config.sync.rate_limit_rps,
        max_wait_seconds=wiring.patience_seconds,
        paused_until=wiring.paused_until(host.name),
        on_pause=partial(wiring.keep_pause, host.name),
        name=host.name,
        clock=wiring.clock,
        on_request=wiring.on_request,
        transport=wiring.transport,
    ) as http:
        yield GitLabSource(host, GitLabClient(http), config, wiring.clock, signed_in=token is not None)


async def open_hosts(hosts: Sequence[GitLabHost], wiring: Wiring, stack: AsyncExitStack) -> list[ProjectSource]:
    """Open hosts until the stack unwinds. One without a token stays closed; when all do, that is the error."""
    sources: list[ProjectSource] = []
    for host in hosts:
        try:
            sources.append(await stack.enter_async_context(open_gitlab(host, wiring)))
        except CredentialsMissing as error:
            sources.append(GitLabSource(host, error, wiring.config, wiring.clock, signed_in=False))
    closed = [source.closed for source in sources if source.closed is not None]
    if closed and len(closed) == len(sources):
        raise closed[0]
    return sources
