"""A page of comments, what each of them leads to, and the cursor that covers them are one transaction."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.databases.feedback_rows import count_events, read_action_token
from tests.databases.feedback_samples import (
    NOW,
    REPO,
    TOKEN,
    comment,
    cursor_at,
    event_of,
    everything,
    feed,
    item,
    items,
    pull,
    repository,
)
from tests.support.manual_clock import ManualClock

from tidelore.core.errors import IntegrityError, LeaseLost
from tidelore.core.model import CommentRecord, Item, Rejected, Version
from tidelore.core.process import ProcessIdentity
from tidelore.engine.crashpoint import Crashpoint, Seam, no_seam
from tidelore.engine.cursor import Cursor
from tidelore.engine.intake import Intake
from tidelore.engine.lease import Lease, acquire
from tidelore.engine.ports import Batch, Page
from tidelore.store.database.port import Database, Transaction
from tidelore.store.mirror.cursors import load_cursor, upsert_poll_cursor
from tidelore.store.mirror.feedback_writer import (
    FeedbackWriter,
    IgnoredAuthor,
    Interpret,
    JudgedComment,
    ScanBatch,
    WrittenEffects,
    body_digest,
    count_ignored,
    ignored_authors,
    ignored_comments,
    ingest_feedback_scan_batch,
)
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.events import (
    Effect,
    IgnoredComment,
    NewCommand,
    NewFollowup,
    NewRedirect,
    PlannedReply,
    TokenSeen,
    peek,
)
from tidelore.store.work.followed_issues import follow_issue
from tidelore.store.work.leases import LeaseTable
from tidelore.store.work.outbox import list_outbox, plan
from tidelore.store.work.service_records import add_to_counter, read_counters
from tidelore.store.work.tracked_pull_requests import find_tracked, note_pull, note_reviews_read, track


@pytest.fixture
def project(database: Database) -> ProjectRow:
    found = repository(database)
    with database.transaction() as tx:
        follow_issue(tx, found.id, REPO, 7, now_ms=NOW)
        plan(
            tx, project_id=found.id, repo=REPO, token=TOKEN, scope_kind="pr", scope_number=12, reply_to=None,
            body="We saw it.", source="reply", now_ms=NOW,
        )  # fmt: skip
    return found


def judge(found: Item[CommentRecord], stored: Version | None) -> Sequence[Effect]:
    """An event for every body that is not stored: the rule the product has, without its exceptions."""
    if stored is not None and stored.digest == body_digest(found.record.body):
        return ()
    same_instant = stored is not None and stored.updated_at == found.record.updated_at
    return [event_of(found.record, f"#{body_digest(found.record.body).hex()[:8]}" if same_instant else "")]


def writer(
    database: Database,
    project: ProjectRow,
    interpret: Interpret = judge,
    *,
    lease: Lease | None = None,
    seam: Crashpoint = no_seam,
    on_effects: Callable[[WrittenEffects], None] | None = None,
) -> FeedbackWriter:
    return FeedbackWriter(
        database, feed(project), "issue_comment", interpret, lambda number: number == 12, lambda: NOW,
        lease=lease, seam=seam, on_effects=on_effects,
    )  # fmt: skip


def one_of_each(project: ProjectRow) -> ScanBatch:
    """A page whose comments lead to everything a comment can lead to."""
    command = comment(3, body="/lore unblock")
    records: list[tuple[CommentRecord, list[Effect]]] = [
        (comment(1), [event_of(comment(1))]),
        (comment(2), [TokenSeen(TOKEN, 2, NOW)]),
        (command, [NewCommand("12:3:x", 12, 12, command, "unblock", {"pr": "12"}),
                   PlannedReply("pr", 12, None, "cd" * 32, "Refused.", "operator_command")]),
        (comment(4, 7), [NewFollowup(7, comment(4, 7))]),
        (comment(5, 7), [NewRedirect(7, 5, "ef" * 32, "Please go on in #12.", 7)]),
        (comment(7), [IgnoredComment(comment(7), "not_allowed")]),
    ]  # fmt: skip
    return ScanBatch(
        project.id, REPO, "issue_comment", [JudgedComment(item(record), effects) for record, effects in records],
        [(feed(project), cursor_at(NOW, 5)), (feed(project, "pr_issue_comments", 12), cursor_at(NOW, 3))],
        rejected=[Rejected("99", "99", b"{", "cannot be read")],
    )  # fmt: skip


def test_all_effects_of_a_page_are_written_with_both_cursors(database: Database, project: ProjectRow) -> None:
    written = ingest_feedback_scan_batch(database, one_of_each(project), NOW)
    assert [event.record.body for event in written.events] == ["The crane stops at 1 %."]
    assert (written.deduped, written.followups, len(written.planned)) == (0, 1, 2)
    assert [seen.token for seen in written.tokens] == [TOKEN]
    assert [command.command for command in written.commands] == ["unblock"]
    rows = everything(database)
    assert {table: len(found) for table, found in rows.items()} == {
        "tracked_prs": 0, "tracked_pr_history": 0, "feedback_comments": 6, "feedback_events": 1, "action_tokens": 3,
        "outbox": 3, "operator_commands": 1, "issue_comment_cursors": 1, "issue_followups": 1, "metric_counters": 0,
        "cursors": 2, "quarantine": 1, "ignored_comments": 1,
    }  # fmt: skip
    assert database.read("SELECT args_json, body, status FROM operator_commands") == [
        ('{"pr":"12"}', "/lore unblock", "pending")
    ]
    assert database.read("SELECT post_pr_last_redirected_comment_id FROM issue_comment_cursors") == [(5,)]


def test_an_ignored_comment_is_kept_whole_until_a_version_of_it_is_an_event(
    database: Database, project: ProjectRow
) -> None:
    odd = comment(7, body="a\x00b \U0001d11e", author="mira", association="NONE")
    newer = replace(odd, body="newer", updated_at=NOW + 1)
    author = IgnoredAuthor(12, "mira", "NONE", "not_allowed")

    def ingest(record: CommentRecord, effect: Effect) -> None:
        judged = [JudgedComment(item(record), [effect])]
        ingest_feedback_scan_batch(database, ScanBatch(project.id, REPO, "issue_comment", judged), NOW)

    for record, held in ((odd, odd), (newer, newer), (odd, newer)):
        ingest(record, IgnoredComment(record, "not_allowed"))
        assert ignored_authors(database, project.id) == [author]
        assert ignored_comments(database, project.id, author) == [held]
    assert [(one.comments, one.accounts) for one in count_ignored(database)] == [(1, 1)]
    ingest(newer, event_of(newer))
    assert ignored_authors(database, project.id) == []


def test_a_repeated_page_writes_nothing_new(database: Database, project: ProjectRow) -> None:
    ingest_feedback_scan_batch(database, one_of_each(project), NOW)
    before = {table: rows for table, rows in everything(database).items() if table != "quarantine"}
    written = ingest_feedback_scan_batch(database, one_of_each(project), NOW)
    assert (written.events, written.deduped, written.tokens, written.commands, written.followups) == ([], 1, [], [], 0)
    assert {table: rows for table, rows in everything(database).items() if table != "quarantine"} == before


BROKEN: dict[str, Callable[[ScanBatch], ScanBatch]] = {
    "event": lambda batch: with_effects(batch, event_of(comment(6, body=None))),
    "command": lambda batch: with_effects(
        batch, NewCommand("k", 12, None, comment(6), "status", {}, status="no such status")
    ),
    "followup": lambda batch: with_effects(batch, NewFollowup(7, comment(6, body=None))),
    "redirect": lambda batch: with_effects(batch, NewRedirect(7, 6, "0" * 64, None, 7)),  # type: ignore[arg-type]
    "answer": lambda batch: with_effects(batch, PlannedReply("nowhere", 12, None, "0" * 64, "b", "reply")),
    "version": lambda batch: replace(batch, kind="no such kind"),
    "quarantine": lambda batch: replace(batch, rejected=[Rejected("98", None, b"", None)]),  # type: ignore[arg-type]
    "cursor": lambda batch: replace(
        batch, cursors=[*batch.cursors, (replace(batch.cursors[0][0], key="x", project_id=4711), Cursor())]
    ),
}


def with_effects(batch: ScanBatch, effect: Effect) -> ScanBatch:
    return replace(batch, judged=[*batch.judged, JudgedComment(item(comment(6)), [effect])])


@pytest.mark.parametrize("part", BROKEN)
def test_a_failure_in_any_part_of_a_page_rolls_back_all_parts(
    database: Database, project: ProjectRow, part: str
) -> None:
    before = everything(database)
    with pytest.raises(IntegrityError):
        ingest_feedback_scan_batch(database, BROKEN[part](one_of_each(project)), NOW)
    assert everything(database) == before
    ingest_feedback_scan_batch(database, one_of_each(project), NOW)
    assert count_events(database, project.id) == 1


def test_a_failure_in_the_callers_addition_rolls_back_the_page(database: Database, project: ProjectRow) -> None:
    def also(tx: Transaction, written: WrittenEffects) -> None:
        add_to_counter(tx, "feedback_events_ingested_total", {}, len(written.events))
        raise KeyError("anything")

    before = everything(database)
    with pytest.raises(KeyError):
        ingest_feedback_scan_batch(database, one_of_each(project), NOW, also=also)
    assert everything(database) == before


def test_counters_and_the_reviews_that_were_read_are_written_with_the_page(
    database: Database, project: ProjectRow
) -> None:
    with database.transaction() as tx:
        tracked = track(tx, project.id, REPO, 12, issue_number=None, tracked_by="rule", now_ms=NOW)
        note_pull(tx, tracked, pull(), NOW)

    def also(tx: Transaction, written: WrittenEffects) -> None:
        add_to_counter(tx, "feedback_events_ingested_total", {"repo": REPO}, len(written.events))
        note_reviews_read(tx, tracked.id, NOW)

    ingest_feedback_scan_batch(database, one_of_each(project), NOW, also=also)
    assert [(counter.name, counter.labels, counter.value) for counter in read_counters(database)] == [
        ("feedback_events_ingested_total", {"repo": REPO}, 1)
    ]
    found = find_tracked(database, project.id, 12)
    assert found is not None
    assert found.reviews_read_for == found.pull_updated_at == NOW


KILLED = """
import os, signal
from tidelore.engine.crashpoint import Crashpoint, Seam, no_seam
from tidelore.store.mirror.feedback_writer import ingest_feedback_scan_batch
from tidelore.store.database.opening import open_database
from tidelore.store.mirror.projects import list_projects
from tests.contract.test_store_feedback_ingestion import NOW, one_of_each
def die(seam):
    assert seam is Seam.INSIDE_COMMIT
    os.kill(os.getpid(), signal.SIGKILL)
