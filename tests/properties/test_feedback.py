"""Random talk, page sizes, deaths and ways of reading: every version once, and all ways agree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from tests.properties.effort import examples
from tests.properties.inprocess import Reaper, scratch
from tests.properties.listening import (
    Act,
    Reference,
    Talkers,
    Version,
    acts,
    interruptions,
    status_of,
    stored_commands,
    tracked_since,
    visible,
)
from tests.situations.feedback.bench import Bench

from tidelore.store.work.tracked_pull_requests import TERMINAL
from tidelore_world.wire import Request
from tidelore_world.world import World

WAYS: dict[str, dict[str, Any]] = {
    "repo": {"mirror": "followed", "fetch": "repo"},
    "thread": {"mirror": "followed", "fetch": "thread"},
    "full": {"mirror": "followed", "fetch": "auto", "incremental": False},
    "all": {"mirror": "all", "fetch": "auto"},
}
SETTLED_SECONDS = 6
SKEWS = (0, -200_000, 200_000)
"""How far our clock may be off: only the remote's may move a position."""
LONGEST = 120
"""More polls than any first reading of these threads needs."""

deaths = st.lists(st.integers(0, 60), max_size=2).map(tuple)
rounds = st.lists(
    st.tuples(st.lists(acts, max_size=7), st.fixed_dictionaries(dict.fromkeys(WAYS, deaths))), min_size=1, max_size=4
)
sizes = st.fixed_dictionaries(dict.fromkeys(WAYS, st.integers(2, 5)))


@contextmanager
def opened(world: World, per_page: int, **host: Any) -> Iterator[Bench]:
    with scratch() as folder:
        host |= {"operator_logins": ["boss"]}
        yield Bench(world, folder, per_page=per_page, host=host)


def poll_whole(bench: Bench, deaths: tuple[int, ...] = ()) -> None:
    """Poll until first readings are finished, in processes that die at these visits and one that does not."""
    for visit in deaths:
        bench.poll_all(reaper=Reaper(visit))
    for _ in range(LONGEST):
        if not bench.poll().unfinished:
            return
    raise AssertionError("a first reading does not end")


_BLOCKED = [Act("comment", 0, 0), Act("rewrite", 0, 0)]
_UNBLOCKED = Act("unblock", 0, 0)
_ALIVE: dict[str, tuple[int, ...]] = dict.fromkeys(WAYS, ())


@examples(few=15, many=300)
@given(history=rounds, sizes=sizes, exclusive=st.booleans(), numeric=st.booleans())
@example(
    history=[(_BLOCKED, _ALIVE), ([Act("edit", 0, 0), _UNBLOCKED], _ALIVE)],
    sizes=dict.fromkeys(WAYS, 2),
    exclusive=False,
    numeric=False,
)
@example(
    history=[(_BLOCKED, _ALIVE), ([Act("delete", 0, 0), _UNBLOCKED], _ALIVE)],
    sizes=dict.fromkeys(WAYS, 2),
    exclusive=False,
    numeric=False,
)
@example(
    history=[
        ([Act("comment", 2, 0)], _ALIVE),
        ([Act("track", 2, 0), Act("edit", 0, 0)], _ALIVE),
    ],
    sizes=dict.fromkeys(WAYS, 2),
    exclusive=False,
    numeric=False,
)
def test_every_polling_mode_ingests_what_a_full_scan_at_each_poll_shows(
    history: list[Any], sizes: dict[str, int], exclusive: bool, numeric: bool
) -> None:
    world = World()
    world.github.settings.since_exclusive = exclusive
    world.github.settings.numeric_links_from_page = 2 if numeric else None
    world.github.settings.anonymous_limit = None
    talkers = Talkers(world)
    references = {way: Reference(world, holds_all=host["mirror"] == "all") for way, host in WAYS.items()}
    with ExitStack() as stack:
        benches = {way: stack.enter_context(opened(world, sizes[way], **host)) for way, host in WAYS.items()}
        for bench in benches.values():
            bench.track(1, 2)
        for before, deaths in history:
            for act in before:
                talkers.act(act, [*benches.values()])
            if any("review" in act.kind for act in before):
                # A review of a second in which reviews were read already is met when that second is over.
                world.advance(SETTLED_SECONDS)
            for way, bench in benches.items():
                poll_whole(bench, deaths[way])
            statuses = {way: status_of(bench) for way, bench in benches.items()}
            assert all(found == statuses["repo"] for found in statuses.values()), statuses
            for way, bench in benches.items():
                reference, keys = references[way], bench.event_keys()
                reference.scan(statuses[way], tracked_since(bench))
                assert len(keys) == len(set(keys)), way
                assert set(keys) == reference.keys, way
                assert stored_commands(bench) == reference.commands, way


