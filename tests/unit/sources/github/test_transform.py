"""From GitHub's payloads to our records: whose words, in which thread, at which place, of which instant."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tidelore.core.model import CommentRecord, PullRecord, pull_of
from tidelore.sources.github.forge_lists import MERGE_REQUESTS
from tidelore.sources.github.surfaces import COMMENTS, REVIEW_COMMENTS, REVIEWS
from tidelore.sources.items import ParsedItems

COMMENT: dict[str, Any] = {
    "id": 2_200_000_007,
    "issue_url": "https://api.github.com/repos/o/r/issues/12",
    "html_url": "https://github.com/o/r/pull/12#issuecomment-2200000007",
    "user": {"login": "mira", "type": "User", "id": 1, "avatar_url": "https://x"},
    "created_at": "2026-03-02T09:00:00Z",
    "updated_at": "2026-03-02T09:00:01Z",
    "body": "Well done.",
    "reactions": {"+1": 3},
    "performed_via_github_app": None,
}
REMARK: dict[str, Any] = {
    **COMMENT,
    "pull_request_url": "https://api.github.com/repos/o/r/pulls/12",
    "path": "src/ledger.py",
    "line": 40,
    "original_line": 38,
    "side": "RIGHT",
    "commit_id": "c" * 40,
    "original_commit_id": "o" * 40,
    "pull_request_review_id": 77,
    "in_reply_to_id": 5,
}
REVIEW: dict[str, Any] = {
    "id": 9,
    "pull_request_url": "https://api.github.com/repos/o/r/pulls/12",
    "html_url": "https://github.com/o/r/pull/12#pullrequestreview-9",
    "user": {"login": "mira", "type": "User"},
    "state": "CHANGES_REQUESTED",
    "submitted_at": "2026-03-02T09:00:02Z",
    "commit_id": "c" * 40,
    "body": "Please split it.",
}
PULL: dict[str, Any] = {
    "id": 500,
    "number": 12,
    "title": "Round half to even",
    "state": "open",
    "draft": False,
    "user": {"login": "mira", "type": "User"},
    "labels": [{"name": "agent", "id": 1}, {"name": "bug", "id": 2}],
    "head": {"ref": "fix/rounding", "sha": "h" * 40, "repo": None},
    "base": {"ref": "main", "sha": "b" * 40},
    "html_url": "https://github.com/o/r/pull/12",
    "created_at": "2026-03-02T09:00:00Z",
    "updated_at": "2026-03-02T09:00:01Z",
    "closed_at": None,
    "merged_at": None,
}
NINE = 1_772_442_000_000


def read(reader: Any, *payloads: Any) -> ParsedItems[Any]:
    raws = [msgspec.Raw(json.dumps(payload).encode()) for payload in payloads]
    found: ParsedItems[Any] = reader.read(raws, lambda record: record.updated_at)
    return found


def record(reader: Any, payload: dict[str, Any]) -> Any:
    found = read(reader, payload)
    assert not found.rejected, found.rejected
    return found.items[0].record


def test_an_issue_comment_is_transformed_to_a_record() -> None:
    assert record(COMMENTS, COMMENT) == CommentRecord(
        remote_id=2_200_000_007,
        kind="issue_comment",
        number=12,
        author="mira",
        is_bot=False,
        body="Well done.",
        path=None,
        line=None,
        side=None,
        commit_sha=None,
        in_reply_to=None,
        review_id=None,
        review_state=None,
        url="https://github.com/o/r/pull/12#issuecomment-2200000007",
        created_at=NINE,
        updated_at=NINE + 1000,
    )


def test_a_review_comment_keeps_its_file_and_line() -> None:
    found = record(REVIEW_COMMENTS, REMARK)
    assert (found.kind, found.number, found.in_reply_to, found.review_id) == ("review_comment", 12, 5, 77)
    assert (found.path, found.line, found.side, found.commit_sha) == ("src/ledger.py", 40, "RIGHT", "c" * 40)


def test_an_outdated_review_comment_keeps_its_original_line() -> None:
    found = record(REVIEW_COMMENTS, {**REMARK, "line": None})
    assert (found.line, found.commit_sha) == (38, "o" * 40)


def test_a_comment_on_a_whole_file_has_no_line() -> None:
    bare = {name: value for name, value in REMARK.items() if not name.startswith("original_")}
    found = record(REVIEW_COMMENTS, {**bare, "line": None, "in_reply_to_id": None})
    assert (found.path, found.line, found.commit_sha, found.in_reply_to) == ("src/ledger.py", None, "c" * 40, None)


def test_a_review_summary_is_dated_by_its_submission() -> None:
    found = record(REVIEWS, REVIEW)
    assert (found.kind, found.number, found.review_state) == ("review_summary", 12, "CHANGES_REQUESTED")
    assert (found.created_at, found.updated_at) == (NINE + 2000, NINE + 2000)
    assert (found.body, found.review_id, found.commit_sha) == ("Please split it.", 9, "c" * 40)


@pytest.mark.parametrize("pending", [{"submitted_at": None}, {}])
def test_a_pending_review_is_skipped(pending: dict[str, Any]) -> None:
    draft = {**{name: value for name, value in REVIEW.items() if name != "submitted_at"}, **pending, "state": "PENDING"}
    found = read(REVIEWS, draft, REVIEW)
    assert [item.version.id for item in found.items] == [9]
    assert not found.rejected


@pytest.mark.parametrize("user", [None, {"login": "ghost", "type": "User"}, {"login": "Ghost"}])
@pytest.mark.parametrize("reader", [COMMENTS, REVIEW_COMMENTS, REVIEWS], ids=["talk", "diff", "review"])
def test_a_deleted_user_gives_no_author(reader: Any, user: Any) -> None:
    found = record(reader, {**REMARK, **REVIEW, "user": user})
    assert found.author is None
    assert not getattr(found, "is_bot", False)


@pytest.mark.parametrize(
    ("user", "is_bot"),
    [
        ({"login": "dependabot[bot]", "type": "Bot"}, True),
        ({"login": "renovate", "type": "Bot"}, True),
        ({"login": "Helper[BOT]", "type": "User"}, True),
        ({"login": "helper[bot]"}, True),
        ({"login": "robot", "type": "User"}, False),
        ({"login": "org", "type": "Organization"}, False),
    ],
)
def test_a_bot_is_recognised_by_its_type_or_login(user: dict[str, Any], is_bot: bool) -> None:
    found = record(COMMENTS, {**COMMENT, "user": user})
    assert (found.is_bot, found.author) == (is_bot, user["login"])


def test_a_comment_without_a_body_gets_an_empty_body() -> None:
    assert record(COMMENTS, {**COMMENT, "body": None}).body == ""


def test_a_pull_request_is_transformed_to_what_feedback_needs_of_it() -> None:
    assert pull_of(record(MERGE_REQUESTS, PULL)) == PullRecord(
        number=12,
        title="Round half to even",
        state="opened",
        author="mira",
        head_sha="h" * 40,
        branch="fix/rounding",
        labels=("agent", "bug"),
        url="https://github.com/o/r/pull/12",
        created_at=NINE,
        updated_at=NINE + 1000,
    )


def test_a_pull_request_has_the_same_version_from_list_and_single_endpoint() -> None:
    merged = {**PULL, "state": "closed", "merged_at": "2026-03-02T09:00:01Z", "closed_at": "2026-03-02T09:00:01Z"}
    listed, single = read(MERGE_REQUESTS, merged, {**merged, "merged": True, "mergeable": None, "comments": 4}).items
    assert pull_of(listed.record).state == "merged"
    assert listed.version == single.version


def test_only_a_change_of_a_stored_field_makes_a_new_version() -> None:
    plain, liked, edited = read(
        COMMENTS, COMMENT, {**COMMENT, "reactions": {"+1": 4}}, {**COMMENT, "body": "Well done!"}
    ).items
    assert plain.version == liked.version
    assert plain.version.digest != edited.version.digest
    assert plain.version.updated_at == edited.version.updated_at


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"issue_url": "https://api.github.com/repos/o/r/issues/"}, "issue_url: names no thread"),
        ({"issue_url": "https://api.github.com/repos/o/r/issues/1x"}, "issue_url: names no thread"),
        ({"issue_url": f"https://x/{'9' * 19}"}, "issue_url: names no thread"),
        ({"updated_at": "yesterday"}, "updated_at: "),
        ({"created_at": "2026-03-02T09:00:00"}, "created_at: "),
        ({"body": 7}, "$.body"),
        ({"user": {"id": 1}}, "$.user"),
        ({"body": "a\x00b"}, "body: contains a NUL"),
    ],
)
def test_an_item_that_cannot_be_parsed_is_rejected_with_its_url_for_a_later_retry(
    change: dict[str, Any], error: str
) -> None:
    found = read(COMMENTS, {**COMMENT, **change}, {**COMMENT, "id": 8})
    assert [item.version.id for item in found.items] == [8]
    (rejected,) = found.rejected
    assert (rejected.key, rejected.locator) == ("2200000007", "2200000007")
    assert error in rejected.error
