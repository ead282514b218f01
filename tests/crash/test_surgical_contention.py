"""Surgical syncs as real processes, beside others that write, and under every signal: held, interrupted, killed."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
from tests.crash.stage import PROJECTS, Ended, Stage, open_stage, wait_until
from tests.databases.samples import TABLES
from tests.support.deep import gate_cases

from tidelore.engine.crashpoint import Seam
from tidelore_world.gitlab.state import Kind
from tidelore_world.world import World

HERE = PROJECTS[0]
ITEMS = ("--issue", f"{HERE}#1", "--issue", f"{HERE}#2", "--mr", f"{HERE}!1")
SURGICAL = ("--full", "sync", *ITEMS, "--robot")
NAMED = [["issue", 1], ["issue", 2], ["merge_request", 1]]
LISTS: tuple[Kind, ...] = ("issues", "merge_requests")
DIALECTS = ("sqlite", "postgres")
SETTINGS = {"LORE_HTTP_PER_PAGE": "100"}
CONTROL = {"sync_runs", "leases"}
CONTENT = tuple(table for table in TABLES if table not in CONTROL)
FREE = [(None,)]

Case: TypeAlias = tuple[Seam | None, Seam, int]
"""The seam after which visits are counted, the seam, and its how manieth visit."""
COMMITS = (Seam.BEFORE_COMMIT, Seam.INSIDE_COMMIT, Seam.AFTER_COMMIT)
INGESTING: list[Case] = [(None, seam, 1) for seam in COMMITS]
PHASES: dict[str, Case] = {
    "preflight": (None, Seam.RUN_STARTED, 1),
    "before-ingest": (None, Seam.AFTER_PREFLIGHT, 1),
    "ingest": (None, Seam.LEASE_ACQUIRED, 1),
    "dependents": (None, Seam.AFTER_FETCH, 2),
    "docs": (None, Seam.DOCUMENTS, 1),
    "embed": (None, Seam.LEASE_RELEASED, 1),
}
IN_FLIGHT = {
    "preflight": re.compile(r"^/api/v4/projects/\d+/issues$"),
    "dependents": re.compile(r"/merge_requests/1/discussions$"),
}
"""What is asked for in a phase: a signal may come while the answer is still on its way."""
KILLED: list[Case] = [
    (None, Seam.RUN_STARTED, 1),
    (None, Seam.AFTER_PREFLIGHT, 1),
    (None, Seam.LEASE_ACQUIRED, 1),
    *INGESTING,
    *((Seam.AFTER_FETCH, seam, visit) for seam in (Seam.AFTER_FETCH, *COMMITS) for visit in (1, 5)),
    (None, Seam.DOCUMENTS, 1),
    *((Seam.DOCUMENTS, seam, 1) for seam in COMMITS),
    (None, Seam.LEASE_RELEASED, 1),
    *((Seam.LEASE_RELEASED, seam, 1) for seam in COMMITS),
    (None, Seam.BEFORE_FINISH, 1),
    (None, Seam.AFTER_FINISH, 1),
]
ELSEWHERE = {Seam.PROJECT_RESOLVED, Seam.SCOPE_DONE, Seam.BEFORE_POST, Seam.AFTER_POST}
"""The seams that a surgical sync does not pass: those of walks and of posting."""
Before: TypeAlias = Literal["nothing", "an older copy"]


def name_of(part: object) -> str:
    if not isinstance(part, tuple):
        return str(part).replace(" ", "-")
    within, seam, visit = part
    return f"{seam}-{visit}" if within is None else f"{within}-{seam}-{visit}"


def build_world() -> World:
    world = World()
    for path in PROJECTS:
        world.gitlab.create_project(path)
        world.gitlab.bulk(path, 3, 3, discussions=2, notes=2, events=1, files=2)
    world.advance(3600)
    return world


def change_the_world(world: World, title: str = "what is true now") -> None:
    """Edit all items of one project: those that are named, and others."""
    forge = world.gitlab
    with world.lock:
        world.advance(3600)
        for iid in (1, 2, 3):
            forge.edit_issue(HERE, iid, title=title)
            forge.add_note(forge.issue(HERE, iid), "The tide tables of the old harbour office are the ones to trust.")
            forge.edit_merge_request(HERE, iid, title=title)
        world.advance(3600)


@pytest.fixture
def staged(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Stage]]:
    """The world beside a database of the dialect a case names; nothing is in it, or a copy that is behind."""
    with ExitStack() as stack:

        def stage(dialect: str, before: Before = "an older copy") -> Stage:
            address = request.getfixturevalue(f"migrated_{dialect}_address")
            opened = stack.enter_context(open_stage(address, tmp_path, build_world(), SETTINGS))
            if before == "an older copy":
                assert opened.lore("sync").code == 0
                change_the_world(opened.world)
            return opened

        yield stage


def content(stage: Stage) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table but the ledger and the lease."""
    with stage.database() as database:
        return {table: sorted(database.read(f"SELECT * FROM {table}"), key=repr) for table in CONTENT}


