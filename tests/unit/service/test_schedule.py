"""When jobs run: every due scope in each interval, growing pauses for what fails, and nobody in anybody's way."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tidelore.service.schedule import (
    FIRST_BACKOFF_SECONDS,
    HELD_SECONDS,
    JITTER,
    LONGEST_BACKOFF_SECONDS,
    ROOM,
    SETTLED_SECONDS,
    JobEnd,
    JobSpec,
    JobState,
    Schedule,
    next_due,
    pause_seconds,
)

WELL = JobEnd(3)
DOWN = JobEnd(1, "no answer", "source")
BROKEN = JobEnd(1, "not found", "job")


def spec(name: str, source: str = "hub", interval: float = 60.0, turn: str | None = None) -> JobSpec:
    return JobSpec(name, source, "poll", name, interval, turn=turn)


def scheduled(*specs: JobSpec, roll: float = 0.5) -> Schedule:
    schedule = Schedule(lambda: roll)
    schedule.set_jobs(specs, 0.0)
    return schedule


def names(schedule: Schedule, now: float) -> list[str]:
    return [one.name for one in schedule.ready(now)]


def run(schedule: Schedule, name: str, now: float, ending: JobEnd = WELL, seconds: float = 1.0) -> None:
    schedule.begin(name, now)
    schedule.end(name, now + seconds, ending)


def simulate(schedule: Schedule, until: float, seconds: float, ending: JobEnd = WELL) -> list[tuple[str, float]]:
    """Run whatever may start, each for so long, until an instant; return who began when."""
    now, running, begun = 0.0, dict[str, float](), list[tuple[str, float]]()
    while now < until:
        for name in [name for name, end in running.items() if end <= now]:
            del running[name]
            schedule.end(name, now, ending)
        for one in schedule.ready(now):
            schedule.begin(one.name, now)
            running[one.name] = now + seconds
            begun.append((one.name, now))
        later = [*running.values(), schedule.next_at(now) or until]
        now = max(min(later), now + 1e-6)
    return begun


def test_every_job_is_due_at_start_and_again_after_its_interval() -> None:
    schedule = scheduled(spec("a"), spec("b", interval=300))
    assert names(schedule, 0) == ["a", "b"]
    run(schedule, "a", 0)
    run(schedule, "b", 0)
    assert names(schedule, 59) == []
    assert schedule.next_at(59) == 60
    assert names(schedule, 60) == ["a"]
    assert names(schedule, 300) == ["a", "b"]


@given(st.floats(0, 1, exclude_max=True), st.floats(0.1, 1e6), st.floats(0, 1e6))
def test_jitter_changes_an_interval_by_at_most_a_tenth_and_never_into_the_past(
    roll: float, interval: float, took: float
) -> None:
    due = next_due(1000.0, 1000.0 + took, interval, roll)
    assert due >= 1000.0 + took
    if took < interval * (1 - JITTER):
        assert interval * (1 - JITTER) - 1e-3 <= due - 1000.0 <= interval * (1 + JITTER) + 1e-3


def test_jitter_spreads_jobs_that_began_together() -> None:
    dice = random.Random(7)
    schedule = Schedule(dice.random)
    schedule.set_jobs([spec(f"job {number}") for number in range(10)], 0.0)
    for one in schedule.ready(0):
        run(schedule, one.name, 0)
    assert len({schedule.due_at(name) for name in schedule.specs}) == 10


@pytest.mark.parametrize("turn", ["github", None])
@pytest.mark.parametrize("count", [1, 7, 40])
def test_every_due_scope_is_run_in_each_interval(count: int, turn: str | None) -> None:
    schedule = scheduled(*(spec(f"repo {number:02}", turn=turn) for number in range(count)))
    begun = simulate(schedule, until=600, seconds=1)
    for start in range(0, 540, 60):
        # Measured at the widest: the jobs of one turn follow each other, a second apart.
        inside = Counter(name for name, at in begun if start <= at < start + 60)
        assert set(inside) == set(schedule.specs), start
        assert max(inside.values()) == 1


def test_overloaded_jobs_get_equal_numbers_of_turns() -> None:
    schedule = scheduled(*(spec(f"repo {number:02}", turn="github") for number in range(20)))
    begun = simulate(schedule, until=2000, seconds=10)
    turns = Counter(name for name, _ in begun)
    assert len(turns) == 20
    assert max(turns.values()) - min(turns.values()) <= 1


def test_jobs_with_the_same_turn_exclude_each_other_and_others_run_in_parallel() -> None:
    schedule = scheduled(spec("a", turn="sync"), spec("b", turn="sync"), spec("c", turn="github"))
    assert names(schedule, 0) == ["a", "c"]
    schedule.begin("a", 0)
    assert names(schedule, 0) == ["c"]
    schedule.end("a", 30, WELL)
    assert names(schedule, 30) == ["b", "c"]


def test_a_job_never_overlaps_itself_however_long_it_takes() -> None:
    schedule = scheduled(spec("a"))
    schedule.begin("a", 0)
    assert names(schedule, 10_000) == []
    schedule.end("a", 10_000, WELL)
    assert names(schedule, 10_000) == ["a"]


def test_a_full_handler_lane_does_not_block_polls() -> None:
    handlers = [replace(spec(f"handler {n}"), lane="handler", asks=False) for n in range(ROOM["handler"] + 5)]
    schedule = scheduled(*handlers, spec("poll"))
    started = schedule.ready(0)
    assert sum(one.lane == "handler" for one in started) == ROOM["handler"]
    assert "poll" in [one.name for one in started]
    for one in started:
        if one.lane == "handler":
            schedule.begin(one.name, 0)
    assert names(schedule, 0) == ["poll"]


def test_the_number_of_concurrent_tasks_is_limited() -> None:
    schedule = scheduled(*(spec(f"job {number}") for number in range(100)))
    assert len(schedule.ready(0)) == ROOM["work"]


# Failures


@given(st.integers(1, 60), st.floats(0, 1, exclude_max=True))
def test_back_off_grows_to_a_maximum_and_respects_retry_after(failures: int, roll: float) -> None:
    pause = pause_seconds(failures, roll)
    assert FIRST_BACKOFF_SECONDS / 2 <= pause <= LONGEST_BACKOFF_SECONDS
    assert pause_seconds(failures + 1, roll) >= pause
    assert pause_seconds(failures, roll, 5000.0) == 5000.0
    assert pause_seconds(failures, roll, 1.0) == pause


def test_an_unreachable_source_pauses_all_its_jobs_and_no_others() -> None:
    schedule = scheduled(spec("a"), spec("b"), spec("other", "lab"), replace(spec("handler"), asks=False))
    run(schedule, "a", 0, DOWN)
    assert names(schedule, 2) == ["handler", "other"]
    assert schedule.standing("a").state == "backing_off"
    trouble = schedule.trouble("hub")
    assert trouble is not None
    assert (trouble.failures, trouble.error) == (1, "no answer")
    assert set(names(schedule, trouble.until)) == {"a", "b", "handler", "other"}


def test_source_back_off_grows_with_every_probe_and_ends_with_the_first_success() -> None:
    schedule = scheduled(spec("a"))
    now, pauses = 0.0, list[float]()
    for _ in range(10):
        run(schedule, "a", now, DOWN, seconds=0)
        due = schedule.due_at("a")
        pauses.append(due - now)
        now = due
    assert all(later >= earlier for earlier, later in pairwise(pauses))
    assert pauses[0] < 20
    assert pauses[-1] > 600
    run(schedule, "a", now)
    assert schedule.trouble("hub") is None
    assert schedule.standing("a") == JobState(now + 60, "idle", now, now + 1, now + 1, 0, None, 13)


def test_a_job_failure_does_not_pause_other_jobs_of_the_source() -> None:
    schedule = scheduled(spec("a"), spec("b"))
    run(schedule, "a", 0, BROKEN)
    assert schedule.trouble("hub") is None
    assert names(schedule, 1) == ["b"]
    run(schedule, "b", 1)
    assert schedule.standing("a").failures == 1
    assert schedule.standing("a").state == "backing_off"


def test_a_retry_after_of_the_server_is_respected() -> None:
    schedule = scheduled(spec("a"))
    run(schedule, "a", 0, JobEnd(1, "slow down", "source", 700.0), seconds=0)
    assert schedule.due_at("a") == 700


def test_a_held_lease_is_not_a_failure_and_the_job_is_retried_soon() -> None:
    schedule = scheduled(spec("a"))
    run(schedule, "a", 0, JobEnd(error="held by pid 7", blame="nobody"), seconds=0)
    standing = schedule.standing("a")
    assert (standing.state, standing.failures, standing.due) == ("idle", 0, HELD_SECONDS)


def test_a_partial_failure_is_reported_and_the_job_counts_as_succeeded() -> None:
    schedule = scheduled(spec("a"))
    run(schedule, "a", 0, JobEnd(4, "1 of 9 lists could not be read"))
    standing = schedule.standing("a")
    assert (standing.succeeded, standing.failures, standing.last_error) == (1, 0, "1 of 9 lists could not be read")


def test_an_idle_job_does_not_end_the_back_off_of_its_source() -> None:
    schedule = scheduled(spec("a"))
    run(schedule, "a", 0, DOWN)
    until = schedule.due_at("a")
    run(schedule, "a", until, JobEnd(idle=True))
    assert schedule.trouble("hub") is not None
    assert schedule.standing("a").failures == 1
    assert schedule.standing("a").succeeded is None
    other = scheduled(spec("a"))
    run(other, "a", 0, JobEnd(idle=True))
    assert other.standing("a").succeeded == 1


# Being woken, jobs without end, new jobs


def test_a_woken_job_is_due_at_once_or_right_after_its_current_run() -> None:
    schedule = scheduled(spec("a"))
    run(schedule, "a", 0)
    schedule.wake("a", 5)
    assert names(schedule, 5) == ["a"]
    schedule.begin("a", 5)
    schedule.wake("a", 6)
    schedule.end("a", 7, WELL)
    assert names(schedule, 7) == ["a"]
    schedule.wake("unknown", 8)


def test_a_job_in_back_off_is_not_woken() -> None:
    schedule = scheduled(spec("a"))
    run(schedule, "a", 0, BROKEN)
    due = schedule.due_at("a")
    schedule.wake("a", 2)
    assert schedule.due_at("a") == due


def test_a_continuous_job_counts_as_succeeded_once_it_has_run_long_enough() -> None:
    schedule = scheduled(replace(spec("stream"), continuous=True))
    run(schedule, "stream", 0, DOWN)
    again = schedule.due_at("stream")
    schedule.begin("stream", again)
    assert schedule.settle(again + SETTLED_SECONDS - 1) == []
    assert schedule.settle(again + SETTLED_SECONDS) == ["stream"]
    assert schedule.trouble("hub") is None
    assert schedule.standing("stream").failures == 0


def test_after_a_reload_new_jobs_are_due_known_ones_continue_and_removed_ones_stop() -> None:
    schedule = scheduled(spec("kept"), spec("dropped"))
    run(schedule, "kept", 0)
    run(schedule, "dropped", 0)
    assert schedule.set_jobs([spec("kept"), spec("new")], 10.0) == ["dropped"]
    assert names(schedule, 10) == ["new"]
    assert schedule.due_at("kept") == 60
    schedule.end("dropped", 11, WELL)


def test_a_shorter_interval_takes_effect_at_once() -> None:
    schedule = scheduled(spec("a", interval=3600))
    run(schedule, "a", 0)
    schedule.set_jobs([spec("a", interval=10)], 100.0)
    assert schedule.due_at("a") <= 100 + 10 * (1 + JITTER)


def test_a_running_job_keeps_running_when_the_job_list_is_replaced() -> None:
    schedule = scheduled(spec("a"))
    schedule.begin("a", 0)
    schedule.set_jobs([spec("a", interval=5)], 1.0)
    assert names(schedule, 100) == []
    schedule.end("a", 100, WELL)
    assert names(schedule, 106) == ["a"]


def test_after_a_restart_jobs_wait_for_their_interval_since_the_last_run() -> None:
    schedule = Schedule(lambda: 0.5)
    schedule.set_jobs([spec("a"), spec("b")], 0.0, {"a": JobState(40.0, requests=12)})
    assert names(schedule, 0) == ["b"]
    assert names(schedule, 40) == ["a", "b"] or names(schedule, 40) == ["b", "a"]
    assert schedule.standing("a").requests == 12


def test_new_settings_end_the_back_off_of_all_jobs() -> None:
    schedule = scheduled(spec("a"), spec("b"))
    run(schedule, "a", 0, DOWN)
    run(schedule, "b", 0, BROKEN)
    schedule.forgive(3.0)
    assert set(names(schedule, 3)) == {"a", "b"}


def test_a_stopped_schedule_starts_nothing() -> None:
    schedule = scheduled(spec("a"))
    schedule.stop()
    assert names(schedule, 1000) == []
    assert schedule.standing("a").state == "stopped"


# Batches


def batch(name: str, source: str = "hub", interval: float = 60.0) -> JobSpec:
    return JobSpec(name, source, "poll", name, interval, turn="lease", batch="polls")


def begin_all(schedule: Schedule, now: float) -> list[str]:
    begun = names(schedule, now)
    for name in begun:
        schedule.begin(name, now)
    return begun


def test_a_batch_of_any_size_starts_together_and_takes_one_slot() -> None:
    many = [batch(f"repo{number:03}") for number in range(200)]
    others = [spec(f"zone{number:02}") for number in range(30)]
    schedule = scheduled(*many, *others)
    begun = begin_all(schedule, 0)
    assert {one.name for one in many} <= set(begun)
    assert len(begun) == 200 + ROOM["work"] - 1
    schedule.end("zone00", 1, WELL)
    assert names(schedule, 1) == [f"zone{ROOM['work'] - 1:02}"], "a place that is free again is taken"


def test_a_batch_excludes_jobs_with_the_same_turn() -> None:
    schedule = scheduled(batch("a"), batch("b"), spec("c", turn="lease"))
    assert begin_all(schedule, 0) == ["a", "b"]
    assert names(schedule, 1) == []
    schedule.end_batch({"a": WELL, "b": WELL}, 2)
    assert names(schedule, 2) == ["c"]


def test_a_batch_includes_jobs_about_to_be_due_and_excludes_jobs_in_back_off() -> None:
    schedule = scheduled(batch("a"), batch("b"), batch("c", interval=600), batch("d"))
    run(schedule, "a", 0)
    run(schedule, "b", 5)
    run(schedule, "c", 0)
    run(schedule, "d", 52, BROKEN, seconds=0)
    assert schedule.due_at("d") > 60
    assert names(schedule, 60) == ["a", "b"], "five seconds early, within a tenth of the interval"


def test_jitter_never_splits_a_batch() -> None:
    dice = random.Random(7)
    schedule = Schedule(dice.random)
    schedule.set_jobs([batch(f"repo{number}") for number in range(50)], 0.0)
    now = 0.0
    for _ in range(20):
        begun = begin_all(schedule, now)
        assert len(begun) == 50
        schedule.end_batch(dict.fromkeys(begun, WELL), now + 3)
        now = schedule.next_at(now + 3) or 0.0


def test_a_failed_batch_is_one_failure_of_its_source() -> None:
    schedule = scheduled(*(batch(f"repo{number}") for number in range(50)), batch("far", source="far"))
    begun = begin_all(schedule, 0)
    schedule.end_batch({name: WELL if name == "far" else DOWN for name in begun}, 1)
    trouble = schedule.trouble("hub")
    assert trouble is not None
    assert trouble.failures == 1
    assert trouble.until <= 1 + FIRST_BACKOFF_SECONDS
    assert schedule.trouble("far") is None
    assert names(schedule, 61)[-1] == "far", "who failed is due longer"


def test_a_success_in_a_batch_does_not_lift_a_rate_limit_of_the_same_batch() -> None:
    schedule = scheduled(batch("a"), batch("b"))
    begin_all(schedule, 0)
    schedule.end_batch({"a": JobEnd(1, "limited", "source", 600), "b": WELL}, 1)
    assert schedule.due_at("b") >= 601
    assert schedule.standing("b").succeeded == 1


def test_a_job_that_is_woken_all_the_time_starts_once_in_its_rest() -> None:
    schedule = scheduled(JobSpec("hooks", "hub", "hooks", "hub", 60.0, rest_seconds=5.0))
    schedule.begin("hooks", 10.0)
    schedule.wake("hooks", 10.5)
    schedule.end("hooks", 11.0, WELL)
    assert names(schedule, 14.9) == []
    assert names(schedule, 15.0) == ["hooks"]
    run(schedule, "hooks", 15.0)
    schedule.wake("hooks", 17.0)
    assert names(schedule, 19.9) == []
    schedule.wake("hooks", 30.0)
    assert names(schedule, 30.0) == ["hooks"]


def test_a_stretched_interval_holds_until_the_next_run_says_otherwise() -> None:
    schedule = scheduled(spec("poll"))
    run(schedule, "poll", 0.0, JobEnd(1, stretched_seconds=1800.0))
    assert schedule.due_at("poll") == 1800.0
    assert schedule.standing("poll").stretched_seconds == 1800.0
    run(schedule, "poll", 1800.0, JobEnd(1, stretched_seconds=5.0))
    assert schedule.due_at("poll") == 1860.0, "never shorter than usual"
    run(schedule, "poll", 1860.0)
    assert schedule.due_at("poll") == 1920.0
    assert schedule.standing("poll").stretched_seconds is None
