"""Projects, users and the shapes of issues and merge requests."""

from __future__ import annotations

import json

import pytest
from tests.world.asking import PATH, PROJECT, ask, get, project_world, walk

USER_FIELDS = {"id", "username", "name", "state", "web_url", "avatar_url"}
SHARED_FIELDS = {
    "id", "iid", "project_id", "title", "description", "state", "created_at", "updated_at", "closed_at", "closed_by",
    "labels", "milestone", "assignees", "assignee", "author", "user_notes_count", "upvotes", "downvotes",
    "discussion_locked", "web_url", "time_stats", "task_completion_status", "references", "imported", "imported_from",
}  # fmt: skip
ISSUE_FIELDS = SHARED_FIELDS | {"type", "due_date", "confidential", "issue_type", "_links", "moved_to_id"}
NEW_NAMES = {"draft", "detailed_merge_status", "merge_user"}
OLD_NAMES = {"work_in_progress", "merge_status", "merged_by"}
MERGE_REQUEST_FIELDS = SHARED_FIELDS | NEW_NAMES | OLD_NAMES | {
    "merged_at", "target_branch", "source_branch", "reviewers", "source_project_id", "target_project_id", "sha",
    "merge_commit_sha", "squash_commit_sha", "squash", "squash_on_merge", "has_conflicts", "reference",
    "blocking_discussions_resolved", "should_remove_source_branch", "force_remove_source_branch",
}  # fmt: skip


def test_issue_has_the_fields_of_a_current_server() -> None:
    world = project_world()
    world.gitlab.create_issue(PATH, labels=["b", "a"], milestone="Spring", assignees=["mina.okafor", "x.y"])
    row = get(world, f"{PROJECT}/issues")[0]
    assert set(row) >= ISSUE_FIELDS
    assert row["labels"] == ["a", "b"]
    assert row["milestone"]["title"] == "Spring"
    assert [user["username"] for user in row["assignees"]] == ["mina.okafor", "x.y"]
    assert row["assignee"] == row["assignees"][0]
    assert set(row["author"]) >= USER_FIELDS
    assert row["references"] == {"short": "#1", "relative": "#1", "full": f"{PATH}#1"}
    assert row["web_url"].endswith(f"/{PATH}/-/issues/1")
    assert (row["type"], row["issue_type"]) == ("ISSUE", "issue")


def test_merge_request_has_old_and_new_names_on_a_current_server() -> None:
    world = project_world()
    world.gitlab.create_merge_request(PATH, title="Draft: try", reviewers=["mina.okafor"])
    row = get(world, f"{PROJECT}/merge_requests")[0]
    assert set(row) >= MERGE_REQUEST_FIELDS
    assert row["draft"] is row["work_in_progress"] is True
    assert (row["detailed_merge_status"], row["merge_status"]) == ("draft_status", "cannot_be_merged")
    world.gitlab.merge_merge_request(PATH, 1, by="mina.okafor")
    row = get(world, f"{PROJECT}/merge_requests")[0]
    assert row["merge_user"] == row["merged_by"]
    assert row["merged_by"]["username"] == "mina.okafor"
    assert row["merged_at"] == world.clock.iso_ms()
    assert (row["title"], row["draft"]) == ("try", False)


def test_old_server_sends_only_the_old_names() -> None:
    world = project_world()
    world.gitlab.create_merge_request(PATH)
    world.gitlab.create_issue(PATH)
    assert get(world, f"{PROJECT}/merge_requests")[0].keys() >= NEW_NAMES
    world.gitlab.old_server = True
    for row in (get(world, f"{PROJECT}/merge_requests")[0], get(world, f"{PROJECT}/merge_requests/1")):
        assert not NEW_NAMES & row.keys()
        assert row.keys() >= OLD_NAMES
        assert "imported" not in row
    assert "imported" not in get(world, f"{PROJECT}/issues")[0]
    world.gitlab.old_server = False
    assert get(world, f"{PROJECT}/merge_requests")[0].keys() >= NEW_NAMES


def test_single_merge_request_adds_changes_count_and_diff_refs() -> None:
    world = project_world()
    request = world.gitlab.create_merge_request(PATH)
    row = get(world, f"{PROJECT}/merge_requests/1")
    assert row["changes_count"] == str(len(request.diffs)) == str(len(get(world, f"{PROJECT}/merge_requests/1/diffs")))
    assert row["diff_refs"]["head_sha"] == row["sha"]
    assert "changes_count" not in get(world, f"{PROJECT}/merge_requests")[0]


def test_single_object_has_an_etag_that_changes_with_it() -> None:
    world = project_world()
    issue = world.gitlab.create_issue(PATH)
    etag = ask(world, f"{PROJECT}/issues/1").headers["etag"]
    assert ask(world, f"{PROJECT}/issues/1", if_none_match=f'W/"other", {etag}').status == 304
    world.gitlab.add_note(issue)
    assert ask(world, f"{PROJECT}/issues/1", if_none_match=etag).status == 200


def test_merging_closes_the_referenced_issues() -> None:
    world = project_world()
    for _ in range(3):
        world.gitlab.create_issue(PATH)
    world.gitlab.create_merge_request(PATH, closes=[1, 3])
    closing = get(world, f"{PROJECT}/merge_requests/1/closes_issues")
    assert [row["iid"] for row in closing] == [1, 3]
    assert closing == world.gitlab.truth_closes(PATH, 1)
    world.gitlab.merge_merge_request(PATH, 1)
    assert {row["iid"]: row["state"] for row in get(world, f"{PROJECT}/issues")} == {
        1: "closed",
        2: "opened",
        3: "closed",
    }
    world.gitlab.delete_issue(PATH, 3)
    assert [row["iid"] for row in get(world, f"{PROJECT}/merge_requests/1/closes_issues")] == [1]


