"""The world's door: routing, counting, the log, hooks and the Date header."""

from __future__ import annotations

import pytest
from tests.world.asking import PATH, PROJECT, ask, iids, project_world

from tidelore_world.faults import SimulatedDisconnect
from tidelore_world.wire import Request
from tidelore_world.world import World, build_world


def test_requests_are_counted_by_route_name() -> None:
    world = project_world()
    world.gitlab.create_issue(PATH)
    for target in (PROJECT, f"{PROJECT}/issues?page=1", f"{PROJECT}/issues?page=2", f"{PROJECT}/issues/1/discussions"):
        ask(world, target)
    ask(world, "/nowhere")
    assert world.requests == {
        "GET /projects/:id": 1,
        "GET /projects/:id/issues": 2,
        "GET /projects/:id/issues/:iid/discussions": 1,
        "GET (no route)": 1,
    }
    assert world.requests.total() == 5


def test_the_date_header_is_the_worlds_time() -> None:
    world = project_world()
    assert ask(world, PROJECT).headers["date"] == "Mon, 02 Mar 2026 09:00:00 GMT"
    world.advance(3_601.9)
    assert ask(world, PROJECT).headers["date"] == "Mon, 02 Mar 2026 10:00:01 GMT"
    assert ask(world, "/nowhere").headers["date"] == "Mon, 02 Mar 2026 10:00:01 GMT"


def test_request_hooks_may_change_the_world_between_two_pages() -> None:
    world = project_world()
    for _ in range(4):
        world.advance(1)
        world.gitlab.create_issue(PATH)

    def edit_first_before_second_page(request: Request) -> None:
        if request.first("page") == "2":
            world.advance(1)
            world.gitlab.edit_issue(PATH, 1)

    world.before_request.append(edit_first_before_second_page)
    address = f"{PROJECT}/issues?order_by=updated_at&sort=asc&per_page=2"
    assert iids(world, f"{address}&page=1") == [1, 2]
    assert iids(world, f"{address}&page=2") == [4, 1]


def test_the_request_log_keeps_method_target_and_status() -> None:
    world = project_world()
    ask(world, f"{PROJECT}/issues?page=1&per_page=5")
    world.faults.add("disconnect")
    with pytest.raises(SimulatedDisconnect):
        ask(world, PROJECT)
    assert world.log == [("GET", f"{PROJECT}/issues?page=1&per_page=5", 200), ("GET", PROJECT, 0)]
    world.keep_log = False
    ask(world, PROJECT)
    assert len(world.log) == 2


def test_the_request_log_is_bounded() -> None:
    world = World()
    for _ in range(20_050):
        ask(world, "/x")
    assert 10_000 <= len(world.log) <= 20_000
    assert world.requests.total() == 20_050


def test_all_forges_are_served_on_the_same_origin() -> None:
    world = build_world(scale=0.05)
    repository = world.github.truth_repos()[0]
    assert ask(world, "/api/v4/version").status == 200
    assert ask(world, f"/repos/{repository}").status == 200
    assert ask(world, "/xrpc/app.bsky.feed.getAuthorFeed?actor=nobody.example").status == 400
    assert "GET (no route)" not in world.requests
    assert len(world.requests) == 3


def test_worlds_built_with_one_seed_are_equal() -> None:
    first, second = (build_world(seed=11, scale=0.05) for _ in range(2))
    for number in first.gitlab.projects:
        assert first.gitlab.truth_issues(number) == second.gitlab.truth_issues(number)
    name = first.github.truth_repos()[0]
    assert first.github.truth_issues(name) == second.github.truth_issues(name)
