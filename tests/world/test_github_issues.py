"""Issues and repositories of the simulated GitHub behave as docs/github-facts.md says the real ones do.

That page says which of the sources named here were read and which are memory.
"""

from __future__ import annotations

import pytest
from tests.world.github_asking import REPO, get, links, new_forge, send, status, walk

from tidelore_world.github import GitHubForge
from tidelore_world.wire import Request
from tidelore_world.world import World

ISSUES = f"/repos/{REPO}/issues"


@pytest.fixture
def world() -> World:
    return new_forge()[0]


@pytest.fixture
def forge(world: World) -> GitHubForge:
    forge: GitHubForge = world.github
    return forge


def numbers(forge: GitHubForge, target: str) -> list[int]:
    return [row["number"] for row in walk(forge, target)]


def test_an_issue_has_the_documented_fields(world: World, forge: GitHubForge) -> None:
    """Source: memory of the schema `issue` of github/rest-api-description."""
    milestone = forge.create_milestone(REPO, "2026.1", "First quarter")
    number = forge.create_issue(REPO, "Totals differ", "By a cent.", "mira", labels=["bug"]).number
    forge.assign(REPO, number, "tobias")
    forge.set_milestone(REPO, number, milestone.number)
    forge.lock(REPO, number, "too heated")
    forge.react(REPO, number, "+1", 2)
    (row,) = get(forge, f"{ISSUES}?state=all")
    assert row["labels"][0]["name"] == "bug"
    assert [who["login"] for who in row["assignees"]] == ["tobias"]
    assert row["assignee"]["login"] == "tobias"
    assert (row["milestone"]["number"], row["milestone"]["title"]) == (1, "2026.1")
    assert (row["locked"], row["active_lock_reason"]) == (True, "too heated")
    assert (row["reactions"]["+1"], row["reactions"]["total_count"]) == (2, 2)
    assert row["comments_url"].endswith(f"/issues/{number}/comments")
    assert row["node_id"].startswith("I_")
    assert {"state_reason", "author_association", "closed_at", "html_url", "url"} <= set(row)


def test_who_closed_an_issue_is_shown_by_its_own_address_only(forge: GitHubForge) -> None:
    """Source: a recorded list (octokit/fixtures, scenario paginate-issues) has no `closed_by`."""
    number = forge.create_issue(REPO).number
    forge.close(REPO, number, "mira", reason="not_planned")
    assert "closed_by" not in get(forge, f"{ISSUES}?state=all")[0]
    shown = get(forge, f"{ISSUES}/{number}")
    assert (shown["closed_by"]["login"], shown["state_reason"]) == ("mira", "not_planned")


@pytest.mark.parametrize("reason", ["completed", "not_planned", "duplicate"])
def test_an_issue_is_closed_for_a_reason_and_reopened(forge: GitHubForge, reason: str) -> None:
    """Source: `state_reason` in github/rest-api-description: completed, reopened, not_planned, duplicate, null."""
    number = forge.create_issue(REPO).number
    assert get(forge, f"{ISSUES}/{number}")["state_reason"] is None
    forge.close(REPO, number, reason=reason)  # type: ignore[arg-type]
    assert get(forge, f"{ISSUES}/{number}")["state_reason"] == reason
    forge.reopen(REPO, number)
    assert get(forge, f"{ISSUES}/{number}")["state_reason"] == "reopened"


def test_the_two_sides_of_a_pull_request_share_one_node_id_and_have_two_ids(forge: GitHubForge) -> None:
    """Source: "Get an issue": the id is an issue id there. That `node_id` is the same was not looked up."""
    number = forge.create_pull(REPO).number
    issue, pull = get(forge, f"{ISSUES}/{number}"), get(forge, f"/repos/{REPO}/pulls/{number}")
    assert issue["node_id"] == pull["node_id"]
    assert issue["id"] != pull["id"]
    assert issue["pull_request"]["merged_at"] is None
    assert issue["draft"] is False


