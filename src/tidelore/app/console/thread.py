"""The service beside a screen. Owns its thread and its orderly end: whoever leaves the screen loses nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tidelore.core.errors import LockHeld, TideloreError
from tidelore.service.control import Control

if TYPE_CHECKING:
    from tidelore.app import App

STOP_SECONDS = 4.0
"""How long the service may take to its orderly end before it is asked again."""


class ServiceThread:
    """The service on a thread with a loop of its own; `error` tells why it ended where nobody asked it to."""

    def __init__(self, app: App, load: Callable[[], App] | None = None, config_file: str | None = None) -> None:
        # Shared with what `load` returns: all connections of the service obey the same order to stop waiting.
        self._patience = app.patience or app.new_patience()
        self._app = self._obeying(app)
        self._load = None if load is None else lambda: self._obeying(load())
        self._config_file = config_file
        self._control = Control()
        self._thread = threading.Thread(target=self._run, name="service", daemon=True)
        self.error: TideloreError | None = None

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @property
    def elsewhere(self) -> bool:
        """Whether another process is the service of this database."""
        return isinstance(self.error, LockHeld)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def run_now(self, names: Iterable[str]) -> None:
        """Let jobs run at once, also those that are left alone after a failure."""
        self._control.run_now(names)

    def stop(self) -> None:
        """Ask for an orderly end and return when it has come: pages are finished, runs closed, leases given back."""
        try:
            self._end()
        finally:
            # Asked a second time it waits for nothing, not for a locked database either.
            self._patience.end()
            self._end()

    def _obeying(self, app: App) -> App:
        return replace(app, patience=self._patience)

    def _end(self) -> None:
        if self._thread.is_alive():
            self._control.stop()
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        from tidelore.app.service.serving import ServeRequest, serve

        try:
            asyncio.run(serve(self._app, ServeRequest(), self._control, load=self._load, config_file=self._config_file))
        except TideloreError as error:
            self.error = error
        except Exception as error:  # noqa: BLE001 - told on the screen; a thread has nobody else to tell
            self.error = TideloreError(
                f"the service stopped unexpectedly: {error!r}", fix="check the log, then restart"
            )
