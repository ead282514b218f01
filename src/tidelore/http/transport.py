"""Sends one request over the network and reads its body, bounded in time and size.

Uses the library's transport and not its client: a client adds cookies, redirects, proxies from the environment and a
log line with the full URL, all of which other modules of this package decide. The size limit counts bytes after
decompression, so a decompression bomb is stopped at the limit. It must not interpret a response. Invariants: a body is
returned complete or not at all; every exception of the library is converted to `WireFailure`, which never contains a
request header.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from dataclasses import dataclass
from typing import Literal

import httpx2

from tidelore.core.errors import ConfigError
from tidelore.core.redaction import redact
from tidelore.http.connections import ConnectionStack
from tidelore.http.response import Headers
from tidelore.http.tls import AddressRefused, PublicBackend, add_authority, find_proxy, tls_trouble

_GZIP_WINDOW = zlib.MAX_WBITS | 16
# No other encoding is requested (see `Accept-Encoding` in client.py), so no other is accepted.
_GZIP = frozenset({"gzip", "x-gzip"})
_PLAIN = frozenset({"", "identity"})


class BodyTooLarge(Exception):
    """The content exceeds the limit."""


class BodyBroken(Exception):
    """The content cannot be decompressed: damaged, cut off, or in an encoding that was not requested."""


class BodyReader:
    """Collects one body. `received` counts bytes as received, `size` bytes after decompression."""

    __slots__ = ("_chunks", "_inflater", "_limit", "received", "size")

    def __init__(self, encoding: str, limit: int) -> None:
        encoding = encoding.strip().lower()
        if encoding not in _GZIP and encoding not in _PLAIN:
            raise BodyBroken(f"content encoding {encoding[:40]!r} was not requested")
        self._inflater = zlib.decompressobj(_GZIP_WINDOW) if encoding in _GZIP else None
        self._limit = limit
        self._chunks: list[bytes] = []
        self.received = 0
        self.size = 0

    def feed(self, chunk: bytes) -> None:
        """Add the next chunk, or raise BodyTooLarge or BodyBroken."""
        self.received += len(chunk)
        if self._inflater is None:
            self._keep(chunk)
        else:
            self._inflate(chunk)

    def finish(self) -> bytes:
        """Return the content, or raise BodyBroken if its end is missing."""
        # An empty response (304, 204) may still have a Content-Encoding; it contains no gzip member to complete.
        if self._inflater is not None and self.received and not self._inflater.eof:
            raise BodyBroken("the compressed content ends early")
        return self.so_far()

    def so_far(self) -> bytes:
        """Return the content received so far, which is enough to explain an error."""
        return self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)

    def _keep(self, content: bytes) -> None:
        self.size += len(content)
        if self.size > self._limit:
            raise BodyTooLarge
        if content:
            self._chunks.append(content)

    def _inflate(self, chunk: bytes) -> None:
        assert self._inflater is not None
        try:
            while chunk:
                if self._inflater.eof:
                    # RFC 1952: a gzip file may be a sequence of members.
                    self._inflater = zlib.decompressobj(_GZIP_WINDOW)
                # One byte above the limit is enough to detect that it is exceeded.
                self._keep(self._inflater.decompress(chunk, self._limit - self.size + 1))
                chunk = self._inflater.unconsumed_tail or self._inflater.unused_data
        except zlib.error as error:
            raise BodyBroken(f"the compressed content is damaged: {error}") from None


Transport = httpx2.AsyncBaseTransport
Address = httpx2.URL
RawHeaders = list[tuple[bytes, bytes]]
Trouble = Literal["timeout", "connection", "untrusted", "no_tls", "bad_body", "too_large", "address_refused"]
Reach = Literal["any", "public", "public_or_local"]
"""Which addresses a host may resolve to. A host name that comes from a third party must be public."""

# An error page is read only as far as needed to explain the error.
_ERROR_BODY_BYTES = 64 * 1024
_KEEPALIVE_SECONDS = 30.0
_KEPT_CONNECTIONS = 1000
"""The most connections of a kept transport: more than its clients use together, so that none waits for another."""


class WireFailure(Exception):
    """No usable response. `sent`: whether the server may have processed the request."""

    def __init__(self, trouble: Trouble, detail: str, *, sent: bool, received: int = 0) -> None:
        super().__init__(detail)
        self.trouble = trouble
        self.sent = sent
        self.received = received
        self.status: int | None = None


@dataclass(frozen=True, slots=True)
class RawResponse:
    """A complete response; the body of an error may be cut."""

    status: int
    headers: Headers
    body: bytes
    received: int


def parse_address(text: str) -> Address | None:
    """Return the URL as it will be sent, without userinfo and fragment; None if it is not http(s)."""
    try:
        url = httpx2.URL(text)
        if url.scheme not in ("http", "https") or not url.host:
            return None
        return url.copy_with(fragment=None, userinfo=b"") if url.userinfo or url.fragment else url
    except (httpx2.InvalidURL, ValueError, TypeError):
        return None


def open_transport(
    base_url: str, *, connections: int, ca_file: str = "", proxy: str = "", reach: Reach = "any"
) -> Transport:
    """Return a transport for one origin: HTTP/1.1, keep-alive, one connection per concurrent request.

    A proxy resolves the host itself, so with a proxy `reach` is not checked here and the proxy has to enforce it.
    """
    needs_trust = base_url.lower().startswith("https:")
    chosen = find_proxy(base_url, proxy)
    context = _trust(ca_file) if needs_trust or ca_file else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        through = None
        if chosen is not None:
            secure = chosen.lower().startswith("https:")
            through = httpx2.Proxy(chosen, ssl_context=_trust(ca_file) if secure else None)
        transport = httpx2.AsyncHTTPTransport(
            verify=context,
            trust_env=False,
            limits=httpx2.Limits(
                max_connections=connections,
                max_keepalive_connections=connections,
                keepalive_expiry=_KEEPALIVE_SECONDS,
            ),
            proxy=through,
        )
        if through is None:
            pool = transport._pool
            if reach != "any":
                pool._network_backend = PublicBackend(pool._network_backend, loopback=reach == "public_or_local")
            transport._pool = ConnectionStack(pool, connections=connections)
        return transport
    except (ValueError, TypeError, httpx2.InvalidURL, ImportError) as error:
        detail = redact(str(error))
    raise ConfigError(
        f"invalid http.proxy: {detail}",
        key="http.proxy",
        fix='write it like "http://proxy.example.com:3128"',
    )


class KeptTransports:
    """The transports of a program that opens the same hosts again and again, each with its connections.

    A new one reads the trusted authorities again, which takes longer than a quiet project, and connects anew. Clients
    limit their requests themselves; several may use one transport at the same time, in one event loop.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, str], Transport] = {}

    def of(self, base_url: str, *, ca_file: str = "", proxy: str = "") -> Transport:
        """Return the transport of an origin."""
        key = (base_url, ca_file, proxy)
        if key not in self._kept:
            self._kept[key] = open_transport(base_url, connections=_KEPT_CONNECTIONS, ca_file=ca_file, proxy=proxy)
        return self._kept[key]

    async def aclose(self) -> None:
        """Close all connections."""
        kept, self._kept = self._kept, {}
        for transport in kept.values():
            await transport.aclose()


