"""Heavy work beside the loop. Owns a thread with a loop of its own, and that a cancellation reaches what runs there.

For what computes more than it waits: polling must not stand still meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def aside(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run work in a thread of its own and return what it returns; cancelled, it is cancelled there and waited for."""
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
        except BaseException as error:  # noqa: BLE001 - handed over to whoever waits
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
