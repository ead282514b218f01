"""A world on a socket and a GitHub host that reads it over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.manual_clock import ManualClock

from tidelore.core.config_file import parse_config
from tidelore.engine.ports import ListRequest, Page
from tidelore.http.response import RequestMetric
from tidelore.sources.github.source import GitHubSource, open_github
from tidelore.sources.github.threads import read_children
from tidelore.sources.ports import Wiring
from tidelore_world.server import Server, serve
from tidelore_world.world import World

REPO = "harborline/ledger"
TOKEN = "ghp_0123456789abcdef0123"
KINDS = ("issue_comment", "review_comment")


class Bench:
    """A world on a socket, and a GitHub host that reads it."""

    def __init__(self, server: Server, world: World) -> None:
        self.url = server.url
        self.world = world
        self.forge = world.github
        self.metrics: list[RequestMetric] = []
        self.forge.create_repo(REPO)
        self.number = self.forge.create_pull(REPO).number

    def run(
        self,
        do: Callable[[GitHubSource], Awaitable[Any]],
        *,
        token: str = TOKEN,
        url: str = "",
        timeout: float = 30,
        **keys: Any,
    ) -> Any:
        http = {"max_retries": 1, "timeout_seconds": timeout}
        config = parse_config({"github": [{"base_url": url or self.url, **keys}], "http": http})
        wiring = Wiring(config, ManualClock(), {"GITHUB_TOKEN": token}, self.metrics.append)

        async def job() -> Any:
            async with open_github(config.github[0], wiring) as source:
                return await do(source)

        return asyncio.run(job())

    def talk(self, count: int, kind: str = "issue_comment") -> None:
        for index in range(count):
            if kind == "issue_comment":
                self.forge.comment(REPO, self.number, f"{index}")
            else:
                self.forge.review_comment(REPO, self.number, f"{index}", review_id=1)

    def truth(self, kind: str) -> list[dict[str, Any]]:
        return self.forge.truth_comments(REPO) if kind == KINDS[0] else self.forge.truth_review_comments(REPO)


@contextmanager
def serving() -> Iterator[Bench]:
    """A bench in a world of its own."""
    world = World(seed=3)
    with serve(world) as server:
        yield Bench(server, world)


async def walked(pages: Any, since: int | None = None) -> list[Page[Any]]:
    found = [await pages.fetch(ListRequest(since=since))]
    while found[-1].next_token is not None:
        found.append(await pages.fetch(ListRequest(token=found[-1].next_token)))
    return found


def ids(pages: list[Page[Any]]) -> list[Any]:
    return [item.version.id for page in pages for item in page.items]


async def pull_children(source: GitHubSource, kind: str, nodes: list[str]) -> dict[str, Page[Any] | None]:
    """Read one kind of children of pull requests over GraphQL, by their global ids."""
    found = await read_children(source.graphql, nodes, (kind,))
    return {node: None if pages is None else pages[kind] for node, pages in found.items()}