def titles(stage: Stage) -> dict[int, str]:
    return dict(
        stage.rows(
            "SELECT i.iid, i.title FROM issues i JOIN projects p ON p.id = i.project_id WHERE p.path = :path", path=HERE
        )
    )


def newest_run(stage: Stage, *columns: str) -> tuple[Any, ...]:
    return stage.rows(f"SELECT {', '.join(columns)} FROM sync_runs ORDER BY id DESC LIMIT 1")[0]


def assert_everything_is_told(stage: Stage) -> None:
    """The copy is the forge's truth, and each document is that of its source and has vectors of its content."""
    for resource in LISTS:
        stage.assert_copy_is_true(resource)
    assert stage.rows("SELECT * FROM dirty_sources") == []
    told = stage.lore("generate-docs", "--full", "--robot").data
    assert told == {"regenerated": 0, "unchanged": told["unchanged"], "removed": 0, "failed": 0}
    behind = (
        "SELECT d.id FROM documents d LEFT JOIN embeddings e ON e.document_id = d.id AND e.position = 0"
        " WHERE e.content_hash IS NULL OR e.content_hash <> d.content_hash"
    )
    assert stage.rows(behind) == []
    assert stage.rows("SELECT COUNT(*) FROM documents") == [(told["unchanged"],)]


def refused(loser: Ended, winner_pid: int) -> None:
    """Check that a process ended because another holds the lease, and names it."""
    assert (loser.code, loser.error["code"]) == (3, "LOCK_HELD"), loser
    details = loser.error["details"]
    assert (details["holder_pid"], details["holder_host"]) == (winner_pid, os.uname().nodename)
    assert details["holder_command"] == "lore sync"
    assert str(winner_pid) in loser.error["message"]
    assert loser.document["data"]["completion_status"] == "failed"


# Two at once.


def second_beside_a_holder(stage: Stage) -> None:
    first = stage.lore_held_at(Seam.LEASE_ACQUIRED, 1, *SURGICAL)
    before = content(stage)
    refused(stage.lore("sync", "--issue", f"{HERE}#3", "--mr", f"{HERE}!2", "--robot"), first.pid)
    assert content(stage) == before
    status, phase, finished_at, error, ingested = newest_run(
        stage, "status", "phase", "finished_at", "error", "issues_ingested + mrs_ingested"
    )
    assert (status, phase, ingested) == ("failed", "failed", 0)
    assert finished_at is not None
    assert f"pid {first.pid}" in error
    assert stage.rows("SELECT holder_pid FROM leases WHERE holder_pid IS NOT NULL") == [(first.pid,)], (
        "not the loser's to give back"
    )
    done = first.go_on()
    assert (done.code, done.data["processed_count"]) == (0, 3), done
    assert {titles(stage)[iid] for iid in (1, 2)} == {"what is true now"}
    assert titles(stage)[3] != "what is true now", "the loser's item"
    assert stage.rows("SELECT DISTINCT holder_host FROM leases") == FREE


def test_a_second_surgical_sync_names_the_first_and_writes_nothing(staged: Callable[..., Stage]) -> None:
    second_beside_a_holder(staged("sqlite"))


@pytest.mark.deep
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_second_surgical_sync_writes_nothing_on_either_database(staged: Callable[..., Stage], dialect: str) -> None:
    second_beside_a_holder(staged(dialect))


@pytest.mark.deep
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("count", [2, 5])
def test_of_surgical_syncs_that_start_writing_at_once_one_does(
    staged: Callable[..., Stage], dialect: str, count: int
) -> None:
    stage = staged(dialect)
    racers = [stage.lore_held_at(Seam.AFTER_PREFLIGHT, 1, *SURGICAL) for _ in range(count)]
    # So that whoever is first keeps the lease until all others have asked for it.
    stage.world.faults.add("slow", re.compile("/discussions$"), 1, seconds=3.0)
    for racer in racers:
        racer.signal(signal.SIGCONT)
    wait_until(lambda: sum(racer.running for racer in racers) <= 1)
    (winner,) = [racer for racer in racers if racer.running]
    for loser in racers:
        if loser is not winner:
            refused(loser.wait(), winner.pid)
    won = winner.wait()
    assert (won.code, won.data["processed_count"]) == (0, 3), won
    assert sorted(stage.run_statuses()[1:]) == ["failed"] * (count - 1) + ["succeeded"]
    assert stage.lore("sync").code == 0
    assert_everything_is_told(stage)


