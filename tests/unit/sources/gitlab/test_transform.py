"""From GitLab's payloads to our records: new names before old ones, nothing invented, bad times named."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tidelore.core.model import IssueRecord, MergeRequestRecord
from tidelore.sources.gitlab.payloads import Issue, MergeRequest, Project
from tidelore.sources.gitlab.transform import transform_issue, transform_merge_request, transform_project
from tidelore_world.world import World

LEAST: dict[str, Any] = {
    "id": 7,
    "iid": 3,
    "title": "T",
    "state": "opened",
    "created_at": "2026-03-02T09:00:00.123Z",
    "updated_at": "2026-03-02T10:00:00.456+01:00",
}
AT = 1_772_442_000_123


def issue(**fields: Any) -> IssueRecord:
    return transform_issue(msgspec.convert({**LEAST, **fields}, Issue))


def request(**fields: Any) -> MergeRequestRecord:
    return transform_merge_request(msgspec.convert({**LEAST, **fields}, MergeRequest))


def user(name: str) -> dict[str, str]:
    return {"username": name}


def test_an_issue_without_optional_fields_is_accepted() -> None:
    assert issue() == IssueRecord(
        remote_id=7,
        iid=3,
        title="T",
        description=None,
        state="opened",
        author_username=None,
        milestone_title=None,
        due_date=None,
        confidential=False,
        discussion_locked=False,
        issue_type=None,
        user_notes_count=0,
        time_estimate_seconds=0,
        time_spent_seconds=0,
        references_short=None,
        references_full=None,
        created_at=AT,
        updated_at=AT + 333,
        closed_at=None,
        web_url=None,
        labels=(),
        assignees=(),
    )


def test_an_issue_with_all_optional_fields_keeps_them() -> None:
    found = issue(
        description="D",
        author=user("ann"),
        milestone={"title": "M"},
        due_date="2026-04-01",
        confidential=True,
        discussion_locked=True,
        issue_type="incident",
        user_notes_count=4,
        time_stats={"time_estimate": 60, "total_time_spent": 30},
        references={"short": "#3", "full": "g/p#3"},
        closed_at="2026-03-02T09:00:00.123Z",
        web_url="https://h/3",
        labels=["a", "b"],
        assignees=[user("bob"), user("eve")],
        a_field_of_a_newer_server={"x": 1},
    )
    assert (found.description, found.author_username, found.milestone_title) == ("D", "ann", "M")
    assert (found.confidential, found.discussion_locked, found.issue_type) == (True, True, "incident")
    assert (found.user_notes_count, found.time_estimate_seconds, found.time_spent_seconds) == (4, 60, 30)
    assert (found.references_short, found.references_full, found.web_url) == ("#3", "g/p#3", "https://h/3")
    assert (found.due_date, found.closed_at) == ("2026-04-01", AT)
    assert (found.labels, found.assignees) == (("a", "b"), ("bob", "eve"))


def test_transforms_gitlab_mr_to_normalized_schema() -> None:
    found = request(
        description="D",
        state="merged",
        draft=True,
        author=user("ann"),
        source_branch="brake",
        target_branch="main",
        sha="a" * 40,
        references={"short": "!3", "full": "g/p!3"},
        detailed_merge_status="mergeable",
        merge_user=user("eve"),
        milestone={"title": "M"},
        user_notes_count=4,
        merged_at="2026-03-02T09:00:00.123Z",
        web_url="https://h/3",
        labels=["a"],
        assignees=[user("bob")],
        reviewers=[user("ada")],
        a_field_of_a_newer_server={"x": 1},
    )
    assert found == MergeRequestRecord(
        remote_id=7,
        iid=3,
        title="T",
        description="D",
        state="merged",
        draft=True,
        author_username="ann",
        source_branch="brake",
        target_branch="main",
        head_sha="a" * 40,
        references_short="!3",
        references_full="g/p!3",
        detailed_merge_status="mergeable",
        merge_user_username="eve",
        milestone_title="M",
        user_notes_count=4,
        created_at=AT,
        updated_at=AT + 333,
        merged_at=AT,
        closed_at=None,
        web_url="https://h/3",
        labels=("a",),
        assignees=("bob",),
        reviewers=("ada",),
    )


@pytest.mark.parametrize("state", ["opened", "closed", "merged", "locked"])
def test_a_state_is_stored_unchanged(state: str) -> None:
    assert request(state=state).state == state


def test_extracts_labels_from_mr_payloads() -> None:
    assert request(labels=["b", "a", "scoped::x"]).labels == ("b", "a", "scoped::x")


def test_extracts_assignees_from_mr_payloads() -> None:
    assert request(assignee=user("bob"), assignees=[user("bob"), user("eve")]).assignees == ("bob", "eve")


def test_extracts_reviewers_from_mr_payloads() -> None:
    assert request(reviewers=[user("ada"), user("bob")]).reviewers == ("ada", "bob")


def test_handles_missing_optional_fields_gracefully() -> None:
    assert request() == MergeRequestRecord(
        remote_id=7,
        iid=3,
        title="T",
        description=None,
        state="opened",
        draft=False,
        author_username=None,
        source_branch=None,
        target_branch=None,
        head_sha=None,
        references_short=None,
        references_full=None,
        detailed_merge_status=None,
        merge_user_username=None,
        milestone_title=None,
        user_notes_count=0,
        created_at=AT,
        updated_at=AT + 333,
        merged_at=None,
        closed_at=None,
        web_url=None,
        labels=(),
        assignees=(),
        reviewers=(),
    )


def test_converts_merged_at_and_closed_at_timestamps() -> None:
    found = request(merged_at="2026-03-02T10:00:00.123+01:00", closed_at="2026-03-02T09:00:01Z")
    assert (found.merged_at, found.closed_at) == (AT, 1_772_442_001_000)


@pytest.mark.parametrize("nothing", [None, []])
def test_handles_mrs_with_no_labels_assignees_reviewers(nothing: Any) -> None:
    assert request(labels=nothing, assignees=nothing, reviewers=nothing) == request()
    assert issue(labels=nothing, assignees=nothing) == issue()


def test_labels_with_details_are_reduced_to_their_names() -> None:
    detailed = [{"id": 1, "name": "a", "color": "#fff", "description": None, "text_color": "#000"}, "b"]
    assert (request(labels=detailed).labels, issue(labels=detailed).labels) == (("a", "b"), ("a", "b"))


NULLABLE = ("description", "author", "milestone", "user_notes_count", "references", "closed_at", "web_url")


@pytest.mark.parametrize(
    "field", [*NULLABLE, "confidential", "discussion_locked", "time_stats", "due_date", "issue_type"]
)
def test_an_optional_field_of_an_issue_may_be_null(field: str) -> None:
    assert issue(**{field: None}) == issue()


@pytest.mark.parametrize(
    "field",
    [
        *NULLABLE,
        *("draft", "work_in_progress", "sha", "source_branch", "target_branch", "merge_status", "merged_at"),
        *("detailed_merge_status", "merge_user", "merged_by"),
    ],
)
def test_an_optional_field_of_a_merge_request_may_be_null(field: str) -> None:
    assert request(**{field: None}) == request()


@pytest.mark.parametrize(
    ("fields", "draft"),
    [
        ({}, False),
        ({"draft": True}, True),
        ({"work_in_progress": True}, True),
        ({"draft": None, "work_in_progress": True}, True),
        ({"draft": True, "work_in_progress": False}, True),
        ({"draft": False, "work_in_progress": True}, True),
    ],
)
def test_draft_and_work_in_progress_both_mark_a_draft(fields: dict[str, Any], draft: bool) -> None:
    assert request(**fields).draft is draft


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, None),
        ({"merge_status": "can_be_merged"}, "can_be_merged"),
        ({"detailed_merge_status": "mergeable", "merge_status": "can_be_merged"}, "mergeable"),
        ({"detailed_merge_status": None, "merge_status": "can_be_merged"}, "can_be_merged"),
    ],
)
def test_the_detailed_merge_status_takes_precedence(fields: dict[str, Any], status: str | None) -> None:
    assert request(**fields).detailed_merge_status == status


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, None),
        ({"merged_by": user("old")}, "old"),
        ({"merge_user": user("new"), "merged_by": user("old")}, "new"),
        ({"merge_user": None, "merged_by": user("old")}, "old"),
    ],
)
def test_merge_user_takes_precedence_over_merged_by(fields: dict[str, Any], name: str | None) -> None:
    assert request(**fields).merge_user_username == name


@pytest.mark.parametrize("value", ["", "soon", "2026-03-02", "2026-03-02T09:00:00", "0000-00-00T00:00:00Z"])
@pytest.mark.parametrize("field", ["created_at", "updated_at", "closed_at"])
def test_the_error_for_a_bad_time_names_the_field(field: str, value: str) -> None:
    for transform in (issue, request):
        with pytest.raises(ValueError, match=f"^{field}: "):
            transform(**{field: value})


def test_the_error_for_a_bad_merge_time_names_the_field() -> None:
    with pytest.raises(ValueError, match=r"^merged_at: "):
        request(merged_at="soon")


def test_old_and_new_servers_give_the_same_record() -> None:
    world = World()
    world.gitlab.create_project("g/p")
    made = world.gitlab.create_merge_request("g/p")
    world.advance(60)
    world.gitlab.merge_merge_request("g/p", made.iid)
    records = []
    for old in (False, True):
        world.gitlab.old_server = old
        payload = world.gitlab.truth_merge_requests("g/p")[0]
        records.append(transform_merge_request(msgspec.convert(payload, MergeRequest)))
    new, before = records
    assert new.merge_user_username is not None
    # An old server knows no detailed status; everything else is the same fact under another name.
    assert msgspec.structs.replace(new, detailed_merge_status=None) == msgspec.structs.replace(
        before, detailed_merge_status=None
    )
    assert before.detailed_merge_status is not None


def test_a_project_is_transformed_to_a_record() -> None:
    payload = {"id": 5, "path_with_namespace": "g/p", "name": "P", "archived": True, "web_url": "https://h/g/p"}
    found = transform_project(msgspec.convert(payload, Project))
    assert (found.remote_id, found.path, found.name, found.archived) == (5, "g/p", "P", True)
    del payload["archived"]
    assert transform_project(msgspec.convert(payload, Project)).archived is False
