"""What an unsuccessful answer stands for, and how long to wait."""

from __future__ import annotations

import pytest

from tidelore.embedding.refusals import backoff_seconds, excerpt, read_retry_after, refusal
from tidelore.errors import (
    CredentialsRejected,
    RateLimited,
    RemoteError,
    RemoteNotFound,
    RemotePermanent,
    RemoteTransient,
)

NOW_MS = 1_772_442_000_000  # Mon, 02 Mar 2026 09:00:00 GMT


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [
        (500, "", RemoteTransient),
        (503, "", RemoteTransient),
        (408, "", RemoteTransient),
        (429, "slow down", RateLimited),
        (429, '{"error": {"code": "insufficient_quota"}}', RemotePermanent),
        (401, "", CredentialsRejected),
        (403, "", RemotePermanent),
        (404, "", RemoteNotFound),
        (400, "", RemotePermanent),
        (302, "", RemotePermanent),
    ],
)
def test_a_status_stands_for_one_error(status: int, said: str, kind: type[RemoteError]) -> None:
    error = refusal(status, None, "http://h/x", said)
    assert type(error) is kind
    assert (error.status, error.url) == (status, "http://h/x")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "Mon, 02 Mar 2026 09:00:20 GMT"}, 20),
        ({"retry-after": "Mon, 02 Mar 2026 09:00:20 GMT", "date": "Mon, 02 Mar 2026 09:00:15 GMT"}, 5),
        ({"retry-after": "Mon, 02 Mar 2026 08:00:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_a_named_wait_is_a_number_or_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert read_retry_after(headers, NOW_MS) == seconds


def test_pauses_double_up_to_a_bound() -> None:
    assert [backoff_seconds(attempt, 1, 1.0) for attempt in (1, 2, 3, 9)] == [1, 2, 4, 60]
    assert backoff_seconds(1, 1, 0.0) == 0.5


def test_an_excerpt_is_short_and_on_one_line() -> None:
    assert excerpt("a\n  b") == "a b"
    assert len(excerpt("x " * 999)) == 200