turns = st.tuples(
    st.sampled_from(tuple(WAYS)),
    st.lists(acts, max_size=6),
    st.lists(st.tuples(st.integers(0, 25), interruptions), max_size=5),
    st.none() | st.integers(0, 60),
)


@examples(few=25, many=600)
@given(history=st.lists(turns, min_size=1, max_size=6), per_page=st.integers(2, 5), skew_ms=st.sampled_from(SKEWS))
@example(
    history=[
        ("repo", [Act("remark", 2, 0), Act("tick", 0, 1)], [], None),
        ("all", [Act("track", 14, 0)], [], None),
    ],
    per_page=2,
    skew_ms=0,
)
def test_no_version_is_lost_or_repeated_when_polls_fail_or_the_polling_mode_changes(
    history: list[Any], per_page: int, skew_ms: int
) -> None:
    world = World()
    world.github.settings.anonymous_limit = None
    talkers = Talkers(world)
    with opened(world, per_page, mirror="followed") as bench:
        bench.skew_ms = skew_ms
        bench.track(1)
        for way, before, during, death in history:
            bench.host |= {"incremental": True, **WAYS[way]}
            for act in before:
                talkers.act(act, [bench])
            steady = _poll_while_it_changes(bench, talkers, during, death)
            assert not steady - _stored(bench), f"lost by a poll that finished, by {way}"
        world.advance(600)
        bench.host |= {"incremental": True}
        for _ in range(2):
            poll_whole(bench)
        followed = {number for number, status in status_of(bench).items() if status == "awaiting_feedback"}
        assert not _wanted(world, followed) - _stored(bench), "lost in the end"
        _check_no_effect_twice(bench, talkers)


def _poll_while_it_changes(
    bench: Bench, talkers: Talkers, during: list[tuple[int, Act]], death: int | None
) -> set[tuple[str, int, str]]:
    """Poll once; return what stood unchanged from before it to after it, and has to be stored if it finished.

    Not reviews: one of a second in which reviews were read already is met when that second is over.
    """
    world, served, before = bench.world, [0], _wanted(bench.world, {1, 2, 3})
    ended = {number for number, status in status_of(bench).items() if status in TERMINAL}

    def strike(_request: Request) -> None:
        for place, act in during:
            if place == served[0]:
                talkers.act(act, [])
        served[0] += 1

    world.before_request.append(strike)
    report = bench.poll_all(reaper=Reaper(death))
    world.before_request.remove(strike)
    if report is None or any(repo.error or repo.failures or repo.unfinished for repo in report.repos):
        return set()
    # Of one that ended by this poll, too: it was read to its end first.
    followed = {number for number, status in status_of(bench).items() if status != "blocked"} - ended
    return {name for name in before & _wanted(world, followed) if name[0] != "review_summary"}


def _wanted(world: World, numbers: set[int]) -> set[tuple[str, int, str]]:
    return {_name(version) for version in visible(world) if version.number in numbers and version.author == "octo"}


def _name(version: Version) -> tuple[str, int, str]:
    return version.kind, version.id, version.body


def _stored(bench: Bench) -> set[tuple[str, int, str]]:
    return {(kind, key, body) for kind, key, body in bench.read("SELECT kind, comment_id, body FROM feedback_events")}


def _check_no_effect_twice(bench: Bench, talkers: Talkers) -> None:
    bodies = bench.bodies()
    assert len(bodies) == len(set(bodies)), "one version became two events"
    assert set(bodies) <= talkers.bodies
    commands = bench.read("SELECT body FROM operator_commands")
    assert len(commands) == len(set(commands))
