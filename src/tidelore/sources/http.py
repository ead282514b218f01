"""The HTTP client of every source. Owns the life of a request: retries, redirects, concurrency, metrics, log.

It refuses to send anything to another origin than the configured one, whether a link, a redirect or a caller
asks for it; to repeat a write; and to hold an answer above the size limit. Invariant: the token leaves this
process only in a header to the configured origin, and appears in no log record, exception or repr.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar, overload

import msgspec

from tidelore import __version__
from tidelore.core.clock import Clock, SystemClock
from tidelore.core.errors import RemoteError, RemotePermanent, RemoteTransient
from tidelore.retry_after import backoff_seconds, parse_http_date
from tidelore.sources.failures import excerpt, from_status, from_trouble, outcome_of
from tidelore.sources.governor import Governor
from tidelore.sources.origin import Origin, Params
from tidelore.sources.redact import redact
from tidelore.sources.reply import Outcome, Reply, RequestMetric, decode
from tidelore.sources.request import Call, HeaderSet, bearer, encode_content, private_token
from tidelore.sources.transport import Address, Answer, Reach, Transport, Wire, WireFailure, open_transport

__all__ = ["HttpClient", "Reply", "RequestMetric", "bearer", "private_token"]

T = TypeVar("T")

MAX_REDIRECTS = 3
MAX_RESPONSE_BYTES = 64 * 1024 * 1024
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# A body that takes longer than this many timeouts to drip in is as good as none.
_TOTAL_PER_STEP = 4
_LOOKED_AT = 4096
"""How much of an error's body is searched for secrets; far more than is ever shown of it."""

_LOG = logging.getLogger(__name__)