# A normal sync beside it.


def normal_sync_beside(stage: Stage, within: Seam | None, seam: Seam, visit: int, phase: str) -> None:
    held = stage.lore_held_at(seam, visit, *SURGICAL, after=within)
    assert newest_run(stage, "mode", "status", "phase") == ("surgical", "running", phase)
    assert stage.rows("SELECT DISTINCT holder_host FROM leases") == FREE
    beside = stage.lore("sync", "--robot")
    assert beside.code == 0, beside
    assert (beside.data["lease"], beside.data["crashed_runs_closed"]) == ("free", [])
    done = held.go_on()
    assert done.code == 0, done
    assert [outcome["completed"] for outcome in done.data["entity_outcomes"]] == [True] * 3
    assert stage.run_statuses() == ["succeeded"] * 3
    assert stage.rows("SELECT DISTINCT holder_host FROM leases") == FREE
    assert_everything_is_told(stage)


WITHOUT_LEASE: list[tuple[Case, str]] = [
    ((None, Seam.RUN_STARTED, 1), "preflight"),
    ((None, Seam.AFTER_PREFLIGHT, 1), "preflight"),
    # The phase is entered after the lease was given back.
    ((None, Seam.LEASE_RELEASED, 1), "docs"),
    ((Seam.LEASE_RELEASED, Seam.BEFORE_COMMIT, 1), "embed"),
    ((Seam.LEASE_RELEASED, Seam.AFTER_COMMIT, 1), "embed"),
]


@pytest.mark.parametrize(("case", "phase"), [WITHOUT_LEASE[1], WITHOUT_LEASE[3]], ids=name_of)
@gate_cases(1)
def test_a_normal_sync_gets_the_lease_while_a_surgical_one_does_not_hold_it(
    staged: Callable[..., Stage], case: Case, phase: str
) -> None:
    normal_sync_beside(staged("sqlite"), *case, phase)


@pytest.mark.deep
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("case", "phase"), WITHOUT_LEASE, ids=name_of)
def test_a_normal_sync_gets_the_lease_in_every_phase_without_a_surgical_lease(
    staged: Callable[..., Stage], case: Case, phase: str, dialect: str
) -> None:
    normal_sync_beside(staged(dialect), *case, phase)


def overtaken(stage: Stage, newer: bool) -> None:
    """Let a normal sync see, or change, what was fetched before it is stored."""
    held = stage.lore_held_at(Seam.AFTER_PREFLIGHT, 1, *SURGICAL)
    if newer:
        change_the_world(stage.world, "the stored version is newer")
    assert stage.lore("sync", "--no-embed").code == 0
    before = content(stage)
    done = held.go_on()
    assert done.code == 0, done
    assert (done.data["skipped_stale"], done.data["skipped_stale_iids"]) == (3, NAMED)
    assert (done.data["fetched_count"], done.data["processed_count"], done.data["children"]) == (3, 0, {})
    assert content(stage) == before, "the fresher rows stay, and so does what belongs to them"
    assert set(titles(stage).values()) == {"the stored version is newer" if newer else "what is true now"}
    assert stage.rows(
        "SELECT issues_fetched, mrs_fetched, issues_ingested, mrs_ingested, skipped_stale FROM sync_runs"
        " WHERE mode = 'surgical'"
    ) == [(2, 1, 0, 0, 3)]
    assert stage.lore("sync", "--retry-failed", str(done.data["run_id"]), "--robot").data["requested_count"] == 0


def test_rows_seen_by_a_concurrent_normal_sync_are_kept(staged: Callable[..., Stage]) -> None:
    overtaken(staged("sqlite"), newer=False)


