"""Builds the web application from its pages, and serves it on one address until it is asked to stop."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from urllib.parse import quote

import uvicorn
from msgspec import Struct
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from tidelore.app.wiring import App
from tidelore.core.errors import TideloreError, UserError
from tidelore.core.signals import heard
from tidelore.web.activity import (
    accounts_page,
    coverage_page,
    home_page,
    live_status,
    status_page,
    trending_page,
    waiting_page,
)
from tidelore.web.guard import WILDCARDS, Access, Guard, make_access, read_form
from tidelore.web.items import account_page, file_page, go, item_page, page_of, post_page, refresh
from tidelore.web.lists import list_page, search_results
from tidelore.web.rendering import STATIC, Page, Site, respond, respond_error
from tidelore.web.replies import answer

_ITEM = "/p/{project:path}/{part}/{iid:int}"
Handler = Callable[[Site, App, Request], Page]
PAGES: dict[str, Handler] = {
    "/": home_page,
    "/search": search_results,
    "/post": post_page,
    "/files": file_page,
    "/accounts": accounts_page,
    "/accounts/{name}": account_page,
    "/trending": trending_page,
    "/status": status_page,
    "/waiting": waiting_page,
    "/coverage": coverage_page,
    _ITEM: item_page,
    "/{name}": list_page,
}
STOP_SECONDS = 3


class ServeWeb(Struct, frozen=True, kw_only=True):
    """Where to serve; `token` is what readers must present, or None on this machine alone.

    `allow_writes`: readers may reply and resolve threads, with the tokens of the configured hosts.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    token: str | None = None
    allow_writes: bool = False


def new_token() -> str:
    """Return a new access token."""
    return secrets.token_urlsafe(24)


def build_site(app: App, access: Access, stopping: Callable[[], bool] = lambda: False) -> Guard:
    """Return the web application; `stopping` ends its streams."""
    app = app.searching_often()
    site = Site(app, access)

    async def live(request: Request) -> Response:
        return live_status(site, app, request, stopping)

    async def refreshed(request: Request) -> Response:
        request.state.back = page_of(request)
        await read_form(request, access)
        return await refresh(app, request)

    async def answered(request: Request) -> Response:
        request.state.back = page_of(request)
        return await answer(app, request, await read_form(request, access))

    async def redirected(request: Request) -> Response:
        return await run_in_threadpool(go, app, request)

    async def failed(request: Request, error: Exception) -> Response:
        return respond_error(site, request, error)

    routes: list[BaseRoute] = [
        Mount("/static", StaticFiles(directory=STATIC)),
        Route("/status/live", live, methods=["GET"]),
        Route("/go", redirected, methods=["GET"]),
        Route(f"{_ITEM}/refresh", refreshed, methods=["POST"]),
        *([Route(f"{_ITEM}/reply", answered, methods=["POST"])] if access.allow_writes else []),
        *(Route(path, _endpoint(site, handler), methods=["GET"]) for path, handler in PAGES.items()),
    ]
    handlers: dict[type[Exception], Callable[[Request, Exception], Awaitable[Response]]] = dict.fromkeys(
        (TideloreError, HTTPException, Exception), failed
    )
    return Guard(Starlette(routes=routes, exception_handlers=handlers), access)


def _endpoint(site: Site, handler: Handler) -> Callable[[Request], Response]:
    """Return an endpoint that runs in a worker thread: it reads the database over a connection of its own."""

    def endpoint(request: Request) -> Response:
        synced: list[int | None] = []
        page = handler(site, replace(site.app, on_reading=synced.append), request)
        return respond(site, request, page, synced[-1] if synced else None)

    return endpoint


class WebServer:
    """The web server on one address. `open` binds it, `run` serves until `stop` is called or a signal arrives.

    `port` is the one it listens on; with port 0, the one the system chose.
    """

    def __init__(self, app: App, asked: ServeWeb) -> None:
        self._app = app
        self._asked = asked
        self._socket: socket.socket | None = None
        self.port = 0
        self._server: uvicorn.Server | None = None

    @property
    def address(self) -> str:
        """The address to open, with the token if one is needed."""
        return self.plain_address + (f"?token={quote(self._asked.token)}" if self._asked.token else "")

    @property
    def plain_address(self) -> str:
        """The address without the token."""
        host = "127.0.0.1" if self._asked.host in WILDCARDS else self._asked.host
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{self.port}/"

    def open(self) -> None:
        """Bind the address; raise UserError if that is not possible or not allowed."""
        asked = self._asked
        make_access(asked.host, asked.port, asked.token)
        try:
            family, *_, place = socket.getaddrinfo(asked.host, asked.port, type=socket.SOCK_STREAM)[0]
            opened = socket.create_server(place[:2], family=family)
        except OSError as error:
            raise UserError(
                f"cannot listen on {asked.host}:{asked.port}: {error.strerror or error}",
                fix="choose another port with --port, or stop the program that uses it",
                port=asked.port,
            ) from None
        self._socket, self.port = opened, opened.getsockname()[1]

    def run(self) -> None:
        """Serve until SIGINT, SIGTERM or `stop`; open streams are ended, requests under way are finished."""
        asyncio.run(self._serve())

    def stop(self) -> None:
        """Stop serving; may be called from another thread."""
        if self._server is not None:
            self._server.should_exit = True

    async def _serve(self) -> None:
        assert self._socket is not None
        asked = self._asked
        access = make_access(asked.host, self.port, asked.token, allow_writes=asked.allow_writes)
        site = build_site(self._app, access, lambda: self._server is not None and self._server.should_exit)
        config = uvicorn.Config(
            site,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            proxy_headers=False,
            timeout_graceful_shutdown=STOP_SECONDS,
        )
        self._server = _Server(config)
        with self._listening_for_signals():
            await self._server.serve(sockets=[self._socket])

    def _listening_for_signals(self) -> contextlib.AbstractContextManager[None]:
        if threading.current_thread() is not threading.main_thread():
            return contextlib.nullcontext()
        return heard({signal.SIGINT: self.stop, signal.SIGTERM: self.stop})


class _Server(uvicorn.Server):
    """uvicorn without signal handlers, which would end the process by the signal instead of with exit code 0."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
