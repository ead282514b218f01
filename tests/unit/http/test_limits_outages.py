"""When a source is asked no more within a run: refused at once, silent after two scopes in a row."""

from __future__ import annotations

import pytest

from tidelore.core.errors import CredentialsRejected, RateLimited, RemoteError, RemoteNotFound, RemoteTransient
from tidelore.http.limits import SourceOutages, got_no_response

SILENT = RemoteTransient("no answer")


@pytest.mark.parametrize("error", [CredentialsRejected("no", status=401), RateLimited("slow down", status=429)])
def test_a_refused_credential_marks_only_its_source_as_unavailable(error: RemoteError) -> None:
    outages = SourceOutages()
    outages.failed("lab", error)
    assert outages.reason("lab") is error
    assert outages.reason("hub") is None


def test_two_timeouts_in_a_row_mark_the_source_as_unavailable() -> None:
    outages = SourceOutages()
    outages.failed("lab", SILENT)
    assert outages.reason("lab") is None
    outages.answered("lab")
    outages.failed("lab", SILENT)
    assert outages.reason("lab") is None
    outages.failed("lab", SILENT)
    assert outages.reason("lab") is SILENT


def test_an_error_response_does_not_mark_the_source_as_unavailable() -> None:
    outages = SourceOutages()
    for _ in range(5):
        outages.failed("lab", RemoteNotFound("gone", status=404))
        outages.failed("lab", RemoteTransient("failed", status=503))
    assert outages.reason("lab") is None
    assert got_no_response(SILENT)
    assert not got_no_response(RateLimited("a pause was asked for"))


def test_a_server_that_only_refuses_is_out_unless_it_answered_before() -> None:
    refusal = RemoteNotFound("no", status=404)
    outages = SourceOutages(3, lambda _error: True)
    outages.answered("known")
    for _ in range(3):
        outages.refused("known", refusal)
        outages.refused("unknown", refusal)
    assert outages.out == {"unknown": refusal}


def test_any_failures_in_a_row_can_count_or_none() -> None:
    failure = RemoteTransient("failed", status=503)
    every, none = SourceOutages(2, lambda _error: True), SourceOutages(most=None)
    for outages in (every, none):
        for error in (failure, SILENT):
            outages.failed("lab", error)
    assert every.out == {"lab": SILENT}
    assert none.out == {}
