"""Jobs side by side: bounded, in order, and none left running."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tidelore.core.concurrency import for_each


def test_results_are_in_the_order_of_the_jobs_and_no_more_run_than_allowed() -> None:
    running = most = 0

    async def work(job: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5 - job):
            await asyncio.sleep(0)
        running -= 1
        return job * 10

    assert asyncio.run(for_each(range(5), work, 2)) == [0, 10, 20, 30, 40]
    assert most == 2
    assert asyncio.run(for_each([], work, 2)) == []


def test_a_failing_job_ends_the_others_and_no_further_one_begins() -> None:
    begun: list[int] = []
    ended: list[int] = []

    async def work(job: int) -> None:
        begun.append(job)
        try:
            if job == 1:
                raise ValueError("broken")
            await asyncio.Event().wait()
        finally:
            ended.append(job)

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(for_each(range(100), work, 3))
    assert sorted(begun) == sorted(ended)
    assert len(begun) <= 3


def test_a_job_is_taken_only_when_it_begins() -> None:
    stop = False

    def jobs() -> Iterator[int]:
        number = 0
        while not stop:
            yield number
            number += 1

    async def work(job: int) -> int:
        nonlocal stop
        await asyncio.sleep(0)
        stop = stop or job == 3
        return job

    found = asyncio.run(for_each(jobs(), work, 2))
    assert found == list(range(len(found)))
    assert 4 <= len(found) <= 6
