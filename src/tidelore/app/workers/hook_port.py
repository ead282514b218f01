"""The port of a worker that receives webhooks.

Workers of one machine have the same configuration, so only one of them can listen: the others try again, and one of
them takes the port over when its holder is gone. Any worker reads what a delivery announced.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from tidelore.core.errors import ConfigError, UserError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from tidelore.app.wiring import App
    from tidelore.service.hook_receiver import HookReceiver

_LOG = logging.getLogger(__name__)

AGAIN_SECONDS = 5.0
"""How often a worker tries to take a port that another process holds."""


class HookPort:
    """Receives webhooks if it can. `on_waiting` is called with the names of the scopes `hooks:HOST` that have work.

    With `insists`, a port that cannot be opened is an error instead of being tried again.
    """

    def __init__(self, app: App, on_waiting: Callable[[list[str]], Awaitable[None]], *, insists: bool) -> None:
        if insists and not app.config.hooks.port:
            raise ConfigError("no port to receive webhooks on", fix="set hooks.port", key="hooks.port")
        self._app = app
        self._on_waiting = on_waiting
        self._insists = insists
        self._receiver: HookReceiver | None = None
        self._names: set[str] = set()
        self._announced = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._tasks: list[asyncio.Task[None]] = []

    def open(self) -> None:
        """Listen, or begin to wait until the port is free."""
        if self._app.config.hooks.port:
            free = self._try()
            self._tasks = [asyncio.create_task(self._pass_on())]
            if not free:
                _LOG.info("another process receives webhooks", extra={"event": "hooks_elsewhere"})
                self._tasks.append(asyncio.create_task(self._try_again()))

    async def close(self) -> None:
        """Stop listening."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            await receiver.close()

    def _try(self) -> bool:
        from tidelore.app.hooks.jobs import open_receiver

        try:
            self._receiver = open_receiver(self._app, self._announce)
        except ConfigError:
            raise
        except UserError:
            if self._insists:
                raise
        return self._receiver is not None

    async def _try_again(self) -> None:
        while not self._try():
            await self._app.clock.sleep(AGAIN_SECONDS)

    def _announce(self, names: Iterable[str]) -> None:
        """Note that deliveries wait; called in the thread of the receiver."""
        found = list(names)

        def note() -> None:
            self._names.update(found)
            self._announced.set()

        self._loop.call_soon_threadsafe(note)

    async def _pass_on(self) -> None:
        while True:
            await self._announced.wait()
            self._announced.clear()
            names, self._names = sorted(self._names), set()
            await self._on_waiting(names)