def test_the_list_of_issues_leads_on_by_cursors(world: World, forge: GitHubForge) -> None:
    """A `Link` of the list has `after` beside `page`, names the repository by its id and knows no last page.

    Source: a recorded Link `/repositories/103071520/issues?per_page=50&after=Y3Vyc29yOnYyOpLP...&page=2`; the docs do
    not mention it (github.com/google/go-github/issues/3976).
    """
    made = []
    for _ in range(7):
        world.advance(1)
        made.append(forge.create_issue(REPO).number)
    first = send(forge, "GET", f"{ISSUES}?state=all&sort=updated&direction=asc&per_page=3")
    found = links(first)
    assert set(found) == {"next"}
    assert found["next"].startswith(f"/repositories/{forge.repository(REPO).id}/issues?")
    assert "after=Y3Vyc29yOnYyOpLP" in found["next"]
    assert "page=2" in found["next"]
    second = send(forge, "GET", found["next"])
    assert set(links(second)) == {"next", "prev"}
    assert numbers(forge, links(second)["prev"]) == made
    assert numbers(forge, f"{ISSUES}?state=all&sort=updated&direction=asc&per_page=3") == made
    assert numbers(forge, f"{ISSUES}?state=all&per_page=3") == made[::-1]


def test_a_cursor_keeps_its_place_when_the_rows_before_it_move(world: World, forge: GitHubForge) -> None:
    """Source: a cursor holds the sort key and the id (decoded from recorded ones), so pages do not shift."""
    made = []
    for _ in range(4):
        world.advance(1)
        made.append(forge.create_issue(REPO).number)
    first = send(forge, "GET", f"{ISSUES}?sort=updated&direction=asc&per_page=2")
    world.advance(1)
    forge.edit_thread(REPO, made[0], body="Edited.")
    forge.delete_issue(REPO, made[1])
    assert numbers(forge, links(first)["next"]) == [made[2], made[3], made[0]]


def test_large_page_numbers_of_the_list_of_issues_are_refused(forge: GitHubForge) -> None:
    """Source: github.com/google/go-github/issues/3565, github.com/mozilla/standards-positions/issues/1221."""
    assert status(forge, f"{ISSUES}?per_page=100&page=10") == 200
    refused = send(forge, "GET", f"{ISSUES}?per_page=100&page=11")
    assert refused.status == 422
    assert b"please use cursor based pagination (after/before)" in refused.body


def test_plain_page_links_can_be_switched_on(forge: GitHubForge) -> None:
    """Source: older servers; github.com/wshm-dev/wshm/pull/133 says small lists have them still."""
    forge.settings.issues_cursor_links = False
    for _ in range(3):
        forge.create_issue(REPO)
    first = send(forge, "GET", f"{ISSUES}?per_page=2")
    assert links(first) == {"next": f"{ISSUES}?per_page=2&page=2", "last": f"{ISSUES}?per_page=2&page=2"}


def test_issues_are_sorted_by_their_number_of_comments(forge: GitHubForge) -> None:
    """Source: the parameter `sort` of "List repository issues": created, updated, comments."""
    quiet, busy, busier = (forge.create_issue(REPO).number for _ in range(3))
    for number, count in ((busy, 2), (busier, 3)):
        for _ in range(count):
            forge.comment(REPO, number)
    assert numbers(forge, f"{ISSUES}?sort=comments&per_page=1") == [busier, busy, quiet]
    assert numbers(forge, f"{ISSUES}?sort=comments&direction=asc&per_page=2") == [quiet, busy, busier]


def test_a_quiet_list_of_issues_is_not_modified(forge: GitHubForge) -> None:
    """Source: "Use conditional requests" in the REST documentation."""
    number = forge.create_issue(REPO).number
    first = send(forge, "GET", f"{ISSUES}?state=all", token="one")

    def again() -> int:
        headers = {"authorization": "Bearer one", "if-none-match": first.headers["etag"]}
        found = forge.route(Request.build("GET", f"{ISSUES}?state=all", headers))
        assert found is not None
        return found[1]().status

    assert again() == 304
    forge.label(REPO, number, "bug")
    assert again() == 200


