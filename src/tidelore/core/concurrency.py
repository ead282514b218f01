"""Run coroutines concurrently, and leave none of them running when one fails; run blocking work in one other thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Generic, TypeVar

J = TypeVar("J")
T = TypeVar("T")


async def gather(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results in input order. On an error or a cancellation, cancel all tasks and wait for them first."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def for_each(jobs: Iterable[J], work: Callable[[J], Awaitable[T]], at_once: int) -> list[T]:
    """Return the results of all jobs in input order, with at most `at_once` running; errors end all as in `gather`.

    A job is taken from `jobs` when it begins, so they may be many and depend on the ones before.
    """
    results: dict[int, T] = {}
    queue = enumerate(jobs)

    async def worker() -> None:
        for place, job in queue:
            results[place] = await work(job)

    await gather(worker() for _ in range(at_once))
    return [results[place] for place in range(len(results))]


class Pending(Generic[T]):
    """Work that was given to a `WriterThread`."""

    def __init__(self, future: asyncio.Future[T]) -> None:
        self._future = future

    async def wait(self) -> T:
        """Return the result. Storing cannot be interrupted: a cancellation is raised when the work has ended."""
        try:
            return await asyncio.shield(self._future)
        except asyncio.CancelledError:
            while not self._future.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([self._future])
            # Otherwise an error that nothing waits for would be logged.
            self._future.exception()
            raise


class WriterThread:
    """One thread that runs store calls one after another, so that the event loop can fetch meanwhile."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None

    def begin(self, work: Callable[[], T]) -> Pending[T]:
        """Begin work, after all that was given before."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="writer")
        return Pending(asyncio.get_running_loop().run_in_executor(self._executor, work))

    def close(self) -> None:
        """End the thread, once it has nothing to do."""
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None
