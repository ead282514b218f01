"""Following a pull request: the steps that exist, and what a look at the remote says."""

from __future__ import annotations

from itertools import product

import pytest
from tests.unit.feedback.people import remote_pull, settings

from tidelore.errors import IllegalTransition
from tidelore.feedback.tracking import STEPS, check_step, judge_head, judge_pull, matches_rule
from tidelore.store.tracked import TERMINAL

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
def test_only_the_steps_of_the_table_exist(before: str | None, after: str) -> None:
    if (before, after) in LEGAL:
        check_step(before, after)
    else:
        with pytest.raises(IllegalTransition) as refused:
            check_step(before, after)
        assert refused.value.details["after"] == after


def test_the_table_knows_every_status_and_merged_is_the_end() -> None:
    assert set(STEPS) == {None, *STATUSES}
    assert STEPS["merged"] == frozenset()
    assert set(TERMINAL) == {"merged", "closed"}


def test_merged_is_tested_before_closed() -> None:
    assert judge_pull(remote_pull(state="closed", merged=True, merged_at=5, closed_at=5), "a" * 40) == "merged"
    assert judge_pull(remote_pull(state="closed", merged=False, merged_at=5, closed_at=5), "a" * 40) == "merged"
    assert judge_pull(remote_pull(state="closed", closed_at=5), "a" * 40) == "closed"


def test_a_head_that_was_not_seen_is_compared_and_one_that_was_is_not() -> None:
    assert judge_pull(remote_pull(), "a" * 40) == "same"
    assert judge_pull(remote_pull(), "b" * 40) == "compare"
    assert judge_pull(remote_pull(), None) == "compare"


def test_an_end_is_told_although_the_head_moved_too() -> None:
    assert judge_pull(remote_pull(state="closed", merged=True), "b" * 40) == "merged"


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
def test_a_head_is_followed_only_when_it_descends_from_the_last_one(word: str, verdict: str) -> None:
    assert judge_head(word) == verdict


def test_a_rule_follows_by_author_or_by_label_whatever_the_case() -> None:
    assert matches_rule(remote_pull(), settings(track_authors=("robin",)))
    assert matches_rule(remote_pull(), settings(track_labels=("agent",)))
    assert not matches_rule(remote_pull(), settings(track_authors=("alex",), track_labels=("human",)))
    assert not matches_rule(remote_pull(author=None, labels=()), settings(track_authors=("robin",)))
    assert not matches_rule(remote_pull(), settings())


def test_a_rule_follows_nothing_that_has_ended() -> None:
    rule = settings(track_authors=("robin",))
    assert not matches_rule(remote_pull(state="closed"), rule)
    assert not matches_rule(remote_pull(state="closed", merged=True), rule)
