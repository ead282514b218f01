"""HTTP client for one embedding server, and the mapping of its failures to errors.

Retries, limits, proxies and certificates are handled by `http/`. Requesting a batch twice changes nothing, so every
transient failure is retried, also of a POST. Invariant: the key leaves this process only in a header to the configured
server, and appears in no log record, exception or repr.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import quote, urlsplit

from tidelore.core.clock import Clock
from tidelore.core.config import Http
from tidelore.core.errors import (
    ConfigError,
    CredentialsMissing,
    CredentialsRejected,
    RateLimited,
    RemoteError,
    RemoteNotFound,
    RemotePermanent,
    RemoteTransient,
)
from tidelore.http.client import MAX_RESPONSE_BYTES, HttpClient
from tidelore.http.failures import FailureRules
from tidelore.http.limits import Verdict
from tidelore.http.transport import Trouble, parse_address

# Transient besides 5xx: the server timed out waiting for the request, or refused early data.
_PASSING = frozenset({408, 425})
# OpenAI's error code for an exhausted quota: waiting does not help, so it is not retried.
_SPENT = "insufficient_quota"


def refusal(status: int, retry_after_seconds: float | None, url: str, said: str) -> RemoteError:
    """Return the error for an unsuccessful status."""
    if status == 429 and _SPENT not in said:
        return RateLimited(
            "rate limited by the embedding server (status 429)",
            status=status,
            url=url,
            reason="rate_limit",
            retry_after_seconds=retry_after_seconds,
            fix="run the command again later; it continues where it stopped",
        )
    if status >= 500 or status in _PASSING:
        return RemoteTransient(
            f"the embedding server failed (status {status})",
            status=status,
            url=url,
            reason="server_error",
            retry_after_seconds=retry_after_seconds,
            fix="run the command again; it continues where it stopped",
            said=said or None,
        )
    if status == 401:
        return CredentialsRejected(
            "the embedding server rejected the key (status 401)",
            status=status,
            url=url,
            reason="unauthorized",
            fix="renew the key in the variable named by embedding.api_key_env",
            said=said or None,
        )
    kind = RemoteNotFound if status in (404, 410) else RemotePermanent
    return kind(
        f"the embedding server refused the request (status {status})",
        status=status,
        url=url,
        reason="refused",
        fix="check embedding.base_url and embedding.model",
        said=said or None,
    )


T = TypeVar("T")

LONGEST_WAIT_SECONDS = 60.0


class JsonClient:
    """JSON client for one embedding server. Connections are opened by the first request, also after `aclose`."""

    def __init__(
        self,
        base_url: str,
        *,
        http: Http,
        timeout_seconds: float,
        key: str = "",
        clock: Clock | None = None,
        roll: Callable[[], float] = random.random,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        self.base_url = parse_base_url(base_url)
        self._http = http
        self._timeout_seconds = timeout_seconds
        self._key = checked_key(key)
        self._clock = clock
        self._roll = roll
        self._max_bytes = max_response_bytes
        self._client: HttpClient | None = None

    def __repr__(self) -> str:
        return f"JsonClient({self.base_url})"

    async def aclose(self) -> None:
        """Close the connections; the next request opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def ask(self, method: str, path: str, body: object, as_type: type[T]) -> T:
        """Send a request, with retries, and return the decoded response; or raise RemoteError."""
        client = self._client = self._client or self._open()
        if method == "GET":
            found, _ = await client.get_json(path, as_type=as_type)
        else:
            found, _ = await client.query(path, body, as_type=as_type)
        return found

    def _open(self) -> HttpClient:
        return HttpClient(
            self.base_url,
            token=self._key or None,
            timeout_seconds=self._timeout_seconds,
            max_retries=self._http.max_retries,
            retry_backoff_seconds=self._http.retry_backoff_seconds,
            ca_file=self._http.ca_file,
            proxy=self._http.proxy,
            max_response_bytes=self._max_bytes,
            max_wait_seconds=LONGEST_WAIT_SECONDS,
            failures=EmbeddingFailures(self._key),
            clock=self._clock,
            roll=self._roll,
        )


def parse_base_url(text: str) -> str:
    """Return a URL without its trailing slash, or raise ConfigError without quoting a password."""
    if parse_address(text) is not None:
        parts = urlsplit(text)
        if not (parts.username or parts.password or parts.query or parts.fragment):
            return text.rstrip("/")
    raise ConfigError(
        "embedding.base_url is not an http(s) URL",
        key="embedding.base_url",
        fix='write it like "http://127.0.0.1:11434"; export the key in the variable named by embedding.api_key_env',
    )


def checked_key(key: str) -> str:
    """Return the key, or raise CredentialsMissing without quoting it if it cannot be a header value."""
    if key.isascii() and " " not in key and (not key or key.isprintable()):
        return key
    raise CredentialsMissing(
        "the embedding key contains spaces or invalid characters",
        fix="store the key without quotes and line breaks",
    )


class EmbeddingFailures(FailureRules):
    """Maps failures of an embedding server to errors. A rate limit without a duration is retried like any other."""

    unexplained_wait_seconds = 0.0

    def __init__(self, key: str = "") -> None:
        self._secrets = {key, quote(key, safe="")} if key else set()

    def from_status(
        self,
        status: int,
        verdict: Verdict,
        url: str,
        said: str,
        *,
        writes: bool,  # noqa: ARG002 - a request for vectors changes nothing
    ) -> RemoteError:
        return refusal(status, verdict.wait_seconds or None, url, self._clean(said))

    def from_trouble(
        self, trouble: Trouble, detail: str, url: str, status: int | None, *, sent: bool, writes: bool
    ) -> RemoteError:
        error = super().from_trouble(trouble, self._clean(detail), url, status, sent=sent, writes=writes)
        if isinstance(error, RemoteTransient):
            error.fix = _UNREACHABLE
        return error

    def _clean(self, text: str) -> str:
        # `redact` ignores secrets of less than four characters; a key of any length must not be shown.
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


_UNREACHABLE = "start the embedding server, or check embedding.base_url; what is missing is embedded by the next run"