def test_a_project_is_found_by_id_and_by_encoded_path() -> None:
    world = project_world()
    by_path = get(world, PROJECT)
    assert by_path == get(world, f"/api/v4/projects/{by_path['id']}")
    assert by_path["path_with_namespace"] == PATH
    assert by_path["namespace"]["full_path"] == "harborline/platform"
    for missing in ("/api/v4/projects/harborline%2Fnothing", "/api/v4/projects/1", f"{PROJECT}x/issues"):
        response = ask(world, missing)
        assert (response.status, json.loads(response.body)) == (404, {"message": "404 Project Not Found"})


def test_a_renamed_project_is_found_by_id_and_its_old_path_redirects() -> None:
    world = project_world()
    world.gitlab.create_issue(PATH)
    number = get(world, PROJECT)["id"]
    get(world, f"{PROJECT}/issues")
    world.gitlab.rename_project(PATH, "harborline/books")
    assert get(world, f"/api/v4/projects/{number}")["path_with_namespace"] == "harborline/books"
    assert get(world, f"/api/v4/projects/{number}/issues")[0]["references"]["full"] == "harborline/books#1"
    moved = ask(world, f"{PROJECT}/issues?updated_after=2026-01-01T00:00:00%2B01:00")
    assert moved.status == 301
    assert moved.headers["location"].startswith(f"http://127.0.0.1/api/v4/projects/{number}/issues?updated_after=")
    assert get(world, moved.headers["location"])[0]["iid"] == 1
    world.gitlab.create_project(PATH)
    assert get(world, PROJECT)["id"] != number


def test_a_forbidden_project_is_answered_with_403_and_not_listed() -> None:
    world = project_world()
    world.gitlab.forbid_project(PATH)
    assert {ask(world, f"{PROJECT}{tail}").status for tail in ("", "/issues", "/merge_requests/1")} == {403}
    assert get(world, "/api/v4/projects") == []
    world.gitlab.forbid_project(PATH, forbidden=False)
    assert get(world, PROJECT)["archived"] is False


def test_a_deleted_project_gives_404_and_an_archived_one_is_marked() -> None:
    world = project_world()
    world.gitlab.archive_project(PATH)
    assert get(world, PROJECT)["archived"] is True
    assert get(world, "/api/v4/projects?archived=false") == []
    world.gitlab.delete_project(PATH)
    assert ask(world, PROJECT).status == 404


def test_projects_and_group_projects_are_paged() -> None:
    world = project_world()
    for number in range(5):
        world.gitlab.create_project(f"harborline/platform/extra/p{number}")
    world.gitlab.create_project("elsewhere/tool")
    every = walk(world, "/api/v4/projects?per_page=2")
    assert len(every) == 7
    inside = walk(world, "/api/v4/groups/harborline%2Fplatform/projects?include_subgroups=true&per_page=2")
    assert len(inside) == 6
    direct = get(world, "/api/v4/groups/harborline%2Fplatform/projects")
    assert [row["path_with_namespace"] for row in direct] == [PATH]
    assert ask(world, "/api/v4/groups/nobody/projects").status == 404


def test_the_open_issue_count_follows_states_and_deletions() -> None:
    world = project_world()
    for _ in range(3):
        world.gitlab.create_issue(PATH)
    world.gitlab.close_issue(PATH, 1)
    world.gitlab.delete_issue(PATH, 2)
    world.gitlab.delete_issue(PATH, 1)
    assert get(world, PROJECT)["open_issues_count"] == 1


def test_the_user_endpoint_needs_a_token_and_version_returns_the_server_version() -> None:
    world = project_world()
    assert ask(world, "/api/v4/user").status == 401
    response = ask(world, "/api/v4/user", private_token="anything")
    assert json.loads(response.body)["username"] == world.gitlab.caller.username
    assert get(world, "/api/v4/version")["version"].startswith("18.")


@pytest.mark.parametrize("header", [{"private_token": "right"}, {"authorization": "Bearer right"}])
def test_a_wrong_token_gives_401_when_a_token_is_required(header: dict[str, str]) -> None:
    world = project_world()
    world.gitlab.token = "right"
    assert ask(world, PROJECT).status == 401
    assert ask(world, PROJECT, private_token="wrong").status == 401
    assert ask(world, PROJECT, "GET", b"", **header).status == 200


def test_the_rate_limit_counts_per_world_minute_and_returns_the_reset_time() -> None:
    world = project_world()
    world.gitlab.rate_limit = 3
    world.advance(20)
    shown = [ask(world, PROJECT) for _ in range(5)]
    assert [response.status for response in shown] == [200, 200, 200, 429, 429]
    assert [response.headers["ratelimit-remaining"] for response in shown] == ["2", "1", "0", "0", "0"]
    refused = shown[-1].headers
    assert refused["retry-after"] == "40"
    assert int(refused["ratelimit-reset"]) == world.clock.now_us // 1_000_000 + 40
    assert refused["ratelimit-limit"] == "3"
    world.advance(float(refused["retry-after"]))
    assert ask(world, PROJECT).status == 200


def test_unknown_paths_and_other_methods_are_refused() -> None:
    world = project_world()
    assert ask(world, "/api/v4/nonsense").status == 404
    assert ask(world, f"{PROJECT}/issues/1/nonsense").status == 404
    assert ask(world, f"{PROJECT}/issues", method="POST").status == 405
