"""The forges: the shape of their tables in the configuration, and the function that opens a host of each.

To add a forge, add a folder beside this file and a line to `_FORGES`. Reading the configuration needs the shapes, so
this module imports no source: the function of a forge is imported when one of its hosts is opened. A host without a
token stays in the list as closed, with the reason; it is an error only if every host is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.config import (
    Config,
    FeedbackHost,
    ForgeHost,
    GitHubHost,
    GitHubRepo,
    GitLabHost,
    Host,
    ProjectHost,
    find_host,
    only_hosts,
)

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from tidelore.sources.hooks import HookFormat
    from tidelore.sources.ports import FeedbackSource, ProjectSource, Wiring

    Opened = AbstractAsyncContextManager[ProjectSource]
    S = TypeVar("S", ProjectSource, FeedbackSource)


class Forge(Struct, frozen=True):
    """A forge: the shape of its tables, and where the function is that opens a host (`package.module:function`).

    The function takes a host and a `Wiring` and is an asynchronous context manager of a `ProjectSource`. Without a
    token it returns a closed source. `hooks` is where the `HookFormat` of its webhooks is, if it has any.
    """

    table: type[Host]
    opener: str
    hooks: str = ""

    @property
    def function(self) -> Callable[[Host, Wiring], Opened]:
        """The function, imported."""
        module, _, name = self.opener.partition(":")
        function: Callable[[Host, Wiring], Opened] = getattr(import_module(module), name)
        return function

    @property
    def hook_format(self) -> HookFormat | None:
        """How its webhooks are authenticated and read, imported."""
        module, _, name = self.hooks.partition(":")
        made: HookFormat | None = getattr(import_module(module), name)() if name else None
        return made


_FORGES: dict[str, Forge] = {
    forge.table.kind: forge
    for forge in (
        Forge(GitLabHost, "tidelore.sources.gitlab.source:open_gitlab", "tidelore.sources.gitlab.hooks:GitLabHooks"),
        Forge(GitHubHost, "tidelore.sources.github.source:open_github", "tidelore.sources.github.hooks:GitHubHooks"),
    )
}
"""A new forge is one more line."""


def forges() -> tuple[Forge, ...]:
    """Return every forge."""
    return tuple(_FORGES.values())


def host_tables() -> Mapping[str, type[Host]]:
    """Return the shape of the tables of each forge."""
    return {kind: forge.table for kind, forge in _FORGES.items()}


@contextmanager
def also(forge: Forge) -> Iterator[None]:
    """Add a forge until the block ends, as a line in `_FORGES` would."""
    kind = forge.table.kind
    assert kind not in _FORGES, f"{kind} is already a forge"
    _FORGES[kind] = forge
    try:
        yield
    finally:
        del _FORGES[kind]


def only_projects(config: Config, source: str, names: Collection[str]) -> Config:
    """Return the configuration with only these projects of one host, configured ones or those of its groups."""

    def narrowed(host: Host) -> Host:
        if isinstance(host, GitHubHost):
            known = {repo.name: repo for repo in host.repos}
            repos = tuple(known.get(name) or GitHubRepo(name=name) for name in names)
            return replace(host, repos=repos, orgs=())
        assert isinstance(host, ProjectHost), "every other forge has projects and groups"
        return replace(host, projects=tuple(names), groups=())

    chosen = only_hosts(config, {source})
    tables = ("gitlab", "github", "others")
    return replace(chosen, **{table: tuple(map(narrowed, getattr(chosen, table))) for table in tables})


def hook_format(kind: str) -> HookFormat | None:
    """Return how the webhooks of a forge are authenticated and read, or None if it has none."""
    return _FORGES[kind].hook_format


def open_host(host: Host, wiring: Wiring) -> Opened:
    """Open one host; a host without a token is closed."""
    return _FORGES[host.kind].function(host, wiring)


async def open_hosts(hosts: Sequence[ForgeHost], wiring: Wiring, stack: AsyncExitStack) -> list[ProjectSource]:
    """Open hosts until the stack unwinds. A host without a token stays closed; raise its error if all are closed."""
    sources: list[ProjectSource] = []
    for host in hosts:
        table = find_host(wiring.config, host.name)
        assert table is not None, f"{host.name} comes from this configuration"
        sources.append(await stack.enter_async_context(open_host(table, wiring)))
    return _refuse_all_closed(sources)


async def open_feedback_hosts(
    hosts: Sequence[FeedbackHost], wiring: Wiring, stack: AsyncExitStack
) -> list[FeedbackSource]:
    """Open hosts until the stack unwinds. A host without a token stays closed; raise its error if all are closed."""
    from tidelore.sources.ports import FeedbackSource

    opened: list[FeedbackSource] = []
    for host in hosts:
        source = await stack.enter_async_context(open_host(host, wiring))
        assert isinstance(source, FeedbackSource), f"{host.kind} has no feedback"
        opened.append(source)
    return _refuse_all_closed(opened)


def _refuse_all_closed(sources: list[S]) -> list[S]:
    closed = [source.closed for source in sources if source.closed is not None]
    if closed and len(closed) == len(sources):
        raise closed[0]
    return sources
