"""Opens the configured hosts of each kind of source.

To add a forge, add a folder beside this file and a function here. A host without a token stays in the list as closed,
with the reason; it is an error only if every host is closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

from tidelore.core.config import GitHubHost, GitLabHost
from tidelore.core.errors import CredentialsMissing
from tidelore.sources.github.source import GitHubSource, open_github
from tidelore.sources.gitlab.source import GitLabSource, open_gitlab
from tidelore.sources.ports import ProjectSource, Wiring


async def open_hosts(hosts: Sequence[GitLabHost], wiring: Wiring, stack: AsyncExitStack) -> list[ProjectSource]:
    """Open hosts until the stack unwinds. A host without a token stays closed; raise its error if all are closed."""
    sources: list[ProjectSource] = []
    for host in hosts:
        try:
            sources.append(await stack.enter_async_context(open_gitlab(host, wiring)))
        except CredentialsMissing as error:
            sources.append(GitLabSource(host, error, wiring.config, wiring.clock, signed_in=False))
    _refuse_all_closed(sources)
    return sources


async def open_github_hosts(hosts: Sequence[GitHubHost], wiring: Wiring, stack: AsyncExitStack) -> list[GitHubSource]:
    """Open hosts until the stack unwinds. A host without a token stays closed; raise its error if all are closed."""
    sources: list[GitHubSource] = []
    for host in hosts:
        try:
            sources.append(await stack.enter_async_context(open_github(host, wiring)))
        except CredentialsMissing as error:
            sources.append(GitHubSource(host.name, error, wiring.clock))
    _refuse_all_closed(sources)
    return sources


def _refuse_all_closed(sources: Sequence[ProjectSource] | Sequence[GitHubSource]) -> None:
    closed = [source.closed for source in sources if source.closed is not None]
    if closed and len(closed) == len(sources):
        raise closed[0]