def test_an_edited_milestone_is_shown_by_its_issues_and_moves_none_of_them(world: World, forge: GitHubForge) -> None:
    """Unverified; the harder case for a mirror: the embedded milestone changes and `updated_at` does not."""
    milestone = forge.create_milestone(REPO, "Soon").number
    number = forge.create_issue(REPO).number
    forge.set_milestone(REPO, number, milestone)
    before = get(forge, f"{ISSUES}/{number}")
    world.advance(60)
    forge.edit_milestone(REPO, milestone, title="Later", state="closed")
    after = get(forge, f"{ISSUES}/{number}")
    assert (after["milestone"]["title"], after["milestone"]["state"]) == ("Later", "closed")
    assert after["updated_at"] == before["updated_at"]
    assert [row["title"] for row in get(forge, f"/repos/{REPO}/milestones?state=all")] == ["Later"]


def test_a_renamed_label_is_shown_by_its_issues_and_moves_none_of_them(world: World, forge: GitHubForge) -> None:
    """Unverified; a label is a row of its own, so the rows that have it are not written."""
    number = forge.create_issue(REPO, labels=["bug", "ledger"]).number
    before = get(forge, f"{ISSUES}/{number}")
    world.advance(60)
    forge.rename_label(REPO, "bug", "defect")
    after = get(forge, f"{ISSUES}/{number}")
    assert [row["name"] for row in after["labels"]] == ["defect", "ledger"]
    assert after["updated_at"] == before["updated_at"]


def test_an_empty_text_is_null(forge: GitHubForge) -> None:
    """Source: recorded lists (octokit/fixtures, scenario paginate-issues); GraphQL shows the empty text."""
    number = forge.create_pull(REPO).number
    assert get(forge, f"{ISSUES}/{number}")["body"] is None
    assert get(forge, f"/repos/{REPO}/pulls/{number}")["body"] is None


MOVING = {
    "label": lambda forge, number: forge.label(REPO, number, "bug"),
    "assign": lambda forge, number: forge.assign(REPO, number, "mira"),
    "milestone": lambda forge, number: forge.set_milestone(REPO, number, 1),
    "lock": lambda forge, number: forge.lock(REPO, number),
    "close": lambda forge, number: forge.close(REPO, number),
    "comment": lambda forge, number: forge.comment(REPO, number),
    "edit": lambda forge, number: forge.edit_thread(REPO, number, body="Edited."),
}


@pytest.mark.parametrize("name", MOVING)
def test_what_is_done_to_an_issue_moves_its_updated_at(world: World, forge: GitHubForge, name: str) -> None:
    """Source: "since: only show results that were last updated after"; every change of the row is an update."""
    forge.create_milestone(REPO, "Soon")
    number = forge.create_issue(REPO).number
    world.advance(60)
    MOVING[name](forge, number)
    assert get(forge, f"{ISSUES}/{number}")["updated_at"] == world.clock.iso_s()


def test_reactions_and_actions_without_an_effect_move_nothing(world: World, forge: GitHubForge) -> None:
    """Source: a reaction is no update (unverified); adding a label twice leaves one event."""
    number = forge.create_issue(REPO, labels=["bug"]).number
    before = get(forge, f"{ISSUES}/{number}")["updated_at"]
    world.advance(60)
    forge.react(REPO, number)
    forge.label(REPO, number, "bug")
    forge.unassign(REPO, number, "mira")
    forge.unlock(REPO, number)
    assert get(forge, f"{ISSUES}/{number}")["updated_at"] == before
    assert [row["event"] for row in get(forge, f"{ISSUES}/{number}/timeline")] == ["labeled"]


def test_edits_and_deletions_of_comments_move_the_issue_if_the_settings_say_so(
    world: World, forge: GitHubForge
) -> None:
    """Source: github.com/microsoft/TypeScript-Twoslash-Repro-Action/issues/17 for edits; deletions are unverified."""
    number = forge.create_issue(REPO).number
    made = forge.comment(REPO, number)
    begin = get(forge, f"{ISSUES}/{number}")["updated_at"]
    world.advance(60)
    forge.edit_comment(made.id, "Edited.")
    assert get(forge, f"{ISSUES}/{number}")["updated_at"] == begin
    forge.settings.edits_move_the_parent = forge.settings.deletions_move_the_parent = True
    forge.edit_comment(made.id, "Edited again.")
    assert get(forge, f"{ISSUES}/{number}")["updated_at"] == world.clock.iso_s()
    world.advance(60)
    forge.delete_comment(made.id)
    assert get(forge, f"{ISSUES}/{number}")["updated_at"] == world.clock.iso_s()


