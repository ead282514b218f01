"""Followed pull requests with their history, positions under their documented names, durable commits, counters."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.databases.feedback_samples import NOW, REPO, add_threads, cursor_at, feed, followed, pull, repository

from tidelore.core.errors import IllegalTransition, IntegrityError
from tidelore.core.model import Position
from tidelore.engine.cursor import Census, Cursor, Validator, Window
from tidelore.engine.ports import Parent
from tidelore.store.database.port import Database
from tidelore.store.mirror.child_progress import record_read
from tidelore.store.mirror.cursors import (
    THREADS,
    forget_thread,
    list_poll_cursors,
    load_cursor,
    save_cursor,
    thread_scope,
    transfer_position,
)
from tidelore.store.mirror.kinds import MERGE_REQUEST
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.service_records import add_to_counter, read_counters
from tidelore.store.work.tracked_pull_requests import (
    TrackedPr,
    begin_judging,
    find_tracked,
    history,
    list_tracked,
    mirrored_pulls,
    move,
    note_pull,
    set_head,
    set_paused,
    set_scan_due,
    track,
    untrack,
)


@pytest.fixture
def project(database: Database) -> ProjectRow:
    return repository(database)


@pytest.fixture
def tracked(database: Database, project: ProjectRow) -> TrackedPr:
    return followed(database, project, 12)[0]


def test_tracking_a_pull_request_again_changes_only_the_newly_given_fields(
    database: Database, project: ProjectRow, tracked: TrackedPr
) -> None:
    with database.transaction() as tx:
        again = track(tx, project.id, REPO, 12, issue_number=7, tracked_by="rule", now_ms=NOW + 5)
    assert (again.id, again.issue_number, again.tracked_by, again.entered_at) == (tracked.id, 7, "operator", NOW)
    assert [(step.from_status, step.to_status, step.reason) for step in history(database, tracked.id)] == [
        (None, "awaiting_feedback", "tracked")
    ]


def test_tracking_by_an_operator_replaces_tracking_by_a_rule(database: Database, project: ProjectRow) -> None:
    with database.transaction() as tx:
        track(tx, project.id, REPO, 13, issue_number=None, tracked_by="rule", now_ms=NOW)
        track(tx, project.id, REPO, 13, issue_number=None, tracked_by="operator", now_ms=NOW)
    assert [row.tracked_by for row in list_tracked(database)] == ["operator"]


def test_a_terminal_pull_request_stays_terminal_when_tracked_again(
    database: Database, project: ProjectRow, tracked: TrackedPr
) -> None:
    with database.transaction() as tx:
        move(tx, tracked, "merged", "merged", None, NOW + 1)
        again = track(tx, project.id, REPO, 12, issue_number=None, tracked_by="operator", now_ms=NOW + 2)
    assert (again.status, again.entered_at) == ("merged", NOW + 1)


def test_every_status_change_is_recorded_and_blocking_keeps_its_reason(database: Database, tracked: TrackedPr) -> None:
    with database.transaction() as tx:
        blocked = move(tx, tracked, "blocked", "history_rewritten", "a -> b", NOW + 1)
        freed = move(tx, blocked, "awaiting_feedback", "unblocked", None, NOW + 2, last_seen_head_sha="b" * 40)
    assert (blocked.blocked_reason, blocked.blocked_at, blocked.entered_at) == ("history_rewritten", NOW + 1, NOW + 1)
    assert (freed.blocked_reason, freed.blocked_at, freed.last_seen_head_sha) == (None, None, "b" * 40)
    assert [(step.to_status, step.detail, step.at) for step in history(database, tracked.id)] == [
        ("awaiting_feedback", "by operator", NOW), ("blocked", "a -> b", NOW + 1), ("awaiting_feedback", None, NOW + 2),
    ]  # fmt: skip


def test_a_status_change_based_on_a_stale_status_is_refused_without_history(
    database: Database, tracked: TrackedPr
) -> None:
    with database.transaction() as tx:
        move(tx, tracked, "closed", "closed", None, NOW)
    with pytest.raises(IllegalTransition), database.transaction() as tx:
        move(tx, tracked, "blocked", "operator", None, NOW)
    with pytest.raises(ValueError, match="branch"), database.transaction() as tx:
        move(tx, tracked, "blocked", "operator", None, NOW, branch="x")
    closed = find_tracked(database, tracked.project_id, tracked.pr_number)
    assert closed is not None
    with pytest.raises(IntegrityError), database.transaction() as tx:
        move(tx, closed, "reopened", "nobody", None, NOW)
    assert [step.to_status for step in history(database, tracked.id)] == ["awaiting_feedback", "closed"]


def test_a_pull_requests_texts_are_updated_and_its_head_is_set_only_once(
    database: Database, project: ProjectRow, tracked: TrackedPr
) -> None:
    with database.transaction() as tx:
        seen = note_pull(tx, tracked, pull(), NOW + 1)
        later = note_pull(tx, seen, pull(title="New", head_sha="b" * 40, updated_at=NOW + 9), NOW + 2)
        stale = note_pull(tx, later, pull(title="Old", updated_at=NOW + 3), NOW + 3)
    assert (seen.title, seen.branch, seen.last_seen_head_sha, seen.pull_updated_at) == (
        "Move the crane", "crane", "a" * 40, NOW,
    )  # fmt: skip
    assert (later.title, later.last_seen_head_sha, later.pull_updated_at) == ("New", "a" * 40, NOW + 9)
    assert stale == later
    with database.transaction() as tx:
        set_head(tx, tracked.id, "b" * 40, NOW + 4)
    found = find_tracked(database, project.id, 12)
    assert found is not None
    assert found.last_seen_head_sha == "b" * 40


def test_stored_comments_are_judged_once_after_tracking_and_after_each_unblock(
    database: Database, tracked: TrackedPr
) -> None:
    with database.transaction() as tx:
        assert [begin_judging(tx, tracked.id) for _ in range(2)] == [0, None]
        blocked = move(tx, tracked, "blocked", "operator", None, NOW + 1)
        assert begin_judging(tx, tracked.id) is None
        move(tx, blocked, "awaiting_feedback", "unblocked", None, NOW + 2, judge_from=NOW)
    with database.transaction() as tx:
        assert [begin_judging(tx, tracked.id) for _ in range(2)] == [NOW, None]


def test_a_transaction_that_fails_while_judging_leaves_the_comments_to_be_judged(
    database: Database, tracked: TrackedPr
) -> None:
    def judge_and_fail() -> None:
        with database.transaction() as tx:
            assert begin_judging(tx, tracked.id) == 0
            raise KeyError("anything")

    with pytest.raises(KeyError):
        judge_and_fail()
    with database.transaction() as tx:
        assert begin_judging(tx, tracked.id) == 0


def test_the_threads_of_a_pull_request_stay_due_until_they_were_scanned(
    database: Database, project: ProjectRow, tracked: TrackedPr
) -> None:
    def is_due() -> int:
        found = find_tracked(database, project.id, 12)
        assert found is not None
        return found.scan_due

    assert is_due() == 0
    for due in (True, True, False):
        with database.transaction() as tx:
            set_scan_due(tx, tracked.id, due=due)
        assert is_due() == due


def test_a_pull_request_is_read_once_its_comments_and_reviews_were_read_for_its_version(
    database: Database, project: ProjectRow, tracked: TrackedPr
) -> None:
    assert mirrored_pulls(database, project.id) == []
    add_threads(database, project, pulls=(12, 13))
    (one,) = mirrored_pulls(database, project.id)
    assert (one.tracked.pr_number, one.pull.number, one.pull.updated_at, one.is_read) == (12, 12, NOW, False)
    for kind in ("comments", "reviews", "discussions"):
        assert not mirrored_pulls(database, project.id)[0].is_read
        read(database, project, kind)
    assert mirrored_pulls(database, project.id)[0].is_read
    with database.transaction() as tx:
        tx.execute("UPDATE merge_requests SET merged_at = :now WHERE iid = 12", {"now": NOW})
    assert mirrored_pulls(database, project.id)[0].pull.state == "merged"
    with database.transaction() as tx:
        move(tx, tracked, "merged", "merged", None, NOW)
    assert mirrored_pulls(database, project.id) == []


def read(database: Database, project: ProjectRow, kind: str) -> None:
    """Count the children of one kind of pull request 12 as read."""
    ((row_id, updated_at),) = database.read("SELECT id, updated_at FROM merge_requests WHERE iid = 12")
    with database.transaction() as tx:
        parent = Parent(row_id, 12, updated_at, None, None)
        record_read(tx, MERGE_REQUEST, kind, project.id, [parent], settled=True, now_ms=NOW)


def test_pausing_returns_whether_anything_changed(database: Database, tracked: TrackedPr) -> None:
    with database.transaction() as tx:
        assert [set_paused(tx, tracked.id, state, NOW) for state in (True, True, False, False)] == [
            True, False, True, False,
        ]  # fmt: skip


def test_tracked_lists_are_filtered_by_repository_project_and_status(database: Database, project: ProjectRow) -> None:
    other = repository(database, 2, "port/quay")
    rows = [*followed(database, project, 2, 1), *followed(database, other, 3)]
    with database.transaction() as tx:
        move(tx, rows[0], "closed", "closed", None, NOW)
    assert [row.pr_number for row in list_tracked(database)] == [1, 2, 3]
    assert [row.pr_number for row in list_tracked(database, repo="PORT/quay")] == [3]
    assert [row.pr_number for row in list_tracked(database, project_id=project.id, statuses={"closed"})] == [2]
    assert list_tracked(database, statuses=()) == []


def test_untracking_a_pull_request_deletes_its_history(
    database: Database, project: ProjectRow, tracked: TrackedPr
) -> None:
    with database.transaction() as tx:
        assert untrack(tx, tracked.id)
        assert not untrack(tx, tracked.id)
    assert find_tracked(database, project.id, 12) is None
    assert history(database, tracked.id) == []


VIEW = (
    "repo_full_name", "surface", "scope_number", "last_updated_at", "last_comment_id", "bootstrap_complete",
    "updated_at",
)  # fmt: skip


def test_the_documented_view_shows_comment_cursors_and_nothing_else(database: Database, project: ProjectRow) -> None:
    stands = {
        feed(project): cursor_at(1_767_323_045_000, 41),
        feed(project, "pr_review_comments", 12): Cursor(),
        feed(project, "issue_operator_commands", 7): replace(cursor_at(2**61, 3), complete=False),
        replace(feed(project), surface="gitlab.issues"): cursor_at(),
    }
    with database.transaction() as tx:
        for scope, cursor in stands.items():
            save_cursor(tx, scope, cursor, 1_767_323_045_678)
    rows = database.read(f"SELECT {', '.join(VIEW)} FROM github_comment_poll_cursors ORDER BY scope_number")
    stamp = "2026-01-02T03:04:05.678Z"
    assert rows == [
        (REPO, "issue_comments", 0, "2026-01-02T03:04:05Z", 41, 1, stamp),
        (REPO, "issue_operator_commands", 7, None, 3, 0, stamp),
        (REPO, "pr_review_comments", 12, None, None, 0, stamp),
    ]
    assert len(database.read("SELECT * FROM github_comment_poll_cursors")[0]) == len(VIEW)


def test_a_position_is_found_by_its_documented_surface_name(database: Database, project: ProjectRow) -> None:
    near = repository(database, 11, f"{REPO}-annex")
    with database.transaction() as tx:
        for scope in (feed(project, "pr_issue_comments", 12), feed(project), feed(near), feed(near, THREADS[0], 1)):
            save_cursor(tx, scope, cursor_at(NOW, 9), NOW)
    whole, found = list_poll_cursors(database, project.id)
    assert (whole.surface, whole.scope_number) == ("issue_comments", 0)
    assert (found.surface, found.scope_number) == ("pr_issue_comments", 12)
    assert (found.last_updated_at, found.last_comment_id, found.bootstrap_complete) == (NOW, 9, True)
    assert [row.scope_number for row in list_poll_cursors(database, near.id)] == [0, 1]
    with database.transaction() as tx:
        assert [forget_thread(tx, project.id, project.remote_id, 12) for _ in range(2)] == [1, 0]
        assert forget_thread(tx, project.id, near.remote_id, 1) == 0, "of another repository"
    assert [row.surface for row in list_poll_cursors(database, project.id)] == ["issue_comments"]
    assert len(list_poll_cursors(database, near.id)) == 2


@pytest.mark.parametrize("surface", ["issue_comments", "review_comments", "merge_requests", "issues"])
def test_a_list_of_a_whole_repository_is_not_one_of_a_thread(surface: str) -> None:
    with pytest.raises(ValueError, match=surface):
        thread_scope("github", 1, 1, surface, 12)


def test_a_position_is_only_handed_over_forward_and_restarts_reading(database: Database, project: ProjectRow) -> None:
    scope = feed(project, "pr_issue_comments", 12)
    busy = Cursor(
        Position(NOW, 9), Window(NOW, NOW), Validator("https://forge.test", "x"), complete=True, census=Census(after=3)
    )

    def hand_over(at: int | None, *, complete: bool) -> Cursor:
        with database.transaction() as tx:
            moved = transfer_position(tx, scope, at, complete=complete, now_ms=NOW)
        assert load_cursor(database, scope).watermark == moved
        return load_cursor(database, scope)

    assert hand_over(None, complete=False) == Cursor()
    assert hand_over(None, complete=True) == Cursor(complete=True), "complete without a watermark: there is no comment"
    with database.transaction() as tx:
        save_cursor(tx, scope, busy, NOW)
    assert hand_over(NOW - 1, complete=True) == busy
    assert hand_over(NOW, complete=True) == busy, "the same instant does not move it back to the first id"
    assert hand_over(NOW, complete=False) == replace(busy, window=None, validator=None, complete=False)
    assert hand_over(NOW + 1, complete=True) == Cursor(Position(NOW + 1, 0), complete=True, census=Census(after=3))


def test_a_durable_transaction_syncs_to_disk_and_the_next_one_does_not(database: Database) -> None:
    sqlite = database.dialect == "sqlite"
    level = "PRAGMA synchronous" if sqlite else "SELECT current_setting('synchronous_commit')"
    usual, careful = (1, 2) if sqlite else ("off", "on")
    if not sqlite:
        database.read("SET synchronous_commit = off")
    with database.transaction(durable=True) as tx:
        add_to_counter(tx, "written", {}, 1)
        assert tx.execute(level) == [(careful,)]
    assert database.read(level) == [(usual,)]
    with pytest.raises(IntegrityError), database.transaction(durable=True) as tx:
        tx.execute("INSERT INTO labels (project_id, name) VALUES (4711, 'orphan')")
    assert database.read(level) == [(usual,)]
    with database.transaction() as tx:
        assert tx.execute(level) == [(usual,)]
    assert [(counter.name, counter.value) for counter in read_counters(database)] == [("written", 1)]


def test_counters_are_summed_per_normalised_label_set(database: Database) -> None:
    with database.transaction() as tx:
        add_to_counter(tx, "seen", {"b": "2", "a": "é"}, 2)
        add_to_counter(tx, "seen", {"a": "é", "b": "2"}, 3)
        add_to_counter(tx, "seen", {}, 0)
        add_to_counter(tx, "done", {}, 1)
    found = [(counter.name, counter.labels, counter.value) for counter in read_counters(database)]
    assert found == [("done", {}, 1), ("seen", {"a": "é", "b": "2"}, 5)]
