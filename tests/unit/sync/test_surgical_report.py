"""What became of each item decides what is repeated, what is suggested, and the exit code."""

from __future__ import annotations

from typing import TypedDict, Unpack

import pytest
from tests.databases.samples import issue

from tidelore.core.errors import (
    CredentialsMissing,
    CredentialsRejected,
    RateLimited,
    RemoteNotFound,
    RemotePermanent,
    RemoteTransient,
    SurgicalPreflightFailed,
    TideloreError,
)
from tidelore.core.model import Item, ParentRecord, Rejected, Version
from tidelore.core.progress import DocumentReport, EmbedReport
from tidelore.engine.ports import Page
from tidelore.sync.report import (
    Completion,
    EntityOutcome,
    SurgicalReport,
    preflight_error,
    read_outcomes,
    suggest,
    surgical_verdict,
    to_retry,
    write_iids,
    write_outcomes,
)
from tidelore.sync.surgical_preflight import ItemRefusal, check_response, code_of


class Stages(TypedDict, total=False):
    fetched: bool
    ingested: bool
    stale_skipped: bool
    completed: bool


def outcome(iid: int, *failures: tuple[str, str], **fields: Unpack[Stages]) -> EntityOutcome:
    made = EntityOutcome("issue", iid, f"g/p#{iid}", "gitlab", "g/p", **fields)
    for stage, code in failures:
        made.fail(stage, code, "because")
    return made


DONE = outcome(1, fetched=True, ingested=True, completed=True)
STALE = outcome(2, fetched=True, stale_skipped=True, completed=True)
UNFETCHED = outcome(3, ("fetch", "TIMEOUT"))
FETCHED = outcome(4, fetched=True)
BEHIND = outcome(5, ("discussions", "TIMEOUT"), ("mr_diffs", "FETCH_ERROR"), fetched=True, ingested=True)
STORED = outcome(6, fetched=True, ingested=True)


@pytest.mark.parametrize(
    ("outcomes", "failed", "left"),
    [
        ([DONE, STALE], False, []),
        ([DONE, BEHIND], False, [BEHIND]),
        ([FETCHED, UNFETCHED], True, [UNFETCHED]),
        ([FETCHED, FETCHED], True, [FETCHED, FETCHED]),
        ([STORED, BEHIND, DONE], True, [STORED, BEHIND]),
        ([DONE], True, []),
        ([], True, []),
    ],
)
def test_failed_and_unreached_items_are_selected_for_retry(
    outcomes: list[EntityOutcome], failed: bool, left: list[EntityOutcome]
) -> None:
    assert to_retry(outcomes, failed=failed) == left


def test_the_report_suggests_a_retry_and_commands_that_help_at_once() -> None:
    assert suggest(9, [DONE, STALE], failed=False) == []
    assert suggest(9, [DONE, BEHIND], failed=False) == ["lore sync --retry-failed 9"]
    assert suggest(9, [FETCHED, UNFETCHED], failed=True) == ["lore sync --retry-failed 9", "lore sync --issue 'g/p#4'"]
    gone = outcome(7)
    gone.fail("fetch", "NOT_FOUND", "gone", held=True)
    assert suggest(9, [gone], failed=True) == ["lore sync --retry-failed 9", "lore scrub", "lore audit"]


def test_item_outcomes_round_trip_through_the_run_record() -> None:
    outcomes = [DONE, STALE, UNFETCHED, BEHIND]
    assert read_outcomes(write_outcomes(outcomes)) == outcomes
    assert read_outcomes(None) == []
    request = EntityOutcome("merge_request", 101, "g/p!101", "gitlab", "g/p")
    assert write_iids([DONE, STALE, request]) == '{"issues":[1,2],"mrs":[101]}'


def test_a_report_counts_items_by_outcome() -> None:
    report = SurgicalReport(entity_outcomes=[DONE, STALE, UNFETCHED, FETCHED, BEHIND])
    assert (report.requested_count, report.fetched_count, report.processed_count) == (5, 4, 1)
    assert report.skipped_stale_iids == [("issue", 2)]
    assert [failure.stage for failure in report.entity_failures] == ["fetch", "discussions", "mr_diffs"]


def test_an_item_whose_children_failed_counts_as_a_partial_success() -> None:
    assert surgical_verdict(SurgicalReport(9, [DONE, STALE])) is None
    error = surgical_verdict(SurgicalReport(9, [DONE, BEHIND]))
    assert error is not None
    assert (error.exit_code, error.fix) == (7, "lore sync --retry-failed 9")


