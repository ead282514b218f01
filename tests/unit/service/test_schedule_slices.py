"""Jobs that leave something: they go on at once, after the others, and nothing they left is called a success."""

from __future__ import annotations

from itertools import pairwise

from tests.unit.service.test_schedule import BROKEN, WELL, batch, begin_all, names, run, scheduled, spec

from tidelore.service.schedule import BREATH_SECONDS, Ending

LEFT = Ending(3, again=True, fresh=False)


def test_a_job_that_left_something_goes_on_after_a_breath_without_failure_or_pause() -> None:
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


def test_it_has_succeeded_only_when_what_it_is_there_for_was_done() -> None:
    schedule = scheduled(spec("a"))
    run(schedule, "a", 0)
    run(schedule, "a", 60, LEFT)
    assert schedule.standing("a").succeeded == 1
    run(schedule, "a", 62, Ending(3, again=True))
    assert schedule.standing("a").succeeded == 63
    assert names(schedule, 63 + BREATH_SECONDS) == ["a"]


def test_whoever_became_due_meanwhile_comes_before_it() -> None:
    schedule = scheduled(spec("big", turn="sync"), spec("documents", turn="sync", interval=30))
    run(schedule, "documents", 0)
    schedule.begin("big", 1)
    schedule.end("big", 300, LEFT)
    assert names(schedule, 300) == ["documents"]
    run(schedule, "documents", 300)
    assert names(schedule, 301) == ["big"]


def test_the_small_ones_of_a_batch_have_their_turn_in_each_interval_while_a_big_one_takes_many() -> None:
    schedule = scheduled(batch("big", "lab", 300), batch("small", "far", 300), spec("documents", turn="lease"))
    now, began = 0.0, dict[str, list[float]]()
    while now < 6000:
        begun = begin_all(schedule, now)
        for name in begun:
            began.setdefault(name, []).append(now)
        now += 300 if "big" in begun else 1
        schedule.end_together({name: LEFT if name == "big" else WELL for name in begun}, now)
    gaps = {name: [later - at for at, later in pairwise(at)] for name, at in began.items()}
    assert max(gaps["small"]) <= 301
    assert max(gaps["documents"]) <= 301
    assert max(gaps["big"]) <= 301, "nor does it wait for longer than they take"


def test_what_failed_is_left_alone_also_when_it_left_something() -> None:
    schedule = scheduled(spec("a"))
    run(schedule, "a", 0, Ending(1, "not found", "job", again=True))
    other = scheduled(spec("a"))
    run(other, "a", 0, BROKEN)
    assert schedule.standing("a") == other.standing("a")
    assert names(schedule, 1) == []


def test_an_answer_lifts_the_trouble_of_a_source_also_when_something_was_left() -> None:
    schedule = scheduled(spec("a"))
    run(schedule, "a", 0, Ending(1, "no answer", "source"))
    run(schedule, "a", schedule.due_at("a"), LEFT)
    assert schedule.trouble("hub") is None


def test_who_is_not_wanted_takes_nobodys_turn() -> None:
    schedule = scheduled(spec("a", turn="sync"), spec("b", turn="sync"))
    assert names(schedule, 0) == ["a"]
    assert [one.name for one in schedule.ready(0, {"b"})] == ["b"]
