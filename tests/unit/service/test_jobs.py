"""Whose fault an error is."""

from __future__ import annotations

import pytest

from tidelore.core.errors import (
    CredentialsMissing,
    CredentialsRejected,
    DatabaseUnusable,
    LeaseLost,
    LockHeld,
    PartialSuccess,
    RateLimited,
    RemoteNotFound,
    RemoteTransient,
    StorageFailed,
)
from tidelore.service.jobs import JobResult, blame_for, ending_of, endings_of, failure_of, is_fatal
from tidelore.service.schedule import JobEnd


@pytest.mark.parametrize(
    ("error", "blame"),
    [
        (CredentialsMissing("no token"), "source"),
        (CredentialsRejected("401", status=401), "source"),
        (RateLimited("slow down", status=429), "source"),
        (RemoteTransient("refused", reason="connect"), "source"),
        (RemoteTransient("bad gateway", status=502), "job"),
        (RemoteNotFound("gone", status=404), "job"),
        (StorageFailed("disk full"), "job"),
        (ValueError("a mistake of ours"), "job"),
        (LockHeld("pid 7"), "nobody"),
        (LeaseLost("taken over"), "nobody"),
        (PartialSuccess("1 of 2"), None),
    ],
)
def test_errors_of_a_source_are_distinguished_from_errors_of_one_job(error: Exception, blame: str | None) -> None:
    assert blame_for(error) == blame


def test_a_job_result_is_converted_into_an_ending_for_the_schedule() -> None:
    assert ending_of(JobResult(5)) == JobEnd(5)
    assert ending_of(JobResult(idle=True)) == JobEnd(idle=True)
    assert ending_of(JobResult(5, again=True, fresh=False)) == JobEnd(5, again=True, fresh=False)
    part = PartialSuccess("1 of 2")
    assert ending_of(JobResult(5, part, again=True, fresh=False)) == JobEnd(5, "1 of 2", again=True, fresh=False)
    limited = RateLimited("slow down", status=429, retry_after_seconds=90.0)
    assert ending_of(JobResult(2, limited)) == JobEnd(2, "slow down", "source", 90.0)
    assert failure_of(KeyError("x")).error == "unexpected KeyError: 'x'"


def test_only_an_unusable_database_is_a_fatal_error() -> None:
    assert is_fatal(DatabaseUnusable("corrupt"))
    assert not is_fatal(StorageFailed("disk full"))
    assert not is_fatal(LockHeld("pid 7"))


def test_a_timeout_in_a_batch_blames_the_source_only_if_no_other_job_was_answered() -> None:
    silent, limited = RemoteTransient("no answer"), RateLimited("slow down", status=429)
    sources = {"a": "hub", "b": "hub", "c": "far", "d": "full", "e": "full"}
    dones = {
        "a": JobResult(3),
        "b": JobResult(1, silent),
        "c": JobResult(1, silent),
        "d": JobResult(3),
        "e": JobResult(1, limited),
    }
    blames = {name: ending.blame for name, ending in endings_of(dones, sources).items()}
    assert blames == {"a": None, "b": "job", "c": "source", "d": None, "e": "source"}
