"""The console without a terminal: keys go in, the picture is read back as text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Static

from tidelore.app.console import ConsoleActions, ServiceThread
from tidelore.app.wiring import App
from tidelore.console.app import ConsoleApp
from tidelore.console.backend import Backend
from tidelore.console.log import Logbook
from tidelore.console.style import DARK
from tidelore.console.table import RowTable

SIZES = ((80, 24), (120, 40), (200, 50))
KEYS = {"inbox": "1", "search": "2", "overview": "3", "feedback": "4", "accounts": "5", "runs": "6", "log": "7"}


@dataclass
class Seat:
    """Somebody in front of the console."""

    console: ConsoleApp
    pilot: Pilot[None]

    async def settle(self) -> None:
        """Wait until everything that was asked for is on the screen."""
        await self.pilot.pause()
        await self.console.workers.wait_for_complete()
        await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.settle()

    async def go(self, place: str) -> None:
        await self.press(KEYS[place])

    @property
    def lines(self) -> list[str]:
        """The picture, line by line."""
        strips = self.console.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip) for strip in strips]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def footer(self) -> str:
        return self.lines[-1]

    @property
    def detail(self) -> str:
        return str(self.console.screen.query_one("#detail", Static).visual)

    @property
    def told(self) -> list[str]:
        """What was told in passing."""
        return [str(notification.message) for notification in self.console._notifications]

    def table(self, name: str) -> RowTable:
        return self.console.screen.query_one(f"#{name}", RowTable)

    def column(self, name: str, place: int = 0) -> list[str]:
        """What stands in one column of a list, from top to bottom."""
        table = self.table(name)
        return [str(table.get_row_at(row)[place]) for row in range(table.row_count)]


@asynccontextmanager
async def seated(
    app: App,
    size: tuple[int, int] = (120, 40),
    *,
    hands: bool = False,
    service: ServiceThread | None = None,
    **looks: Any,
) -> AsyncIterator[Seat]:
    """Open the console on a copy; with `hands`, things may be changed."""
    backend = Backend(app, Logbook(), service, ConsoleActions(app) if hands else None)
    console = ConsoleApp(backend, **({"theme": DARK, "first": "overview"} | looks))
    try:
        async with console.run_test(size=size) as pilot:
            seat = Seat(console, pilot)
            await seat.settle()
            yield seat
    finally:
        if service is not None:
            service.stop()
        backend.close()


def watch(app: App, look: Callable[[Seat], Awaitable[None]], size: tuple[int, int] = (120, 40), **more: Any) -> None:
    """Open the console, do something in it, and leave."""

    async def sit() -> None:
        async with seated(app, size, **more) as seat:
            await look(seat)

    asyncio.run(sit())
