"""Opens the configured hosts of each kind of source.

To add a forge, add a folder beside this file and an entry in `OPENERS`. A host without a token stays in the list as
closed, with the reason; it is an error only if every host is closed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import MappingProxyType

from tidelore.core.config import ForgeHost, GitHubHost
from tidelore.core.errors import CredentialsMissing
from tidelore.sources.github.source import GitHubSource, open_github
from tidelore.sources.gitlab.source import GitLabSource, open_gitlab
from tidelore.sources.ports import ProjectSource, Wiring


async def open_hosts(hosts: Sequence[ForgeHost], wiring: Wiring, stack: AsyncExitStack) -> list[ProjectSource]:
    """Open hosts until the stack unwinds. A host without a token stays closed; raise its error if all are closed."""
    sources = [await OPENERS[host.kind](host.name, wiring, stack) for host in hosts]
    _refuse_all_closed(sources)
    return sources


async def _gitlab(name: str, wiring: Wiring, stack: AsyncExitStack) -> ProjectSource:
    host = next(host for host in wiring.config.gitlab if host.name == name)
    try:
        return await stack.enter_async_context(open_gitlab(host, wiring))
    except CredentialsMissing as error:
        return GitLabSource(host, error, wiring.config, wiring.clock, signed_in=False)


async def _github(name: str, wiring: Wiring, stack: AsyncExitStack) -> ProjectSource:
    host = next(host for host in wiring.config.github if host.name == name)
    return (await _open_github([host], wiring, stack))[0]


Opener = Callable[[str, Wiring, AsyncExitStack], Awaitable[ProjectSource]]
OPENERS: Mapping[str, Opener] = MappingProxyType({"gitlab": _gitlab, "github": _github})
"""How the hosts of each forge are opened. A new forge is one more entry."""


async def open_github_hosts(hosts: Sequence[GitHubHost], wiring: Wiring, stack: AsyncExitStack) -> list[GitHubSource]:
    """Open hosts until the stack unwinds. A host without a token stays closed; raise its error if all are closed."""
    sources = await _open_github(hosts, wiring, stack)
    _refuse_all_closed(sources)
    return sources


async def _open_github(hosts: Sequence[GitHubHost], wiring: Wiring, stack: AsyncExitStack) -> list[GitHubSource]:
    sources: list[GitHubSource] = []
    for host in hosts:
        try:
            sources.append(await stack.enter_async_context(open_github(host, wiring)))
        except CredentialsMissing as error:
            sources.append(GitHubSource(host.name, error, wiring.clock))
    return sources


def _refuse_all_closed(sources: Sequence[ProjectSource] | Sequence[GitHubSource]) -> None:
    closed = [source.closed for source in sources if source.closed is not None]
    if closed and len(closed) == len(sources):
        raise closed[0]