@pytest.mark.deep
@pytest.mark.parametrize("newer", [True, False], ids=["newer", "of-the-same-instant"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_rows_stored_by_a_concurrent_normal_sync_are_kept_on_either_database(
    staged: Callable[..., Stage], newer: bool, dialect: str
) -> None:
    overtaken(staged(dialect), newer)


# Signals.


def assert_cancelled(stage: Stage, ended: Ended) -> None:
    assert ended.code == 130, ended
    assert ended.error["code"] == "INTERRUPTED"
    assert ended.document["data"]["completion_status"] == "cancelled"
    status, phase, started_at, cancelled_at, finished_at = newest_run(
        stage, "status", "phase", "started_at", "cancelled_at", "finished_at"
    )
    assert (status, phase) == ("cancelled", "cancelled")
    assert started_at <= cancelled_at <= finished_at
    assert "running" not in stage.run_statuses()
    assert all(row == (None,) for row in stage.rows("SELECT holder_host FROM leases"))


def go_on_after(stage: Stage, run_id: int) -> None:
    """Repeat what a run left, then sync; the copy is true, and what was named was so before the others."""
    again = stage.lore("sync", "--retry-failed", str(run_id), "--robot")
    assert again.code == 0, again
    assert {titles(stage)[iid] for iid in (1, 2)} == {"what is true now"}
    assert stage.lore("sync").code == 0
    assert "running" not in stage.run_statuses()
    assert_everything_is_told(stage)


def interrupted(stage: Stage, case: Case, number: signal.Signals) -> None:
    within, seam, visit = case
    held = stage.lore_held_at(seam, visit, *SURGICAL, after=within)
    held.signal(number)
    assert_cancelled(stage, held.go_on())


def test_sigint_while_items_are_stored_cancels_the_run_cleanly(staged: Callable[..., Stage]) -> None:
    interrupted(staged("sqlite"), PHASES["ingest"], signal.SIGINT)


@pytest.mark.deep
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("phase", PHASES)
def test_a_signal_in_any_phase_cancels_a_surgical_sync_cleanly(
    staged: Callable[..., Stage], phase: str, dialect: str, number: signal.Signals
) -> None:
    stage = staged(dialect)
    before = content(stage)
    interrupted(stage, PHASES[phase], number)
    assert (content(stage) == before) is (phase in {"preflight", "before-ingest"})
    go_on_after(stage, 2)


@pytest.mark.deep
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("phase", IN_FLIGHT)
def test_sigint_during_a_request_ends_the_run_at_once(staged: Callable[..., Stage], phase: str, dialect: str) -> None:
    stage = staged(dialect)
    slow = stage.world.faults.add("slow", IN_FLIGHT[phase], 1, seconds=20.0)
    process = stage.start(*SURGICAL)
    wait_until(lambda: slow.fired == 1)
    assert newest_run(stage, "phase", "status") == (phase, "running")
    process.signal(signal.SIGINT)
    assert_cancelled(stage, process.wait())
    stage.world.faults.clear()
    go_on_after(stage, 2)


def die_and_go_on(stage: Stage, case: Case, run_id: int) -> None:
    within, seam, visit = case
    killed = stage.lore_killed_at(seam, visit, *SURGICAL, after=within)
    assert killed.code == -signal.SIGKILL, killed
    if seam is not Seam.AFTER_FINISH:
        assert newest_run(stage, "status", "finished_at") == ("running", None)
    go_on_after(stage, run_id)
    (row,) = stage.rows("SELECT status, finished_at, mode FROM sync_runs WHERE id = :id", id=run_id)
    assert row == ("succeeded" if seam is Seam.AFTER_FINISH else "crashed", row[1], "surgical")
    assert row[1] is not None
    assert stage.rows("SELECT DISTINCT holder_host FROM leases") == FREE


def test_a_surgical_sync_killed_while_storing_can_be_repeated(staged: Callable[..., Stage]) -> None:
    die_and_go_on(staged("sqlite"), (None, Seam.INSIDE_COMMIT, 1), 2)


@pytest.mark.deep
@pytest.mark.parametrize("before", ["nothing", "an older copy"])
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("case", KILLED, ids=name_of)
def test_a_surgical_sync_killed_at_any_seam_can_be_repeated(
    staged: Callable[..., Stage], case: Case, dialect: str, before: Before
) -> None:
    stage = staged(dialect, before)
    if before == "nothing":
        change_the_world(stage.world)
    die_and_go_on(stage, case, 1 if before == "nothing" else 2)


def test_the_kill_cases_cover_every_seam_of_a_surgical_sync(staged: Callable[..., Stage]) -> None:
    visits = staged("sqlite").count_visits(*SURGICAL)
    assert {seam for seam, (times, _) in visits.items() if times} == {seam for _, seam, _ in KILLED}
    assert {seam for _, seam, _ in KILLED} | ELSEWHERE == set(Seam)
