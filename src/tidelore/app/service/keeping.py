"""What goes on beside the jobs. Owns the lease's signs of life, the taking over of new settings, and the port.

Notices too when the database is out of reach: jobs fail and are left alone meanwhile, and when it is back all of them
are tried at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelore.app.service.bluesky_jobs import follows_somebody
from tidelore.app.service.jobs import build_jobs
from tidelore.app.service.pages import build_pages
from tidelore.core.errors import DatabaseUnreachable, LeaseLost, StorageFailed, TideloreError
from tidelore.service.exposition import Exposition
from tidelore.store.database.port import Limits, Patience
from tidelore.store.work.leases import LeaseTable

if TYPE_CHECKING:
    from tidelore.app import App
    from tidelore.engine.lease import Lease
    from tidelore.service.control import Control
    from tidelore.service.outcome import Job
    from tidelore.service.reload import Reloading
    from tidelore.store.database.port import Database

_LOG = logging.getLogger(__name__)

BEAT_SECONDS = 15.0
"""How far apart signs of life are at most."""
PAGE_LIMITS = Limits(lock=1.0, statement=3.0, idle=5.0, connect=2.0)
"""How long a page waits for the database: whoever asks for it has a timeout too."""
STEADY_LOOKS = 2
"""How many looks in a row the database has to answer before it is back: what is to be ended in it comes first."""


def open_port(app: App) -> Exposition | None:
    """Listen where the settings say; nowhere for 0."""
    port = app.config.service.metrics_port
    if not port:
        return None

    def open_briefly() -> Database:
        return app.open_store(patience=Patience(PAGE_LIMITS))

    exposition = Exposition(build_pages(open_briefly, app.clock))
    exposition.open(port)
    return exposition


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
        exposition: Exposition | None,
    ) -> None:
        self._app = app
        self._database = database
        self._lease = lease
        self._control = control
        self._source = source
        self._on_settings = on_settings
        self._beaten = app.clock.monotonic()
        self._follows: bool | None = None
        self._looks_away = 0
        self._exposition = exposition
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
            _LOG.warning("failed to write a heartbeat: %s", error.message, extra={"event": "heartbeat_failed"})

    def renew(self) -> list[Job] | None:
        """Return new jobs when the settings are new, somebody is followed now, or the database is back."""
        try:
            back = self._is_back()
            loaded = self._load()
            follows = follows_somebody(self._app, self._database)
            changed = self._follows is not None and follows != self._follows
            self._follows = follows
            return build_jobs(self._app, self._database) if back or changed or loaded else None
        except StorageFailed:
            return None

    def _load(self) -> bool:
        """Take new settings over, if there are; what is asked for while the database is away waits for it."""
        asked, source, now = self._control.take_reload(), self._source, self._app.clock.monotonic()
        loaded = source.load() if source is not None and (asked or source.changed(now)) else None
        if loaded is not None:
            _LOG.info("configuration reloaded", extra={"event": "config_reloaded"})
            self._take(loaded)
        return loaded is not None

    def _is_back(self) -> bool:
        """Look whether the database answers; True once, when it does again after it did not."""
        try:
            LeaseTable(self._database).read(self._lease.name)
        except DatabaseUnreachable as error:
            if not self._looks_away:
                _LOG.warning("%s; waiting for the database", error.message, extra={"event": "database_lost"})
            self._looks_away = STEADY_LOOKS
            raise
        if not self._looks_away:
            return False
        self._looks_away -= 1
        if self._looks_away:
            return False
        _LOG.info("the database is available again; retrying all jobs", extra={"event": "database_back"})
        return True

    def _take(self, app: App) -> None:
        moved = app.config.service.metrics_port != self._app.config.service.metrics_port
        self._app = app
        self._on_settings(app)
        if moved:
            self._moving = asyncio.ensure_future(self._move_port())

    async def _move_port(self) -> None:
        await self.close_port()
        try:
            self._exposition = open_port(self._app)
        except TideloreError as error:
            _LOG.error("%s", error.message, extra={"event": "port_refused", "code": error.code})

    async def close_port(self) -> None:
        """Listen no more."""
        exposition, self._exposition = self._exposition, None
        if exposition is not None:
            await exposition.close()
