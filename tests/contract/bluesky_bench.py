"""A simulated network on a socket, and the source that reads it, as the program would open them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec.structs import replace

from tidelore.core.clock import Clock, SystemClock
from tidelore.core.config import Config
from tidelore.core.model import Item, PostRecord
from tidelore.engine.ports import Lister, ListRequest
from tidelore.sources.bluesky.source import BlueskySource, open_bluesky
from tidelore.sources.ports import Wiring
from tidelore_world.server import Server, serve
from tidelore_world.world import World

T = TypeVar("T")

MIRA, TOBIAS = "mira.harborline.example", "tobias.harborline.example"


def network(*handles: str) -> World:
    """A world with some accounts."""
    world = World(seed=3)
    for handle in handles or (MIRA, TOBIAS):
        world.bluesky.create_account(handle)
    return world


@contextmanager
def wired(world: World, clock: Clock | None = None, **settings: Any) -> Iterator[tuple[Server, Wiring]]:
    """Serve a world; yield what the sources are given to read it."""
    with serve(world) as server:
        config = Config()
        chosen = {"base_url": server.url, "plc_url": server.url, "retry_backoff_ms": 10, **settings}
        config = replace(config, bluesky=replace(config.bluesky, **chosen))
        yield server, Wiring(config=config, clock=clock or SystemClock(), environ={}, on_request=lambda _: None)


def read(world: World, do: Callable[[BlueskySource], Awaitable[T]], **settings: Any) -> T:
    """Let a coroutine read a world through the source."""

    async def run(wiring: Wiring) -> T:
        async with open_bluesky(wiring) as source:
            return await do(source)

    with wired(world, **settings) as (_, wiring):
        return asyncio.run(run(wiring))


async def walk(lister: Lister[PostRecord], token: str | None = None) -> tuple[list[Item[PostRecord]], str | None]:
    """Every item of a list from a token on, and the last token it gave."""
    items: list[Item[PostRecord]] = []
    last = token
    while True:
        page = await lister.fetch(ListRequest(token=token))
        assert not page.rejected
        items += page.items
        token = page.next_token
        if token is None:
            return items, last
        last = token


def shown_uri(item: dict[str, Any]) -> str:
    """The address of what a feed item is: the repost's own for a repost."""
    return str(item["reason"]["uri"] if "reason" in item else item["post"]["uri"])
