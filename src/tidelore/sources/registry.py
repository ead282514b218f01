"""The sources that can be read. Owns the one place where a configured host becomes something to list.

Adding a forge means adding a builder here and a package beside this file; nothing above changes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from tidelore.clock import Clock, describe_age
from tidelore.config import Config, GitLabHost
from tidelore.engine.ports import Lister
from tidelore.model import ProjectRecord
from tidelore.sources.credentials import find_token
from tidelore.sources.gitlab.client import GitLabClient
from tidelore.sources.gitlab.surfaces import issue_list, merge_request_list
from tidelore.sources.http import HttpClient, RequestMetric, private_token
from tidelore.sources.transport import Transport

RESOURCES = ("issues", "merge_requests")


class ProjectSource(Protocol):
    """A forge that holds projects with lists in them."""

    name: str
    kind: str

    async def greet(self) -> str:
        """Return who we are there, and what else a person wants to know of a host."""
        ...

    async def resolve(self, configured: str) -> ProjectRecord:
        """Find a project by the name the user gave it."""
        ...

    def listing(self, resource: str, remote_id: int, *, by_creation: bool = False) -> Lister[Any]:
        """Return one list of one project."""
        ...


class Wiring(Struct, frozen=True):
    """What every source is given."""

    config: Config
    clock: Clock
    environ: Mapping[str, str]
    on_request: Callable[[RequestMetric], None]
    transport: Transport | None = None


class GitLabSource:
    """One configured GitLab host."""

    kind = "gitlab"

    def __init__(
        self, host: GitLabHost, client: GitLabClient, config: Config, clock: Clock, *, signed_in: bool
    ) -> None:
        self.name = host.name
        self._client = client
        self._clock = clock
        self._signed_in = signed_in
        self._per_page = config.http.per_page
        self._keyset = config.sync.use_keyset_pagination

    async def greet(self) -> str:
        """Return who we are there, how far the clocks are apart, and what the rate limit leaves."""
        if self._signed_in:
            user, reply = await self._client.user()
            parts = [f"signed in as {user.username}"]
        else:
            reply = await self._client.greet()
            parts = ["reachable without a token"]
        if reply.server_at is not None:
            skew = abs(reply.server_at - self._clock.now_ms()) // 1000
            if skew > 300:
                parts.append(f"its clock differs from ours by {describe_age(skew)}")
        if self._client.remaining is not None:
            parts.append(f"{self._client.remaining:,} requests left")
        return ", ".join(parts)

    async def resolve(self, configured: str) -> ProjectRecord:
        return await self._client.project(configured)

    def listing(self, resource: str, remote_id: int, *, by_creation: bool = False) -> Lister[Any]:
        build = issue_list if resource == "issues" else merge_request_list
        keyset = self._keyset and not by_creation
        return build(self._client, remote_id, per_page=self._per_page, by_creation=by_creation, keyset=keyset)


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
        clock=wiring.clock,
        on_request=wiring.on_request,
        transport=wiring.transport,
    ) as http:
        yield GitLabSource(host, GitLabClient(http), config, wiring.clock, signed_in=token is not None)
