"""Groups and projects that come, go, move, are archived or forbidden."""

from __future__ import annotations

from tests.world.asking import ask, get, links, walk

from tidelore_world.world import World

GROUP = "/api/v4/groups/harbor%2Fplatform/projects"


def _world(*paths: str) -> World:
    world = World()
    for path in paths:
        world.gitlab.create_project(path)
    return world


def _paths(world: World, target: str) -> set[str]:
    return {row["path_with_namespace"] for row in walk(world, target)}


def test_a_group_path_may_be_nested_and_encoded() -> None:
    world = _world("harbor/web", "harbor/platform/api", "harbor/platform/tools/cli", "harbor/platforms/other")
    assert _paths(world, GROUP) == {"harbor/platform/api"}
    assert _paths(world, f"{GROUP}?include_subgroups=true") == {"harbor/platform/api", "harbor/platform/tools/cli"}
    assert len(_paths(world, "/api/v4/groups/harbor/projects?include_subgroups=true")) == 4


def test_group_pages_carry_pagination_headers() -> None:
    world = _world(*(f"harbor/platform/p{number}" for number in range(5)))
    response = ask(world, f"{GROUP}?per_page=2")
    assert response.headers["x-total"] == "5"
    assert response.headers["x-next-page"] == "2"
    assert "page=2" in links(response)["next"]
    assert len(_paths(world, f"{GROUP}?per_page=2")) == 5


def test_archived_projects_are_listed_as_such_unless_filtered_out() -> None:
    world = _world("harbor/platform/live", "harbor/platform/old")
    world.gitlab.archive_project("harbor/platform/old")
    for target in (GROUP, "/api/v4/projects"):
        shown = {row["path"]: row["archived"] for row in get(world, target)}
        assert shown == {"live": False, "old": True}
        assert _paths(world, f"{target}?archived=false") == {"harbor/platform/live"}
        assert _paths(world, f"{target}?archived=true") == {"harbor/platform/old"}


def test_forbidden_projects_are_not_listed_and_are_answered_with_403() -> None:
    world = _world("harbor/platform/live", "harbor/platform/secret")
    world.gitlab.forbid_project("harbor/platform/secret")
    assert _paths(world, GROUP) == {"harbor/platform/live"}
    assert ask(world, "/api/v4/projects/harbor%2Fplatform%2Fsecret/issues").status == 403


def test_a_project_created_at_run_time_joins_its_group() -> None:
    world = _world("harbor/platform/api")
    assert len(get(world, GROUP)) == 1
    world.gitlab.create_project("harbor/platform/new")
    assert len(get(world, GROUP)) == 2


def test_a_moved_project_keeps_its_id_and_leaves_its_group() -> None:
    world = _world("harbor/platform/api")
    number = world.gitlab.project("harbor/platform/api").id
    world.gitlab.rename_project("harbor/platform/api", "harbor/edge/gateway")
    assert get(world, GROUP) == []
    assert get(world, f"/api/v4/projects/{number}")["path_with_namespace"] == "harbor/edge/gateway"
    moved = ask(world, "/api/v4/projects/harbor%2Fplatform%2Fapi/issues?per_page=5")
    assert moved.status == 301
    assert moved.headers["location"].endswith(f"/projects/{number}/issues?per_page=5")
    assert [row["id"] for row in get(world, "/api/v4/groups/harbor%2Fedge/projects")] == [number]


def test_unknown_groups_are_answered_with_404_and_empty_ones_with_an_empty_list() -> None:
    world = _world("harbor/platform/api")
    assert ask(world, "/api/v4/groups/harbor%2Fnowhere/projects").status == 404
    world.gitlab.delete_project("harbor/platform/api")
    assert get(world, GROUP) == []