class HttpClient:
    """Asks one origin. Use it in `async with`; a `transport` that is handed in stays its owner's to close.

    Clients with the same `slots` have no more requests under way together than there are slots.
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
        self._max_retries = max_retries
        self._backoff_seconds = retry_backoff_seconds
        self._max_bytes = max_response_bytes
        self._clock = clock or SystemClock()
        self._on_request = on_request
        self._name = name
        self._roll = roll
        self._slots = slots or asyncio.Semaphore(max_concurrency)
        self.governor = Governor(
            self._clock, str(self._origin), rate_limit_rps, max_wait_seconds, paused_until, on_pause
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
        """Return the full address a request would go to: what a validator belongs to."""
        return str(self._origin.resolve(path_or_url, params))

    def clean(self, text: str) -> str:
        """Return the beginning of what the server said inside an answer, on one line and without secrets."""
        # Cleaned before it is cut: a token across the border would be left in part.
        return excerpt(self._clean(text[:_LOOKED_AT]).encode())

    async def get(
        self,
        path_or_url: str,
        params: Params | None = None,
        *,
        etag: str | None = None,
        headers: Mapping[str, str] | None = None,
        route: str | None = None,
    ) -> Reply:
        """Return the answer, retried while that can help. With an `etag`, look at `not_modified` first."""
        url = self._origin.resolve(path_or_url, params)
        sent = self._headers.build(headers, etag, None)
        _, reply = await self._fetch(Call("GET", url, sent, b"", route, etag is not None, _keep))
        return reply

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
    ) -> tuple[T, Reply]: ...

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
    ) -> tuple[T | None, Reply]: ...

    async def get_json(
        self,
        path_or_url: str,
        params: Params | None = None,
        *,
        as_type: type[T],
        etag: str | None = None,
        headers: Mapping[str, str] | None = None,
        route: str | None = None,
    ) -> tuple[T | None, Reply]:
        """Return the decoded body and the answer; None and the answer when it is `not_modified`.

        Decoding happens inside the retry: a truncated body is asked for again.
        """
        decoder = self._decoders.get(as_type)
        if decoder is None:
            decoder = self._decoders[as_type] = msgspec.json.Decoder(as_type)

        def read(reply: Reply) -> T | None:
            return None if reply.not_modified else decode(reply, decoder)

        url = self._origin.resolve(path_or_url, params)
        sent = self._headers.build(headers, etag, None)
        return await self._fetch(Call("GET", url, sent, b"", route, etag is not None, read))

    async def post(
        self,
        path_or_url: str,
        json: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        route: str | None = None,
    ) -> Reply:
        """Write once, never again. The reason `unclear_write` means that it may have happened: read back."""
        url = self._origin.resolve(path_or_url)
        content = encode_content(json)
        sent = self._headers.build(headers, None, content)
        landed = await self._once(Call("POST", url, sent, content, route, False, _keep), url, 1)
        return landed if isinstance(landed, Reply) else landed[1]

    async def give_way(self) -> None:
        """Let whoever waits for a slot send first, before the caller goes on with its answer."""
        await self._clock.sleep(0.0)

    async def _fetch(self, call: Call[T]) -> tuple[T, Reply]:
        # An explicit loop and no retry library: stamina sleeps on the event loop's clock and cannot be handed
        # ours, and the wait a server names binds all requests of the client (the governor), not this one.
        attempt = 1
        while True:
            try:
                return await self._follow(call, attempt)
            except RemoteTransient as failure:
                named = failure.retry_after_seconds
                if attempt > self._max_retries or (named is not None and self.governor.too_long(named)):
                    failure.details["attempts"] = attempt
                    raise
                pause = 0.0 if named else backoff_seconds(attempt, self._backoff_seconds, self._roll())
                _LOG.info("attempt %d failed (%s), next in %.1f s", attempt, failure.reason, named or pause)
            if pause:
                await self._clock.sleep(pause)
            attempt += 1

    async def _follow(self, call: Call[T], attempt: int) -> tuple[T, Reply]:
        url = call.url
        for _ in range(MAX_REDIRECTS + 1):
            landed = await self._once(call, url, attempt)
            if not isinstance(landed, Reply):
                return landed
            url = self._origin.redirect(landed.url, landed.headers.get("location", ""))
        raise RemotePermanent(
            f"more than {MAX_REDIRECTS} redirects",
            url=self._clean(str(call.url)),
            reason="too_many_redirects",
        )

    async def _once(self, call: Call[T], url: Address, attempt: int) -> tuple[T, Reply] | Reply:
        """Send one request and report it, whatever becomes of it. A bare reply is a redirect."""
        async with self._slots:
            await self.governor.admit()
            started = self._clock.monotonic()
            status: int | None = None
            received = 0
            outcome: Outcome = "cancelled"
            try:
                answer = await self._wire.exchange(call.method, url, call.headers, call.content, self._max_bytes)
                status, received = answer.status, answer.received
                reply = self._accept(call, url, answer)
                if status in _REDIRECTS:
                    outcome = "redirect"
                    return reply
                value = call.read(reply)
                outcome = "not_modified" if status == 304 else "ok"
                return value, reply
            except WireFailure as failure:
                status, received = failure.status, failure.received
                detail, where = self._clean(str(failure)), self._clean(str(url))
                error = from_trouble(call.method, failure.trouble, detail, where, status, sent=failure.sent)
                outcome = outcome_of(error)
                raise error from None
            except RemoteError as error:
                outcome = outcome_of(error)
                raise
            finally:
                self._report(call, url, status, started, received, attempt, outcome)

    def _accept(self, call: Call[T], url: Address, answer: Answer) -> Reply:
        """Return the reply of a request that succeeded, or raise what its status stands for."""
        status = answer.status
        server_at = parse_http_date(answer.headers.get("date"))
        verdict = self.governor.observe(status, answer.headers, answer.body, server_at)
        redirected = status in _REDIRECTS and call.method == "GET"
        if 200 <= status < 300 or redirected or (status == 304 and call.conditional):
            return Reply(status, str(url), answer.headers, answer.body, server_at)
        where, said = self._clean(str(url)), self.clean(answer.body[:_LOOKED_AT].decode("utf-8", "replace"))
        raise from_status(call.method, status, verdict, where, said)

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
            said = (self._name, self.governor.budget)
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


def _keep(reply: Reply) -> Reply:
    return reply