def test_a_transferred_issue_redirects_to_its_new_repository(forge: GitHubForge) -> None:
    """Source: "Get an issue": "if the issue was transferred to another repository, the API returns 301"."""
    forge.create_repo("harborline/tracking")
    number = forge.create_issue(REPO, "Lost").number
    forge.comment(REPO, number, "Wrong place.")
    moved = forge.transfer_issue(REPO, number, "harborline/tracking")
    response = send(forge, "GET", f"{ISSUES}/{number}")
    target = f"/repositories/{forge.repository('harborline/tracking').id}/issues/{moved.number}"
    assert (response.status, response.headers["location"]) == (301, f"http://127.0.0.1{target}")
    assert get(forge, target)["title"] == "Lost"
    assert [row["body"] for row in get(forge, f"{target}/comments")] == ["Wrong place."]
    assert get(forge, f"{ISSUES}?state=all") == []
    assert send(forge, "GET", f"{ISSUES}/{number}/comments").headers["location"].endswith(f"{target}/comments")


def test_switched_off_issues_are_gone_and_pull_requests_remain(forge: GitHubForge) -> None:
    """Source: 410 "Issues are disabled for this repo": github.com/dust-tt/dust/pull/10314 (list),
    github.com/ansible/ansibullbot/issues/845 (one), github.com/sigmavirus24/github3.py/pull/117 (comments of pulls).
    """
    issue, pull = forge.create_issue(REPO).number, forge.create_pull(REPO).number
    said = [forge.comment(REPO, number).id for number in (issue, pull)]
    forge.switch_issues(REPO, on=False)
    assert status(forge, f"{ISSUES}?state=all") == 410
    assert b"Issues are disabled for this repo" in send(forge, "GET", ISSUES).body
    for path in (f"{issue}", f"{issue}/comments", f"{issue}/timeline", f"{pull}"):
        assert status(forge, f"{ISSUES}/{path}") == 410, path
    assert [row["id"] for row in get(forge, f"{ISSUES}/{pull}/comments")] == said[1:]
    assert [row["id"] for row in get(forge, f"{ISSUES}/comments")] == said[1:]
    assert status(forge, f"{ISSUES}/{pull}/timeline") == 200
    assert [row["number"] for row in get(forge, f"/repos/{REPO}/pulls")] == [pull]
    assert get(forge, f"/repos/{REPO}")["has_issues"] is False
    forge.settings.pulls_lose_issue_side = False
    assert status(forge, f"{ISSUES}/{pull}") == 200
    forge.switch_issues(REPO, on=True)
    assert len(get(forge, f"{ISSUES}?state=all")) == 2


def test_a_repository_that_became_private_does_not_exist_for_others(forge: GitHubForge) -> None:
    """Source: "404 Not Found instead of 403 Forbidden to avoid confirming the existence of private repositories"."""
    forge.create_issue(REPO)
    forge.settings.tokens["one"] = "mira"
    forge.make_private(REPO, "mira")
    repo_id = forge.repository(REPO).id
    for target in (f"/repos/{REPO}", ISSUES, f"/repositories/{repo_id}/issues", f"{ISSUES}/1"):
        assert status(forge, target) == 404
        assert status(forge, target, "one") == 200
    assert get(forge, "/orgs/harborline/repos") == []
    forge.rename_repo(REPO, "harborline/books")
    assert status(forge, f"/repos/{REPO}") == 404, "not even a redirect tells of it"
    forge.make_public("harborline/books")
    assert status(forge, f"/repos/{REPO}") == 301


