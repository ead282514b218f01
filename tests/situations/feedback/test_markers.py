"""Markers in comments: one of ours says that an answer arrived; in anybody else's words it is text like any other."""

from __future__ import annotations

import pytest
from tests.situations.feedback.bench import REPO, Bench

from tidelore.feedback.outbox import AnswerRequest, post
from tidelore.feedback.tokens import find_markers, marker
from tidelore.store.work.outbox import OutboxRow

BY = pytest.mark.parametrize("fetch", ["repo", "thread"])


def answered(bench: Bench, fetch: str) -> OutboxRow:
    """An answer of ours stands on pull request 1, in the name of an allowed user."""
    bench.host |= {"fetch": fetch, "allowed_users": ["octo"], "operator_logins": ["octo"], "write_interval_seconds": 0}
    bench.hub.settings.viewer = "octo"
    bench.track(1)
    bench.settle(2)
    project = bench.project()
    answering = AnswerRequest("pr", 1, "Done.", "reply")
    done = bench.run(
        lambda shop, source: post(shop.database, source, project, bench.github, answering, bench.clock, shop.seam)
    )
    assert done.error is None
    assert bench.read("SELECT status FROM action_tokens") == [("observed",)]
    return done.row


@BY
def test_our_own_reply_is_not_an_event_although_our_account_is_an_allowed_user(bench: Bench, fetch: str) -> None:
    answered(bench, fetch)
    bench.settle(2)
    assert bench.bodies() == []


@BY
def test_a_comment_by_an_allowed_user_quoting_our_marker_becomes_an_event(bench: Bench, fetch: str) -> None:
    row = answered(bench, fetch)
    quoted = "".join(f"> {line}\n" for line in row.body.splitlines()) + "\nNo, it is not done."
    assert find_markers(quoted) == (row.token,)
    bench.hub.comment(REPO, 1, quoted)
    bench.settle(2)
    assert bench.bodies() == [quoted]
    assert bench.read("SELECT observed_comment_id FROM action_tokens") == [(row.comment_id,)]


@BY
def test_a_command_followed_by_our_quoted_marker_is_still_a_command(bench: Bench, fetch: str) -> None:
    row = answered(bench, fetch)
    bench.hub.comment(REPO, 1, f"/lore status\n\n> {marker(row.token)}")
    bench.settle(2)
    assert bench.read("SELECT command FROM operator_commands") == [("status",)]


@BY
def test_a_marker_without_a_valid_signature_is_treated_as_plain_text(bench: Bench, fetch: str) -> None:
    bench.host |= {"fetch": fetch}
    bench.track(1)
    bench.settle(2)
    body = f"Please rename it. {marker('0' * 64)}"
    bench.hub.comment(REPO, 1, body)
    bench.settle(2)
    assert bench.bodies() == [body]
