"""Random histories of a GitHub repository, with failing requests and killed runs: the copy equals the server."""

from __future__ import annotations

import random

import pytest
from tests.properties.inprocess import Reaper, scratch
from tests.situations.github.house import REPO, GitHubHouse
from tests.situations.github.truth import differences
from tests.support.deep import gate_cases

from tidelore_world.faults import Kind
from tidelore_world.github.churn import EVERYDAY

KINDS = (
    *EVERYDAY,
    "edit_discussion_comment",
    "delete_discussion_comment",
    "outdate",
    "force_push",
    "add_files",
    "close_pull",
    "lock",
    "delete_issue",
    "edit_review",
    "dismiss_review",
    "draft_review",
    "submit_review",
)
FAULTS: tuple[Kind, ...] = ("status", "timeout", "disconnect", "truncated", "not_json", "edit_between")
ROUNDS = 4
PASSES = 12
"""Verification that reads everything needs at most this many runs of a small repository."""


def begin(house: GitHubHouse) -> None:
    for _ in range(2):
        house.forge.create_pull(REPO)
        house.forge.create_issue(REPO, "a question", "with a text")
    house.forge.create_discussion(REPO, "a topic", "with a text", category="Q&A")


def check_history(seed: int) -> None:
    """Let things happen between runs, some of which fail or die, then verify everything and compare."""
    rng = random.Random(seed)
    with scratch() as folder:
        house = GitHubHouse(folder, http={"per_page": rng.choice((2, 3, 10, 100)), "max_retries": 1})
        begin(house)
        for _ in range(ROUNDS):
            house.forge.change(rng.randrange(1, 25), rng, KINDS, house.world.advance)
            if rng.random() < 0.3:
                house.world.faults.add(rng.choice(FAULTS), None, rng.randrange(1, 5), rng.randrange(12))
            house.run(Reaper(rng.randrange(60)) if rng.random() < 0.4 else None)
            house.world.advance(rng.choice((1, 5, 90)))
        settle(house)
        with house.database() as database:
            assert differences(database, house.forge, REPO) == []


def settle(house: GitHubHouse) -> None:
    """Run until every list and every child has been verified once."""
    house.world.faults.clear()
    for _ in range(PASSES):
        house.world.advance(120)
        house.sync(scrub_budget=400)


@pytest.mark.parametrize("seed", range(12))
@gate_cases(3)
def test_the_copy_of_a_repository_equals_the_server_after_a_random_history(seed: int) -> None:
    check_history(seed)


@pytest.mark.deep
@pytest.mark.parametrize("part", range(6))
def test_the_copy_of_a_repository_equals_the_server_after_many_random_histories(part: int) -> None:
    for seed in range(1000 + part * 40, 1040 + part * 40):
        check_history(seed)