def test_an_archived_repository_can_only_be_read(forge: GitHubForge) -> None:
    """Source: "Archiving repositories"; the API answers 403 "Repository was archived so is read-only."."""
    number = forge.create_issue(REPO).number
    forge.archive_repo(REPO)
    assert get(forge, f"/repos/{REPO}")["archived"] is True
    assert status(forge, f"{ISSUES}/{number}") == 200
    refused = send(forge, "POST", f"{ISSUES}/{number}/comments", {"body": "Too late?"})
    assert refused.status == 403
    assert b"archived" in refused.body


def test_a_locked_conversation_refuses_comments_of_outsiders(forge: GitHubForge) -> None:
    """Source: "Locking conversations": only people with write access can comment."""
    number = forge.create_issue(REPO).number
    forge.lock(REPO, number)
    assert send(forge, "POST", f"{ISSUES}/{number}/comments", {"body": "Hello?"}).status == 403
    forge.repository(REPO).associations[forge.settings.viewer] = "MEMBER"
    assert send(forge, "POST", f"{ISSUES}/{number}/comments", {"body": "Hello."}).status == 201


def test_repositories_of_an_organization_and_of_a_user_are_listed(world: World, forge: GitHubForge) -> None:
    """Source: "List organization repositories" (newest first, `type`) and "List repositories for a user" (by name)."""
    world.advance(60)
    forge.create_repo("harborline/books").fork = True
    forge.create_repo("mira/notes", owner_kind="User")
    forge.create_repo("mira/code", owner_kind="User")
    names = [row["name"] for row in get(forge, "/orgs/harborline/repos")]
    assert names == ["books", "ledger"]
    assert [row["name"] for row in get(forge, "/orgs/harborline/repos?type=forks")] == ["books"]
    assert [row["name"] for row in get(forge, "/users/mira/repos")] == ["code", "notes"]
    first = send(forge, "GET", "/orgs/harborline/repos?per_page=1")
    assert links(first)["next"] == "/orgs/harborline/repos?per_page=1&page=2"
    row = get(forge, "/orgs/harborline/repos")[1]
    assert {
        "archived",
        "disabled",
        "fork",
        "private",
        "has_issues",
        "has_discussions",
        "node_id",
        "permissions",
    } <= set(row)
    assert status(forge, "/orgs/mira/repos") == 404
    assert status(forge, "/orgs/nobody/repos") == 404


def test_an_enterprise_server_has_rest_below_api_v3_and_graphql_below_api(world: World, forge: GitHubForge) -> None:
    """Source: "Quickstart for the REST API" and "Forming calls with GraphQL" for GitHub Enterprise Server."""
    number = forge.create_issue(REPO).number
    shown = get(forge, f"/api/v3/repos/{REPO}/issues/{number}")
    assert shown["url"] == f"http://127.0.0.1/api/v3/repos/{REPO}/issues/{number}"
    assert shown["html_url"] == f"http://127.0.0.1/{REPO}/issues/{number}"
    query = Request.build("POST", "/api/graphql", {}, b'{"query": "{ viewer { login } }"}')
    assert b"doesn't exist" in world.handle(query).body, "GitLab answers"
    forge.settings.enterprise = True
    assert world.handle(query).body == b'{"data":{"viewer":{"login":"tidelore-agent"}}}'


def test_ids_of_different_kinds_may_be_equal(forge: GitHubForge) -> None:
    """Source: issue comments, review comments and reviews are separate tables of the real service."""
    forge.hub.separate_sequences = True
    number = forge.create_pull(REPO).number
    spoken = forge.comment(REPO, number, "said")
    remark = forge.review_comment(REPO, number, "remarked")
    assert spoken.id == remark.id == remark.review_id
    forge.edit_comment(remark.id, "remarked again", kind="review_comment")
    assert get(forge, f"{ISSUES}/comments")[0]["body"] == "said"
    send(forge, "DELETE", f"/repos/{REPO}/pulls/comments/{remark.id}")
    assert len(get(forge, f"{ISSUES}/comments")) == 1
    assert get(forge, f"/repos/{REPO}/pulls/comments") == []
