"""How long to wait before asking again: our own pauses, and those a server names."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelore.http.limits import backoff_seconds, parse_http_date, read_retry_after, whole_number

NOW = 1_772_442_000_000


def test_back_off_doubles_to_a_maximum_with_jitter_in_its_upper_half() -> None:
    assert [backoff_seconds(attempt, 1, 1.0) for attempt in (1, 2, 3, 9)] == [1, 2, 4, 60]
    assert backoff_seconds(1, 1, 0.0) == 0.5
    assert backoff_seconds(5000, 1, 1.0) == 60


@pytest.mark.parametrize(("text", "seconds"), [("7", 7), (" 7 ", 7), ("0", 0), ("Mon, 02 Mar 2026 08:00:00 GMT", 0)])
def test_retry_after_is_parsed_as_seconds_or_date(text: str, seconds: float) -> None:
    assert read_retry_after({"retry-after": text}, NOW) == seconds


def test_retry_after_as_a_date_is_measured_on_the_servers_clock() -> None:
    server_ms = NOW - 3_600_000
    date = formatdate(server_ms / 1000 + 42, usegmt=True)
    assert read_retry_after({"retry-after": date}, server_ms) == 42.0


@pytest.mark.parametrize("text", ["", "soon", "-5", "1e9", "9" * 40, "Mon, 99 Foo 2026 00:00:00 GMT"])
def test_an_unreadable_retry_after_is_ignored(text: str) -> None:
    assert read_retry_after({"retry-after": text}, NOW) is None


@given(st.text(max_size=60))
def test_the_retry_after_parser_never_raises(text: str) -> None:
    parsed = parse_http_date(text)
    assert parsed is None or isinstance(parsed, int)


@pytest.mark.parametrize("zone", [" GMT", " -0000", ""])
def test_an_http_date_becomes_milliseconds(zone: str) -> None:
    assert parse_http_date(f"Mon, 02 Mar 2026 09:00:00{zone}") == NOW
    assert parse_http_date(None) is None


@pytest.mark.parametrize(
    ("text", "number"), [("12", 12), (" 0 ", 0), ("", None), (None, None), ("1.5", None), ("²", None)]
)
def test_a_number_in_a_header_must_be_plain_digits(text: str | None, number: int | None) -> None:
    assert whole_number(text) == number
