"""What an unsuccessful answer stands for."""

from __future__ import annotations

import pytest

from tidelore.core.errors import (
    CredentialsRejected,
    RateLimited,
    RemoteError,
    RemoteNotFound,
    RemotePermanent,
    RemoteTransient,
)
from tidelore.embedding.client import refusal
from tidelore.http.failures import excerpt


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
def test_each_http_status_maps_to_one_error_class(status: int, said: str, kind: type[RemoteError]) -> None:
    error = refusal(status, None, "http://h/x", said)
    assert type(error) is kind
    assert (error.status, error.url) == (status, "http://h/x")


def test_an_excerpt_of_an_error_body_is_short_and_on_one_line() -> None:
    assert excerpt(b"a\n  b") == "a b"
    assert len(excerpt(b"x " * 999)) == 200
