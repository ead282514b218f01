"""When a source is asked no more within a run: refused at once, silent after two scopes in a row."""

from __future__ import annotations

import pytest

from tidelore.core.errors import CredentialsRejected, RateLimited, RemoteError, RemoteNotFound, RemoteTransient
from tidelore.sources.attendance import Attendance, is_unheard

SILENT = RemoteTransient("no answer")


@pytest.mark.parametrize("error", [CredentialsRejected("no", status=401), RateLimited("slow down", status=429)])
def test_a_refused_credential_marks_only_its_source_as_unavailable(error: RemoteError) -> None:
    attendance = Attendance()
    attendance.failed("lab", error)
    assert attendance.absence("lab") is error
    assert attendance.absence("hub") is None


def test_two_timeouts_in_a_row_mark_the_source_as_unavailable() -> None:
    attendance = Attendance()
    attendance.failed("lab", SILENT)
    assert attendance.absence("lab") is None
    attendance.answered("lab")
    attendance.failed("lab", SILENT)
    assert attendance.absence("lab") is None
    attendance.failed("lab", SILENT)
    assert attendance.absence("lab") is SILENT


def test_an_error_response_does_not_mark_the_source_as_unavailable() -> None:
    attendance = Attendance()
    for _ in range(5):
        attendance.failed("lab", RemoteNotFound("gone", status=404))
        attendance.failed("lab", RemoteTransient("failed", status=503))
    assert attendance.absence("lab") is None
    assert is_unheard(SILENT)
    assert not is_unheard(RateLimited("a pause was asked for"))
