"""The lists that mirror a GitHub repository: how they are asked for, and what becomes of each payload."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from tests.unit.http.wire_server import answer
from tests.unit.sources.github.test_surfaces import first, query, with_list
from tests.unit.sources.github.test_transform import PULL

from tidelore.core.clock import parse_instant
from tidelore.core.errors import FeatureDisabled, ForeignOrigin, RemoteNotFound, RemoteTransient
from tidelore.core.model import (
    IssueRecord,
    LabelEventRecord,
    MergeRequestRecord,
    MilestoneEventRecord,
    PullIssueRecord,
    StateEventRecord,
    TimelineEventRecord,
)
from tidelore.engine.ports import ListRequest
from tidelore.http.limits import UNKNOWN, read_budget
from tidelore.sources.github import forge_lists
from tidelore.sources.github.surfaces import resized
from tidelore.sources.github.transform import read_changed_file, read_timeline_entry

CURSOR = "Y3Vyc29yOnYyOpLPAAABlY-K-wjOrd6C4Q=="
ISSUE: dict[str, Any] = {
    "url": "https://api.github.com/repos/o/r/issues/3",
    "repository_url": "https://api.github.com/repos/o/r",
    "html_url": "https://github.com/o/r/issues/3",
    "id": 2_200_000_003,
    "node_id": "I_kwDO",
    "number": 3,
    "title": "Rounding",
    "body": None,
    "user": {"login": "mira", "type": "User"},
    "labels": [{"id": 1, "name": "bug"}, "plain"],
    "state": "closed",
    "state_reason": "not_planned",
    "locked": True,
    "assignees": [{"login": "jo", "type": "User"}],
    "milestone": {"id": 5, "title": "1.0"},
    "comments": 4,
    "reactions": {"total_count": 6, "+1": 6},
    "created_at": "2026-03-02T09:00:00Z",
    "updated_at": "2026-03-02T09:00:01Z",
    "closed_at": "2026-03-02T09:00:01Z",
    "author_association": "MEMBER",
}
PULL_SIDE = ISSUE | {"node_id": "PR_kwDO", "pull_request": {"url": "https://x", "merged_at": None}, "draft": False}
EVENT: dict[str, Any] = {
    "id": 8,
    "node_id": "LE_x",
    "actor": {"login": "mira", "type": "User"},
    "event": "labeled",
    "commit_id": None,
    "created_at": "2026-03-02T09:00:00Z",
    "label": {"name": "bug", "color": "f00"},
}


def raw(*payloads: Any) -> list[msgspec.Raw]:
    return [msgspec.Raw(json.dumps(payload).encode()) for payload in payloads]


def issue(payload: dict[str, Any]) -> Any:
    return forge_lists.ISSUES.one(json.dumps(payload).encode())


def merge_request(payload: dict[str, Any]) -> MergeRequestRecord:
    return forge_lists.MERGE_REQUESTS.one(json.dumps(payload).encode())


def entry(**changes: Any) -> Any:
    found = read_timeline_entry(3, json.dumps(EVENT | changes).encode())
    return None if found is None else found.record


def other(key: str, action: str, subject: str | None) -> TimelineEventRecord:
    return TimelineEventRecord(key, "mira", action, subject, 1_772_442_000_000)


@pytest.mark.parametrize(
    ("given", "stored"), [({"id": 410, "node_id": "IT_x", "name": "Bug"}, "Bug"), ("Task", "Task"), (None, None)]
)
def test_the_type_that_an_organisation_gave_an_issue_is_stored(given: Any, stored: str | None) -> None:
    assert issue(ISSUE | {"type": given}).issue_type == stored
    assert issue(ISSUE).issue_type is None


def test_an_issue_becomes_a_record_in_the_words_of_all_forges() -> None:
    record = issue(ISSUE)
    assert isinstance(record, IssueRecord)
    assert (record.remote_id, record.iid, record.state) == (2_200_000_003, 3, "closed")
    assert (record.description, record.milestone_title, record.user_notes_count) == (None, "1.0", 4)
    assert (record.labels, record.assignees, record.discussion_locked) == (("bug", "plain"), ("jo",), True)
    assert (record.references_short, record.references_full) == ("#3", "o/r#3")
    assert record.closed_at == parse_instant("2026-03-02T09:00:01Z")
    assert issue(ISSUE | {"state": "open"}).state == "opened"
    assert issue(ISSUE | {"user": {"login": "ghost"}}).author_username is None


def test_the_issue_side_of_a_pull_request_becomes_a_small_record() -> None:
    record = issue(PULL_SIDE)
    assert isinstance(record, PullIssueRecord)
    assert (record.iid, record.comments, record.reactions) == (3, 4, 6)
    assert (record.remote_id, record.node_id) == (2_200_000_003, "PR_kwDO")


@pytest.mark.parametrize("field", ["id", "number", "updated_at"])
def test_an_issue_without_a_required_field_is_rejected_by_its_number(field: str) -> None:
    bad = {name: value for name, value in ISSUE.items() if name != field}
    found = forge_lists.ISSUES.read(raw(bad, ISSUE, PULL_SIDE, None, 3), lambda record: record.updated_at)
    assert len(found.items) == 2
    assert [one.locator for one in found.rejected] == [None if field == "number" else "3", None, None]


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "opened"),
        ({"state": "closed"}, "closed"),
        ({"state": "closed", "merged_at": "2026-03-02T09:00:05Z"}, "merged"),
        ({"state": "closed", "merged": True}, "merged"),
    ],
)
def test_a_pull_request_becomes_a_merge_request(changes: dict[str, Any], state: str) -> None:
    more = {
        "body": "Text",
        "assignees": [{"login": "jo"}],
        "requested_reviewers": [{"login": "mira"}],
        "milestone": {"title": "1.0"},
    }
    record = merge_request(PULL | more | changes)
    assert (record.remote_id, record.iid, record.state, record.description) == (500, 12, state, "Text")
    assert (record.source_branch, record.target_branch, record.head_sha) == ("fix/rounding", "main", "h" * 40)
    assert (record.assignees, record.reviewers, record.milestone_title) == (("jo",), ("mira",), "1.0")


def test_whoever_merged_is_known_from_the_single_alone_and_does_not_change_the_version() -> None:
    merged = PULL | {"state": "closed", "merged_at": "2026-03-02T09:00:05Z"}
    alone = merged | {"merged": True, "merged_by": {"login": "jo"}, "comments": 3}
    listed, single = forge_lists.MERGE_REQUESTS.read(raw(merged, alone), lambda record: record.updated_at).items
    assert (listed.record.merge_user_username, single.record.merge_user_username) == (None, "jo")
    assert listed.version == single.version


@pytest.mark.parametrize(
    ("event", "more", "expected"),
    [
        ("labeled", {}, LabelEventRecord(8, "mira", "add", "bug", 1_772_442_000_000)),
        ("unlabeled", {}, LabelEventRecord(8, "mira", "remove", "bug", 1_772_442_000_000)),
        (
            "milestoned",
            {"milestone": {"title": "1.0"}},
            MilestoneEventRecord(8, "mira", "add", "1.0", None, 1_772_442_000_000),
        ),
        ("demilestoned", {}, MilestoneEventRecord(8, "mira", "remove", None, None, 1_772_442_000_000)),
        ("closed", {"commit_id": "c1"}, StateEventRecord(8, "mira", "closed", "c1", None, 1_772_442_000_000)),
        ("reopened", {"actor": None}, StateEventRecord(8, None, "reopened", None, None, 1_772_442_000_000)),
        ("merged", {}, StateEventRecord(8, "mira", "merged", None, None, 1_772_442_000_000)),
        ("assigned", {"assignee": {"login": "jo"}}, other("8", "assigned", "jo")),
        ("review_requested", {"requested_reviewer": {"login": "jo"}}, other("8", "review_requested", "jo")),
        ("review_requested", {"requested_team": {"slug": "crew"}}, other("8", "review_requested", "crew")),
        ("renamed", {"rename": {"from": "a", "to": "b"}}, other("8", "renamed", "b")),
        ("head_ref_force_pushed", {"commit_id": "c" * 40}, other("8", "head_ref_force_pushed", "c" * 12)),
        ("locked", {"lock_reason": "spam"}, other("8", "locked", "spam")),
        ("comment_deleted", {}, other("8", "comment_deleted", None)),
        (
            "cross-referenced",
            {"id": None, "source": {"issue": {"id": 77, "number": 5, "repository": {"full_name": "o/other"}}}},
            other("3 77 2026-03-02T09:00:00Z", "cross-referenced", "o/other#5"),
        ),
        (
            "cross-referenced",
            {"id": None, "source": {"issue": {"id": 77, "number": 5, "html_url": "https://x.example/o/p/issues/5"}}},
            other("3 77 2026-03-02T09:00:00Z", "cross-referenced", "https://x.example/o/p/issues/5"),
        ),
    ],
)
def test_an_issue_event_becomes_an_event_of_its_kind(event: str, more: dict[str, Any], expected: Any) -> None:
    assert entry(event=event, **more) == expected


@pytest.mark.parametrize(
    "payload",
    [
        {"event": "committed", "sha": "c" * 40, "node_id": "C_x", "message": "m"},
        {"event": "cross-referenced", "actor": None, "created_at": "x", "source": {"type": "issue"}},
        {"event": "commented", "id": 5, "body": "hello"},
        {"event": "reviewed", "id": 5, "state": "approved"},
        {"event": "line-commented", "comments": []},
        {"event": "subscribed", "id": 9},
        {"event": "something_new", "id": "text"},
        {"event": "closed", "created_at": "2026-03-02T09:00:00Z"},
        {"event": "closed", "id": None},
        {},
    ],
)
def test_entries_of_other_kinds_and_without_an_id_are_passed_over(payload: dict[str, Any]) -> None:
    assert read_timeline_entry(3, json.dumps(payload).encode()) is None


@pytest.mark.parametrize("bad", [None, "text", EVENT | {"created_at": "soon"}, EVENT | {"id": "x"}, {"event": 3}])
def test_an_event_that_cannot_be_parsed_is_rejected_alone(bad: Any) -> None:
    body = json.dumps([bad, EVENT]).encode()
    page, _ = with_list(first, answer(body=body), build=lambda c: forge_lists.timeline(c, 42, 3, 100))
    assert len(page.items) == len(page.rejected) == 1


@pytest.mark.parametrize(
    ("status", "previous", "expected"),
    [
        ("added", None, ("a.py", True, False, False)),
        ("removed", None, ("a.py", False, False, True)),
        ("renamed", "b.py", ("b.py", False, True, False)),
        ("copied", "b.py", ("b.py", True, False, False)),
        ("modified", None, ("a.py", False, False, False)),
        ("changed", None, ("a.py", False, False, False)),
    ],
)
def test_a_changed_file_keeps_both_paths(status: str, previous: str | None, expected: tuple[Any, ...]) -> None:
    payload = {"filename": "a.py", "status": status, "sha": None}
    payload |= {} if previous is None else {"previous_filename": previous}
    record = read_changed_file(json.dumps(payload).encode()).record
    assert (record.old_path, record.new_file, record.renamed_file, record.deleted_file) == expected
    assert record.new_path == "a.py"


@pytest.mark.parametrize(
    ("build", "path", "asked"),
    [
        (
            lambda c: forge_lists.issue_list(c, 42, 100),
            "/repositories/42/issues",
            {"state": "all", "sort": "updated", "direction": "asc", "per_page": "100", "since": "2026-03-02T09:00:00Z"},
        ),
        (
            lambda c: forge_lists.issue_list(c, 42, 100, by_creation=True),
            "/repositories/42/issues",
            {"state": "all", "sort": "created", "direction": "asc", "per_page": "100"},
        ),
        (
            lambda c: forge_lists.pull_list(c, 42, 100),
            "/repositories/42/pulls",
            {"state": "all", "sort": "updated", "direction": "desc", "per_page": "30"},
        ),
        (lambda c: forge_lists.timeline(c, 42, 3, 50), "/repositories/42/issues/3/timeline", {"per_page": "50"}),
        (lambda c: forge_lists.files(c, 42, 3, 50), "/repositories/42/pulls/3/files", {"per_page": "50"}),
    ],
)
def test_each_list_is_asked_for_by_the_id_of_its_repository(build: Any, path: str, asked: dict[str, str]) -> None:
    _, server = with_list(lambda s: s.fetch(ListRequest(since=1_772_442_000_999)), answer(), build=build)
    assert urlsplit(server.seen[0].target).path == path
    assert query(server.seen[0]) == asked


def issues(client: Any) -> Any:
    return forge_lists.issue_list(client, 42, 2)


def test_a_cursor_leads_on_and_a_full_last_page_ends_the_list() -> None:
    link = f'</repositories/42/issues?per_page=2&after={CURSOR}&page=2>; rel="next"'
    body = json.dumps([ISSUE, PULL_SIDE]).encode()

    async def do(surface: Any) -> Any:
        one = await surface.fetch(ListRequest())
        return one, await surface.fetch(ListRequest(token=one.next_token))

    (one, two), server = with_list(do, answer(body=body, Link=link), answer(body=body), build=issues)
    assert query(server.seen[1])["after"] == CURSOR
    assert one.next_token is not None
    assert two.next_token is None


def test_a_cursor_to_another_origin_is_an_error_because_no_page_number_can_replace_it() -> None:
    link = f'<http://127.0.0.1:9/repositories/42/issues?after={CURSOR}>; rel="next"'
    with pytest.raises(ForeignOrigin):
        with_list(
            lambda s: s.fetch(ListRequest(token=f"/repositories/42/issues?after={CURSOR}")),
            answer(body=b"[]", Link=link),
            build=issues,
        )


def test_a_smaller_page_keeps_its_cursor() -> None:
    found = resized(f"https://x/repositories/42/issues?per_page=100&after={CURSOR}&page=4", 25)
    parts = dict(pair.split("=", 1) for pair in urlsplit(found).query.split("&"))
    assert (parts["per_page"], parts["after"].replace("%3D", "="), parts["page"]) == ("25", CURSOR, "4")


GONE = answer(410, b'{"message": "This issue was deleted"}')
OFF = answer(410, b'{"message": "Issues are disabled for this repo"}')
MOVED = answer(301, b"{}", Location="/repositories/77/issues/3")


@pytest.mark.parametrize("script", [[GONE, answer()], [answer(404, b"{}"), answer()], [MOVED, answer(body=b"{}")]])
def test_an_issue_is_gone_if_its_url_says_so_while_the_list_can_be_read(script: list[Any]) -> None:
    page, _ = with_list(lambda s: s.fetch_one("3"), *script, build=issues)
    assert (list(page.items), list(page.rejected)) == ([], [])


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ([OFF, OFF], FeatureDisabled),
        ([answer(404, b"{}"), answer(404, b"{}")], RemoteNotFound),
        ([GONE, answer(500, b"")], RemoteTransient),
        ([MOVED, answer(500, b"")], RemoteTransient),
    ],
)
def test_an_issue_is_not_gone_while_its_list_cannot_be_read(script: list[Any], expected: type[Exception]) -> None:
    with pytest.raises(expected):
        with_list(lambda s: s.fetch_one("3"), *script, build=issues)


def test_a_list_that_is_switched_off_is_a_typed_error() -> None:
    with pytest.raises(FeatureDisabled):
        with_list(first, OFF, build=issues)


def test_a_repository_that_cannot_be_parsed_does_not_hide_the_others() -> None:
    good = {"id": 7, "full_name": "o/r", "name": "r", "has_issues": True, "fork": True, "node_id": "R_7"}
    body = json.dumps([None, good, {"id": "x"}, good]).encode()
    found, server = with_list(lambda c: forge_lists.repositories(c, "o", 100), answer(body=body), build=lambda c: c)
    assert [(one.project.path, one.has_issues, one.has_discussions, one.fork) for one in found] == [
        ("o/r", True, None, True)
    ]
    assert urlsplit(server.seen[0].target).path == "/orgs/o/repos"


def test_the_points_of_graphql_are_not_taken_for_the_requests_of_rest() -> None:
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1772442000"}
    assert read_budget(headers | {"x-ratelimit-resource": "graphql"}, 0) == UNKNOWN
    assert read_budget(headers | {"x-ratelimit-resource": "core"}, 0).remaining == 0
