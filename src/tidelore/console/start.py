"""Opening the console, and leaving it. Owns the order: the screen first, then the service; on the way out the other way
round, so that whoever leaves loses nothing.

`top` has no service and no hands: it only looks.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidelore.app.console import ConsoleActions, ServiceThread
from tidelore.console.desk import Desk
from tidelore.console.logbook import Logbook
from tidelore.console.screens import ConsoleApp
from tidelore.console.themes import choose_theme, is_colourless
from tidelore.core.errors import TideloreError

if TYPE_CHECKING:
    from tidelore.app.wiring import App


def run_console(
    app: App,
    *,
    load: Callable[[], App] | None,
    config_file: str | None,
    theme: str,
    color: bool,
    on_leaving: Callable[[], None] = lambda: None,
) -> TideloreError | None:
    """Serve on a thread and show it until somebody leaves; return why the service ended before that, if it did.

    `on_leaving` is called when the screen is gone and the service still has to come to its end.
    """
    with _logged(app) as logbook:
        service = ServiceThread(app, load, config_file)
        try:
            _show(Desk(app, logbook, service, ConsoleActions(app)), theme, color=color)
        finally:
            if service.running:
                on_leaving()
            service.stop()
        return None if service.elsewhere else service.error


def run_top(app: App, *, theme: str, color: bool) -> None:
    """Show what somebody else's service does, until somebody leaves."""
    _show(Desk(app, Logbook()), theme, color=color)


def _show(desk: Desk, theme: str, *, color: bool) -> None:
    console = ConsoleApp(
        desk,
        theme=choose_theme(theme, os.environ),
        colourless=is_colourless(os.environ, color=color),
        signals=(signal.SIGTERM, signal.SIGHUP),
    )
    try:
        console.run()
    finally:
        desk.close()


@contextmanager
def _logged(app: App) -> Iterator[Logbook]:
    """Keep what the service logs for the screen; nothing is written over it."""
    logbook = Logbook()
    logger = logging.getLogger("tidelore")
    before = logger.handlers, logger.propagate, logger.level
    # A file that was asked for goes on being written; what would go to the terminal goes to the screen.
    kept = [handler for handler in logger.handlers if isinstance(handler, logging.FileHandler)]
    logger.handlers, logger.propagate = [*kept, logbook], False
    logger.setLevel(app.config.log.level.upper())
    try:
        yield logbook
    finally:
        logger.handlers, logger.propagate = before[0], before[1]
        logger.setLevel(before[2])
