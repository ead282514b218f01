"""Threads of the service: one for all its work, and one for each CPU-heavy job.

The main thread only handles signals, so a database that blocks the work does not block them. When asked to stop, store
calls that wait for a lock are interrupted after a moment; after `STOP_SECONDS` the process ends even if the work has
not, and the next start takes over its lease and its runs. `run_in_thread` runs CPU-heavy work in its own thread and
event loop so that polls continue; cancelling it cancels the work.
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
"""How long store calls may keep waiting for a lock after the service was asked to stop."""
AGAIN_SECONDS = 0.3
"""How often store calls that are still waiting are interrupted again."""
STOP_SECONDS = 4.7
"""After this time the process exits even if the work has not ended."""

T = TypeVar("T")


def supervise(work: Callable[[], Coroutine[Any, Any, T]], control: Control, patience: Patience) -> T:
    """Run work in a thread and return its result. SIGTERM and SIGINT stop it, SIGHUP reloads the settings."""
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
        # Repeat it, because a statement may have started to wait at the same time.
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
    """Exit the process although the work has not ended."""
    _LOG.error("the service did not stop in time; ending the process", extra={"event": "service_abandoned"})
    logging.shutdown()
    os._exit(1)


async def run_in_thread(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run work in a separate thread and return its result; a cancellation is passed on and waits for the work."""
    home = asyncio.get_running_loop()
    ended: asyncio.Future[T] = home.create_future()
    there: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = []
    begun = threading.Event()

    async def inside() -> T:
        task = asyncio.ensure_future(work())
        there.append((asyncio.get_running_loop(), task))
        begun.set()
        return await task

    def body() -> None:
        try:
            result = asyncio.run(inside())
        except asyncio.CancelledError:
            home.call_soon_threadsafe(ended.cancel)
        except BaseException as error:  # noqa: BLE001 - passed to the waiting coroutine
            home.call_soon_threadsafe(_fail, ended, error)
        else:
            home.call_soon_threadsafe(_give, ended, result)

    thread = threading.Thread(target=body, name="aside", daemon=True)
    thread.start()
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        begun.wait()
        loop, task = there[0]
        if not ended.done():
            loop.call_soon_threadsafe(task.cancel)
            await asyncio.wait([ended])
        raise
    finally:
        thread.join(0)


def _give(ended: asyncio.Future[T], result: T) -> None:
    if not ended.done():
        ended.set_result(result)


def _fail(ended: asyncio.Future[Any], error: BaseException) -> None:
    if not ended.done():
        ended.set_exception(error)
