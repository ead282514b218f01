"""The service reads one tracked thread in full now and then: what was missed is counted, logged and repaired."""

from __future__ import annotations

import logging

import pytest
from tests.situations.feedback.bench import REPO, Bench, key, open_pulls

from tidelore_world.github.records import Comment
from tidelore_world.wire import Request

COUNTED = "SELECT name, value FROM metric_counters WHERE name LIKE 'feedback_shadow%' AND value > 0 ORDER BY name"


def lose(bench: Bench, body: str) -> None:
    """Forget a comment as if it had never been read, although the cursors have passed it."""
    bench.write(f"DELETE FROM feedback_events WHERE body = '{body}'")
    bench.write(f"DELETE FROM notes WHERE body = '{body}'")


def test_a_missed_comment_is_found_counted_logged_and_becomes_its_event(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.host["fetch"] = "repo"
    bench.track(1)
    lost, kept = bench.hub.comment(REPO, 1, "lost"), bench.hub.comment(REPO, 1, "kept")
    bench.settle(3)
    lose(bench, "lost")
    bench.settle(1)
    assert bench.event_keys() == [key(kept)], "no list shows it again"
    bench.is_sampled = lambda share: share == 0.01
    bench.world.advance(60)
    news: list[Comment] = []

    def interject(request: Request) -> None:
        if request.path.endswith("/issues/1/comments") and not news:
            news.append(bench.hub.comment(REPO, 1, "said after the lists were read, so not missed"))

    bench.world.before_request.append(interject)
    with caplog.at_level(logging.WARNING):
        assert bench.poll().effects["shadow_differences"] == 1
    assert sorted(bench.event_keys()) == sorted((key(lost), key(kept), key(news[0])))
    assert bench.read(COUNTED) == [("feedback_shadow_differences_total", 1), ("feedback_shadow_scans_total", 1)]
    told = [record for record in caplog.records if getattr(record, "event", "") == "shadow_difference"]
    assert [record.__dict__["comment_id"] for record in told] == [lost.id]
    bench.world.advance(60)
    bench.poll()
    assert bench.read(COUNTED) == [("feedback_shadow_differences_total", 1), ("feedback_shadow_scans_total", 2)]
    assert len(bench.event_keys()) == 3


def test_threads_are_compared_in_turn_and_only_as_often_as_the_share_says(bench: Bench) -> None:
    open_pulls(bench.world, 2)
    bench.track(1, 2, 3)
    bench.settle(2)
    asked: list[float] = []
    bench.host["shadow_sample"] = 0.5

    def every_second(share: float) -> bool:
        asked.append(share)
        return len(asked) % 2 == 1

    bench.is_sampled = every_second
    bench.settle(6)
    assert asked == [0.5] * 6
    rows = bench.read("SELECT pr_number FROM tracked_prs WHERE compared_at IS NOT NULL ORDER BY compared_at")
    assert rows == [(1,), (2,), (3,)]
