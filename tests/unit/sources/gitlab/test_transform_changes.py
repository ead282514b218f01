"""What a merge request changes: issues it closes, files, reviewers; which payload changes count."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tidelore.core.model import ClosedIssueRecord, FileChangeRecord, Item, ReviewerRecord
from tidelore.sources.gitlab.transform import read_closed_issue, read_diff, read_reviewer
from tidelore_world.gitlab.state import FileDiff
from tidelore_world.world import World

ISSUE: dict[str, Any] = {
    "id": 76,
    "iid": 6,
    "project_id": 1,
    "title": "The brake is late",
    "references": {"short": "#6", "relative": "#6", "full": "port/harbour#6"},
    "web_url": "https://forge.test/port/harbour/-/issues/6",
}
FILE: dict[str, Any] = {"old_path": "src/crane.py", "new_path": "src/crane.py", "diff": "@@ -1 +1 @@\n"}


def read(reader: Callable[[bytes], Item[Any]], payload: Any) -> Item[Any]:
    return reader(json.dumps(payload).encode())


def test_a_gitlab_issue_closed_by_a_merge_request_is_identified_by_its_number() -> None:
    found = read(read_closed_issue, ISSUE)
    assert found.record == ClosedIssueRecord(
        "76", 76, 6, 1, "port/harbour#6", "The brake is late", "https://forge.test/port/harbour/-/issues/6"
    )
    assert found.version.id == "76"


def test_an_issue_of_another_tracker_is_identified_by_its_key() -> None:
    found = read(read_closed_issue, {"id": "QUAY-123", "title": "Brake"})
    assert found.record == ClosedIssueRecord("QUAY-123", None, None, None, None, "Brake", None)
    assert found.version.id == "QUAY-123"


def test_a_closed_issue_without_references_or_url_is_accepted() -> None:
    record = read(read_closed_issue, {"id": 76, "iid": 6, "project_id": 1, "title": "T", "references": None}).record
    assert (record.issue_remote_id, record.reference, record.web_url) == (76, None, None)


def test_a_new_comment_on_a_closed_issue_does_not_change_the_merge_requests_version() -> None:
    plain = read(read_closed_issue, ISSUE)
    assert read(read_closed_issue, {**ISSUE, "user_notes_count": 9, "updated_at": "x"}).version == plain.version
    assert read(read_closed_issue, {**ISSUE, "title": "Renamed"}).version.digest != plain.version.digest


@pytest.mark.parametrize(
    ("flags", "kept"),
    [
        ({}, (False, False, False)),
        ({"new_file": True, "renamed_file": False, "deleted_file": False}, (True, False, False)),
        ({"renamed_file": True}, (False, True, False)),
        ({"deleted_file": True, "new_file": None}, (False, False, True)),
    ],
)
def test_a_file_change_records_added_renamed_or_deleted(flags: dict[str, Any], kept: tuple[bool, bool, bool]) -> None:
    assert read(read_diff, {**FILE, **flags}).record == FileChangeRecord("src/crane.py", "src/crane.py", *kept)


def test_a_renamed_file_keeps_both_paths() -> None:
    found = read(read_diff, {**FILE, "old_path": "src/winch.py", "renamed_file": True})
    assert (found.record.old_path, found.record.new_path) == ("src/winch.py", "src/crane.py")
    assert found.version.id == "src/winch.py -> src/crane.py"


def test_the_diff_text_is_not_part_of_the_record() -> None:
    plain = read(read_diff, FILE)
    assert read(read_diff, {**FILE, "diff": "", "too_large": True, "collapsed": True}).version == plain.version
    assert read(read_diff, {**FILE, "deleted_file": True}).version.digest != plain.version.digest


def test_a_reviewer_is_stored_in_every_review_state() -> None:
    found = read(read_reviewer, {"user": {"id": 2, "username": "ada"}, "state": "unreviewed"})
    assert found.record == ReviewerRecord("ada")
    again = read(read_reviewer, {"user": {"id": 2, "username": "ada"}, "state": "reviewed"})
    assert (again.version, again.version.id) == (found.version, "ada")


@pytest.mark.parametrize(
    ("reader", "payload", "where"),
    [
        (read_closed_issue, {"title": "T"}, "`id`"),
        (read_closed_issue, {"id": None}, r"\$\.id"),
        (read_closed_issue, {"id": 2**63}, r"\$\.id"),
        (read_closed_issue, {**ISSUE, "iid": "6"}, r"\$\.iid"),
        (read_closed_issue, {**ISSUE, "references": "#6"}, r"\$\.references"),
        (read_diff, {"new_path": "a"}, "`old_path`"),
        (read_diff, {**FILE, "new_path": None}, r"\$\.new_path"),
        (read_diff, {**FILE, "new_file": "yes"}, r"\$\.new_file"),
        (read_reviewer, {"state": "reviewed"}, "`user`"),
        (read_reviewer, {"user": None}, r"\$\.user"),
        (read_reviewer, {"user": {"id": 2}}, r"`username`.*\$\.user"),
    ],
)
def test_the_error_for_a_missing_or_mistyped_field_names_it(
    reader: Callable[[bytes], Item[Any]], payload: Any, where: str
) -> None:
    with pytest.raises(ValueError, match=where):
        read(reader, payload)


def test_payloads_of_the_simulator_are_parsed() -> None:
    world = World()
    world.gitlab.create_project("g/p")
    issue = world.gitlab.create_issue("g/p", title="Late")
    files = [FileDiff("a.py", "b.py", "@@\n", renamed_file=True)]
    request = world.gitlab.create_merge_request("g/p", closes=[issue.iid], reviewers=["ada"], diffs=files)
    closes = [read(read_closed_issue, row).record for row in world.gitlab.truth_closes("g/p", request.iid)]
    diffs = [read(read_diff, row).record for row in world.gitlab.truth_diffs("g/p", request.iid)]
    reviewers = [read(read_reviewer, row).record for row in world.gitlab.truth_reviewers("g/p", request.iid)]
    assert [(one.issue_remote_id, one.issue_iid, one.title) for one in closes] == [(issue.id, issue.iid, "Late")]
    assert diffs == [FileChangeRecord("a.py", "b.py", new_file=False, renamed_file=True, deleted_file=False)]
    assert reviewers == [ReviewerRecord("ada")]
