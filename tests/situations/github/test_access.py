"""Reads that were refused or interrupted, after the address or the token was changed."""

from __future__ import annotations

import re
from pathlib import Path

from tests.properties.inprocess import BASE_URL
from tests.situations.github.house import REPO, GitHubHouse

TIMELINE = re.compile(r"/issues/\d+/timeline$")


def unavailable(house: GitHubHouse) -> list[str]:
    return sorted(house.column("SELECT kind FROM refused_children WHERE attempts > 0"))


def test_a_kind_refused_to_one_token_is_requested_with_another_at_once(tmp_path: Path) -> None:
    house = GitHubHouse(tmp_path)
    for _ in range(4):
        house.forge.create_issue(REPO)
    house.world.advance(600)
    house.world.faults.add("status", TIMELINE, times=None, status=403)
    house.sync()
    assert unavailable(house) == ["resource_events"]
    house.world.faults.clear()
    house.world.advance(600)
    assert not any("timeline" in route for route in house.requests(house.sync))
    house.token = "with-more-rights"
    spent = house.requests(house.sync)
    assert sum(times for route, times in spent.items() if "timeline" in route) == 4
    assert unavailable(house) == []
    assert house.differences() == []
    assert not any("timeline" in route for route in house.requests(house.sync))


def test_a_list_of_pull_requests_interrupted_at_the_old_address_is_read_on_at_the_new_one(tmp_path: Path) -> None:
    house = GitHubHouse(tmp_path, http={"per_page": 2, "max_retries": 0})
    for _ in range(9):
        house.forge.create_pull(REPO)
        house.world.advance(60)
    house.world.faults.add("status", re.compile(r"/pulls$"), times=None, after=2, status=502)
    house.run()
    house.world.faults.clear()
    house.settings["host"] = {"base_url": BASE_URL.replace("127.0.0.1", "localhost")}
    house.world.advance(600)
    house.sync()
    house.verify()
    assert house.differences() == []
