"""Following a pull request: the steps that exist, and what a look at the remote says."""

from __future__ import annotations

from itertools import product

import pytest
from msgspec.structs import replace
from tests.databases.samples import merge_request
from tests.unit.feedback.people import remote_pull, settings

from tidelore.core.errors import IllegalTransition
from tidelore.core.model import pull_of
from tidelore.feedback.lifecycle import STEPS, check_step, classify_head, classify_pull, matches_rule
from tidelore.store.work.tracked_pull_requests import TERMINAL

LEGAL = {
    (None, "awaiting_feedback"),
    ("awaiting_feedback", "blocked"),
    ("awaiting_feedback", "merged"),
    ("awaiting_feedback", "closed"),
    ("blocked", "awaiting_feedback"),
    ("blocked", "merged"),
    ("blocked", "closed"),
    ("closed", "awaiting_feedback"),
}
STATUSES = ("awaiting_feedback", "blocked", "merged", "closed")


@pytest.mark.parametrize(("before", "after"), list(product((None, *STATUSES), STATUSES)))
def test_only_the_listed_status_transitions_are_allowed(before: str | None, after: str) -> None:
    if (before, after) in LEGAL:
        check_step(before, after)
    else:
        with pytest.raises(IllegalTransition) as refused:
            check_step(before, after)
        assert refused.value.details["after"] == after


def test_every_status_has_transitions_and_merged_has_none() -> None:
    assert set(STEPS) == {None, *STATUSES}
    assert STEPS["merged"] == frozenset()
    assert set(TERMINAL) == {"merged", "closed"}


def test_a_merged_pull_request_is_not_reported_as_closed() -> None:
    assert classify_pull(remote_pull(state="merged"), "a" * 40) == "merged"
    assert classify_pull(remote_pull(state="closed"), "a" * 40) == "closed"
    record = merge_request(1, state="closed").record
    assert pull_of(record).state == "closed"
    assert pull_of(replace(record, merged_at=5)).state == "merged"


def test_an_unknown_head_commit_is_compared_and_a_known_one_is_not() -> None:
    assert classify_pull(remote_pull(), "a" * 40) == "same"
    assert classify_pull(remote_pull(), "b" * 40) == "compare"
    assert classify_pull(remote_pull(), None) == "compare"


def test_a_merge_or_close_is_reported_even_if_the_head_moved_too() -> None:
    assert classify_pull(remote_pull(state="merged"), "b" * 40) == "merged"


@pytest.mark.parametrize(
    ("word", "verdict"),
    [
        ("ahead", "follow"),
        ("identical", "follow"),
        ("behind", "history_rewritten"),
        ("diverged", "history_rewritten"),
        ("sideways", "history_rewritten"),
        ("", "history_rewritten"),
    ],
)
def test_a_new_head_is_accepted_only_when_it_descends_from_the_last_one(word: str, verdict: str) -> None:
    assert classify_head(word) == verdict


def test_a_tracking_rule_matches_author_or_label_case_insensitively() -> None:
    assert matches_rule(remote_pull(), settings(track_authors=("robin",)))
    assert matches_rule(remote_pull(), settings(track_labels=("agent",)))
    assert not matches_rule(remote_pull(), settings(track_authors=("alex",), track_labels=("human",)))
    assert not matches_rule(remote_pull(author=None, labels=()), settings(track_authors=("robin",)))
    assert not matches_rule(remote_pull(), settings())


def test_a_tracking_rule_ignores_ended_pull_requests() -> None:
    rule = settings(track_authors=("robin",))
    assert not matches_rule(remote_pull(state="closed"), rule)
    assert not matches_rule(remote_pull(state="merged"), rule)
