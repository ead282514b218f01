"""What a sync of the service counts as: a failure where no list at all could be read, else well with a note."""

from __future__ import annotations

from tidelore.app.service_jobs import sync_error
from tidelore.core.errors import PartialSuccess, RemoteNotFound, RemoteTransient, TideloreError
from tidelore.sync.report import RunReport, ScopeReport

GONE = RemoteNotFound("gone", status=404)
SILENT = RemoteTransient("no answer")


def run(*errors: TideloreError | None) -> RunReport:
    scopes = [ScopeReport("lab", "gitlab.issues", "a/b", "a/b", error=error) for error in errors]
    return RunReport(1, scopes)


def test_a_sync_in_which_every_list_failed_is_a_failure_of_the_source() -> None:
    assert sync_error(run(GONE, SILENT), "lab") is SILENT
    assert sync_error(run(GONE, GONE), "lab") is GONE


def test_some_failed_lists_are_a_partial_success_and_none_is_a_success() -> None:
    assert isinstance(sync_error(run(GONE, None), "lab"), PartialSuccess)
    assert sync_error(run(None, None), "lab") is None
    assert sync_error(run(), "lab") is None


def test_failures_of_another_source_do_not_count_for_this_one() -> None:
    report = run(None, None)
    report.scopes.append(ScopeReport("away", "gitlab.issues", "a/b", "a/b", error=SILENT))
    assert sync_error(report, "lab") is None
    assert sync_error(report, "away") is SILENT
