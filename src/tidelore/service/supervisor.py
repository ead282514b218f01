"""The main thread of the service. Owns signals and the end: the work runs in a thread with its own event loop.

Store calls block the thread that makes them for as long as another program holds a lock. In a thread of their own they
never block signals. Asked to stop, the work may wait a moment longer; then every waiting store call gives up. If the
work has not ended after `STOP_SECONDS`, the process ends without it: the next start takes over its lease and its runs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from tidelore.core.signals import heard
from tidelore.service.control import Control
from tidelore.store.database.port import Patience

_LOG = logging.getLogger(__name__)

WAIT_SECONDS = 1.0
"""How long store calls may go on waiting for a lock after the service was asked to stop."""
AGAIN_SECONDS = 0.3
"""How often those that wait all the same are interrupted."""
STOP_SECONDS = 4.7
"""After this the process ends, whatever the work does."""

T = TypeVar("T")


def supervise(work: Callable[[], Coroutine[Any, Any, T]], control: Control, patience: Patience) -> T:
    """Run work in a thread and return what it returns. SIGTERM and SIGINT stop it, SIGHUP reloads the settings."""
    return asyncio.run(_supervised(work, control, patience))


async def _supervised(work: Callable[[], Coroutine[Any, Any, T]], control: Control, patience: Patience) -> T:
    outcome: Future[T] = Future()
    hurry, ended = threading.Event(), threading.Event()

    def run() -> None:
        outcome.set_running_or_notify_cancel()
        try:
            outcome.set_result(asyncio.run(work()))
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            outcome.set_exception(error)

    def give_up_waiting() -> None:
        hurry.wait(WAIT_SECONDS)
        patience.end()
        # A statement may have begun to wait in the same instant.
        while not ended.wait(AGAIN_SECONDS):
            patience.end()

    loop = asyncio.get_running_loop()

    def stop() -> None:
        control.stop()
        if control.hurried:
            hurry.set()
            return
        threading.Thread(target=give_up_waiting, name="give-up-waiting", daemon=True).start()
        loop.call_later(STOP_SECONDS, _abandon)

    with heard({signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: control.reload}):
        threading.Thread(target=run, name="service", daemon=True).start()
        try:
            return await asyncio.wrap_future(outcome)
        finally:
            ended.set()


def _abandon() -> None:
    """End the process although the work has not ended."""
    _LOG.error("the service did not stop in time; ending the process", extra={"event": "service_abandoned"})
    logging.shutdown()
    os._exit(1)