database = open_database(sys.argv[1])
ingest_feedback_scan_batch(database, one_of_each(list_projects(database)[0]), NOW, seam=die)
"""


def test_after_a_kill_inside_the_commit_the_next_process_writes_the_whole_page(
    database: Database, project: ProjectRow, address: str
) -> None:
    before = everything(database)
    script = [sys.executable, "-c", f"import sys\n{KILLED}", address]
    killed = subprocess.run(script, env={**os.environ, "PYTHONPATH": str(Path.cwd())}, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert everything(database) == before
    ingest_feedback_scan_batch(database, one_of_each(project), NOW)
    assert load_cursor(database, feed(project)) == cursor_at(NOW, 5)
    assert [event.body for event in peek(database)] == ["The crane stops at 1 %."]


def test_a_page_of_a_process_that_lost_its_lease_is_not_written(
    database: Database, project: ProjectRow, clock: ManualClock
) -> None:
    table = LeaseTable(database)
    here = ProcessIdentity.current()
    lease = acquire(table, "github", here, "lore poll", clock, stale_after_ms=1, is_dead=lambda _: False)
    lease.release()
    before = everything(database)
    with pytest.raises(LeaseLost):
        writer(database, project, lease=lease).commit(Batch(items(comment(1)), cursor_at()))
    assert everything(database) == before


def take(database: Database, project: ProjectRow, *records: CommentRecord) -> Intake[CommentRecord]:
    """Read a page as a walk does: only versions that are not stored reach the writer."""
    intake = Intake(writer(database, project), lambda: NOW)
    intake.take(Page(items(*records)), cursor_at())
    return intake


def test_a_lower_id_edited_in_the_cursors_own_second_is_ingested(database: Database, project: ProjectRow) -> None:
    take(database, project, comment(5), comment(9))
    intake = take(database, project, comment(5, body="Edited."), comment(9))
    assert (intake.tally.changed, intake.tally.replayed) == (1, 1)
    assert [event.body for event in peek(database)][-1] == "Edited."
    assert count_events(database, project.id) == 3


def test_a_new_comment_with_a_lower_id_in_the_cursors_own_second_is_ingested(
    database: Database, project: ProjectRow
) -> None:
    take(database, project, comment(9))
    take(database, project, comment(4), comment(9))
    assert {event.comment_id for event in peek(database)} == {4, 9}


def test_an_update_with_the_same_body_is_a_new_version_but_not_an_event(
    database: Database, project: ProjectRow
) -> None:
    take(database, project, comment(5))
    intake = take(database, project, comment(5, updated_at=NOW + 1000))
    assert intake.tally.changed == 1
    assert count_events(database, project.id) == 1
    assert database.read("SELECT updated_at FROM feedback_comments") == [(NOW + 1000,)]


def test_a_replayed_page_creates_no_new_effects(database: Database, project: ProjectRow) -> None:
    take(database, project, comment(5))
    assert take(database, project, comment(5)).tally.replayed == 1
    assert count_events(database, project.id) == 1


def test_an_older_version_than_the_stored_one_changes_nothing(database: Database, project: ProjectRow) -> None:
    take(database, project, comment(5, body="New."))
    before = everything(database)
    intake = take(database, project, comment(5, updated_at=NOW - 1000, body="Old."))
    assert intake.tally.stale == 1
    assert everything(database) == before


def test_comments_of_untracked_threads_leave_no_row(database: Database, project: ProjectRow) -> None:
    take(database, project, comment(5, 13))
    assert database.read("SELECT COUNT(*) FROM feedback_comments") == [(0,)]
    assert peek(database) == []
    assert load_cursor(database, feed(project)) == cursor_at()


def test_deferred_comments_leave_no_row_and_are_processed_when_read_again(
    database: Database, project: ProjectRow
) -> None:
    """A pull request that is blocked: what is said meanwhile becomes events when it is not."""
    writer(database, project, lambda *_: None).commit(Batch(items(comment(5)), cursor_at()))
    assert database.read("SELECT COUNT(*) FROM feedback_comments") == [(0,)]
    take(database, project, comment(5))
    assert [event.comment_id for event in peek(database)] == [5]


def test_effects_are_reported_after_the_commit_and_not_before(
    database: Database, project: ProjectRow, connect: Callable[[], Database]
) -> None:
    other = connect()
    seen: list[tuple[int, int]] = []

    def count(written: WrittenEffects) -> None:
        seen.append((len(written.events), count_events(other, project.id)))

    def seam(_seam: Seam) -> None:
        seen.append((0, count_events(other, project.id)))

    writer(database, project, seam=seam, on_effects=count).commit(Batch(items(comment(5)), cursor_at()))
    assert seen == [(0, 0), (1, 1)]


def test_an_action_token_counts_only_in_its_planned_thread(database: Database, project: ProjectRow) -> None:
    for number, status in ((13, "planned"), (12, "observed")):
        page = [JudgedComment(item(comment(5, number)), [TokenSeen(TOKEN, 5, NOW), TokenSeen("00" * 32, 5, NOW)])]
        ingest_feedback_scan_batch(database, ScanBatch(project.id, REPO, "issue_comment", page), NOW)
        found = read_action_token(database, TOKEN)
        assert found is not None
        assert found.status == status
    assert [(row.status, row.comment_id) for row in list_outbox(database)] == [("observed", 5)]


def test_a_poll_cursor_never_moves_back_and_may_be_complete_without_a_watermark(
    database: Database, project: ProjectRow
) -> None:
    talk, review = feed(project, "pr_issue_comments", 12), feed(project, "pr_review_comments", 12)
    with database.transaction() as tx:
        for scope, at, comment_id in ((talk, NOW, 9), (review, None, 0), (talk, NOW - 1, 99)):
            upsert_poll_cursor(
                tx, scope, last_updated_at=at, last_comment_id=comment_id, bootstrap_complete=True, now_ms=NOW
            )
    assert load_cursor(database, talk) == cursor_at(NOW, 9)
    assert load_cursor(database, review) == Cursor(complete=True)
