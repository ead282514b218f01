"""Heavy work in a thread of its own: its result, its error and its cancellation come through."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from tidelore.service.threads import run_in_thread


def test_the_event_loop_keeps_running_during_a_blocking_computation() -> None:
    async def compute() -> int:
        time.sleep(0.3)  # noqa: ASYNC251 - this is what computing does to a loop
        return threading.get_ident()

    async def inside() -> tuple[int, int]:
        task = asyncio.create_task(run_in_thread(compute))
        turns = 0
        while not task.done():
            await asyncio.sleep(0.01)
            turns += 1
        return turns, await task

    turns, thread = asyncio.run(inside())
    assert turns > 5
    assert thread != threading.get_ident()


def test_an_error_in_the_worker_thread_is_raised_in_the_caller() -> None:
    async def fail() -> None:
        raise ValueError("here")

    with pytest.raises(ValueError, match="here"):
        asyncio.run(run_in_thread(fail))


def test_a_cancellation_reaches_the_worker_thread_and_waits_for_its_cleanup() -> None:
    seen: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)
            seen.append("cleaned up")
            raise

    async def inside() -> None:
        task = asyncio.create_task(run_in_thread(endless))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen == ["cleaned up"]

    asyncio.run(inside())
