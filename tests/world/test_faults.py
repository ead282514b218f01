"""The fault plan: each kind of fault does what it says, as often as it says, and counts it."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from typing import cast

import pytest
from tests.world.asking import PATH, PROJECT, ask, get, iids, project_world

from tidelore_world.damage import SlowResponse
from tidelore_world.faults import KINDS, Broken, FaultPlan, Kind, SimulatedDisconnect, SimulatedTimeout
from tidelore_world.world import World

LIST = f"{PROJECT}/issues?order_by=updated_at&sort=asc&per_page=2"


@pytest.fixture
def world() -> World:
    made = project_world()
    for _ in range(6):
        made.advance(10)
        made.gitlab.create_issue(PATH)
    made.advance(10)
    return made


@pytest.mark.parametrize("status", [401, 403, 429, 500, 502])
def test_a_status_fault_fires_once(world: World, status: int) -> None:
    fault = world.faults.add("status", status=status)
    assert ask(world, LIST).status == status
    assert ask(world, LIST).status == 200
    assert fault.fired == 1


def test_rate_limit_faults_carry_both_families_of_headers(world: World) -> None:
    world.faults.add("status", status=429, retry_after=7)
    world.faults.add("status", status=403, rate_limited=True)
    headers = ask(world, LIST).headers
    assert headers["retry-after"] == "7"
    assert headers["ratelimit-remaining"] == headers["x-ratelimit-remaining"] == "0"
    assert int(headers["x-ratelimit-reset"]) == world.clock.now_us // 1_000_000 + 7
    forbidden = ask(world, LIST)
    assert (forbidden.status, forbidden.headers["x-ratelimit-remaining"]) == (403, "0")
    world.faults.add("status", status=403)
    assert "x-ratelimit-remaining" not in ask(world, LIST).headers


def test_timeout_and_disconnect_raise_in_process(world: World) -> None:
    timeout = world.faults.add("timeout", seconds=3)
    dropped = world.faults.add("disconnect")
    with pytest.raises(SimulatedTimeout) as caught:
        ask(world, LIST)
    assert caught.value.seconds == 3
    with pytest.raises(SimulatedDisconnect):
        ask(world, LIST)
    assert (timeout.fired, dropped.fired) == (1, 1)
    assert ask(world, LIST).status == 200


def test_after_skips_matching_requests_and_times_limits_how_often_a_fault_fires(world: World) -> None:
    fault = world.faults.add("status", after=2, times=2, status=500)
    assert [ask(world, LIST).status for _ in range(6)] == [200, 200, 500, 500, 200, 200]
    assert fault.fired == 2


def test_a_fault_without_times_fires_until_cleared(world: World) -> None:
    world.faults.add("status", times=None, status=502)
    assert {ask(world, LIST).status for _ in range(5)} == {502}
    world.faults.clear()
    assert ask(world, LIST).status == 200


@pytest.mark.parametrize(
    "route", ["GET /projects/:id/issues", "/projects/:id/issues", f"{PROJECT}/iss", re.compile(r"/issues$")]
)
def test_route_limits_a_fault_by_name_prefix_path_prefix_or_pattern(world: World, route: str | re.Pattern[str]) -> None:
    world.faults.add("status", route, times=None, status=500)
    assert ask(world, LIST).status == 500
    assert ask(world, f"{PROJECT}/merge_requests").status == 200
    assert ask(world, PROJECT).status == 200


@pytest.mark.parametrize("mode", ["length", "json"])
def test_a_truncated_body_is_not_json_and_may_announce_more_than_it_has(world: World, mode: str) -> None:
    world.faults.add("truncated", mode=mode)
    response = ask(world, LIST)
    with pytest.raises(ValueError):
        json.loads(response.body)
    announced = int(response.headers["content-length"])
    assert announced > len(response.body) if mode == "length" else announced == len(response.body)
    assert "etag" not in response.headers


def test_not_json_is_html_with_status_200(world: World) -> None:
    world.faults.add("not_json")
    response = ask(world, LIST)
    assert (response.status, response.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert response.body.startswith(b"<!DOCTYPE html>")


def test_a_duplicate_fault_repeats_the_end_of_the_previous_page(world: World) -> None:
    fault = world.faults.add("duplicate", count=2)
    assert iids(world, LIST) == [1, 2]
    assert fault.fired == 0
    assert iids(world, f"{LIST}&page=2") == [1, 2, 3, 4]
    assert iids(world, f"{LIST}&page=3") == [5, 6]
    assert fault.fired == 1


def test_an_edit_between_pages_moves_an_item_of_the_previous_page(world: World) -> None:
    fault = world.faults.add("edit_between")
    assert iids(world, LIST) == [1, 2]
    shifted = iids(world, f"{LIST}&page=2")
    assert shifted == [4, 5]
    assert fault.fired == 1
    stamps = {row["iid"]: row["updated_at"] for row in world.gitlab.truth_issues(PATH)}
    assert world.clock.iso_ms() in (stamps[1], stamps[2])


def test_a_delete_between_pages_removes_an_item_of_the_previous_page(world: World) -> None:
    fault = world.faults.add("delete_between")
    assert iids(world, LIST) == [1, 2]
    assert iids(world, f"{LIST}&page=2") == [4, 5]
    assert fault.fired == 1
    assert len(world.gitlab.truth_issues(PATH)) == 5


def test_edits_between_pages_affect_discussions_too(world: World) -> None:
    issue = world.gitlab.issue(PATH, 1)
    for _ in range(4):
        world.gitlab.add_note(issue)
    world.faults.add("delete_between", "/projects/:id/issues/:iid/discussions")
    address = f"{PROJECT}/issues/1/discussions?per_page=2"
    first = get(world, address)
    second = get(world, f"{address}&page=2")
    assert (len(first), len(second)) == (2, 1)
    assert issue.user_notes_count == 3


def test_an_invalid_timestamp_fault_stays_with_its_item_until_cleared(world: World) -> None:
    fault = world.faults.add("invalid_timestamp")

    def spoiled() -> list[int]:
        return [row["iid"] for row in get(world, LIST) if row["updated_at"] == "not-a-date"]

    (number,) = spoiled()
    assert spoiled() == [number]
    assert get(world, f"{PROJECT}/issues/{number}")["updated_at"] == "not-a-date"
    assert fault.fired == 1
    assert world.gitlab.truth_issues(PATH)[number - 1]["updated_at"] != "not-a-date"
    world.faults.clear()
    assert spoiled() == []


@pytest.mark.parametrize(("shape", "check"), [("null", type(None)), ("string", str), ("no_id", dict)])
def test_a_malformed_item_fault_damages_one_row(world: World, shape: str, check: type) -> None:
    world.faults.add("malformed_item", shape=shape)
    rows = get(world, LIST)
    odd = [row for row in rows if not isinstance(row, dict) or "id" not in row]
    assert len(odd) == 1
    assert isinstance(odd[0], check)
    assert all("id" in row for row in get(world, LIST))


def test_a_slow_response_is_complete_and_reports_its_delay(world: World) -> None:
    world.faults.add("slow", seconds=0.25)
    response = ask(world, LIST)
    assert isinstance(response, SlowResponse)
    assert response.delay_seconds == 0.25
    assert len(json.loads(response.body)) == 2


def test_a_damaged_page_has_no_reusable_etag(world: World) -> None:
    good = ask(world, LIST).headers["etag"]
    for kind in ("malformed_item", "truncated", "not_json", "invalid_timestamp"):
        world.faults.add(kind)
        assert "etag" not in ask(world, LIST).headers
    world.faults.clear()
    assert ask(world, LIST, if_none_match=good).status == 304


def test_a_fault_that_finds_nothing_to_damage_has_not_fired(world: World) -> None:
    world.gitlab.create_project("harborline/empty")
    faults = [world.faults.add(kind, "/projects/:id/issues") for kind in ("malformed_item", "invalid_timestamp")]
    assert get(world, "/api/v4/projects/harborline%2Fempty/issues") == []
    assert [fault.fired for fault in faults] == [0, 0]


def test_unknown_fault_is_refused(world: World) -> None:
    with pytest.raises(ValueError, match="gremlin"):
        world.faults.add(cast("Kind", "gremlin"))


def test_a_random_fault_plan_fires_at_about_its_rate_with_every_kind() -> None:
    world = project_world()
    world.gitlab.bulk(PATH, issues=3_000)
    world.faults = FaultPlan.random(random.Random(5), rate=0.3)
    outcomes: Counter[str] = Counter()
    for page in range(1_500):
        try:
            outcomes[str(ask(world, f"{LIST}&page={page % 100 + 1}").status)] += 1
        except Broken as broken:
            outcomes[type(broken).__name__] += 1
    assert 300 <= world.faults.fired() <= 600
    assert {fault.kind for fault in world.faults.faults if fault.fired} == set(KINDS)
    assert outcomes["SimulatedTimeout"] > 0
    assert outcomes["SimulatedDisconnect"] > 0
    assert outcomes["200"] > 1_000


def test_a_random_fault_plan_is_repeatable() -> None:
    def fired(seed: int) -> list[int]:
        world = project_world()
        world.gitlab.bulk(PATH, issues=50)
        world.faults = FaultPlan.random(random.Random(seed), rate=0.5, kinds=("status", "not_json"))
        for _ in range(50):
            ask(world, LIST)
        return [fault.fired for fault in world.faults.faults]

    assert fired(1) == fired(1)
    assert fired(1) != fired(2)
