"""Lets a request in, or refuses it: the Host, the Origin, the access token and the CSRF token. Sets the headers.

The page is meant for one reader on one machine. Another site in the same browser must neither read it (Host check
against DNS rebinding, Origin and Sec-Fetch-Site, no CORS) nor act through it (CSRF token, SameSite cookie). Nothing in
a page can run or load what does not come from this server.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import socket
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidelore.core.errors import UserError
from tidelore.web.addresses import with_query

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
WILDCARDS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared with, not bound to
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
LONGEST_FORM = 65_536
LONGEST_ADDRESS = 4_096
"""Bytes of an address; every chip of a page repeats it."""
COOKIE_SECONDS = 30 * 86_400
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src {images}; connect-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not `no-referrer`, with which Chrome sends `Origin: null` with our own forms (rails/rails#28299).
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


_OPEN = "Open the address that lore serve printed."
# Without the style sheet, which is refused like everything else.
_REFUSAL = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Refused – Tidelore</title>'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta name="color-scheme" content="light dark"></head>'
    "<body><main><h1>Refused</h1><p>{}</p></main></body></html>"
)


class Access(Struct, frozen=True):
    """Where the server listens, the token it asks for, the secret of its CSRF tokens, and whether it may write."""

    host: str
    port: int
    token: str | None = None
    secret: bytes = b""
    allow_writes: bool = False

    @property
    def cookie(self) -> str:
        """The name of the session cookie; with the port, because cookies are shared by all ports of a host."""
        return f"lore_{self.port}"


def make_access(host: str, port: int, token: str | None, *, allow_writes: bool = False) -> Access:
    """Return the rules of a server; raise UserError for an address that others reach, without a token."""
    if token is None and host not in LOOPBACK:
        raise UserError(
            f"--host {host} can be reached from other machines and needs an access token",
            fix="add --token, or leave --host out to listen on 127.0.0.1 only",
            host=host,
        )
    return Access(host, port, token, secrets.token_bytes(32), allow_writes)


def csrf_token(access: Access, session: str) -> str:
    """Return the CSRF token of a session."""
    return hmac.new(access.secret, session.encode(), hashlib.sha256).hexdigest()


class Guard:
    """ASGI middleware in front of every page."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, self._hardened(scope, send, None))
            return
        cookies = _cookies(headers)
        session, is_new = cookies.get(self._access.cookie, ""), False
        if self._access.token is None and not session:
            session, is_new = secrets.token_urlsafe(24), True
        entry = None if self._access.token is None else self._enter(scope, headers, session)
        if entry is not None:
            await entry(scope, receive, self._hardened(scope, send, None))
            return
        scope.setdefault("state", {})["session"] = session
        await self._app(scope, receive, self._hardened(scope, send, session if is_new else None))

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if len(scope.get("raw_path") or b"") + len(scope.get("query_string", b"")) > LONGEST_ADDRESS:
            return _refuse(headers, 414, "The address is too long.")
        host = headers.get("host", "")
        if not self._is_own_host(host):
            return _refuse(headers, 421, f"This server does not answer for that host name. {_OPEN}")
        origin = headers.get("origin")
        if origin is not None and origin != f"{scope.get('scheme', 'http')}://{host}":
            return _refuse(headers, 403, "Requests from other sites are refused.")
        # A link from elsewhere may lead here; an image, a script or a form may not.
        is_link = headers.get("sec-fetch-mode") == "navigate" and scope["method"] in _SAFE
        if headers.get("sec-fetch-site", "none") in {"cross-site", "same-site"} and not is_link:
            return _refuse(headers, 403, "Requests from other sites are refused.")
        return None

    def _is_own_host(self, host: str) -> bool:
        try:
            parts = urlsplit(f"//{host}")
            name, port = (parts.hostname or "").lower(), parts.port or 80
        except ValueError:
            return False
        if port != self._access.port or not name or parts.username is not None:
            return False
        if name in LOOPBACK or name == self._access.host.lower():
            return True
        # A name could be made to point here by its owner; an address, or this machine's name, could not.
        return self._access.host in WILDCARDS and (_is_address(name) or name == socket.gethostname().lower())

    def _enter(self, scope: Scope, headers: Headers, session: str) -> Response | None:
        """Check the token: of the session, of the header, or of the address, from which it is moved to a cookie."""
        token = self._access.token or ""
        passed = csrf_token(self._access, f"session:{token}")
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if hmac.compare_digest(session.encode(), passed.encode()) or _same(bearer, token):
            scope.setdefault("state", {})["session"] = passed
            return None
        query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        if _same(dict(query).get("token", ""), token) and scope["method"] in _SAFE:
            rest = [(name, value) for name, value in query if name != "token"]
            path = "/" + scope["path"].lstrip("/\\")
            response = RedirectResponse(with_query(path, rest), 303)
            self._set_cookie(response, passed)
            return response
        return _refuse(headers, 401, f"An access token is needed. {_OPEN}")

    def _set_cookie(self, response: Response, session: str) -> None:
        response.set_cookie(
            self._access.cookie, session, max_age=COOKIE_SECONDS, httponly=True, samesite="strict", path="/"
        )

    def _hardened(self, scope: Scope, send: Send, session: str | None) -> Send:
        async def send_hardened(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                images = "'self' https: http:" if scope.get("state", {}).get("images") else "'self'"
                headers["Content-Security-Policy"] = POLICY.format(images=images)
                for name, value in _HEADERS.items():
                    headers[name] = value
                if session is not None:
                    cookie = Response()
                    self._set_cookie(cookie, session)
                    headers.append("set-cookie", cookie.headers["set-cookie"])
            await send(message)

        return send_hardened


async def read_form(request: Request, access: Access) -> Mapping[str, str]:
    """Return the fields of a form; raise UserError unless it carries the token of this session."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST_FORM:
            raise UserError("the form is too long", fix="go back, reload the page and try again")
    form = dict(parse_qsl(body.decode("latin-1"), keep_blank_values=True))
    # Kept for the page of an error, so that a reader does not lose a text.
    request.state.written = form.get("body", "")
    given = form.get("csrf", "")
    if not hmac.compare_digest(given.encode(), csrf_token(access, request.state.session).encode()):
        raise UserError("the form has expired", fix="go back, reload the page and try again")
    # Kept too, so that the reader can correct the text and send it from that page.
    request.state.form = form
    return form


def _refuse(headers: Headers, status: int, reason: str) -> Response:
    """Return a refusal, readable in a browser and in a terminal; `reason` is a text of ours."""
    if "text/html" in headers.get("accept", ""):
        return HTMLResponse(_REFUSAL.format(reason), status)
    return PlainTextResponse(f"{reason}\n", status)


def _cookies(headers: Headers) -> Mapping[str, str]:
    try:
        found: SimpleCookie = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return {}
    return {name: morsel.value for name, morsel in found.items()}


def _same(given: str, token: str) -> bool:
    return bool(given) and hmac.compare_digest(given.encode(), token.encode())


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
