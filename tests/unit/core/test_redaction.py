"""Secrets never reach text that people or log files see."""

from __future__ import annotations

import io
import logging
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelore.core.redaction import MASK, RedactFilter, redact

SECRET = "s3cr3t/value+=x"


@given(
    st.text(max_size=40),
    st.text(max_size=40),
    st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), min_size=8),
)
def test_a_known_secret_is_always_redacted(before: str, after: str, secret: str) -> None:
    if secret in MASK * 9:
        return
    shown = redact(f"{before}{secret}{after} {quote(secret, safe='')}", [secret])
    assert secret not in shown
    assert quote(secret, safe="") not in shown


@pytest.mark.parametrize(
    "text",
    [
        "GET https://h/api?per_page=1&private_token=abcdef12&x=1",
        "https://h/?access_token=abcdef12",
        "https://user:abcdef12@h/path",
        "https://abcdef12@h/path",
        "PRIVATE-TOKEN: abcdef12",
        "{'PRIVATE-TOKEN': 'abcdef12'}",
        "[(b'private-token', b'abcdef12')]",
        "Authorization: Bearer abcdef12",
        "authorization=token abcdef12",
        "{'Authorization': 'Basic abcdef12'}",
        "the token glpat-abcdef12abcdef12xyz leaked",
        "ghp_abcdef12abcdef12xyz",
        "github_pat_abcdef12abcdef12xyz",
        "a claim eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiI3In0.abcdef12abcdef12 was refused",
    ],
)
def test_credentials_in_known_positions_are_redacted_without_registration(text: str) -> None:
    shown = redact(text)
    assert "abcdef12" not in shown
    assert MASK in shown


def test_ordinary_text_is_not_changed() -> None:
    text = "https://gitlab.example.com/api/v4/projects?page=2&order_by=updated_at: 200, a@b.example, tokens=5"
    assert redact(text, ["", "a", "abc"]) == text


def test_the_rest_of_a_redacted_query_string_is_kept() -> None:
    assert redact("/x?a=1&private_token=q#f&b=2") == f"/x?a=1&private_token={MASK}#f&b=2"


def test_a_longer_secret_is_redacted_before_a_shorter_one_inside_it() -> None:
    assert redact("abcdefgh", ["abcd", "abcdefgh"]) == MASK


def _log(*args: object, **kwargs: object) -> str:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(message)s %(context)s", defaults={"context": ""}))
    handler.addFilter(RedactFilter([SECRET]))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    logger.error(*args, **kwargs)  # type: ignore[arg-type]
    return stream.getvalue()


def test_the_log_filter_redacts_message_and_arguments() -> None:
    assert _log("sent %s and %d to %s", SECRET, 7, {"k": SECRET}) == f"sent {MASK} and 7 to {{'k': '{MASK}'}} \n"


def test_the_log_filter_redacts_tracebacks() -> None:
    try:
        raise ValueError(f"bad header {SECRET}")
    except ValueError:
        shown = _log("failed", exc_info=True)
    assert "Traceback" in shown
    assert f"ValueError: bad header {MASK}" in shown
    assert SECRET not in shown


def test_the_log_filter_redacts_extra_fields_of_any_depth() -> None:
    shown = _log("x", extra={"context": {"headers": [("PRIVATE-TOKEN", SECRET)], "n": 1}})
    assert SECRET not in shown
    assert "'n': 1" in shown


def test_the_repr_of_the_log_filter_hides_its_secrets() -> None:
    assert SECRET not in repr(RedactFilter([SECRET]))
