"""HTTP server of the running service: `/metrics` and `/healthz` on the loopback interface.

Limits the accepted host names (so a web page cannot read it through DNS rebinding), the number of concurrent clients
and the time for each. Pages are WSGI applications that run in the thread of their request, so each opens its own
database connection.
"""

from __future__ import annotations

import asyncio
import io
import logging
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from http import HTTPStatus
from socketserver import TCPServer, ThreadingMixIn
from threading import Thread
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import msgspec
from prometheus_client import CollectorRegistry, make_wsgi_app

from tidelore.core.clock import SystemClock
from tidelore.core.errors import StorageFailed, TideloreError, UserError
from tidelore.service.metrics import MetricsCollector
from tidelore.service.status import Health, read_service

if TYPE_CHECKING:
    from tidelore.core.clock import Clock
    from tidelore.store.database.port import Database


_LOG = logging.getLogger(__name__)

HOST = "127.0.0.1"
CLIENT_SECONDS = 5.0
MOST_CLIENTS = 32
_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]", ""})
_LOOK_SECONDS = 0.1
"""How often the server checks for slow clients and for a request to stop."""


class StatusServer:
    """The HTTP server."""

    def __init__(self, pages: Mapping[str, WSGIApplication]) -> None:
        self._pages = pages
        self._server: _Server | None = None
        self._thread: Thread | None = None

    @property
    def port(self) -> int | None:
        """The port it listens on; None before `open`."""
        return None if self._server is None else self._server.server_port

    def open(self, port: int) -> None:
        """Start listening."""
        try:
            self._server = _Server((HOST, port), _Handler)
        except OSError as error:
            raise UserError(
                f"cannot listen on {HOST}:{port}: {error.strerror or error}",
                fix="set service.metrics_port to another port, or to 0 to disable it",
                key="service.metrics_port",
                port=port,
            ) from None
        self._server.set_app(self._answer)
        self._thread = Thread(target=self._server.serve_forever, args=(_LOOK_SECONDS,), name="exposition", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Stop listening and close the remaining connections."""
        server, self._server = self._server, None
        if server is not None:
            # In a thread: shutdown blocks until the server's next check, and the event loop must not wait for it.
            await asyncio.to_thread(server.shutdown)
            server.server_close()
            server.cut_clients()

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if _host_name(environ.get("HTTP_HOST", "")) not in _NAMES:
            return _refuse(HTTPStatus.MISDIRECTED_REQUEST, start_response)
        if environ["REQUEST_METHOD"] != "GET":
            return _refuse(HTTPStatus.METHOD_NOT_ALLOWED, start_response, ("Allow", "GET"))
        page = self._pages.get(environ["PATH_INFO"])
        if page is None:
            return _refuse(HTTPStatus.NOT_FOUND, start_response)
        try:
            return page(environ, start_response)
        except TideloreError as error:
            _LOG.warning("failed to render a page: %s", error.message, extra={"event": "page_failed"})
            return [*_refuse(HTTPStatus.SERVICE_UNAVAILABLE, start_response), f"{error.message}\n".encode()]
        except Exception:  # noqa: BLE001 - one failed page must not end the server
            _LOG.exception("failed to render the page", extra={"event": "page_failed"})
            return _refuse(HTTPStatus.INTERNAL_SERVER_ERROR, start_response)


def _refuse(status: HTTPStatus, start_response: StartResponse, *headers: tuple[str, str]) -> list[bytes]:
    """Respond with a status and its name."""
    start_response(f"{status.value} {status.phrase}", [("Content-Type", "text/plain; charset=utf-8"), *headers])
    return [f"{status.phrase}\n".encode()]


def _host_name(host: str) -> str:
    """Return the name in a Host header, without the port."""
    host = host.strip().lower()
    return host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = MOST_CLIENTS

    def __init__(self, address: tuple[str, int], handler: type[WSGIRequestHandler]) -> None:
        self._clients: dict[Any, float] = {}
        super().__init__(address, handler)

    def server_bind(self) -> None:
        # Not the parent's method: it looks up our host name, which may take seconds.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.socket.getsockname()[1]
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        if len(self._clients) >= MOST_CLIENTS:
            super().shutdown_request(request)
            return
        self._clients[request] = SystemClock().monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._clients.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        self.cut_clients(SystemClock().monotonic() - CLIENT_SECONDS)

    def cut_clients(self, connected_before: float | None = None) -> None:
        """Close client connections, which also ends their threads."""
        for request, since in tuple(self._clients.items()):
            if connected_before is None or since < connected_before:
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - as the parent calls it
        _LOG.debug("a client connection failed", exc_info=True)


class _Handler(WSGIRequestHandler):
    timeout = CLIENT_SECONDS

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the parent calls it
        """Log no requests."""

    def get_stderr(self) -> io.StringIO:
        # wsgiref prints tracebacks here, for example of a client that does not read.
        return io.StringIO()


def build_pages(open_store: Callable[[], Database], clock: Clock) -> Mapping[str, WSGIApplication]:
    """Return the pages by path. Pages run in threads, so each request opens its own database connection."""
    registry = CollectorRegistry()
    registry.register(MetricsCollector(open_store, clock))

    def healthz(_environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        answer: Health | dict[str, object]
        try:
            with closing(open_store()) as database:
                answer = health = read_service(database, clock.now_ms()).health
            status = HTTPStatus.OK if health.ok else HTTPStatus.SERVICE_UNAVAILABLE
        except StorageFailed as error:
            answer = {"ok": False, "sources": [], "error": error.message}
            status = HTTPStatus.SERVICE_UNAVAILABLE
        headers = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]
        start_response(f"{status.value} {status.phrase}", headers)
        return [msgspec.json.encode(answer) + b"\n"]

    return {"/metrics": make_wsgi_app(registry), "/healthz": healthz}
