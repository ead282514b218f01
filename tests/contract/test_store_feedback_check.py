"""`check_database` finds what contradicts itself in feedback, names it, and accuses nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from tests.databases.feedback_samples import (
    NOW,
    REPO,
    TOKEN,
    add_events,
    add_threads,
    comment,
    event_of,
    followed,
    judge,
    repository,
)

from tidelore.engine.cursor import SKEW_MS
from tidelore.store.database.port import Database
from tidelore.store.mirror.check import FEEDBACK_RULES, CheckFinding, check_database
from tidelore.store.work.events import IgnoredComment, NewEvent, NewFollowup, PlannedReply, lease_next
from tidelore.store.work.followed_issues import add_followups, batch_followups, follow_issue
from tidelore.store.work.outbox import claim, mark_observed, note_attempt, plan
from tidelore.store.work.tracked_pull_requests import begin_judging, move

Break = Callable[[str], None]


@pytest.fixture
def filled(database: Database) -> Database:
    """Something in every table of feedback, all of it sound, some of it in flight."""
    project = repository(database)
    rows = followed(database, project, 12, 13, 14)
    add_threads(database, project, pulls=(12, 13))
    records = [comment(1), comment(2, updated_at=NOW + 1), comment(3, 13, NOW + 2)]
    ignored = comment(20, author="stranger")
    judge(
        database,
        project,
        [*((record, [event_of(record)]) for record in records), (ignored, [IgnoredComment(ignored, "not_allowed")])],
    )
    add_events(database, project, [comment(21, 13, NOW + 3)])
    batched = replace(comment(5, 7, NOW - 1), kind="issue_followups")
    with database.transaction() as tx:
        for row in rows:
            begin_judging(tx, row.id)
        move(tx, rows[1], "closed", "closed", None, NOW)
        move(tx, rows[2], "blocked", "operator", None, NOW)
        for number in (7, 8):
            follow_issue(tx, project.id, REPO, number, now_ms=NOW)
        add_followups(tx, project.id, [NewFollowup(7, comment(4, 7)), NewFollowup(7, comment(5, 7))])
        batch_followups(tx, project.id, 7, lambda *_: NewEvent("7:batch", None, 7, batched), NOW)
        add_followups(tx, project.id, [NewFollowup(7, comment(6, 7))])
        for token in (TOKEN, "cd" * 32):
            plan(tx, project.id, REPO, PlannedReply("pr", 12, None, token, "Seen.", "reply"), NOW)
    leased = [lease_next(database, NOW, 2 * SKEW_MS, "mira", include_closed=True) for _ in range(3)]
    assert None not in leased
    first = claim(database, None, NOW, 1, "me")
    assert first is not None
    note_attempt(database, first.id, "me", NOW)
    with database.transaction() as tx:
        mark_observed(tx, first.id, 9, NOW, NOW)
    return database


@pytest.fixture
def break_it(filled: Database) -> Break:
    """Change the database in a way the program never would."""

    def execute(sql: str) -> None:
        with filled.transaction() as tx:
            assert tx.change(sql) >= 1

    return execute


def failures(database: Database) -> dict[str, CheckFinding]:
    found = check_database(database, NOW)
    assert {rule.check for rule in FEEDBACK_RULES} <= {finding.check for finding in found}
    return {finding.check: finding for finding in found if not finding.ok}


def test_healthy_feedback_tables_pass_every_check(filled: Database) -> None:
    assert failures(filled) == {}


SECOND_IN_FLIGHT = (
    f"UPDATE feedback_events SET lease_id = '2-x', leased_by = 'noor', leased_until = {NOW + 2 * SKEW_MS}"
    " WHERE comment_id = 2"
)


@pytest.mark.parametrize(
    ("check", "damage", "named"),
    [
        ("tracked-history", "UPDATE tracked_prs SET status = 'merged' WHERE pr_number = 12", f"{REPO}#12"),
        ("tracked-history", "DELETE FROM tracked_pr_history WHERE to_status = 'closed'", f"{REPO}#13"),
        ("tracked-history", "DELETE FROM tracked_pr_history WHERE tracked_pr_id = (SELECT MAX(id) FROM tracked_prs)",
         f"{REPO}#14"),
        ("event-versions", "UPDATE notes SET judged_at = NULL, judged_hash = NULL WHERE remote_id = 1",
         "feedback_events "),
        ("event-versions", "UPDATE notes SET judged_at = judged_at - 1 WHERE remote_id = 3", "feedback_events "),
        ("event-versions", "UPDATE notes SET judged_hash = NULL WHERE remote_id = 3", "notes "),
        ("event-versions", "UPDATE notes SET judged_at = NULL, judged_hash = NULL WHERE remote_id = 20", "notes "),
        ("events-in-flight", SECOND_IN_FLIGHT, f"{REPO}#12"),
        ("followups", "UPDATE issue_comment_cursors SET pre_pr_last_consumed_comment_id = 4 WHERE issue_number = 7",
         "feedback_events "),
        ("followups", "UPDATE issue_followups SET issue_number = 8 WHERE comment_id = 4", "issue_followups 8 4"),
        ("outbox", f"UPDATE action_tokens SET status = 'failed' WHERE token = '{TOKEN}'", "outbox "),
        ("outbox", "UPDATE outbox SET status = 'posted' WHERE status = 'planned'", "outbox "),
        ("outbox", "DELETE FROM action_tokens WHERE status = 'planned'", "outbox "),
        ("outbox", "UPDATE action_tokens SET attempt_count = 7 WHERE status = 'planned'", "outbox "),
    ],
)  # fmt: skip
def test_each_inconsistency_is_reported_by_exactly_one_check(
    filled: Database, break_it: Break, check: str, damage: str, named: str
) -> None:
    break_it(damage)
    found = failures(filled)
    assert found.keys() == {check}
    assert (found[check].count, named in found[check].detail) == (1, True)


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM discussions WHERE remote_id = 'issue_comment:1'",
        "UPDATE notes SET judged_at = NULL, judged_hash = NULL WHERE remote_id = 3",
        "UPDATE tracked_prs SET judge_from = 0 WHERE pr_number = 12",
    ],
    ids=["deleted on the server", "stored again after the pull request ended", "to be judged by the next run"],
)
def test_events_of_comments_that_are_gone_or_not_judged_again_yet_are_consistent(
    filled: Database, break_it: Break, change: str
) -> None:
    break_it(change)
    if "judge_from" in change:
        break_it("UPDATE notes SET judged_at = NULL, judged_hash = NULL WHERE remote_id = 1")
    assert failures(filled) == {}


def test_an_expired_event_lease_is_not_in_flight(filled: Database, break_it: Break) -> None:
    break_it(SECOND_IN_FLIGHT)
    assert [finding for finding in check_database(filled, NOW + 2 * SKEW_MS) if not finding.ok] == []
