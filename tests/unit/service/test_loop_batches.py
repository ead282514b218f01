"""Jobs that are done in one go: one task, one lease, and an end of its own for each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.unit.service.bench import Bench

from tidelore.core.errors import RemoteTransient
from tidelore.service.jobs import JobResult, batched
from tidelore.service.loop import Loop
from tidelore.service.schedule import JobSpec


def test_jobs_of_a_batch_run_in_one_call_and_get_separate_results(bench: Bench) -> None:
    gone = RemoteTransient("bad gateway", status=502)
    went: list[tuple[str, ...]] = []

    async def together(names: Sequence[str]) -> dict[str, JobResult]:
        went.append(tuple(names))
        return {name: JobResult(1, gone if name == "b" else None, wakes=("later",)) for name in names}

    for name in ("a", "b", "c"):
        spec = JobSpec(name, "hub", "poll", name, 60.0, turn="lease", batch="polls")
        bench.jobs.append(batched(spec, together))
    later = bench.counted("later", interval=6000)

    async def story(loop: Loop) -> None:
        assert went == [("a", "b", "c")]
        assert len(later.turns) == 2, "once at the beginning, once because it was woken"
        assert loop.errors == {"b": gone}
        rows = bench.rows()
        assert {name: rows[name].failures for name in "abc"} == {"a": 0, "b": 1, "c": 0}
        await bench.clock.advance(61)
        assert went == [("a", "b", "c"), ("b",), ("b",), ("a", "c")], "what failed comes again by its own pauses"

    bench.run(story)


def test_a_batch_failure_fails_each_job_and_a_cancelled_batch_is_cancelled_once(bench: Bench, impatient: None) -> None:
    cut: list[str] = []
    silent = RemoteTransient("no answer")
    failing = [True]

    async def together(_names: Sequence[str]) -> dict[str, JobResult]:
        if failing[0]:
            raise silent
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            # How a run is closed takes its time; a second cancellation would end it here.
            await asyncio.sleep(0.05)
            cut.append("closed")
            raise
        return {}

    for name in ("a", "b"):
        bench.jobs.append(batched(JobSpec(name, "hub", "poll", name, 60.0, turn="lease", batch="polls"), together))

    async def story(loop: Loop) -> None:
        assert loop.errors == {"a": silent, "b": silent}
        failing[0] = False
        await bench.clock.advance(31)
        assert {row.state for row in bench.rows().values()} == {"running"}

    bench.run(story)
    assert cut == ["closed"]
    assert {row.state for row in bench.rows().values()} == {"stopped"}


def test_a_single_round_repeats_unfinished_jobs_and_interleaves_the_others(bench: Bench) -> None:
    went: list[str] = []

    async def big() -> JobResult:
        went.append("big")
        await bench.clock.sleep(40)
        return JobResult(1, again=went.count("big") < 3, fresh=False)

    async def documents() -> JobResult:
        went.append("documents")
        return JobResult()

    bench.add("big", big, turn="sync")
    bench.add("documents", documents, source="copy", interval=30.0, turn="sync")

    async def story(loop: Loop) -> None:
        await bench.clock.advance(200)
        assert went == ["big", "documents", "big", "big"], "it was due again, and nobody wanted it"
        assert loop.ended == 4

    bench.run(story, once=True)