class Wire:
    """Sends requests, bounded in time and in size."""

    def __init__(self, transport: Transport, *, timeout_seconds: float, total_seconds: float) -> None:
        self._transport = transport
        self._total_seconds = total_seconds
        steps = dict.fromkeys(("connect", "read", "write", "pool"), timeout_seconds)
        self._extensions = {"timeout": steps}

    async def exchange(
        self, method: str, url: Address, headers: RawHeaders, content: bytes, max_bytes: int
    ) -> RawResponse:
        """Send a request and return the complete response, or raise WireFailure."""
        request = httpx2.Request(
            method, url, headers=headers, stream=httpx2.ByteStream(content), extensions=self._extensions
        )
        try:
            async with asyncio.timeout(self._total_seconds):
                return await self._exchange(request, max_bytes)
        except AddressRefused as error:
            failure = WireFailure("address_refused", str(error), sent=False)
        except TimeoutError:
            failure = WireFailure("timeout", f"no complete response in {self._total_seconds:g} s", sent=True)
        except (httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            failure = WireFailure("timeout", type(error).__name__, sent=False)
        except httpx2.TimeoutException as error:
            failure = WireFailure("timeout", type(error).__name__, sent=True)
        except (httpx2.ConnectError, httpx2.ProxyError, httpx2.UnsupportedProtocol) as error:
            failure = WireFailure(tls_trouble(error) or "connection", _describe(error), sent=False)
        except httpx2.HTTPError as error:
            failure = WireFailure("connection", _describe(error), sent=True)
        # Raised outside of the except block: the library's exception holds the request, and with it the token.
        raise failure

    async def _exchange(self, request: httpx2.Request, max_bytes: int) -> RawResponse:
        response = await self._transport.handle_async_request(request)
        try:
            return await _read(response, max_bytes)
        except WireFailure as failure:
            failure.status = response.status_code
            raise
        finally:
            await response.aclose()


async def _read(response: httpx2.Response, max_bytes: int) -> RawResponse:
    headers = Headers(response.headers.raw)
    failed = response.status_code >= 400
    limit = min(max_bytes, _ERROR_BODY_BYTES) if failed else max_bytes
    reader = None
    try:
        reader = BodyReader(headers.get("content-encoding", ""), limit)
        announced = headers.get("content-length", "")
        if not failed and announced.isascii() and announced.isdigit() and int(announced) > limit:
            raise BodyTooLarge
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        async for chunk in stream:
            reader.feed(chunk)
        body = reader.finish()
    except BodyTooLarge:
        if not failed:
            raise WireFailure("too_large", f"more than {limit} bytes", sent=True, received=_received(reader)) from None
        body = reader.so_far() if reader else b""
    except BodyBroken as error:
        if not failed:
            raise WireFailure("bad_body", str(error), sent=True, received=_received(reader)) from None
        body = b""
    return RawResponse(response.status_code, headers, body, _received(reader))


def _received(reader: BodyReader | None) -> int:
    return reader.received if reader else 0


def _describe(error: httpx2.HTTPError) -> str:
    text = redact(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _trust(ca_file: str) -> ssl.SSLContext:
    return add_authority(httpx2.create_ssl_context(), ca_file)
