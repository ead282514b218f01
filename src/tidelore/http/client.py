"""The HTTP client: sends requests to one origin and retries what can be retried.

Responsible for the headers and the token, for retries, redirects, concurrency, metrics and the log. It must not send
anything to another origin than the configured one, whether a link, a redirect or a caller asks for it; repeat a write;
or hold a response above the size limit. Invariant: the token leaves this process only in a header to the configured
origin, and appears in no log record, exception or repr. A token that is not a valid header value is refused: a stray
line break would end the header, and the library's error message would quote it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, overload

import msgspec

from tidelore import __version__
from tidelore.core.clock import Clock, SystemClock
from tidelore.core.errors import (
    BudgetSpent,
    CredentialsMissing,
    QueryLimited,
    RemoteError,
    RemotePermanent,
    RemoteTransient,
)
from tidelore.core.redaction import redact
from tidelore.http.failures import FailureRules, excerpt, outcome_of
from tidelore.http.limits import Governor, RequestAllowance, SharedLimit, backoff_seconds, parse_http_date
from tidelore.http.pagination import Origin, Params
from tidelore.http.response import Outcome, RequestMetric, Response, decode
from tidelore.http.transport import (
    Address,
    RawHeaders,
    RawResponse,
    Reach,
    Transport,
    Wire,
    WireFailure,
    open_transport,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request, which may be sent several times by the retry loop. `read` converts its response into a value."""

    method: str
    url: Address
    headers: RawHeaders
    content: bytes
    route: str | None
    conditional: bool
    read: Callable[[Response], T]
    writes: bool = False
    retry_overload: bool = True
    points: int = 0

    def __repr__(self) -> str:
        return f"Call({self.method}, {self.route})"


def private_token(token: str) -> tuple[str, str]:
    """Return the header in which GitLab expects a token."""
    return "PRIVATE-TOKEN", token


def bearer(token: str) -> tuple[str, str]:
    """Return the header in which GitHub and Bluesky expect a token."""
    return "Authorization", f"Bearer {token}"


class HeaderSet:
    """The headers sent with every request of a client."""

    def __init__(
        self,
        host: bytes,
        user_agent: str,
        more: Mapping[str, str] | None,
        token: str | None,
        auth: Callable[[str], tuple[str, str]],
    ) -> None:
        self._fixed: dict[str, tuple[bytes, bytes]] = {
            "host": (b"Host", host),
            "accept": (b"Accept", b"application/json"),
            # Only the encoding that transport.py can decompress within the size limit.
            "accept-encoding": (b"Accept-Encoding", b"gzip"),
            "user-agent": (b"User-Agent", user_agent.encode("latin-1")),
        }
        self._fixed.update(_encode(more or {}))
        if token:
            check_token(token)
            self._fixed.update(_encode(dict([auth(token)])))

    def build(self, more: Mapping[str, str] | None, etag: str | None, content: bytes | None) -> RawHeaders:
        """Return the headers of one request; `content` is None for a request without a body."""
        sent = self._fixed
        if more or etag is not None or content is not None:
            sent = dict(sent)
        if content is not None:
            sent["content-type"] = (b"Content-Type", b"application/json")
            sent["content-length"] = (b"Content-Length", str(len(content)).encode())
        if etag is not None:
            sent["if-none-match"] = (b"If-None-Match", etag.encode("latin-1"))
        if more:
            sent.update(_encode(more))
        return list(sent.values())


def encode_content(json: object) -> bytes:
    """Return the body of a write."""
    return b"" if json is None else msgspec.json.encode(json)


