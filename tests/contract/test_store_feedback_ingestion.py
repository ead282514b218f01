"""Comments, what each of them leads to, and the cursor that covers them are one transaction of the writer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.databases.feedback_rows import count_events, read_action_token
from tests.databases.feedback_samples import (
    NOW,
    REPO,
    TOKEN,
    add_threads,
    comment,
    cursor_at,
    event_of,
    everything,
    feed,
    items,
    judge,
    repository,
)
from tests.databases.samples import merge_request, scope_of
from tests.databases.talk import DISCUSSIONS, discussion, note
from tests.support.manual_clock import ManualClock

from tidelore.core.config_file import parse_config
from tidelore.core.errors import IntegrityError, LeaseLost
from tidelore.core.model import (
    CommentRecord,
    Item,
    MergeRequestRecord,
    NoteRecord,
    ProjectRecord,
    Rejected,
    comment_key,
    comment_of_note,
)
from tidelore.core.process import ProcessIdentity
from tidelore.engine.crashpoint import Crashpoint, Seam, no_seam
from tidelore.engine.cursor import Cursor
from tidelore.engine.intake import Intake
from tidelore.engine.lease import Lease, acquire
from tidelore.engine.ports import Batch, Page, Parent
from tidelore.engine.whole import ChildReading, Children
from tidelore.feedback.consumer import FeedbackConsumer
from tidelore.store.database.port import Database, Transaction
from tidelore.store.mirror import children as child_rows
from tidelore.store.mirror.child_writer import ChildFamily, ChildWriter
from tidelore.store.mirror.comments import REVIEWS, CommentTable
from tidelore.store.mirror.cursors import load_cursor
from tidelore.store.mirror.kinds import ISSUE, MERGE_REQUEST, ParentKind
from tidelore.store.mirror.page_writer import PageWriter, SelectedItems
from tidelore.store.mirror.parents import MERGE_REQUESTS
from tidelore.store.mirror.projects import ProjectRow, save_project
from tidelore.store.work.effects import (
    IgnoredAuthor,
    JudgedComment,
    body_digest,
    count_ignored,
    find_comment,
    ignored_authors,
    thread_comments,
    with_judged,
    write_effects,
)
from tidelore.store.work.events import (
    Consumer,
    Effect,
    IgnoredComment,
    NewCommand,
    NewFollowup,
    NewRedirect,
    PlannedReply,
    TokenSeen,
    list_events,
    peek,
)
from tidelore.store.work.followed_issues import follow_issue
from tidelore.store.work.leases import LeaseTable
from tidelore.store.work.outbox import list_outbox, plan
from tidelore.store.work.service_records import read_counters
from tidelore.store.work.tracked_pull_requests import list_tracked, move, track


@pytest.fixture
def project(database: Database) -> ProjectRow:
    """Pull requests 12 and 13 and issue 7 are stored; an answer is planned for 12."""
    found = repository(database)
    add_threads(database, found, pulls=(12, 13), issues=(7,))
    with database.transaction() as tx:
        follow_issue(tx, found.id, REPO, 7, now_ms=NOW)
        plan(tx, found.id, REPO, PlannedReply("pr", 12, None, TOKEN, "We saw it.", "reply"), NOW)
    return found


class Scripted:
    """Writes given effects for each comment that was not judged in its version."""

    def __init__(self, repo: str, effects: Mapping[int, Sequence[Effect]]) -> None:
        self._repo = repo
        self._effects = effects

    def stored(self, tx: Transaction, project_id: int, records: Sequence[object], now_ms: int) -> None:
        comments = [record for record in records if isinstance(record, CommentRecord)]
        fresh = [one for one in with_judged(tx, project_id, comments) if not one.is_judged]
        judged = [JudgedComment(one, self._effects[one.record.remote_id]) for one in fresh]
        write_effects(tx, project_id, self._repo, judged, now_ms)

    def concerns(self, _project_id: int, _number: int) -> bool:
        return True

    def selects(self, _project_id: int, _record: MergeRequestRecord) -> bool:
        return True


def one_of_each() -> list[tuple[CommentRecord, list[Effect]]]:
    """Comments that lead to everything a comment can lead to."""
    command = comment(3, body="/lore unblock")
    return [
        (comment(1), [event_of(comment(1))]),
        (comment(2), [TokenSeen(TOKEN, 2, NOW)]),
        (command, [NewCommand("12:3:x", 12, 12, command, "unblock", {"pr": "12"}),
                   PlannedReply("pr", 12, None, "cd" * 32, "Refused.", "operator_command")]),
        (comment(4, 7), [NewFollowup(7, comment(4, 7))]),
        (comment(5, 7), [NewRedirect(7, 5, "ef" * 32, "Please go on in #12.", 7)]),
        (comment(7), [IgnoredComment(comment(7), "not_allowed")]),
    ]  # fmt: skip


def commit(
    database: Database,
    project: ProjectRow,
    *more: tuple[CommentRecord, list[Effect]],
    seam: Crashpoint = no_seam,
    **batch: Any,
) -> None:
    """Commit a page with one of each."""
    judged = [*one_of_each(), *more]
    consumer = Scripted(REPO, {record.remote_id: effects for record, effects in judged})
    writer = PageWriter(
        database, feed(project), CommentTable("issue_comment"), lambda: NOW, seam=seam, consumer=consumer
    )
    rejected = [Rejected("99", "99", b"{", "cannot be read")]
    page = Batch(items(*(record for record, _ in judged)), cursor_at(NOW, 5), rejected)
    writer.commit(replace(page, **batch))


def test_all_effects_of_a_page_are_written_with_its_cursor(database: Database, project: ProjectRow) -> None:
    commit(database, project)
    rows = everything(database)
    assert {table: len(found) for table, found in rows.items()} == {
        "tracked_prs": 0, "tracked_pr_history": 0, "notes": 6, "discussions": 6, "feedback_events": 1,
        "action_tokens": 3, "outbox": 3, "operator_commands": 1, "issue_comment_cursors": 1, "issue_followups": 1,
        "metric_counters": 0, "cursors": 1, "quarantine": 1,
    }  # fmt: skip
    assert database.read("SELECT args_json, body, status FROM operator_commands") == [
        ('{"pr":"12"}', "/lore unblock", "pending")
    ]
    assert database.read("SELECT post_pr_last_redirected_comment_id FROM issue_comment_cursors") == [(5,)]
    assert database.read("SELECT remote_id, ignored FROM notes WHERE ignored IS NOT NULL") == [(7, "not_allowed")]
    assert database.read("SELECT COUNT(*) FROM notes WHERE judged_at = updated_at AND judged_hash IS NOT NULL") == [
        (6,)
    ]


def test_written_effects_name_what_is_new_and_count_what_existed(database: Database, project: ProjectRow) -> None:
    written = judge(database, project, one_of_each())
    assert [event.record.body for event in written.events] == ["The crane stops at 1 %."]
    assert (written.deduped, written.followups, len(written.planned)) == (0, 1, 2)
    assert [seen.token for seen in written.tokens] == [TOKEN]
    assert [command.command for command in written.commands] == ["unblock"]
    assert [ignored.reason for ignored in written.ignored] == ["not_allowed"]
    again = judge(database, project, one_of_each())
    assert (again.events, again.deduped, again.tokens, again.commands, again.followups) == ([], 1, [], [], 0)


def test_a_repeated_page_writes_nothing_new(database: Database, project: ProjectRow) -> None:
    commit(database, project)
    before = {table: rows for table, rows in everything(database).items() if table != "quarantine"}
    commit(database, project)
    assert {table: rows for table, rows in everything(database).items() if table != "quarantine"} == before


BROKEN: dict[str, Effect] = {
    "event": event_of(comment(6, body=None)),
    "command": NewCommand("k", 12, None, comment(6), "status", {}, status="no such status"),
    "followup": NewFollowup(7, comment(6, body=None)),
    "redirect": NewRedirect(7, 6, "0" * 64, None, 7),  # type: ignore[arg-type]
    "answer": PlannedReply("nowhere", 12, None, "0" * 64, "b", "reply"),
    "mark": IgnoredComment(comment(6), "no such reason"),
}


SPOILED: dict[str, dict[str, Any]] = {
    "quarantine": {"rejected": [Rejected("98", None, b"", None)]},  # type: ignore[arg-type]
    "cursor": {"cursor": Cursor(complete=2)},  # type: ignore[arg-type]
}


@pytest.mark.parametrize("part", [*BROKEN, *SPOILED])
def test_a_failure_in_any_part_of_a_page_rolls_back_all_parts(
    database: Database, project: ProjectRow, part: str
) -> None:
    before = everything(database)
    more = [(comment(6), [BROKEN[part]])] if part in BROKEN else []
    with pytest.raises(IntegrityError):
        commit(database, project, *more, **SPOILED.get(part, {}))
    assert everything(database) == before
    commit(database, project)
    assert count_events(database, project.id) == 1


KILLED = """
import os, signal
from tidelore.engine.crashpoint import Seam
from tidelore.store.database.opening import open_database
from tidelore.store.mirror.projects import list_projects
from tests.contract.test_store_feedback_ingestion import commit
def die(seam):
    assert seam is Seam.INSIDE_COMMIT
    os.kill(os.getpid(), signal.SIGKILL)
