"""The error tree: stable codes, exit codes by who must act, and fields instead of prose."""

from __future__ import annotations

import re

import pytest

from tidelore.core import errors
from tidelore.core.errors import (
    RateLimited,
    RemoteError,
    RemoteTransient,
    TideloreError,
    UserError,
    every_error,
    retry_advice,
)

EXIT_CODES = {
    "FAILURE": 1,
    "USAGE": 2,
    "CONFIG_INVALID": 2,
    "EXTRA_MISSING": 2,
    "CREDENTIALS_MISSING": 4,
    "NOT_FOUND": 6,
    "REMOTE_FAILED": 1,
    "REMOTE_UNAVAILABLE": 1,
    "RATE_LIMITED": 5,
    "QUERY_LIMITED": 5,
    "BUDGET_SPENT": 5,
    "REMOTE_REFUSED": 1,
    "CREDENTIALS_REJECTED": 4,
    "REMOTE_NOT_FOUND": 6,
    "REPOSITORY_REPLACED": 1,
    "FEATURE_DISABLED": 1,
    "ACCESS_REFUSED": 1,
    "FOREIGN_ORIGIN": 1,
    "RESPONSE_TOO_LARGE": 1,
    "LOCK_HELD": 3,
    "LEASE_LOST": 3,
    "PARTIAL_SUCCESS": 7,
    "SURGICAL_PREFLIGHT_FAILED": 1,
    "INTEGRITY": 8,
    "SCHEMA_TOO_NEW": 8,
    "ILLEGAL_TRANSITION": 8,
    "DATABASE_UNUSABLE": 8,
    "MOVE_INCOMPLETE": 8,
    "STORAGE_FAILED": 1,
    "DATABASE_UNREACHABLE": 1,
    "INTERRUPTED": 130,
}


def test_error_codes_and_exit_codes_are_stable() -> None:
    assert {error.code: error.exit_code for error in every_error()} == EXIT_CODES


def test_the_error_tree_in_the_module_docstring_matches_the_classes() -> None:
    drawn = dict(re.findall(r"(?:── |^    )(\w+) +exit (\d+)", errors.__doc__ or "", flags=re.MULTILINE))
    assert drawn == {error.__name__: str(error.exit_code) for error in every_error()}


def test_every_error_class_is_covered_by_these_tests() -> None:
    defined = {thing for thing in vars(errors).values() if isinstance(thing, type) and issubclass(thing, TideloreError)}
    assert set(every_error()) >= defined
    assert every_error()[0] is TideloreError


@pytest.mark.parametrize("error", every_error(), ids=lambda error: error.code)
def test_an_error_keeps_its_details_and_drops_empty_ones(error: type[TideloreError]) -> None:
    raised = error("what", fix="how", one=1, none=None)
    assert (raised.message, raised.fix, str(raised)) == ("what", "how", "what")
    assert raised.details == {"one": 1}


def test_a_remote_error_shows_url_and_reason() -> None:
    raised = RateLimited("slow down", status=429, url="https://h/x", reason="rate_limit", retry_after_seconds=7.5)
    assert raised.details == {"status": 429, "url": "https://h/x", "reason": "rate_limit", "retry_after_seconds": 7.5}
    assert (raised.status, raised.retry_after_seconds) == (429, 7.5)


def test_only_temporary_errors_are_retryable() -> None:
    retryable = {error.code for error in every_error() if error.retryable}
    assert retryable == {
        "REMOTE_UNAVAILABLE",
        "RATE_LIMITED",
        "QUERY_LIMITED",
        "BUDGET_SPENT",
        "LOCK_HELD",
        "LEASE_LOST",
        "PARTIAL_SUCCESS",
        "STORAGE_FAILED",
        "DATABASE_UNREACHABLE",
        "INTERRUPTED",
    }
    assert all(error.retryable for error in every_error() if issubclass(error, RemoteTransient))
    assert not any(error.retryable for error in every_error() if issubclass(error, UserError))
    assert not RemoteError.retryable


@pytest.mark.parametrize(
    ("seconds", "when"),
    [(None, "later"), (1, "in 1 minute"), (61, "in 2 minutes"), (7140, "in 119 minutes"), (7201, "in 3 hours")],
)
def test_the_pause_after_a_rate_limit_is_rounded_up_so_that_it_is_over_then(seconds: float | None, when: str) -> None:
    assert retry_advice(seconds) == f"run the command again {when}; it continues where it stopped"
