"""Every shape GitLab publishes is understood right: of old servers, of new ones, with fields nobody knows yet."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidelore.core.clock import parse_instant
from tidelore.sources.gitlab.payloads import Project, User
from tidelore.sources.gitlab.surfaces import ISSUES, MERGE_REQUESTS
from tidelore.sources.gitlab.transform import (
    read_closed_issue,
    read_diff,
    read_discussion,
    read_label_event,
    read_milestone_event,
    read_reviewer,
    read_state_event,
    transform_note,
    transform_project,
)
from tidelore.sources.items import ItemReader

FOLDER = Path(__file__).with_name("recorded")
Understand = Callable[[bytes], Any]


def listed(reader: ItemReader[Any, Any]) -> Understand:
    def understand(payload: bytes) -> Any:
        found = reader.read([msgspec.Raw(payload)], at=lambda record: record.updated_at)
        assert not found.rejected, found.rejected
        return found.items[0].record

    return understand


def record_of(read: Callable[[bytes], Any]) -> Understand:
    return lambda payload: read(payload).record


issues, requests = listed(ISSUES), listed(MERGE_REQUESTS)
discussions = record_of(read_discussion)
READERS: dict[str, Understand] = {
    "issues": issues,
    "issues_with_labels_details": issues,
    "issues_with_null_lists": issues,
    "issues_of_12": issues,
    "merge_requests": requests,
    "merge_requests_with_labels_details": requests,
    "merge_requests_with_null_lists": requests,
    "merge_requests_of_12": requests,
    "issue_discussions": discussions,
    "merge_request_discussions": discussions,
    "merge_request_discussions_with_diff_notes": discussions,
    "issue_notes": lambda payload: transform_note(payload, 0),
    "merge_request_notes": lambda payload: transform_note(payload, 0),
    "issue_state_events": record_of(read_state_event),
    "merge_request_state_events": record_of(read_state_event),
    "issue_label_events": record_of(read_label_event),
    "merge_request_label_events": record_of(read_label_event),
    "issue_milestone_events": record_of(read_milestone_event),
    "merge_request_milestone_events": record_of(read_milestone_event),
    "closes_issues": record_of(read_closed_issue),
    "closes_issues_of_another_tracker": record_of(read_closed_issue),
    "merge_request_diffs": record_of(read_diff),
    "merge_request_reviewers": record_of(read_reviewer),
    "project": lambda payload: transform_project(msgspec.json.decode(payload, type=Project)),
    "projects": lambda payload: transform_project(msgspec.json.decode(payload, type=Project)),
    "group_projects": lambda payload: transform_project(msgspec.json.decode(payload, type=Project)),
    "user": lambda payload: msgspec.json.decode(payload, type=User),
}


def rows(name: str) -> list[Any]:
    """Return the objects of an answer, be it a list or one object."""
    body = json.loads((FOLDER / f"{name}.json").read_bytes())
    return body if isinstance(body, list) else [body]


def understood(name: str, objects: Sequence[Any] | None = None) -> list[Any]:
    found = rows(name) if objects is None else objects
    return [READERS[name](json.dumps(one).encode()) for one in found]


def facts(name: str, *fields: str) -> list[tuple[Any, ...]]:
    return [tuple(getattr(record, field) for field in fields) for record in understood(name)]


def ms(text: str) -> int:
    return parse_instant(text)


def test_every_recorded_sample_has_a_reader_and_a_readme_entry() -> None:
    files = {path.stem for path in FOLDER.glob("*.json")}
    told = set(re.findall(r"^\| `(\w+)\.json` \|", (FOLDER / "README.md").read_text(), re.MULTILINE))
    assert files == set(READERS) == told


def grown(value: Any) -> Any:
    """Return a payload in which every object has a field that nobody knows yet."""
    if isinstance(value, dict):
        return {**{key: grown(inner) for key, inner in value.items()}, "a_field_of_tomorrow": {"deep": [None, 1.5]}}
    return [grown(inner) for inner in value] if isinstance(value, list) else value


def shorn(record: Any) -> Any:
    """Return a record without the bytes it came in."""
    if hasattr(record, "notes"):
        return msgspec.structs.replace(record, notes=tuple(map(shorn, record.notes)))
    return msgspec.structs.replace(record, payload=b"") if hasattr(record, "payload") else record


@pytest.mark.parametrize("name", READERS)
def test_an_unknown_field_does_not_change_the_record(name: str) -> None:
    assert [shorn(one) for one in understood(name, grown(rows(name)))] == [shorn(one) for one in understood(name)]


def test_recorded_issues_are_parsed() -> None:
    first, second = understood("issues")
    assert (first.remote_id, first.iid, first.title, first.state) == (9001, 41, "Crane 7 stops at 40 % load", "opened")
    assert (first.author_username, first.milestone_title, first.issue_type) == ("mira", "Spring tide", "incident")
    assert (first.labels, first.assignees) == (("brake", "priority::1"), ("jonas", "ada"))
    assert (first.confidential, first.discussion_locked, first.due_date) == (True, False, "2026-03-31")
    assert (first.time_estimate_seconds, first.time_spent_seconds, first.user_notes_count) == (7200, 1800, 5)
    assert (first.references_short, first.references_full) == ("#41", "port/harbour#41")
    assert (first.created_at, first.updated_at, first.closed_at) == (
        ms("2026-03-02T09:00:00.123Z"),
        ms("2026-03-03T10:11:12.345Z"),
        None,
    )
    assert (second.description, second.milestone_title, second.due_date) == (None, None, None)
    assert (second.state, second.closed_at) == ("closed", ms("2026-03-04T07:00:00Z"))
    assert (second.labels, second.assignees, second.discussion_locked) == ((), (), True)


def test_issues_with_label_details_give_label_names() -> None:
    assert facts("issues_with_labels_details", "iid", "labels") == [(42, ("brake", "priority::1"))]


def test_issues_with_null_lists_have_empty_ones() -> None:
    names = ("labels", "assignees", "author_username", "references_full", "time_estimate_seconds", "discussion_locked")
    assert facts("issues_with_null_lists", *names) == [((), (), None, None, 0, False)]


def test_recorded_issues_of_an_old_server_are_parsed() -> None:
    names = ("remote_id", "iid", "author_username", "milestone_title", "labels", "assignees", "due_date")
    assert facts("issues_of_12", *names) == [(8804, 19, "mira", "Spring tide", ("rope",), ("jonas",), "2020-07-22")]
    assert facts("issues_of_12", "references_short", "references_full", "issue_type") == [(None, None, None)]


def test_recorded_merge_requests_are_parsed() -> None:
    assert facts("merge_requests", "iid", "state", "draft", "detailed_merge_status", "merge_user_username") == [
        (12, "merged", False, "not_open", "ada"),
        (13, "opened", True, "draft_status", None),
        (14, "locked", False, "mergeable", None),
        (15, "closed", False, "draft_status", None),
    ]
    assert facts("merge_requests", "labels", "assignees", "reviewers", "milestone_title")[:2] == [
        (("brake",), ("mira", "jonas"), ("ada", "timo"), "Spring tide"),
        ((), (), (), None),
    ]
    assert facts("merge_requests", "merged_at", "closed_at") == [
        (ms("2026-03-05T11:12:13.400Z"), None),
        (None, None),
        (None, None),
        (None, ms("2026-03-06T08:00:00Z")),
    ]
    assert facts("merge_requests", "source_branch", "target_branch", "head_sha", "references_full")[:2] == [
        ("brake-earlier", "main", "8f" * 20, "port/harbour!12"),
        ("lamp", "main", None, "port/harbour!13"),
    ]


def test_merge_requests_with_label_details_give_label_names() -> None:
    assert facts("merge_requests_with_labels_details", "iid", "labels") == [(12, ("brake",))]


def test_merge_requests_with_null_lists_have_empty_ones() -> None:
    names = ("labels", "assignees", "reviewers", "author_username", "references_short")
    assert facts("merge_requests_with_null_lists", *names) == [((), (), (), None, None)]


def test_recorded_merge_requests_of_an_old_server_are_parsed() -> None:
    sent = rows("merge_requests_of_12")
    newer = {"draft", "detailed_merge_status", "merge_user", "references", "reviewers"}
    assert not newer & set().union(*sent)
    assert facts("merge_requests_of_12", "title", "draft", "detailed_merge_status", "merge_user_username") == [
        ("Brake earlier", False, "can_be_merged", "ada"),
        ("WIP: Lamp", True, "can_be_merged", None),
    ]
    assert facts("merge_requests_of_12", "assignees", "reviewers", "references_full") == [
        (("jonas",), (), None),
        ((), (), None),
    ]


def test_old_and_new_servers_give_the_same_merge_request_record() -> None:
    new, before = understood("merge_requests")[0], understood("merge_requests_of_12")[0]
    told_by_new_servers_only = {
        "detailed_merge_status",
        "references_short",
        "references_full",
        "reviewers",
        "assignees",
    }
    for name in set(new.__struct_fields__) - told_by_new_servers_only:
        assert getattr(before, name) == getattr(new, name), name


def test_recorded_issue_discussions_are_parsed() -> None:
    found = understood("issue_discussions")
    assert [(one.remote_id[:2], one.individual_note, one.resolvable) for one in found] == [
        ("a1", False, False),
        ("a2", True, False),
        ("a3", True, False),
        ("a4", True, False),
    ]
    told = [(note.remote_id, note.note_type, note.body, note.is_system) for one in found for note in one.notes]
    assert told == [
        (2206, "DiscussionNote", "Which crane?", False),
        (2209, "DiscussionNote", "Number 7.", False),
        (2208, None, "Seen again today.", False),
        (1130, None, "Pilots only.", False),
        (1131, None, "changed due date to March 31", True),
    ]


def test_recorded_merge_request_discussions_are_parsed() -> None:
    found = understood("merge_request_discussions")
    assert [(one.remote_id[:2], one.individual_note, one.resolvable, one.resolved) for one in found] == [
        ("b1", False, True, False),
        ("b2", True, True, False),
        ("b3", False, True, True),
    ]
    last = found[-1].notes[-1]
    assert (last.resolved_by, last.resolved_at, last.position) == ("ada", ms("2026-03-03T10:00:00.001Z"), 1)


def test_recorded_diff_note_discussions_are_parsed() -> None:
    notes = [one.notes[0] for one in understood("merge_request_discussions_with_diff_notes")]
    names = ("type", "old_path", "new_path", "old_line", "new_line", "line_range_start", "line_range_end")
    assert [tuple(getattr(note, f"position_{name}") for name in names) for note in notes] == [
        ("text", "src/brake.py", "src/brake.py", 27, 27, 10, 11),
        ("text", "src/winch.py", "src/crane.py", None, 48, 45, 48),
        ("text", "src/gone.py", "src/gone.py", 9, None, 4, 9),
        ("text", "src/crane.py", "src/crane.py", 3, 5, None, None),
        ("image", "docs/crane.png", "docs/crane.png", None, None, None, None),
        ("file", "src/crane.py", "src/crane.py", None, None, None, None),
        ("text", "src/crane.py", "src/crane.py", None, 5, None, None),
        ("text", "package.json", "package.json", 27, 27, None, None),
    ]
    shas = {(note.position_base_sha, note.position_start_sha, note.position_head_sha) for note in notes}
    assert shas == {("b5" * 20, "7c" * 20, "48" * 20)}
    assert {note.note_type for note in notes} == {"DiffNote"}
    assert [note.resolved for note in notes] == [False] * 7 + [True]


def test_recorded_notes_are_parsed() -> None:
    assert facts("issue_notes", "remote_id", "is_system", "body", "author_username") == [
        (302, True, "closed", "mira"),
        (305, False, "A comment of two lines\r\n", "mira"),
    ]
    assert facts("merge_request_notes", "remote_id", "note_type", "resolvable", "updated_at") == [
        (301, None, False, ms("2026-03-02T10:22:45Z"))
    ]


def test_recorded_state_events_are_parsed() -> None:
    names = ("remote_id", "user_username", "state", "source_commit", "source_merge_request_id")
    assert facts("issue_state_events", *names) == [
        (142, "jonas", "opened", None, None),
        (143, "jonas", "closed", None, None),
        (144, "jonas", "closed", "48" * 20, 7001),
    ]
    assert facts("merge_request_state_events", *names)[1:] == [
        (143, "jonas", "closed", None, None),
        (144, None, "merged", None, None),
    ]


@pytest.mark.parametrize("parent", ["issue", "merge_request"])
def test_recorded_label_and_milestone_events_are_parsed(parent: str) -> None:
    assert facts(f"{parent}_label_events", "remote_id", "user_username", "action", "label_name") == [
        (119, "jonas", "add", "brake"),
        (120, "jonas", "remove", "rope"),
        (121, "jonas", "remove", None),
    ]
    names = ("remote_id", "user_username", "action", "milestone_title", "milestone_remote_id")
    assert facts(f"{parent}_milestone_events", *names) == [
        (150, "jonas", "add", "Spring tide", 54),
        (151, "jonas", "remove", "Spring tide", 54),
        (152, None, "remove", None, None),
    ]


def test_recorded_closed_issues_are_parsed() -> None:
    names = ("issue_key", "issue_remote_id", "issue_iid", "issue_project_remote_id", "reference", "title")
    assert facts("closes_issues", *names) == [
        ("8804", 8804, 19, 31, None, "Rope frays at the winch"),
        ("9001", 9001, 41, 31, "port/harbour#41", "Crane 7 stops at 40 % load"),
    ]
    assert facts("closes_issues_of_another_tracker", *names) == [("QUAY-123", None, None, None, None, "Rope frays")]


def test_recorded_diffs_are_parsed() -> None:
    assert facts("merge_request_diffs", "old_path", "new_path", "new_file", "renamed_file", "deleted_file") == [
        ("README", "README", False, False, False),
        ("src/winch.py", "src/crane.py", False, True, False),
        ("src/new.py", "src/new.py", True, False, False),
        ("src/gone.py", "src/gone.py", False, False, True),
        ("poetry.lock", "poetry.lock", False, False, False),
        ("VERSION", "VERSION", False, False, False),
    ]


def test_recorded_reviewers_and_current_user_are_parsed() -> None:
    assert facts("merge_request_reviewers", "username") == [("ada",), ("timo",)]
    assert facts("user", "username") == [("mira",)]


def test_recorded_projects_are_parsed() -> None:
    names = ("remote_id", "path", "name", "web_url", "archived")
    harbour = (31, "port/harbour", "Harbour", "https://forge.test/port/harbour", False)
    assert facts("project", *names) == [harbour]
    assert facts("projects", *names) == [
        harbour,
        (33, "port/north/quay", "Quay", "https://forge.test/port/north/quay", False),
    ]
    assert facts("group_projects", *names) == [
        harbour,
        (34, "port/old-quay", "Old quay", "https://forge.test/port/old-quay", True),
        (35, "pilots/charts", "Charts", "https://forge.test/pilots/charts", False),
    ]