database = open_database(sys.argv[1])
commit(database, list_projects(database)[0], seam=die)
"""


def test_after_a_kill_inside_the_commit_the_next_process_writes_the_whole_page(
    database: Database, project: ProjectRow, address: str
) -> None:
    before = everything(database)
    script = [sys.executable, "-c", f"import sys\n{KILLED}", address]
    killed = subprocess.run(script, env={**os.environ, "PYTHONPATH": str(Path.cwd())}, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert everything(database) == before
    commit(database, project)
    assert load_cursor(database, feed(project)) == cursor_at(NOW, 5)
    assert [event.body for event in peek(database)] == ["The crane stops at 1 %."]


def test_effects_and_cursor_are_seen_by_others_only_after_the_commit(
    database: Database, project: ProjectRow, connect: Callable[[], Database]
) -> None:
    other = connect()
    seen: list[tuple[int, bool]] = []

    def look(_seam: Seam) -> None:
        seen.append((count_events(other, project.id), load_cursor(other, feed(project)).complete))

    commit(database, project, seam=look)
    look(Seam.AFTER_COMMIT)
    assert seen == [(0, False), (1, True)]


def test_an_ignored_comment_stays_marked_when_it_is_only_touched(database: Database, project: ProjectRow) -> None:
    odd = comment(7, body="a\x0bb \U0001d11e", author="mira", association="NONE")
    touched = replace(odd, updated_at=NOW + 1)
    edited = replace(odd, body="newer", updated_at=NOW + 2)
    author = IgnoredAuthor(12, None, "mira", "NONE", 0)
    steps: list[tuple[CommentRecord, Sequence[Effect]]] = [
        (odd, [IgnoredComment(odd, "not_allowed")]),
        (touched, []),
        (edited, [IgnoredComment(edited, "bot")]),
    ]
    for record, effects in steps:
        judge(database, project, [(record, effects)])
        assert ignored_authors(database, project.id) == [author]
        (kept,) = thread_comments(database.read, project.id, 12)
        assert (kept.record, kept.is_judged) == (record, True)
    assert [(one.reason, one.comments, one.accounts) for one in count_ignored(database)] == [("bot", 1, 1)]
    judge(database, project, [(edited, [event_of(edited)])])
    assert ignored_authors(database, project.id) == []
    assert count_ignored(database) == []


PLACES: list[dict[str, Any]] = [
    {"kind": "review_comment", "path": "a.py", "line": 4, "side": "LEFT", "commit_sha": "c" * 40, "review_id": 9},
    {"kind": "review_comment", "path": "a.py", "line": 4, "side": "RIGHT", "start_line": 2, "diff_hunk": "@@ -1 +1 @@"},
    {"kind": "review_comment", "path": "a.py", "subject_type": "file", "in_reply_to": 3},
    {"kind": "review_summary", "review_state": "APPROVED", "body": ""},
    {"author": None, "association": "NONE", "url": "https://forge.test/1", "is_bot": True},
]


@pytest.mark.parametrize("change", PLACES, ids=lambda change: ",".join(change))
def test_a_stored_comment_is_returned_as_it_was_received(
    database: Database, project: ProjectRow, change: dict[str, Any]
) -> None:
    record = comment(41, **change)
    judge(database, project, [(record, ())])
    (found,) = thread_comments(database.read, project.id, 12)
    assert found.record == record
    assert find_comment(database, project.id, record.kind, 41) == record
    assert find_comment(database, project.id, record.kind, 42) is None


def test_comments_of_one_thread_are_returned_oldest_first_and_with_their_marks(
    database: Database, project: ProjectRow
) -> None:
    judge(database, project, [(comment(9, updated_at=NOW - 5), ()), (comment(2), ()), (comment(1, 7), ())])
    commit_page(database, project, None, comment(4, updated_at=NOW - 1))
    found = thread_comments(database.read, project.id, 12)
    assert [(one.record.remote_id, one.is_judged) for one in found] == [(9, True), (4, False), (2, True)]
    assert [one.record.remote_id for one in thread_comments(database.read, project.id, 7)] == [1]
    assert thread_comments(database.read, project.id, 12, on="issue") == []


def test_an_action_token_counts_only_in_its_planned_thread(database: Database, project: ProjectRow) -> None:
    for number, status in ((13, "planned"), (12, "observed")):
        record = comment(50 + number, number)
        judge(database, project, [(record, [TokenSeen(TOKEN, 5, NOW), TokenSeen("00" * 32, 5, NOW)])])
        found = read_action_token(database, TOKEN)
        assert found is not None
        assert found.status == status
    assert [(row.status, row.comment_id) for row in list_outbox(database)] == [("observed", 5)]


CONFIG = parse_config(
    {
        "github": [{"name": "github", "repos": [REPO], "allowed_users": ["mira"], "track_labels": ["agent"]}],
        "gitlab": [{"name": "lab", "projects": [REPO], "allowed_users": ["mira"]}],
    }
)


@pytest.fixture
def watched(database: Database) -> ProjectRow:
    """A repository of GitHub with pull requests 12 and 13, of which 12 is followed."""
    return followed_project(database, "github")


def followed_project(database: Database, source: str) -> ProjectRow:
    with database.transaction() as tx:
        found = save_project(tx, source, REPO, ProjectRecord(5, REPO, "harbour", None, archived=False), NOW)
    add_threads(database, found, pulls=(12, 13), issues=(7, 12) if source == "lab" else (7,))
    with database.transaction() as tx:
        track(tx, found.id, REPO, 12, issue_number=None, tracked_by="operator", now_ms=NOW - 60_000)
    return found


def consumer(database: Database) -> FeedbackConsumer:
    return FeedbackConsumer(database, CONFIG, ManualClock(), {})


def commit_page(
    database: Database,
    project: ProjectRow,
    derive: Consumer | None,
    *records: CommentRecord,
    lease: Lease | None = None,
) -> Intake[CommentRecord]:
    """Read a page as a walk does: only versions that are not stored reach the writer."""
    writer = PageWriter(
        database, feed(project), CommentTable("issue_comment"), lambda: NOW, lease=lease, consumer=derive
    )
    intake = Intake(writer, lambda: NOW)
    intake.take(Page(items(*records)), cursor_at())
    return intake


def take(database: Database, project: ProjectRow, *records: CommentRecord) -> Intake[CommentRecord]:
    return commit_page(database, project, consumer(database), *records)


def test_a_page_of_a_process_that_lost_its_lease_is_not_written(
    database: Database, watched: ProjectRow, clock: ManualClock
) -> None:
    table = LeaseTable(database)
    here = ProcessIdentity.current()
    lease = acquire(table, "github", here, "lore poll", clock, stale_after_ms=1, is_dead=lambda _: False)
    lease.release()
    before = everything(database)
    with pytest.raises(LeaseLost):
        commit_page(database, watched, consumer(database), comment(1), lease=lease)
    assert everything(database) == before


def test_a_report_counts_no_events_of_a_transaction_that_was_rolled_back(
    database: Database, watched: ProjectRow
) -> None:
    commit_page(database, watched, None, comment(1))
    derive = consumer(database)
    with suppress(KeyError), database.transaction() as tx:
        derive.stored(tx, watched.id, [comment(1)], NOW)
        raise KeyError("anything")
    assert not derive.reports[watched.id].effects
    with database.transaction() as tx:
        derive.stored(tx, watched.id, [comment(1)], NOW)
    assert derive.reports[watched.id].effects == {"events": 1}


def test_counters_of_events_are_written_with_the_page(database: Database, watched: ProjectRow) -> None:
    take(database, watched, comment(1), comment(2))
    counters = {counter.name: counter.value for counter in read_counters(database) if counter.value}
    assert counters == {"feedback_events_ingested_total": 2}


def test_a_lower_id_edited_in_the_cursors_own_second_is_ingested(database: Database, watched: ProjectRow) -> None:
    take(database, watched, comment(5), comment(9))
    intake = take(database, watched, comment(5, body="Edited."), comment(9))
    assert (intake.tally.changed, intake.tally.replayed) == (1, 1)
    assert [event.body for event in peek(database)][-1] == "Edited."
    assert count_events(database, watched.id) == 3


def test_a_new_comment_with_a_lower_id_in_the_cursors_own_second_is_ingested(
    database: Database, watched: ProjectRow
) -> None:
    take(database, watched, comment(9))
    take(database, watched, comment(4), comment(9))
    assert {event.comment_id for event in peek(database)} == {4, 9}


def test_an_update_with_the_same_body_is_judged_again_and_is_not_an_event(
    database: Database, watched: ProjectRow
) -> None:
    take(database, watched, comment(5))
    intake = take(database, watched, comment(5, updated_at=NOW + 1000))
    assert intake.tally.changed == 1
    assert count_events(database, watched.id) == 1
    assert database.read("SELECT updated_at, judged_at FROM notes") == [(NOW + 1000, NOW + 1000)]


def test_a_replayed_page_creates_no_new_effects(database: Database, watched: ProjectRow) -> None:
    take(database, watched, comment(5), comment(6, author="stranger"))
    before = everything(database)
    assert take(database, watched, comment(5), comment(6, author="stranger")).tally.replayed == 2
    assert everything(database) == before


def test_a_version_that_was_judged_is_not_judged_again_whoever_stores_it(
    database: Database, watched: ProjectRow
) -> None:
    """A comment is listed by the feed and by its thread: each writer passes it to the consumer."""
    table, derive, page = CommentTable("issue_comment"), consumer(database), Batch(items(comment(5)), cursor_at())
    for surface in ("issue_comments", "pr_issue_comments", "pr_issue_comments"):
        scope = feed(watched, surface, 0 if surface == "issue_comments" else 12)
        PageWriter(database, scope, table, lambda: NOW, consumer=derive).commit(page)
    assert count_events(database, watched.id) == 1
    counters = {counter.name: counter.value for counter in read_counters(database)}
    assert counters.get("feedback_events_deduped_total", 0) == 0, "it is not even tried"


def test_an_older_version_than_the_stored_one_changes_nothing(database: Database, watched: ProjectRow) -> None:
    take(database, watched, comment(5, body="New."))
    before = everything(database)
    intake = take(database, watched, comment(5, updated_at=NOW - 1000, body="Old."))
    assert intake.tally.stale == 1
    assert everything(database) == before


def test_comments_of_untracked_threads_are_stored_and_not_judged(database: Database, watched: ProjectRow) -> None:
    take(database, watched, comment(5, 13))
    assert database.read("SELECT judged_at, judged_hash, ignored FROM notes") == [(None, None, None)]
    assert peek(database) == []
    assert load_cursor(database, feed(watched)) == cursor_at()


def test_comments_of_a_blocked_pull_request_wait_to_be_judged(database: Database, watched: ProjectRow) -> None:
    (tracked,) = list_tracked(database)
    with database.transaction() as tx:
        move(tx, tracked, "blocked", "operator", None, NOW)
    take(database, watched, comment(5))
    (waiting,) = thread_comments(database.read, watched.id, 12)
    assert (waiting.judged, waiting.is_judged, count_events(database, watched.id)) == (None, False, 0)


@pytest.mark.parametrize(
    ("author", "reason"), [("stranger", "not_allowed"), ("ci[bot]", "bot"), (None, "deleted_account")]
)
def test_a_comment_that_does_not_count_is_marked_with_the_reason(
    database: Database, watched: ProjectRow, author: str | None, reason: str
) -> None:
    take(database, watched, comment(5, author=author))
    assert database.read("SELECT ignored, judged_at FROM notes") == [(reason, NOW)]
    assert count_events(database, watched.id) == 0


def attach(
    database: Database,
    project: ProjectRow,
    kind: ParentKind,
    iid: int,
    family: ChildFamily,
    *found: Item[Any],
    **more: Any,
) -> int:
    """Make a parent have exactly these children, as a run does."""
    ((row_id, updated_at),) = database.read(
        f"SELECT id, updated_at FROM {kind.table} WHERE project_id = :project AND iid = :iid",
        {"project": project.id, "iid": iid},
    )
    scope = replace(scope_of(project, f"gitlab.{kind.table}"), source=project.source)
    writer = ChildWriter(database, scope, kind, family, lambda: NOW, consumer=consumer(database), **more)
    children = Children(found, (), 1, None)
    return writer.replace([ChildReading(Parent(row_id, iid, updated_at, None, None), children, True)])


def review(body: str, updated_at: int = NOW) -> list[Item[CommentRecord]]:
    record = comment(5, kind="review_summary", review_state="COMMENTED", body=body, updated_at=updated_at)
    # Children of all kinds have one key, as their ids are separate sequences.
    return [replace(one, version=one.version._replace(id=comment_key(record.kind, 5))) for one in items(record)]


def test_the_children_of_a_pull_request_are_judged_as_they_are_stored(database: Database, watched: ProjectRow) -> None:
    for body in ("One", "One", "Two"):
        attach(database, watched, MERGE_REQUEST, 12, REVIEWS, *review(body))
    assert sorted(event.body for event in list_events(database, watched.id, 12)) == ["One", "Two"]
    (stored,) = thread_comments(database.read, watched.id, 12)
    assert stored.judged is not None
    assert stored.judged.digest == body_digest("Two")


def test_a_failure_after_children_were_judged_rolls_back_rows_and_effects(
    database: Database, watched: ProjectRow
) -> None:
    def fail(_seam: Seam) -> None:
        raise KeyError("anything")

    before = everything(database)
    with pytest.raises(KeyError):
        attach(database, watched, MERGE_REQUEST, 12, REVIEWS, *review("One"), seam=fail)
    assert everything(database) == before
    attach(database, watched, MERGE_REQUEST, 12, REVIEWS, *review("One"))
    assert count_events(database, watched.id) == 1


def test_no_comment_is_made_of_the_notes_of_what_nobody_follows(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = followed_project(database, "lab")
    made: list[int] = []

    def counted(note: NoteRecord, number: int, on: str) -> CommentRecord:
        made.append(number)
        return comment_of_note(note, number, on)

    monkeypatch.setattr(child_rows, "comment_of_note", counted)
    attach(database, lab, MERGE_REQUEST, 13, DISCUSSIONS, discussion("d1", note(1, "On another one.")))
    assert made == []
    attach(database, lab, MERGE_REQUEST, 12, DISCUSSIONS, discussion("d2", note(2, "On the followed one.")))
    assert made == [12]
    assert [event.comment_id for event in peek(database)] == [2]


def test_notes_of_gitlab_are_judged_by_their_merge_request_and_not_by_an_issue_of_its_number(
    database: Database,
) -> None:
    lab = followed_project(database, "lab")
    talk = discussion("d1", note(1, "Please rename."), note(2, "assigned", is_system=True))
    attach(database, lab, ISSUE, 12, DISCUSSIONS, discussion("d2", note(3, "On the issue.")))
    assert peek(database) == []
    attach(database, lab, MERGE_REQUEST, 12, DISCUSSIONS, talk)
    (event,) = peek(database)
    assert (event.kind, event.comment_id, event.body, event.pr_number) == ("note", 1, "Please rename.", 12)
    judged = database.read("SELECT remote_id FROM notes WHERE judged_at IS NOT NULL")
    assert judged == [(1,)]
    (stored,) = thread_comments(database.read, lab.id, 12, on="mr")
    assert (stored.record.on, stored.is_judged) == ("mr", True)
    attach(
        database, lab, MERGE_REQUEST, 12, DISCUSSIONS, discussion("d1", note(1, "Please rename."), note(4, "And test."))
    )
    assert count_events(database, lab.id) == 2, "the note that was judged is passed again and is not an event again"


def test_a_pull_request_that_matches_a_rule_is_tracked_in_the_transaction_that_stores_it(
    database: Database, watched: ProjectRow
) -> None:
    def fail(_seam: Seam) -> None:
        raise KeyError("anything")

    derive = consumer(database)
    table = SelectedItems(MERGE_REQUESTS, lambda record: derive.selects(watched.id, record))
    found = [
        merge_request(9014, NOW, iid=14, labels=("Agent",)),
        merge_request(9015, NOW, iid=15),
        merge_request(9016, NOW, iid=16, labels=("agent",), state="closed"),
    ]
    page = Batch(found, cursor_at())
    scope = feed(watched, "merge_requests")
    with pytest.raises(KeyError):
        PageWriter(database, scope, table, lambda: NOW, seam=fail, consumer=consumer(database)).commit(page)
    assert [row.pr_number for row in list_tracked(database)] == [12]
    PageWriter(database, scope, table, lambda: NOW, consumer=derive).commit(page)
    assert [(row.pr_number, row.tracked_by) for row in list_tracked(database)] == [(12, "operator"), (14, "rule")]
    assert database.read("SELECT iid FROM merge_requests ORDER BY iid") == [(12,), (13,), (14,)]


def test_comments_and_selected_pull_requests_that_left_the_server_are_removed_with_the_page_that_says_so(
    database: Database, watched: ProjectRow
) -> None:
    comments = PageWriter(database, feed(watched), CommentTable("issue_comment"), lambda: NOW)
    comments.commit(Batch(items(comment(5), comment(6)), cursor_at()))
    assert set(comments.held(0, None)) == {5, 6}
    comments.commit(Batch([], cursor_at(), gone=[5]))
    assert database.read("SELECT remote_id FROM notes") == [(6,)]
    table = SelectedItems(MERGE_REQUESTS, lambda record: record.iid == 14)
    pulls = PageWriter(database, feed(watched, "merge_requests"), table, lambda: NOW)
    before = set(pulls.held(0, None))
    pulls.commit(Batch([merge_request(9014, NOW, iid=14), merge_request(9015, NOW, iid=15)], cursor_at()))
    assert set(pulls.held(0, None)) == {*before, 9014}
    pulls.commit(Batch([], cursor_at(), gone=[9014]))
    assert set(pulls.held(0, None)) == before
    assert database.read("SELECT COUNT(*) FROM merge_requests WHERE iid = 14 AND deleted_at IS NOT NULL") == [(1,)]


def test_a_comment_marks_the_documents_of_its_thread_and_of_its_item(database: Database, watched: ProjectRow) -> None:
    writer = PageWriter(database, feed(watched), CommentTable("issue_comment"), lambda: NOW)
    with database.transaction() as tx:
        tx.execute("DELETE FROM dirty_sources")
    writer.commit(Batch(items(comment(5)), cursor_at()))
    assert database.read("SELECT source_type FROM dirty_sources ORDER BY source_type") == [
        ("discussion",),
        ("merge_request",),
    ], "the document of the item contains who took part"
