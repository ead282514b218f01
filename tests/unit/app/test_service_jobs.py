"""What a sync of the service counts as: a failure where no list at all could be read, else well with a note."""

from __future__ import annotations

import pytest

from tidelore.core.errors import PartialSuccess, RateLimited, RemoteNotFound, RemoteTransient, TideloreError
from tidelore.service.jobs import sync_error
from tidelore.sync.report import RunReport, ScopeReport

GONE = RemoteNotFound("gone", status=404)
SILENT = RemoteTransient("no answer")
LIMITED = RateLimited("pause")


def run(*errors: TideloreError | None) -> RunReport:
    scopes = [ScopeReport("lab", "gitlab.issues", "a/b", "a/b", error=error) for error in errors]
    return RunReport(1, scopes)


def error_of(report: RunReport, source: str = "lab", project: str = "a/b") -> TideloreError | None:
    return sync_error(report, [scope for scope in report.scopes if scope.key[:2] == (source, project)])


def test_a_sync_in_which_every_list_failed_is_a_failure_of_the_source() -> None:
    assert error_of(run(GONE, SILENT)) is SILENT
    assert error_of(run(GONE, GONE)) is GONE


def test_some_failed_lists_are_a_partial_success_and_none_is_a_success() -> None:
    assert isinstance(error_of(run(GONE, None)), PartialSuccess)
    assert error_of(run(None, None)) is None
    assert error_of(run()) is None


def test_threads_that_could_not_be_read_are_a_partial_success() -> None:
    report = run(None)
    report.scopes[0].failures["#12 pr_issue_comments"] = SILENT
    error = error_of(report)
    assert isinstance(error, PartialSuccess)
    assert "a/b#12 pr_issue_comments: no answer" in error.message


@pytest.mark.parametrize(("source", "project"), [("away", "a/b"), ("lab", "a/c")])
def test_failures_of_another_source_or_project_do_not_count_for_this_one(source: str, project: str) -> None:
    report = run(None, None)
    report.scopes.append(ScopeReport(source, "gitlab.issues", project, project, error=SILENT))
    report.scrubbed.append(ScopeReport(source, "gitlab.issues", project, project, error=LIMITED))
    assert error_of(report) is None
    assert error_of(report, source, project) is SILENT
    report.scrubbed.append(ScopeReport("lab", "gitlab.issues", "a/b", "a/b", error=LIMITED))
    assert error_of(report) is LIMITED
