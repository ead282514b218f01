"""Reviews read by GraphQL and by REST are the same versions."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.situations.github.house import REPO, GitHubHouse
from tests.situations.github.truth import differences

VERSIONS = (
    "SELECT kind, remote_id, body, author_username, author_association, is_bot, url, review_state, review_id,"
    " position_head_sha, version_hash, created_at FROM notes ORDER BY kind, remote_id"
)


@pytest.fixture
def house(tmp_path: Path) -> GitHubHouse:
    house = GitHubHouse(tmp_path)
    forge = house.forge
    number = forge.create_pull(REPO).number
    forge.review(REPO, number, "APPROVED", "Looks right.", "mira")
    forge.review(REPO, number, "COMMENTED", "A bot speaks.", "crab[bot]")
    forge.review(REPO, number, "CHANGES_REQUESTED", "", "cole")
    forge.review_comment(REPO, number, "Why?", author="cole")
    house.world.advance(600)
    return house


def test_a_review_read_by_rest_after_graphql_is_not_a_new_version(house: GitHubHouse) -> None:
    house.sync()
    before = house.rows(VERSIONS)
    assert sum(row[0] == "review_summary" for row in before) >= 3
    house.world.faults.add("status", "POST /graphql", None, status=403)
    report = house.run(full=True)
    assert report is not None
    assert house.rows(VERSIONS) == before
    with house.database() as database:
        assert differences(database, house.forge, REPO) == []


def test_all_children_of_pull_requests_that_moved_come_with_one_query(house: GitHubHouse) -> None:
    for _ in range(5):
        house.forge.create_pull(REPO)
    house.world.advance(600)
    asked = house.requests(house.sync)
    assert asked["POST /graphql"] == 1
    assert not any("reviews" in route for route in asked)
