"""A real process, killed at every seam and started again: nothing lost, nothing doubled, little repeated."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from math import ceil
from pathlib import Path

import pytest
from tests.crash.conftest import Uninterrupted
from tests.crash.stage import CONCURRENCY, PER_PAGE, PROJECTS, TOGETHER, Stage, open_stage
from tests.properties.progress import Task, asked_for, completed
from tests.support.deep import gate_cases

from tidelore.engine.child_batch import MOST_TOGETHER
from tidelore.engine.crashpoint import Seam
from tidelore_world.gitlab.state import Kind

ONCE = (Seam.LEASE_ACQUIRED, Seam.RUN_STARTED, Seam.BEFORE_FINISH, Seam.AFTER_FINISH)
PER_SCOPE = (Seam.PROJECT_RESOLVED, Seam.SCOPE_DONE)
PER_PAGE_READ = (Seam.AFTER_FETCH, Seam.BEFORE_COMMIT, Seam.INSIDE_COMMIT, Seam.AFTER_COMMIT)
IN_LISTS = ("first", "second", "middle", "late", "last")
IN_CHILDREN = ("first-child", "middle-child", "last-child")
PLACES = {
    **dict.fromkeys(ONCE, ("first",)),
    **dict.fromkeys(PER_SCOPE, ("first", "last")),
    **dict.fromkeys(PER_PAGE_READ, (*IN_LISTS, *IN_CHILDREN)),
}
DIALECTS = ("sqlite", "postgres")
LISTS: tuple[Kind, ...] = ("issues", "merge_requests")
ELSEWHERE = {Seam.AFTER_PREFLIGHT, Seam.DOCUMENTS, Seam.LEASE_RELEASED, Seam.BEFORE_POST, Seam.AFTER_POST}
"""The seams of what `ingest` does not do: single items, documents and vectors (test_kill_documents.py), posting
(test_outbound.py).
"""
CHANGED = 6
"""How many items are edited or made while the process is dead."""
DEAREST = 4
"""Two passes over the two pages of the longest list of children."""
REQUESTS_EACH = 8
"""Discussions, in two passes of two pages at most, three lists of events, closed issues, files."""

EVERY = [(seam, place) for seam, places in PLACES.items() for place in places]
REDUCED = [
    *(("sqlite", seam, "first") for seam in ONCE),
    ("sqlite", Seam.PROJECT_RESOLVED, "first"),
    ("sqlite", Seam.SCOPE_DONE, "first"),
    ("sqlite", Seam.AFTER_FETCH, "late"),
    ("sqlite", Seam.BEFORE_COMMIT, "middle"),
    # Not in the middle: the second pass over a window would bring back what a torn commit lost.
    ("sqlite", Seam.INSIDE_COMMIT, "second"),
    ("sqlite", Seam.AFTER_COMMIT, "late"),
    ("sqlite", Seam.AFTER_FETCH, "middle-child"),
    ("sqlite", Seam.BEFORE_COMMIT, "last-child"),
    ("sqlite", Seam.INSIDE_COMMIT, "middle-child"),
    ("sqlite", Seam.AFTER_COMMIT, "first-child"),
    ("postgres", Seam.INSIDE_COMMIT, "middle-child"),
    ("postgres", Seam.LEASE_ACQUIRED, "first"),
    ("postgres", Seam.INSIDE_COMMIT, "middle"),
    ("postgres", Seam.BEFORE_FINISH, "first"),
]


@pytest.fixture
def staged(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[str], Stage]]:
    """The standard world beside a database of the dialect a case names."""
    opened = []

    def stage(dialect: str) -> Stage:
        opened.append(open_stage(request.getfixturevalue(f"migrated_{dialect}_address"), tmp_path))
        return opened[-1].__enter__()

    yield stage
    for context in opened:
        context.__exit__(None, None, None)


def test_every_seam_has_kill_points_and_is_visited_often_enough(
    uninterrupted: Callable[[Kind], Uninterrupted],
) -> None:
    assert PLACES.keys() | ELSEWHERE == set(Seam)
    for resource in LISTS:
        visits, lists = uninterrupted(resource).visits, uninterrupted(resource).lists
        assert {seam: visits[seam] for seam in ONCE} == dict.fromkeys(ONCE, 1)
        assert {seam: visits[seam] for seam in PER_SCOPE} == dict.fromkeys(PER_SCOPE, len(PROJECTS))
        assert all(lists[seam] >= 20 for seam in PER_PAGE_READ)
        assert all(visits[seam] - lists[seam] >= 80 for seam in PER_PAGE_READ)


@pytest.mark.parametrize(("dialect", "seam", "place"), REDUCED)
@gate_cases(6)
def test_a_run_killed_at_a_seam_continues_where_it_stopped(
    staged: Callable[[str], Stage],
    uninterrupted: Callable[[Kind], Uninterrupted],
    dialect: str,
    seam: Seam,
    place: str,
) -> None:
    die_and_go_on(staged(dialect), seam, place, "issues", uninterrupted("issues"))


def test_a_run_killed_while_a_commit_is_slow_has_fetched_one_page_ahead_and_repeats_two(sqlite_stage: Stage) -> None:
    """The longest wait before the commit: every list has fetched as far ahead as it may."""
    stage, committed = sqlite_stage, 5
    killed = stage.lore_killed_at(
        Seam.BEFORE_COMMIT, committed + 1, "ingest", "--type", "issues", environ={"SECONDS_BEFORE_DEATH": "0.5"}
    )
    assert killed.code == -signal.SIGKILL, killed
    fetched = stage.list_requests - len(PROJECTS)
    assert fetched == committed + 2 * len(PROJECTS), "of each list one page was being stored, and one was ahead"
    assert stage.lore("ingest", "--type", "issues").code == 0
    stage.assert_copy_is_true("issues")


@pytest.mark.parametrize("visit", [40, 15])
@gate_cases(1)
def test_a_run_killed_inside_a_commit_of_several_parents_leaves_each_parent_whole_or_absent(
    sqlite_stage: Stage, uninterrupted: Callable[[Kind], Uninterrupted], visit: int
) -> None:
    stage, lists = sqlite_stage, uninterrupted("issues").lists[Seam.INSIDE_COMMIT]
    words, together = ("ingest", "--type", "issues"), {"SECONDS_TOGETHER": "5"}
    killed = stage.lore_killed_at(Seam.INSIDE_COMMIT, lists + visit, *words, environ=together)
    assert killed.code == -signal.SIGKILL, killed
    read = "SELECT parent_id FROM child_sync WHERE kind = 'discussions' AND fetched_for IS NOT NULL"
    assert not stage.rows(f"SELECT issue_id FROM discussions WHERE issue_id NOT IN ({read})")
    assert not stage.rows(
        f"SELECT id FROM issues WHERE id IN ({read}) AND user_notes_count > 0"
        " AND id NOT IN (SELECT issue_id FROM discussions)"
    )
    assert stage.lore("ingest", "--type", "issues").code == 0
    stage.assert_copy_is_true("issues")


@pytest.mark.parametrize("seam", [Seam.AFTER_FETCH, Seam.AFTER_COMMIT])
@gate_cases(1)
def test_changes_made_while_the_process_was_dead_are_found(
    staged: Callable[[str], Stage], uninterrupted: Callable[[Kind], Uninterrupted], seam: Seam
) -> None:
    die_and_go_on(staged("sqlite"), seam, "middle", "merge_requests", uninterrupted("merge_requests"), changed=True)


@pytest.mark.deep
@pytest.mark.parametrize("changed", [False, True], ids=["unchanged", "changed"])
@pytest.mark.parametrize("resource", LISTS)
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("seam", "place"), EVERY)
def test_a_run_killed_at_every_seam_and_visit_continues(
    staged: Callable[[str], Stage],
    uninterrupted: Callable[[Kind], Uninterrupted],
    seam: Seam,
    place: str,
    dialect: str,
    resource: Kind,
    changed: bool,
) -> None:
    die_and_go_on(staged(dialect), seam, place, resource, uninterrupted(resource), changed=changed)


@pytest.mark.deep
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_run_killed_repeatedly_still_completes_the_copy(staged: Callable[[str], Stage], dialect: str) -> None:
    """Each life is long enough for a window of several pages: that much of it is confirmed in one go.

    What one life completed of the children stays complete in all lives after it.
    """
    stage = staged(dialect)
    deaths, whole = 0, set[Task]()
    while stage.lore_killed_at(Seam.AFTER_COMMIT, 12, "ingest", "--type", "issues").code == -signal.SIGKILL:
        deaths += 1
        assert deaths < 20, "the walk does not get on"
        with stage.database() as database:
            now = completed(database)
        # The children of what was changed are to be read again.
        assert whole <= now or deaths in {2, 3}
        whole = now
        if deaths in {1, 2}:
            change_the_world(stage, "issues")
    assert deaths >= 2
    assert stage.run_statuses() == ["crashed"] * deaths + ["succeeded"]
    assert stage.lore("ingest", "--type", "issues").code == 0
    stage.assert_copy_is_true("issues")


@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize("seam", [Seam.AFTER_FETCH, Seam.INSIDE_COMMIT])
@gate_cases(2)
def test_a_verification_killed_half_way_tombstones_only_deleted_items(
    sqlite_stage: Stage, seam: Seam, place: str
) -> None:
    stage = sqlite_stage
    assert stage.lore("ingest", "--type", "issues").code == 0
    with stage.world.lock:
        for path in PROJECTS:
            for issue in stage.world.gitlab.truth_issues(path)[2:24:8]:
                stage.world.gitlab.delete_issue(path, issue["iid"])
    killed = stage.lore_killed_at(seam, 1 if place == "first" else 8, "scrub", "--all")
    assert killed.code == -signal.SIGKILL, killed
    again = stage.lore("scrub", "--all", "--robot")
    assert again.code == 0, again
    stage.assert_copy_is_true("issues")
    assert stage.rows("SELECT COUNT(*) FROM issues WHERE deleted_at IS NOT NULL") == [(3 * len(PROJECTS),)]
    assert sorted(stage.payloads()) == sorted(stage.true_payloads("issues")), "what is gone left no payload"


def die_and_go_on(
    stage: Stage, seam: Seam, place: str, resource: Kind, whole: Uninterrupted, *, changed: bool = False
) -> None:
    """Kill a run at one place, start it again, and compare what both did with one run that nothing disturbed."""
    command = ("ingest", "--type", resource)
    killed = stage.lore_killed_at(seam, visit_number(place, whole, seam), *command)
    assert killed.code == -signal.SIGKILL, killed
    assert killed.stdout == ""
    allowed = whole.requests + repeated_at_most(stage, seam)
    with stage.database() as database:
        whole_before = completed(database)
    assert whole_before or place != "middle-child"
    payloads, watermarks = stage.payloads(), stage.watermarks()
    if changed:
        allowed += added_at_most(stage)
        change_the_world(stage, resource)

    stage.world.log.clear()

    restarted = stage.lore(*command, "--robot")

    assert restarted.code == 0, restarted
    if not changed:
        assert not whole_before.intersection(asked_for(stage.world.log))
    assert restarted.data["lease"] == "dead"
    assert stage.run_statuses() == {
        Seam.LEASE_ACQUIRED: ["succeeded"],
        Seam.AFTER_FINISH: ["succeeded", "succeeded"],
    }.get(seam, ["crashed", "succeeded"])
    stage.assert_copy_is_true(resource)
    assert sorted(stage.payloads()) == sorted({*payloads, *stage.true_payloads(resource)})
    assert stage.requests <= allowed
    after = stage.watermarks()
    assert all(after[scope] >= before for scope, before in watermarks.items())
    assert stage.rows("SELECT COUNT(*) FROM leases WHERE holder_host IS NOT NULL") == [(0,)]


def repeated_at_most(stage: Stage, seam: Seam) -> int:
    """Return how many requests a death at this seam may cost, by what the dead process had made durable.

    Before the first request: none. Else two pages for each scope, one that was being stored and one that was fetched
    ahead; the look-up of each project that was asked for
    but not stored yet; and where a window of several pages was being confirmed, the pages of that pass. Of children,
    what was in flight: as many parents as are read at once and as wait for their commit, and the most that one of
    them costs. Statuses once more.
    """
    if seam in {Seam.LEASE_ACQUIRED, Seam.RUN_STARTED}:
        return 0
    unknown = len(PROJECTS) - len(stage.rows("SELECT id FROM projects"))
    confirming = sum(window.pages for window in stage.windows() if window.passes)
    in_flight = len(PROJECTS) * (CONCURRENCY + 2 * MOST_TOGETHER) * DEAREST
    return 2 * len(PROJECTS) + unknown + confirming + in_flight + len(PROJECTS)


def added_at_most(stage: Stage) -> int:
    """Return how many requests the changes of `change_the_world` add to those of an unchanged world.

    They stand at the end of one list and fill two pages at most. A window that was being read has lost one of its
    items to them: two equal passes over it now take one pass more. What was edited or made has its children read.
    """
    interrupted = any(window.token or window.passes for window in stage.windows())
    return 2 + (ceil(TOGETHER / PER_PAGE) if interrupted else 0) + CHANGED * REQUESTS_EACH


def visit_number(place: str, whole: Uninterrupted, seam: Seam) -> int:
    visits, lists = whole.visits[seam], whole.lists[seam]
    return {
        "first": 1,
        "second": 2,
        "middle": lists // 2,
        "late": lists * 3 // 4,
        "last": lists,
        "first-child": lists + 1,
        "middle-child": (lists + visits) // 2,
        "last-child": visits,
    }[place]


def change_the_world(stage: Stage, resource: Kind) -> None:
    """Edit old, recent and simultaneous items of one project, and make new ones: less than a page in all."""
    noun = resource.removesuffix("s")
    forge, path = stage.world.gitlab, PROJECTS[0]
    with stage.world.lock:
        stage.world.advance(90)
        numbers = [
            item["iid"] for item in stage.truth(resource).values() if item["project_id"] == forge.project(path).id
        ]
        for number in (numbers[0], numbers[len(numbers) // 2], numbers[-3], numbers[-1]):
            getattr(forge, f"edit_{noun}")(path, number)
            stage.world.advance(7)
        for _ in range(CHANGED - 4):
            getattr(forge, f"create_{noun}")(path)
