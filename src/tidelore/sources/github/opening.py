"""From a configured GitHub host to one that can be asked. Owns who we are there: a token, an App, or nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from urllib.parse import urlsplit

from tidelore.core.config import GitHubHost
from tidelore.core.errors import CredentialsMissing
from tidelore.sources.credentials import Token, find_token
from tidelore.sources.github.app_token import InstallationIdentity, load_signer
from tidelore.sources.github.client import GitHubClient
from tidelore.sources.github.source import GitHubSource
from tidelore.sources.http import HttpClient, bearer
from tidelore.sources.registry import Wiring

_HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}


@asynccontextmanager
async def open_github(host: GitHubHost, wiring: Wiring) -> AsyncIterator[GitHubSource]:
    """Open a GitHub host; its connections close with the block."""
    config, clock = wiring.config, wiring.clock
    sign = load_signer(host.private_key_file, "github.private_key_file") if host.app_id else None
    token = None if sign is not None else _find(host, wiring)
    async with HttpClient(
        host.base_url,
        token=token.value if token else None,
        auth=bearer,
        headers=_HEADERS,
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
        clock=clock,
        on_request=wiring.on_request,
        transport=wiring.transport,
    ) as http:
        identity = None
        if sign is not None:
            identity = InstallationIdentity(http, host.app_id, host.installation_id, sign, clock)
        signed_in = "app" if identity is not None else "token" if token is not None else "no"
        client = GitHubClient(http, identity)
        yield GitHubSource(host.name, client, clock, per_page=config.http.per_page, signed_in=signed_in)


async def open_github_hosts(hosts: Sequence[GitHubHost], wiring: Wiring, stack: AsyncExitStack) -> list[GitHubSource]:
    """Open hosts until the stack unwinds. One without a token stays closed; when all do, that is the error."""
    sources: list[GitHubSource] = []
    for host in hosts:
        try:
            sources.append(await stack.enter_async_context(open_github(host, wiring)))
        except CredentialsMissing as error:
            sources.append(GitHubSource(host.name, error, wiring.clock))
    closed = [source.closed for source in sources if source.closed is not None]
    if closed and len(closed) == len(sources):
        raise closed[0]
    return sources


def tool_host(base_url: str) -> str:
    """Return the name under which GitHub's own tool knows a host: that of its web pages, not of its API."""
    return (urlsplit(base_url).hostname or "").removeprefix("api.")


def _find(host: GitHubHost, wiring: Wiring) -> Token | None:
    tool = ("gh", "auth", "token", "--hostname", tool_host(host.base_url))
    return find_token(host.base_url, host.token_env, tool, wiring.environ, host.name)
