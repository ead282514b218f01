"""What goes on beside the jobs. Owns the lease's signs of life, the taking over of new settings, and the port."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelore.app.service.bluesky_jobs import follows_somebody
from tidelore.app.service.jobs import build_jobs
from tidelore.app.service.pages import build_pages
from tidelore.errors import LeaseLost, StorageFailed, TideloreError
from tidelore.service.exposition import Exposition

if TYPE_CHECKING:
    from tidelore.app import App
    from tidelore.engine.lease import Lease
    from tidelore.service.control import Control
    from tidelore.service.outcome import Job
    from tidelore.service.reload import Reloading
    from tidelore.store.database import Database

_LOG = logging.getLogger(__name__)

BEAT_SECONDS = 15.0
"""How far apart signs of life are at most."""


class Keeper:
    """What goes on beside the jobs: the lease's sign of life, new settings, the port."""

    def __init__(
        self,
        app: App,
        database: Database,
        lease: Lease,
        control: Control,
        source: Reloading[App] | None,
        on_settings: Callable[[App], None],
    ) -> None:
        self._app = app
        self._database = database
        self._lease = lease
        self._control = control
        self._source = source
        self._on_settings = on_settings
        self._beaten = app.clock.monotonic()
        self._follows: bool | None = None
        self._exposition: Exposition | None = None
        self._moving: asyncio.Future[None] | None = None

    def beat(self) -> None:
        """Give a sign of life now and then; a lost lease is raised."""
        now = self._app.clock.monotonic()
        if now - self._beaten < min(self._app.config.sync.heartbeat_interval_seconds, BEAT_SECONDS):
            return
        self._beaten = now
        try:
            self._lease.heartbeat()
        except LeaseLost:
            raise
        except TideloreError as error:
            _LOG.warning("no sign of life could be given: %s", error.message, extra={"event": "heartbeat_failed"})

    def renew(self) -> list[Job] | None:
        """Return new jobs when the settings are new, or somebody is followed for the first time."""
        asked, source, now = self._control.take_reload(), self._source, self._app.clock.monotonic()
        loaded = source.load() if source is not None and (asked or source.changed(now)) else None
        if loaded is not None:
            _LOG.info("new settings are in force", extra={"event": "config_reloaded"})
            self._take(loaded)
        try:
            follows = follows_somebody(self._app, self._database)
            changed = self._follows is not None and follows != self._follows
            self._follows = follows
            return build_jobs(self._app, self._database) if changed or loaded is not None else None
        except StorageFailed:
            return None

    def _take(self, app: App) -> None:
        moved = app.config.service.metrics_port != self._app.config.service.metrics_port
        self._app = app
        self._on_settings(app)
        if moved:
            self._moving = asyncio.ensure_future(self._move_port())

    async def _move_port(self) -> None:
        await self.close_port()
        try:
            await self.open_port()
        except TideloreError as error:
            _LOG.error("%s", error.message, extra={"event": "port_refused", "code": error.code})

    async def open_port(self) -> None:
        """Listen where the settings say; nowhere for 0."""
        port = self._app.config.service.metrics_port
        if port:
            self._exposition = Exposition(build_pages(self._database, self._app.clock))
            await self._exposition.open(port)

    async def close_port(self) -> None:
        """Listen no more."""
        exposition, self._exposition = self._exposition, None
        if exposition is not None:
            await exposition.close()
