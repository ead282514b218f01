"""Receives webhooks: authenticates each delivery, stores what it announces, and reports that something is waiting.

`POST /hooks/{host}` on its own port, in a thread with its own event loop and database connection, so that neither a
running sync nor a flood of requests delays the other. Deliveries that arrive together are stored in one transaction,
and a response is sent after it. More than `MOST_WAITING` at once are refused with 503, which costs no change: polling
finds what no delivery announced. A refusal says nothing but its status.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec
import uvicorn
from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tidelore.core.clock import Clock
from tidelore.core.errors import StorageFailed, TideloreError, UserError
from tidelore.sources.hooks import HookFormat
from tidelore.store.mirror.projects import ProjectRow, find_projects
from tidelore.store.work.hooks import Delivery, Outcome, count_received, save_deliveries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelore.store.database.port import Database

_LOG = logging.getLogger(__name__)

MOST_BYTES = 5_000_000
"""The largest accepted body."""
MOST_WAITING = 1000
"""How many deliveries may wait to be stored."""
BODY_SECONDS = 10.0
"""How long a sender may take to send a body."""
COUNT_SECONDS = 1.0
"""How often the counters of requests are stored: not with every batch, which would double the commits of a storm."""
STOP_SECONDS = 1


class HookHost(Struct, frozen=True):
    """A host whose deliveries are accepted. `covers` returns whether a stored project is mirrored."""

    secret: str
    format: HookFormat
    covers: Callable[[ProjectRow], bool]

    def __repr__(self) -> str:
        return "HookHost()"


class _Refused(Exception):
    """A request that is refused with a status; `result` is how it is counted."""

    def __init__(self, status: int, result: str) -> None:
        super().__init__(result)
        self.status = status
        self.result = result


class HookReceiver:
    """The receiver. `on_stored` is called in its thread with the hosts that have waiting deliveries."""

    def __init__(
        self,
        hosts: Mapping[str, HookHost],
        open_store: Callable[[], Database],
        clock: Clock,
        on_stored: Callable[[Iterable[str]], None],
        max_age_seconds: float,
    ) -> None:
        self.hosts = hosts
        self.max_age_seconds = max_age_seconds
        self.port: int | None = None
        self._storing = _Storing(open_store)
        self._clock = clock
        self._on_stored = on_stored
        self._counts: Counter[tuple[str, str]] = Counter()
        self._waiting: list[tuple[Delivery, asyncio.Future[Outcome | None]]] = []
        self._filled: asyncio.Event | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def open(self, address: str, port: int) -> None:
        """Start listening."""
        try:
            family, *_, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
            listener = socket.create_server(place[:2], family=family)
        except OSError as error:
            raise UserError(
                f"cannot listen on {address}:{port}: {error.strerror or error}",
                fix="set hooks.port to another port, or to 0 to receive no webhooks",
                key="hooks.port",
                port=port,
            ) from None
        self.port = listener.getsockname()[1]
        site = Starlette(routes=[Route("/hooks/{host}", self._receive, methods=["POST"])])
        config = uvicorn.Config(
            site,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            proxy_headers=False,
            limit_concurrency=2 * MOST_WAITING,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=STOP_SECONDS,
        )
        self._server = _Server(config)
        self._thread = threading.Thread(target=self._run, args=(listener,), name="hooks", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Stop listening; requests under way are finished."""
        server, thread = self._server, self._thread
        if server is not None and thread is not None:
            server.should_exit = True
            await asyncio.to_thread(thread.join, STOP_SECONDS + 1)

    def _run(self, listener: socket.socket) -> None:
        try:
            asyncio.run(self._serve(listener))
        except Exception:  # noqa: BLE001 - polling goes on without hooks
            _LOG.exception("the webhook receiver failed", extra={"event": "hooks_failed"})
        finally:
            self._storing.close()

    async def _serve(self, listener: socket.socket) -> None:
        assert self._server is not None
        self._filled = asyncio.Event()
        storing = asyncio.create_task(self._store_forever())
        try:
            await self._server.serve(sockets=[listener])
        finally:
            storing.cancel()
            await asyncio.gather(storing, return_exceptions=True)

    async def _receive(self, request: Request) -> Response:
        source = request.path_params["host"]
        host = self.hosts.get(source)
        try:
            if host is None:
                source = ""
                raise _Refused(404, "unknown")
            result = await self._accept(source, host, request)
        except _Refused as refused:
            result = refused.result
            self._counts[source, result] += 1
            headers = {"Retry-After": "60"} if refused.status == 503 else None
            return PlainTextResponse(f"{refused.status}\n", refused.status, headers)
        except ClientDisconnect:
            return PlainTextResponse("", 400)
        self._counts[source, result] += 1
        return PlainTextResponse("202\n", 202)

    async def _accept(self, source: str, host: HookHost, request: Request) -> str:
        """Return how an authentic delivery is counted after it was stored."""
        body = await _read_body(request)
        headers = {name.lower(): value for name, value in request.headers.items()}
        now, oldest = self._clock.now_ms(), round(self.max_age_seconds * 1000)
        delivery_id = host.format.authenticate(host.secret, headers, body, now, oldest)
        if delivery_id is None:
            raise _Refused(401, "refused")
        try:
            hint = host.format.read(headers, body)
        except (msgspec.MsgspecError, RecursionError):
            raise _Refused(400, "unreadable") from None
        if hint is None:
            return "ignored"
        if len(self._waiting) >= MOST_WAITING or self._filled is None:
            raise _Refused(503, "overloaded")
        delivery = Delivery(source, delivery_id, hint.remote_id, hint.kind, hint.number, hint.silent, now)
        stored = [self._wait_for(delivery)]
        if (to := hint.moved_to) is not None:
            moved = Delivery(source, f"{delivery_id}:moved", to.remote_id, to.kind, to.number, to.silent, now, True)
            stored.append(self._wait_for(moved))
        self._filled.set()
        outcomes = await asyncio.gather(*stored)
        if None in outcomes:
            raise _Refused(503, "failed")
        for outcome in ("accepted", "duplicate"):
            if outcome in outcomes:
                return outcome
        raise _Refused(404, "unknown")

    def _wait_for(self, delivery: Delivery) -> asyncio.Future[Outcome | None]:
        """Queue a delivery; the future returns its outcome when it is stored."""
        stored: asyncio.Future[Outcome | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((delivery, stored))
        return stored

    async def _store_forever(self) -> None:
        """Store what has arrived, one transaction at a time."""
        assert self._filled is not None
        loop = asyncio.get_running_loop()
        count_at = loop.time() + COUNT_SECONDS
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(count_at):
                    await self._filled.wait()
            self._filled.clear()
            batch, self._waiting = self._waiting, []
            counts: Counter[tuple[str, str]] = Counter()
            if loop.time() >= count_at:
                count_at = loop.time() + COUNT_SECONDS
                counts, self._counts = self._counts, counts
            if not batch and not counts:
                continue
            deliveries = [delivery for delivery, _ in batch]
            try:
                outcomes = await loop.run_in_executor(
                    self._storing.thread, self._storing.store, deliveries, counts, dict(self.hosts)
                )
            except TideloreError as error:
                _LOG.warning("failed to store webhooks: %s", error.message, extra={"event": "hooks_not_stored"})
                outcomes, self._counts = [None] * len(batch), self._counts + counts
            for (_, stored), outcome in zip(batch, outcomes, strict=True):
                if not stored.done():
                    stored.set_result(outcome)
            announced = {one.source for one, outcome in zip(deliveries, outcomes, strict=True) if outcome == "accepted"}
            if announced:
                self._on_stored(sorted(announced))


class _Storing:
    """Stores deliveries over a separate connection, in the only thread that uses it."""

    def __init__(self, open_store: Callable[[], Database]) -> None:
        self.thread = ThreadPoolExecutor(1, "hooks-store")
        self._open_store = open_store
        self._database: Database | None = None

    def store(
        self, deliveries: Sequence[Delivery], counts: Mapping[tuple[str, str], int], hosts: Mapping[str, HookHost]
    ) -> list[Outcome | None]:
        """Store deliveries of mirrored projects and the counts; return what became of each delivery."""
        try:
            if self._database is None:
                self._database = self._open_store()
            found: dict[int, Outcome] = {}
            for source in {one.source for one in deliveries}:
                host = hosts.get(source)
                own = [at for at, one in enumerate(deliveries) if one.source == source]
                rows = find_projects(self._database, source, {deliveries[at].remote_id for at in own})
                known = {row.remote_id: row.id for row in rows if host and host.covers(row)}
                found |= zip(own, save_deliveries(self._database, [deliveries[at] for at in own], known), strict=True)
            if counts:
                count_received(self._database, counts)
            return [found.get(at) for at in range(len(deliveries))]
        except TideloreError:
            self._drop()
            raise

    def close(self) -> None:
        """Close the connection."""
        self.thread.submit(self._drop)
        self.thread.shutdown(wait=True)

    def _drop(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            with suppress(StorageFailed):
                database.close()


async def _read_body(request: Request) -> bytes:
    """Return the raw body; refuse one that is too large before it is read, or as soon as it is."""
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced) > MOST_BYTES:
        raise _Refused(413, "too_large")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > MOST_BYTES:
                    raise _Refused(413, "too_large")
    except TimeoutError:
        raise _Refused(408, "too_slow") from None
    return bytes(body)


class _Server(uvicorn.Server):
    """uvicorn without signal handlers, which belong to the service."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
