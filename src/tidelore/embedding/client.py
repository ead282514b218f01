"""The HTTP client of this room. Owns one request for vectors: sent, bounded in time and size, repeated if that helps.

It refuses redirects, which would hand texts and key to another server, and an environment's proxy for this very
machine. Invariant: the key leaves this process only in a header to the configured server, and appears in no log
record, exception or repr; the library's own exceptions, which hold the request, never leave this module.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import random
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import quote

import httpx2
import msgspec

from tidelore import __version__
from tidelore.core.clock import Clock, SystemClock
from tidelore.core.config import Http
from tidelore.core.errors import (
    ConfigError,
    CredentialsMissing,
    RemoteError,
    RemotePermanent,
    RemoteTransient,
    ResponseTooLarge,
)
from tidelore.embedding.refusals import excerpt, refusal
from tidelore.retry_after import backoff_seconds, parse_http_date, read_retry_after
from tidelore.tls import add_authority, is_untrusted

T = TypeVar("T")

MAX_RESPONSE_BYTES = 64 * 1024 * 1024
LONGEST_WAIT_SECONDS = 60.0
# An answer that takes longer than this many timeouts to drip in is as good as none.
_TOTAL_PER_STEP = 4
_ERROR_BODY_BYTES = 4096

_LOG = logging.getLogger(__name__)


class JsonClient:
    """Asks one server. The connections open with the first request."""

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
        self._clock = clock or SystemClock()
        self._roll = roll
        self._max_bytes = max_response_bytes
        self._client: httpx2.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"JsonClient({self.base_url})"

    async def aclose(self) -> None:
        """Close the connections; the next request opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def ask(self, method: str, path: str, body: object, as_type: type[T]) -> T:
        """Return the decoded answer, asked for again while that can help; or raise RemoteError."""
        content = None if body is None else msgspec.json.encode(body)
        url = f"{self.base_url}/{path}"
        attempt = 1
        while True:
            try:
                return _decode(await self._once(method, url, content), url, as_type)
            except RemoteTransient as failure:
                named = failure.retry_after_seconds
                if attempt > self._http.max_retries or (named or 0) > LONGEST_WAIT_SECONDS:
                    failure.details["attempts"] = attempt
                    raise
                pause = backoff_seconds(attempt, self._http.retry_backoff_seconds, self._roll())
                pause = pause if named is None else named
                _LOG.info("attempt %d failed (%s), next in %.1f s", attempt, failure.reason, pause)
            await self._clock.sleep(pause)
            attempt += 1

    async def _once(self, method: str, url: str, content: bytes | None) -> bytes:
        client = self._client = self._client or self._open()
        failure: RemoteError
        try:
            async with (
                asyncio.timeout(self._timeout_seconds * _TOTAL_PER_STEP),
                client.stream(method, url, content=content) as response,
            ):
                return await self._read(response, url)
        except (TimeoutError, httpx2.TimeoutException) as error:
            failure = _no_answer("timeout", type(error).__name__, url)
        except httpx2.HTTPError as error:
            detail = self._clean(f"{type(error).__name__}: {error}")
            failure = _untrusted(detail, url) if is_untrusted(error) else _no_answer("connection", detail, url)
        # Raised here and not in a handler: the library's exception holds the request, and with it the key.
        raise failure

    async def _read(self, response: httpx2.Response, url: str) -> bytes:
        succeeded = 200 <= response.status_code < 300
        chunks: list[bytes] = []
        size = 0
        async for chunk in response.aiter_bytes():
            chunks.append(chunk)
            size += len(chunk)
            if not succeeded and size > _ERROR_BODY_BYTES:
                break
            if size > self._max_bytes:
                raise ResponseTooLarge(
                    f"the response is larger than {self._max_bytes} bytes", url=url, reason="too_large"
                )
        body = b"".join(chunks)
        if succeeded:
            return body
        # Cleaned before it is cut: a key across the border would be left in part.
        said = excerpt(self._clean(body.decode("utf-8", "replace")))
        # A date is measured on the server's own clock, if it tells it.
        server_ms = parse_http_date(response.headers.get("date")) or self._clock.now_ms()
        raise refusal(response.status_code, read_retry_after(response.headers, server_ms), url, said)

    def _open(self) -> httpx2.AsyncClient:
        headers = {"Content-Type": "application/json", "User-Agent": f"tidelore/{__version__}"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        secure = self.base_url.startswith("https:") or self._http.ca_file
        try:
            return httpx2.AsyncClient(
                headers=headers,
                timeout=self._timeout_seconds,
                verify=add_authority(httpx2.create_ssl_context(), self._http.ca_file) if secure else True,
                proxy=self._http.proxy or None,
                trust_env=not self._http.proxy and not is_loopback(self.base_url),
                follow_redirects=False,
            )
        except (ValueError, TypeError, httpx2.InvalidURL, ImportError):
            # Not quoted: a proxy's address may hold a password.
            pass
        raise ConfigError(
            "invalid proxy address", key="http.proxy", fix='write it like "http://proxy.example.com:3128"'
        )

    def _clean(self, text: str) -> str:
        if not self._key:
            return text
        return text.replace(self._key, "***").replace(quote(self._key, safe=""), "***")


def parse_base_url(text: str) -> str:
    """Return an address without a slash at its end, or raise ConfigError without quoting a password."""
    try:
        url = httpx2.URL(text)
        good = url.scheme in ("http", "https") and bool(url.host) and not (url.userinfo or url.query or url.fragment)
    except (httpx2.InvalidURL, ValueError, TypeError):
        good = False
    if good:
        return text.rstrip("/")
    raise ConfigError(
        "embedding.base_url is not an http(s) URL",
        key="embedding.base_url",
        fix='write it like "http://127.0.0.1:11434"; export the key in the variable named by embedding.api_key_env',
    )


def checked_key(key: str) -> str:
    """Return a key that can be a header value, or raise CredentialsMissing without quoting it."""
    if key.isascii() and " " not in key and (not key or key.isprintable()):
        return key
    raise CredentialsMissing(
        "the embedding key contains spaces or invalid characters",
        fix="store the key without quotes and line breaks",
    )


def is_loopback(base_url: str) -> bool:
    """Return whether an address is on this machine."""
    host = httpx2.URL(base_url).host
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _decode(body: bytes, url: str, as_type: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=as_type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        detail = str(error)
        # A shape is checked while reading, so a truncated document can look misshapen first.
        misshapen = isinstance(error, msgspec.ValidationError) and _is_json(body)
    if misshapen:
        raise RemotePermanent(f"unexpected response: {detail}", url=url, reason="bad_shape")
    raise RemoteTransient(f"the response is not valid JSON: {detail}", url=url, reason="bad_body")


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _no_answer(reason: str, detail: str, url: str) -> RemoteTransient:
    fix = "start the embedding server, or check embedding.base_url; what is missing is embedded by the next run"
    return RemoteTransient(f"no usable response: {detail}", url=url, reason=reason, fix=fix)


def _untrusted(detail: str, url: str) -> RemotePermanent:
    fix = "for a private CA, set http.ca_file to its certificate"
    return RemotePermanent(
        f"the server's certificate is not trusted: {detail}", url=url, reason="untrusted_certificate", fix=fix
    )