@pytest.mark.parametrize(
    ("codes", "exit_code", "retryable"),
    [
        (["NOT_FOUND", "NOT_FOUND"], 6, False),
        (["NOT_FOUND", "AUTH_FAILED", "RATE_LIMITED"], 4, True),
        (["NOT_FOUND", "RATE_LIMITED", "TIMEOUT"], 5, True),
        (["NOT_FOUND", "TIMEOUT"], 1, True),
        (["PROJECT_MISMATCH"], 1, False),
        (["UNREADABLE", "NOT_FOUND"], 1, False),
    ],
)
def test_the_failures_of_a_preflight_decide_its_exit_code(codes: list[str], exit_code: int, retryable: bool) -> None:
    outcomes = [outcome(number, ("fetch", code)) for number, code in enumerate(codes, 1)]
    error = preflight_error(SurgicalReport(9, outcomes, completion_status="failed"))
    assert isinstance(error, SurgicalPreflightFailed)
    assert (error.exit_code, error.retryable, error.run_id, error.total) == (exit_code, retryable, 9, len(codes))
    assert [failure["code"] for failure in error.failures] == codes
    assert SurgicalPreflightFailed.exit_code == 1, "the class is left as it was"
    assert set(error.details) == {"run_id", "total", "entity_failures", "entity_outcomes", "recovery_actions"}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CredentialsRejected("no"), "AUTH_FAILED"),
        (CredentialsMissing("no"), "AUTH_FAILED"),
        (RateLimited("wait"), "RATE_LIMITED"),
        (RemoteNotFound("gone"), "NOT_FOUND"),
        (RemoteTransient("slow", reason="timeout"), "TIMEOUT"),
        (RemoteTransient("broken", reason="bad_body"), "FETCH_ERROR"),
        (RemotePermanent("forbidden", status=403), "FETCH_ERROR"),
    ],
)
def test_every_fetch_error_maps_to_an_error_code(error: TideloreError, code: str) -> None:
    assert code_of(error) == code


def answer(payload: bytes) -> Page[ParentRecord]:
    return Page(items=[Item(Version(1, 2, b""), 2, payload, issue(1).record)])


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (b'{"project_id": 5}', None),
        (b'{"project_id": 6}', "PROJECT_MISMATCH"),
        (b'{"project_id": "5"}', "PROJECT_MISMATCH"),
        (b'{"project_id": 6, "target_project_id": 5}', None),
        (b'{"project_id": 5, "target_project_id": 6}', "PROJECT_MISMATCH"),
        (b'{"project_id": 5, "target_project_id": null}', None),
        (b"{}", None),
    ],
)
def test_an_item_of_another_project_in_the_answer_is_refused(payload: bytes, code: str | None) -> None:
    judged = check_response(answer(payload), 5)
    assert getattr(judged, "code", None) == code
    assert isinstance(judged, ItemRefusal) is (code is not None)


def test_an_answer_without_an_item_or_with_an_unreadable_one_is_refused() -> None:
    assert getattr(check_response(Page(), 5), "code", None) == "NOT_FOUND"
    unreadable = check_response(Page(rejected=[Rejected("1", "1", b"", "updated_at: no date")]), 5)
    assert unreadable == ItemRefusal("UNREADABLE", "updated_at: no date")


@pytest.mark.parametrize(
    ("status", "documents", "embeddings", "actions"),
    [
        ("succeeded", DocumentReport(), EmbedReport(), []),
        ("succeeded_with_warnings", DocumentReport(failed=1), EmbedReport(), ["lore generate-docs"]),
        ("succeeded_with_warnings", DocumentReport(), EmbedReport(notice="nobody answered"), ["lore embed"]),
        ("cancelled", DocumentReport(), EmbedReport(), ["lore embed"]),
        ("cancelled", DocumentReport(), None, []),
        ("failed", None, None, []),
    ],
)
def test_commands_that_build_missing_documents_and_vectors_are_suggested(
    status: Completion, documents: DocumentReport | None, embeddings: EmbedReport | None, actions: list[str]
) -> None:
    report = SurgicalReport(7, [DONE], documents, embeddings, completion_status=status)
    assert report.recovery_actions == actions
