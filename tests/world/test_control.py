"""The remote control under `/_sim/`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.world.asking import PATH, PROJECT, ask, get, project_world

from tidelore_world.world import World

ENCODED = PATH.replace("/", "%2F")


@pytest.fixture
def world() -> World:
    made = project_world()
    made.gitlab.bulk(PATH, issues=5, merge_requests=4)
    return made


def _post(world: World, target: str, body: object = None) -> Any:
    response = ask(world, target, "POST", b"" if body is None else json.dumps(body).encode())
    assert response.status == 200, response.body
    return json.loads(response.body)


def test_the_control_index_lists_every_control(world: World) -> None:
    assert "GET /_sim/stats" in get(world, "/_sim/")
    assert get(world, "/_sim") == get(world, "/_sim/")


def test_control_requests_are_not_counted_logged_or_affected_by_faults(world: World) -> None:
    world.faults.add("status", times=None, status=500)
    get(world, "/_sim/stats")
    get(world, "/_sim/projects")
    assert world.requests.total() == 0
    assert world.log == []


def test_request_stats_are_counted_by_route_and_can_be_reset(world: World) -> None:
    get(world, f"{PROJECT}/issues")
    get(world, f"{PROJECT}/issues?page=2")
    assert get(world, "/_sim/stats") == {"requests": {"GET /projects/:id/issues": 2}, "total": 2}
    _post(world, "/_sim/stats/reset")
    assert get(world, "/_sim/stats") == {"requests": {}, "total": 0}


def test_the_advance_control_moves_the_world_clock(world: World) -> None:
    assert _post(world, "/_sim/advance?seconds=90.5") == {"now": "2026-03-02T09:01:30.500Z"}
    assert world.clock.iso_ms() == "2026-03-02T09:01:30.500Z"


@pytest.mark.parametrize("kind", ["issues", "merge_requests"])
def test_the_truth_control_equals_the_api_list(world: World, kind: str) -> None:
    truth = get(world, f"/_sim/truth/gitlab/{ENCODED}/{kind}")
    assert truth == sorted(get(world, f"{PROJECT}/{kind}"), key=lambda row: row["iid"])
    assert len(truth) >= 4


def test_the_projects_control_lists_paths_and_sizes(world: World) -> None:
    (project,) = get(world, "/_sim/projects")
    assert (project["path"], project["issues"], project["merge_requests"]) == (PATH, 5, 4)


def test_the_change_control_is_seeded_and_reports_the_changes() -> None:
    def run(seed: int) -> Any:
        made = project_world()
        made.gitlab.bulk(PATH, issues=20, merge_requests=20)
        return _post(made, f"/_sim/change?seed={seed}&count=12"), made.gitlab.truth_issues(PATH)

    assert run(3) == run(3)
    assert run(3) != run(4)
    assert len(run(3)[0]) == 12


def test_the_change_control_can_be_limited_to_kinds(world: World) -> None:
    done = _post(world, "/_sim/change?seed=1&count=3&kinds=edit_issue,delete_issue")
    assert {entry["kind"] for entry in done} <= {"edit_issue", "delete_issue"}
    assert ask(world, "/_sim/change?kinds=nonsense", "POST").status == 400


def test_faults_can_be_added_listed_and_removed_by_control(world: World) -> None:
    _post(world, "/_sim/faults", {"kind": "status", "route": "/projects/:id/issues", "times": 2, "status": 502})
    _post(world, "/_sim/faults", {"kind": "status", "route_regex": "merge_requests$", "times": None, "status": 500})
    assert ask(world, f"{PROJECT}/issues").status == 502
    assert ask(world, f"{PROJECT}/merge_requests").status == 500
    assert [fault["fired"] for fault in get(world, "/_sim/faults")] == [1, 1]
    assert ask(world, "/_sim/faults", "DELETE").status == 200
    assert ask(world, f"{PROJECT}/issues").status == 200
    assert get(world, "/_sim/faults") == []


@pytest.mark.parametrize(
    ("method", "target", "body", "status"),
    [
        ("POST", "/_sim/faults", b"{", 400),
        ("POST", "/_sim/faults", b'{"kind": "gremlin"}', 400),
        ("POST", "/_sim/advance?seconds=-1", b"", 400),
        ("POST", "/_sim/advance?seconds=much", b"", 400),
        ("GET", "/_sim/truth/gitlab/no%2Fsuch/issues", b"", 404),
        ("GET", "/_sim/nonsense", b"", 404),
    ],
)
def test_invalid_control_requests_are_answered_with_an_error(
    world: World, method: str, target: str, body: bytes, status: int
) -> None:
    response = ask(world, target, method, body)
    assert response.status == status
    assert "error" in json.loads(response.body)
