"""Jobs that leave something: they go on at once, after the others, and nothing they left is called a success."""

from __future__ import annotations

from itertools import pairwise

from tests.unit.service.test_schedule import BROKEN, WELL, batch, begin_all, names, run, scheduled, spec

from tidelore.service.schedule import BREATH_SECONDS, JobEnd

LEFT = JobEnd(3, again=True, fresh=False)


def test_an_unfinished_job_continues_after_a_short_pause_without_counting_as_failed() -> None:
    schedule = scheduled(spec("a"))
    run(schedule, "a", 0, LEFT)
    standing = schedule.standing("a")
    assert (standing.state, standing.due, standing.failures, standing.last_error) == (
        "idle",
        1 + BREATH_SECONDS,
        0,
        None,
    )
    assert standing.requests == 3
    assert names(schedule, 1) == []
    assert names(schedule, 1 + BREATH_SECONDS) == ["a"]


def test_an_unfinished_job_counts_as_succeeded_only_when_its_main_work_is_done() -> None:
    schedule = scheduled(spec("a"))
    run(schedule, "a", 0)
    run(schedule, "a", 60, LEFT)
    assert schedule.standing("a").succeeded == 1
    run(schedule, "a", 62, JobEnd(3, again=True))
    assert schedule.standing("a").succeeded == 63
    assert names(schedule, 63 + BREATH_SECONDS) == ["a"]


def test_a_job_that_became_due_meanwhile_runs_before_an_unfinished_one() -> None:
    schedule = scheduled(spec("big", turn="sync"), spec("documents", turn="sync", interval=30))
    run(schedule, "documents", 0)
    schedule.begin("big", 1)
    schedule.end("big", 300, LEFT)
    assert names(schedule, 300) == ["documents"]
    run(schedule, "documents", 300)
    assert names(schedule, 301) == ["big"]


def test_small_jobs_of_a_batch_run_every_interval_while_a_big_one_is_unfinished() -> None:
    schedule = scheduled(batch("big", "lab", 300), batch("small", "far", 300), spec("documents", turn="lease"))
    now, began = 0.0, dict[str, list[float]]()
    while now < 6000:
        begun = begin_all(schedule, now)
        for name in begun:
            began.setdefault(name, []).append(now)
        now += 300 if "big" in begun else 1
        schedule.end_batch({name: LEFT if name == "big" else WELL for name in begun}, now)
    gaps = {name: [later - at for at, later in pairwise(at)] for name, at in began.items()}
    assert max(gaps["small"]) <= 301
    assert max(gaps["documents"]) <= 301
    assert max(gaps["big"]) <= 301, "nor does it wait for longer than they take"


def test_a_failed_job_backs_off_even_if_it_is_unfinished() -> None:
    schedule = scheduled(spec("a"))
    run(schedule, "a", 0, JobEnd(1, "not found", "job", again=True))
    other = scheduled(spec("a"))
    run(other, "a", 0, BROKEN)
    assert schedule.standing("a") == other.standing("a")
    assert names(schedule, 1) == []


def test_an_unfinished_success_ends_the_back_off_of_its_source() -> None:
    schedule = scheduled(spec("a"))
    run(schedule, "a", 0, JobEnd(1, "no answer", "source"))
    run(schedule, "a", schedule.due_at("a"), LEFT)
    assert schedule.trouble("hub") is None


def test_a_job_outside_the_requested_set_does_not_block_the_turn() -> None:
    schedule = scheduled(spec("a", turn="sync"), spec("b", turn="sync"))
    assert names(schedule, 0) == ["a"]
    assert [one.name for one in schedule.ready(0, {"b"})] == ["b"]
