"""Run coroutines concurrently, and leave none of them running when one fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

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
