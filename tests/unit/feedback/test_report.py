"""Metrics of the feedback: the names that are documented, and true ages."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from tests.support.manual_clock import ManualClock
from tests.unit.feedback.people import START

from tidelore.core.model import Position, ProjectRecord
from tidelore.engine.cursor import Cursor
from tidelore.feedback.report import FEEDBACK_METRICS, collect_feedback, cursor_lags
from tidelore.service.metrics import collect_all, render
from tidelore.store.database.port import Database
from tidelore.store.mirror.cursors import CursorRow, save_cursor, thread_scope
from tidelore.store.mirror.projects import save_project
from tidelore.store.work.action_tokens import record_action_token_observed, record_action_token_planned
from tidelore.store.work.events import PlannedReply
from tidelore.store.work.service_records import add_to_counter
from tidelore.store.work.tracked_pull_requests import move, track

NAMES = {
    "github_comment_fetch_requests_total": ("surface",),
    "github_comment_fetch_pages_total": ("surface",),
    "github_comment_fetched_total": ("surface",),
    "github_comment_new_total": ("surface",),
    "github_comment_replay_total": ("surface",),
    "github_comment_cursor_lag_seconds": ("surface",),
    "feedback_events_ingested_total": (),
    "feedback_events_deduped_total": (),
    "action_tokens_total": ("status", "source"),
    "action_token_unobserved_age_seconds": (),
    "operator_commands_seen_total": (),
    "operator_commands_applied_total": (),
    "feedback_shadow_scans_total": (),
    "feedback_shadow_differences_total": (),
}
REPO = "harbor/cranes"


def row(surface: str, scope: str, polled_at: int | None, **changes: Any) -> CursorRow:
    made = CursorRow(
        source="github",
        surface=f"github.{surface}",
        scope=scope,
        project=REPO,
        account=None,
        watermark_at=START,
        watermark_id="5",
        bootstrap_complete=1,
        reading=None,
        etag=None,
        url=None,
        polled_at=polled_at,
        verified_at=None,
        updated_at=START,
        set_aside=None,
        set_aside_at=None,
        horizon_at=None,
        gaps=0,
    )
    return replace(made, **changes)


def test_every_documented_name_is_exported_and_no_other() -> None:
    assert {metric.name: metric.labels for metric in FEEDBACK_METRICS} == NAMES


def test_the_lag_is_the_age_of_the_oldest_confirmed_position() -> None:
    cursors = [row("issue_comments", "1", START - 5_000), row("issue_comments", "2", START - 65_000)]
    assert cursor_lags(cursors, set(), START) == {"issue_comments": 65.0}


def test_a_repository_feed_confirms_the_threads_it_covers() -> None:
    cursors = [
        row("issue_comments", "1", START - 5_000),
        row("pr_issue_comments", "1#12", START - 3_600_000),
        row("pr_review_comments", "1#12", START - 7_000),
    ]
    assert cursor_lags(cursors, set(), START) == {
        "issue_comments": 5.0,
        "pr_issue_comments": 5.0,
        "pr_review_comments": 7.0,
    }


def test_a_thread_that_was_not_read_to_its_end_is_not_covered_by_the_feed() -> None:
    cursors = [
        row("issue_comments", "1", START - 5_000),
        row("pr_issue_comments", "1#12", START - 60_000, bootstrap_complete=0),
    ]
    assert cursor_lags(cursors, set(), START)["pr_issue_comments"] == 60.0


def test_ended_threads_and_unconfirmed_positions_have_no_lag() -> None:
    cursors = [
        row("pr_issue_comments", "1#12", START - 5_000),
        row("pr_review_comments", "1#13", None),
        replace(row("x", "1", START), surface="gitlab.issues"),
    ]
    assert cursor_lags(cursors, {("github", "1#12")}, START) == {}
    assert cursor_lags(cursors, {("elsewhere", "1#12")}, START) == {"pr_issue_comments": 5.0}


def test_the_lag_is_never_negative_after_the_clock_was_set_back() -> None:
    assert cursor_lags([row("pulls", "1", START + 5_000)], set(), START) == {"pulls": 0.0}


def test_stored_counters_are_exported_unchanged(database: Database, clock: ManualClock) -> None:
    now = clock.now_ms()
    with database.transaction() as tx:
        project = save_project(tx, "github", REPO, ProjectRecord(1, REPO, "cranes", None, archived=False), now)
        add_to_counter(tx, "github_comment_fetched_total", {"surface": "issue_comments"}, 7)
        add_to_counter(tx, "feedback_events_ingested_total", {}, 2)
        for place, name in enumerate("ab"):
            reply = PlannedReply("pr", 12, None, name * 64, "Seen.", "reply")
            record_action_token_planned(tx, project.id, REPO, reply, now + place * 10_000)
        record_action_token_observed(tx, REPO, "a" * 64, 501, now, now)
        for number in (12, 13):
            scope = thread_scope("github", project.id, 1, "pr_issue_comments", number)
            save_cursor(tx, scope, Cursor(watermark=Position(now, 5), complete=True), now + (number - 12) * 4_000)
        ended = track(tx, project.id, REPO, 12, issue_number=None, tracked_by="rule", now_ms=now)
        move(tx, ended, "closed", "seen", None, now)
    clock.advance(60)
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for sample in collect_feedback(database, clock.now_ms())
    }
    assert found == {
        ("github_comment_fetched_total", ("surface", "issue_comments")): 7,
        ("feedback_events_ingested_total",): 2,
        ("github_comment_cursor_lag_seconds", ("surface", "pr_issue_comments")): 56.0,
        ("action_tokens_total", ("source", "reply"), ("status", "observed")): 1,
        ("action_tokens_total", ("source", "reply"), ("status", "planned")): 1,
        ("action_token_unobserved_age_seconds",): 50.0,
    }
    text = render(collect_all(database, clock.now_ms()))
    assert 'action_tokens_total{source="reply",status="planned"} 1.0\n' in text
    assert 'github_comment_cursor_lag_seconds{surface="pr_issue_comments"} 56.0\n' in text
