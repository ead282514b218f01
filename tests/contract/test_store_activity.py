"""Bounded questions: what they answer on both databases, and that none of them goes through the copy."""

from __future__ import annotations

import pytest
from tests.databases.feedback_samples import NOW, TOKEN, add_events, comment, followed, repository
from tests.databases.feeds import MIRA, NOOR, OTTO, follow, post, share
from tests.databases.samples import CREATED, add_project, issue, merge_request
from tests.databases.talk import keep
from tests.support.manual_clock import ManualClock

from tidelore.core.process import ProcessIdentity
from tidelore.engine.ledger import Counters, Run
from tidelore.store.database.port import Database
from tidelore.store.mirror.accounts import pause_account
from tidelore.store.mirror.kinds import ISSUE, MERGE_REQUEST
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS
from tidelore.store.work import activity
from tidelore.store.work.events import PlannedReply
from tidelore.store.work.outbox import mark_failed, mark_observed, plan
from tidelore.store.work.runs import RunTable
from tidelore.store.work.tracked_pull_requests import BLOCKED, move

ME = ProcessIdentity("here", 10, "100")


def begin(database: Database, at: int, requests: int = 0) -> Run:
    run = Run.start(RunTable(database), ManualClock(at), "lore sync", ME, phase="ingest")
    run.set_counters(Counters(requests=requests, issues_ingested=2, mrs_ingested=1))
    return run


def test_runs_are_found_by_status(database: Database) -> None:
    begin(database, NOW).finish_succeeded()
    begin(database, NOW + 1).finish_failed("the server is gone")
    begin(database, NOW + 2).finish_cancelled()
    going = begin(database, NOW + 3)
    assert [run.id for run in activity.running(database)] == [going.id]
    assert [run.status for run in activity.newest_runs(database, 2)] == ["running", "cancelled"]
    assert [run.status for run in activity.newest_unfinished(database, 10)] == ["cancelled", "failed"]
    assert [run.status for run in activity.newest_unfinished(database, 1)] == ["cancelled"]


def test_request_and_item_counts_cover_runs_active_since_a_time(database: Database) -> None:
    begin(database, NOW - 100_000, 5).finish_succeeded()
    begin(database, NOW, 7)
    assert [(found.requests, found.items) for found in activity.run_costs(database, NOW - 50_000)] == [(7, 3)]
    assert [found.requests for found in activity.run_costs(database, NOW - 200_000)] == [7, 5]


def test_due_parents_are_counted_by_project_without_deleted_ones(database: Database) -> None:
    first, second = add_project(database, 1, "port/one"), add_project(database, 2, "port/two")
    keep(database, first, ISSUES, [issue(1), issue(2), issue(3)])
    keep(database, second, ISSUES, [issue(4)])
    keep(database, first, ISSUES, [], gone=[3])
    keep(database, second, MERGE_REQUESTS, [merge_request(9)])
    assert activity.due_parents(database, ISSUE, "discussions") == {first.id: 2, second.id: 1}
    assert activity.due_parents(database, MERGE_REQUEST, "diffs") == {second.id: 1}
    with database.transaction() as tx:
        tx.execute("UPDATE child_sync SET synced_for = parent_updated_at")
    assert activity.due_parents(database, ISSUE, "discussions") == {}


def test_counting_stops_at_the_limit(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "MOST", 2)
    project = add_project(database)
    keep(database, project, ISSUES, [issue(1), issue(2), issue(3)])
    assert activity.due_parents(database, ISSUE, "discussions") == {project.id: 2}
    assert activity.waiting_documents(database) == 2


def test_waiting_github_events_and_replies_are_counted_and_listed(database: Database) -> None:
    project = repository(database)
    first, _ = followed(database, project, 12, 15)
    add_events(database, project, [comment(1), comment(2)])
    with database.transaction() as tx:
        move(tx, first, BLOCKED, "force_pushed", None, NOW)
        rows = [
            plan(
                tx,
                project.id,
                project.path,
                PlannedReply("pr", 12, None, f"{place:02}{TOKEN[2:]}", "Seen.", "operator"),
                NOW,
            )
            for place in range(3)
        ]
        mark_failed(tx, rows[1].id, "refused", NOW)
    assert activity.waiting_events(database) == 2
    assert activity.waiting_answers(database) == 2
    assert activity.blocked_pulls(database) == 1
    assert [(row.id, row.status) for row in activity.answers(database)] == [
        (rows[2].id, "planned"),
        (rows[1].id, "failed"),
        (rows[0].id, "planned"),
    ]


def test_the_latest_delivered_replies_are_listed(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "_ARRIVED", 2)
    project = repository(database)
    followed(database, project, 12)
    with database.transaction() as tx:
        rows = [
            plan(
                tx,
                project.id,
                project.path,
                PlannedReply("pr", 12, None, f"{place:02}{TOKEN[2:]}", "Seen.", "operator"),
                NOW,
            )
            for place in range(4)
        ]
        for row in rows[:3]:
            mark_observed(tx, row.id, 900 + row.id, NOW, NOW)
    assert activity.waiting_answers(database) == 1
    assert [(row.id, row.status) for row in activity.answers(database)] == [
        (rows[3].id, "planned"),
        (rows[2].id, "observed"),
        (rows[1].id, "observed"),
    ]


def test_accounts_are_found_by_a_part_of_their_handle(database: Database) -> None:
    follow(database, MIRA, NOOR, OTTO)
    assert [row.handle for row in activity.accounts(database, "")] == ["mira.test", "noor.test", "otto.test"]
    assert [row.handle for row in activity.accounts(database, "OO")] == ["noor.test"]
    # Signs that mean something to a database mean nothing here.
    assert activity.accounts(database, "%") == []
    assert activity.accounts(database, "_") == []


def test_due_accounts_are_counted_without_paused_ones(database: Database) -> None:
    rows = follow(database, MIRA, NOOR)
    assert activity.due_accounts(database, CREATED) == 2
    assert activity.due_accounts(database, CREATED - 1) == 0
    with database.transaction() as tx:
        pause_account(tx, rows[0].id, None, CREATED)
    assert activity.due_accounts(database, CREATED) == 1


def test_arrivals_are_posts_and_events_since_a_time(database: Database) -> None:
    share(database, post(MIRA, "a"), now_ms=NOW - 500)
    share(database, post(MIRA, "b"), now_ms=NOW - 50)
    add_events(database, repository(database), [comment(1)])
    assert sorted(activity.arrivals(database, NOW - 100)) == [NOW - 50, NOW]


def test_cursors_are_summarised_by_surface(database: Database) -> None:
    follow(database, MIRA)
    share(database, post(MIRA, "a"), now_ms=NOW)
    project = add_project(database)
    keep(database, project, ISSUES, [issue(1)])
    found = {(row.source, row.surface): row for row in activity.positions(database)}
    assert set(found) == {("bluesky", "bluesky.author_feed"), ("gitlab", "gitlab.issues")}
    assert found["bluesky", "bluesky.author_feed"].newest_at == NOW
    assert found["gitlab", "gitlab.issues"].scopes == 1
    assert activity.quarantined(database) == 0