def check_token(token: str) -> None:
    """Raise CredentialsMissing for a token that cannot be a header value, without quoting it."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise CredentialsMissing(
            "the token contains spaces or invalid characters",
            fix="store the token without quotes and line breaks",
        )


def _encode(headers: Mapping[str, str]) -> dict[str, tuple[bytes, bytes]]:
    return {name.lower(): (name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()}


MAX_REDIRECTS = 3
_OVERLOADED = frozenset({502, 503, 504})
"""The statuses of a server that could not build its response in time; GitLab sends 503 for a query."""
MAX_RESPONSE_BYTES = 64 * 1024 * 1024
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Total time for one response, in multiples of the timeout: a body that arrives slower than that counts as a failure.
_TOTAL_PER_STEP = 4
_LOOKED_AT = 4096
"""Length of the part of a server's message that is redacted; much longer than the excerpt that is shown."""

_LOG = logging.getLogger(__name__)


def is_overload(error: RemoteTransient) -> bool:
    """Return whether a smaller request may succeed: the server gave up, or nothing came in time.

    A server that says how long to wait is not overloaded by this request.
    """
    if error.retry_after_seconds is not None:
        return False
    return error.status in _OVERLOADED or error.reason == "timeout"


class HttpClient:
    """HTTP client for one origin. Use it in `async with`. A `transport` passed in must be closed by the caller.

    Clients that share `slots` have at most that many requests in flight together.
    """

    def __init__(
        self,
        base_url: str,
        *,
        token: str | None = None,
        auth: Callable[[str], tuple[str, str]] = bearer,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = 30.0,
        total_timeout_seconds: float | None = None,
        max_retries: int = 3,
        retry_backoff_seconds: float = 1.0,
        ca_file: str = "",
        proxy: str = "",
        reach: Reach = "any",
        max_concurrency: int = 10,
        slots: asyncio.Semaphore | None = None,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        rate_limit_rps: float = 0.0,
        max_wait_seconds: float = 300.0,
        paused_until: int | None = None,
        on_pause: Callable[[int], None] | None = None,
        allowance: RequestAllowance | None = None,
        grants: SharedLimit | None = None,
        failures: FailureRules | None = None,
        clock: Clock | None = None,
        on_request: Callable[[RequestMetric], None] | None = None,
        transport: Transport | None = None,
        name: str = "",
        user_agent: str = f"tidelore/{__version__}",
        roll: Callable[[], float] = random.random,
    ) -> None:
        self._clean = partial(redact, secrets=(token,) if token else ())
        self._origin = Origin(base_url, self._clean)
        self._headers = HeaderSet(self._origin.host, user_agent, headers, token, auth)
        self._max_retries, self._backoff_seconds = max_retries, retry_backoff_seconds
        self._clock = clock or SystemClock()
        self._name, self._on_request, self._roll, self._max_bytes = name, on_request, roll, max_response_bytes
        self._failures = failures or FailureRules()
        self._slots = slots or asyncio.Semaphore(max_concurrency)
        self.governor = Governor(
            *(self._clock, str(self._origin), rate_limit_rps, max_wait_seconds, paused_until, on_pause),
            *(self._failures.unexplained_wait_seconds, allowance, grants),
        )
        self._owned = transport is None
        self._transport = transport or open_transport(
            self._origin.url, connections=max_concurrency, ca_file=ca_file, proxy=proxy, reach=reach
        )
        total_seconds = total_timeout_seconds or timeout_seconds * _TOTAL_PER_STEP
        self._wire = Wire(self._transport, timeout_seconds=timeout_seconds, total_seconds=total_seconds)
        self._decoders: dict[Any, msgspec.json.Decoder[Any]] = {}

    def __repr__(self) -> str:
        return f"HttpClient({self._origin})"

    async def __aenter__(self) -> HttpClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        if self._owned:
            await self._transport.aclose()

    def address(self, path_or_url: str, params: Params | None = None) -> str:
        """Return the full URL of a request, the key under which its ETag is stored."""
        return str(self._origin.resolve(path_or_url, params))

    def clean(self, text: str) -> str:
        """Return an excerpt of a server's message on one line, without secrets."""
        # Redact before cutting: a token across the cut would remain in part.
        return excerpt(self._clean(text[:_LOOKED_AT]).encode())

    async def get(
        self,
        path_or_url: str,
        params: Params | None = None,
        *,
        etag: str | None = None,
        headers: Mapping[str, str] | None = None,
        route: str | None = None,
    ) -> Response:
        """Send a GET and return the response, with retries. With an `etag`, check `not_modified` first."""
        url = self._origin.resolve(path_or_url, params)
        sent = self._headers.build(headers, etag, None)
        _, response = await self._fetch(Call("GET", url, sent, b"", route, etag is not None, _keep))
        return response

    @overload
    async def get_json(
        self,
        path_or_url: str,
        params: Params | None = None,
        *,
        as_type: type[T],
        etag: None = None,
        headers: Mapping[str, str] | None = None,
        route: str | None = None,
    ) -> tuple[T, Response]: ...

    @overload
    async def get_json(
        self,
        path_or_url: str,
        params: Params | None = None,
        *,
        as_type: type[T],
        etag: str | None,
        headers: Mapping[str, str] | None = None,
        route: str | None = None,
    ) -> tuple[T | None, Response]: ...

    async def get_json(
        self,
        path_or_url: str,
        params: Params | None = None,
        *,
        as_type: type[T],
        etag: str | None = None,
        headers: Mapping[str, str] | None = None,
        route: str | None = None,
    ) -> tuple[T | None, Response]:
        """Return the decoded body and the response; the body is None if the response is `not_modified`.

        Decoding happens inside the retry loop, so a truncated body is requested again.
        """
        decoder = self._decoder(as_type)

        def read(response: Response) -> T | None:
            return None if response.not_modified else decode(response, decoder)

        url = self._origin.resolve(path_or_url, params)
        sent = self._headers.build(headers, etag, None)
        return await self._fetch(Call("GET", url, sent, b"", route, etag is not None, read))

    async def write(
        self,
        path_or_url: str,
        json: object = None,
        *,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        route: str | None = None,
    ) -> Response:
        """Send a write once, without retries.

        An error with the reason `unclear_write` means that the write may have happened: read back to find out.
        """
        url = self._origin.resolve(path_or_url)
        content = encode_content(json)
        sent = self._headers.build(headers, None, content)
        landed = await self._once(Call(method, url, sent, content, route, False, _keep, writes=True), url, 1)
        return landed if isinstance(landed, Response) else landed[1]

    async def query(
        self,
        path_or_url: str,
        json: object,
        *,
        as_type: type[T],
        headers: Mapping[str, str] | None = None,
        route: str | None = None,
        retry_overload: bool = True,
        points: int = 1,
    ) -> tuple[T, Response]:
        """Send a read-only POST; it is decoded and retried like a GET.

        Without `retry_overload`, an overload is raised at once: the caller will ask for less instead. `points` is what
        it will probably cost, where queries are counted apart.
        """
        decoder = self._decoder(as_type)

        def read(response: Response) -> T:
            return decode(response, decoder)

        url = self._origin.resolve(path_or_url)
        content = encode_content(json)
        sent = self._headers.build(headers, None, content)
        call = Call("POST", url, sent, content, route, False, read, retry_overload=retry_overload, points=points)
        return await self._fetch(call)

    def _decoder(self, as_type: type[T]) -> msgspec.json.Decoder[T]:
        decoder: msgspec.json.Decoder[T] | None = self._decoders.get(as_type)
        if decoder is None:
            decoder = self._decoders[as_type] = msgspec.json.Decoder(as_type)
        return decoder

    async def give_way(self) -> None:
        """Let waiting requests take a slot before the caller processes its response."""
        await self._clock.sleep(0.0)

    async def _fetch(self, call: Call[T]) -> tuple[T, Response]:
        # An explicit loop instead of a retry library: stamina sleeps on the event loop's clock and cannot use ours,
        # and a wait that the server requests applies to all requests of the client (see `Governor`), not to one.
        attempt = 1
        while True:
            try:
                return await self._follow(call, attempt)
            except RemoteTransient as failure:
                named = failure.retry_after_seconds
                final = is_overload(failure) and not call.retry_overload
                # The limit for queries does not delay the requests of the client, so a retry would not wait for it.
                final = final or isinstance(failure, QueryLimited | BudgetSpent)
                if final or attempt > self._max_retries or (named is not None and self.governor.too_long(named)):
                    failure.details["attempts"] = attempt
                    raise
                pause = 0.0 if named else backoff_seconds(attempt, self._backoff_seconds, self._roll())
                _LOG.info("attempt %d failed (%s), next in %.1f s", attempt, failure.reason, named or pause)
            if pause:
                await self._clock.sleep(pause)
            attempt += 1

    async def _follow(self, call: Call[T], attempt: int) -> tuple[T, Response]:
        url = call.url
        for _ in range(MAX_REDIRECTS + 1):
            landed = await self._once(call, url, attempt)
            if not isinstance(landed, Response):
                return landed
            url = self._origin.redirect(landed.url, landed.headers.get("location", ""))
        raise RemotePermanent(
            f"more than {MAX_REDIRECTS} redirects",
            url=self._clean(str(call.url)),
            reason="too_many_redirects",
        )

    async def _once(self, call: Call[T], url: Address, attempt: int) -> tuple[T, Response] | Response:
        """Send one request and report it, also if it fails. A response without a value is a redirect."""
        async with self._slots:
            await self.governor.admit(points=call.points)
            started = self._clock.monotonic()
            status: int | None = None
            received = 0
            outcome: Outcome = "cancelled"
            try:
                answer = await self._wire.exchange(call.method, url, call.headers, call.content, self._max_bytes)
                status, received = answer.status, answer.received
                response = self._accept(call, url, answer)
                if status in _REDIRECTS:
                    outcome = "redirect"
                    return response
                value = call.read(response)
                outcome = "not_modified" if status == 304 else "ok"
                return value, response
            except WireFailure as failure:
                status, received = failure.status, failure.received
                detail, where = self._clean(str(failure)), self._clean(str(url))
                error = self._failures.from_trouble(
                    failure.trouble, detail, where, status, sent=failure.sent, writes=call.writes
                )
                outcome = outcome_of(error)
                raise error from None
            except RemoteError as error:
                outcome = outcome_of(error)
                raise
            finally:
                self.governor.release(answered=status is not None, points=call.points)
                self._report(call, url, status, started, received, attempt, outcome)

    def _accept(self, call: Call[T], url: Address, answer: RawResponse) -> Response:
        """Return the response of a successful request, or raise the error for its status."""
        status = answer.status
        server_at = parse_http_date(answer.headers.get("date"))
        verdict = self.governor.observe(status, answer.headers, answer.body, server_at)
        redirected = status in _REDIRECTS and call.method == "GET"
        if 200 <= status < 300 or redirected or (status == 304 and call.conditional):
            return Response(status, str(url), answer.headers, answer.body, server_at)
        where, said = self._clean(str(url)), self.clean(answer.body[:_LOOKED_AT].decode("utf-8", "replace"))
        raise self._failures.from_status(status, verdict, where, said, writes=call.writes)

    def _report(
        self,
        call: Call[T],
        url: Address,
        status: int | None,
        started: float,
        received: int,
        attempt: int,
        outcome: Outcome,
    ) -> None:
        seconds = self._clock.monotonic() - started
        if self._on_request is not None:
            route = call.route or self._clean(url.raw_path.partition(b"?")[0].decode("ascii"))
            said = (self._name, self.governor.budget, self.governor.points)
            self._on_request(RequestMetric(call.method, route, status, seconds, received, attempt, outcome, *said))
        if _LOG.isEnabledFor(logging.DEBUG):
            _LOG.debug(
                "%s %s: status %s, %d ms, %d bytes, attempt %d, %s",
                call.method,
                self._clean(str(url)),
                status,
                seconds * 1000,
                received,
                attempt,
                outcome,
            )


def _keep(response: Response) -> Response:
    return response
