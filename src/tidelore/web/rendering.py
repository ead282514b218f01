"""Renders a page as HTML, as a part of one, or as JSON, and errors likewise.

Text of others is escaped by the templates and freed of invisible characters wherever it is printed. JSON is the answer
of the use-case in the envelope of robot mode, under the same address with `Accept: application/json`.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from tidelore import __version__
from tidelore.app.answers import encode_hook
from tidelore.app.listing import author_of
from tidelore.app.wiring import App
from tidelore.core.clock import describe_age, format_instant
from tidelore.core.errors import (
    CredentialsMissing,
    CredentialsRejected,
    LockHeld,
    NotFound,
    RateLimited,
    RemoteError,
    TideloreError,
    UserError,
)
from tidelore.core.text import event_words, excerpt, without_hidden, without_markdown
from tidelore.web import addresses
from tidelore.web.guard import COOKIE_SECONDS, Access, csrf_token
from tidelore.web.markdown import ADDRESS, MOST_LINKS, render_markdown

STATIC = Path(__file__).parent / "static"
_TEMPLATES = Path(__file__).parent / "templates"
_MARGIN = 4
"""How many times the length of a passage is read, so that its Markdown and spaces can be left out."""
_SPEAKER = re.compile(r"@(\S+) \((\d{4}-\d\d-\d\d)\)")
"""How a note begins in the document of its discussion."""
DATED_SECONDS = 30 * 86_400
"""From this age on an instant is shown as its date: "4 months ago" does not tell two comments apart."""
NOW_SECONDS = 2
_SECTIONS = {
    "/waiting": "Waiting",
    "/search": "Search",
    "/issues": "Issues",
    "/mrs": "Merge requests",
    "/topics": "Topics",
    "/posts": "Posts",
    "/files": "Files",
    "/accounts": "Accounts",
    "/trending": "Trending",
    "/status": "Status",
}
_KIND_NAMES = {"issue": "issue", "mr": "merge request", "topic": "topic", "post": "post"}
_LOG = logging.getLogger("tidelore.web")
_STATUSES: tuple[tuple[type[TideloreError], int], ...] = (
    (NotFound, 404),
    (CredentialsMissing, 502),
    (UserError, 400),
    (LockHeld, 409),
    (RateLimited, 503),
    (CredentialsRejected, 502),
    (RemoteError, 502),
)


class Page(Struct, kw_only=True):
    """What a handler returns: the answer of the use-case, and what its template needs besides.

    `part` is the template of the piece that a live update replaces; `cookie` is set with the answer.
    """

    template: str
    title: str
    data: Any
    context: dict[str, Any] = {}
    part: str | None = None
    images: bool = False
    cookie: tuple[str, str] | None = None


class Site(Struct, frozen=True):
    """What every handler is given: the application, the access rules and the templates."""

    app: App
    access: Access

    def now_ms(self) -> int:
        return self.app.clock.now_ms()


def respond(site: Site, request: Request, page: Page, synced_at: int | None = None, status: int = 200) -> Response:
    """Return a page in the form the reader asks for."""
    if wants_json(request):
        return _json({"ok": True, "data": page.data, "meta": _meta(synced_at)}, status)
    request.state.images = page.images
    live = request.headers.get("hx-request") == "true" and page.part is not None
    template = page.part if live and page.part is not None else page.template
    html = render(site, request, template, title=page.title, data=page.data, synced_at=synced_at, **page.context)
    response = HTMLResponse(html, status, headers={"Cache-Control": "no-store", "Vary": "Accept, HX-Request"})
    if page.cookie is not None:
        name, value = page.cookie
        response.set_cookie(name, value, max_age=COOKIE_SECONDS, httponly=True, samesite="strict", path="/")
    return response


def render(site: Site, request: Request, template: str, **context: Any) -> str:
    """Return a template as text."""
    shared = {
        "request": request,
        "path": request.url.path,
        "section": addresses.section_of(request.url.path),
        "query": request.query_params.multi_items(),
        "now_ms": site.now_ms(),
        "csrf": csrf_token(site.access, getattr(request.state, "session", "")),
        "writes": site.access.allow_writes,
        "version": __version__,
        "synced_at": 0,
    }
    return _environment().get_template(template).render({**shared, **context})


def respond_error(site: Site, request: Request, error: Exception) -> Response:
    """Return an error: what failed and what to do, never a traceback."""
    if isinstance(error, HTTPException):
        found = "This page does not exist." if error.status_code == 404 else error.detail
        told, status = TideloreError(found, fix="use the links above, or the search"), error.status_code
    elif isinstance(error, TideloreError):
        told, status = error, next((code for kind, code in _STATUSES if isinstance(error, kind)), 500)
    else:
        _LOG.error("page %s failed", request.url.path, exc_info=error, extra={"event": "page_failed"})
        told, status = TideloreError("The page could not be made.", fix="check the log of `lore serve`"), 500
    if wants_json(request):
        code = "NOT_FOUND" if status == 404 else told.code
        body = {"code": code, "message": told.message, "details": told.details, "retryable": told.retryable}
        return _json({"ok": False, "error": {**body, "fix": told.fix}, "meta": _meta(None)}, status)
    template = "_error.html" if request.headers.get("hx-request") == "true" else "error.html"
    is_first_run = isinstance(error, NotFound) and error.has_no_copy
    html = render(
        site,
        request,
        template,
        title="Nothing is stored yet" if is_first_run else "Error",
        error=told,
        status=status,
        nothing_stored=is_first_run,
        written=getattr(request.state, "written", ""),
        form=getattr(request.state, "form", {}),
        back=getattr(request.state, "back", ""),
    )
    return HTMLResponse(html, status, headers={"Cache-Control": "no-store", "Vary": "Accept, HX-Request"})


def wants_json(request: Request) -> bool:
    """Return whether the reader asks for JSON and not for HTML."""
    accepted = request.headers.get("accept", "")
    return "application/json" in accepted and "text/html" not in accepted


def _json(document: dict[str, Any], status: int) -> Response:
    encoded = msgspec.json.encode(document, enc_hook=encode_hook)
    if not encoded.isascii() or b"\\u00" in encoded:
        encoded = msgspec.json.encode(_without_hidden(msgspec.json.decode(encoded)))
    headers = {"Cache-Control": "no-store", "Vary": "Accept, HX-Request"}
    return Response(encoded, status, headers=headers, media_type="application/json")


def _meta(synced_at: int | None) -> dict[str, Any]:
    synced = None if synced_at is None else format_instant(synced_at)
    return {"command": "serve", "version": __version__, "synced_at": synced}


def _without_hidden(value: Any) -> Any:
    if isinstance(value, str):
        return without_hidden(value)
    if isinstance(value, list):
        return [_without_hidden(item) for item in value]
    if isinstance(value, dict):
        return {name: _without_hidden(item) for name, item in value.items()}
    return value


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "ago": ago,
        "exact": exact,
        "event_words": event_words,
        "age": lambda seconds: describe_age(seconds or 0),
        "markdown": render_markdown,
        "external": addresses.external,
        "host": addresses.host,
        "number": lambda value: f"{value:,}",
        "highlighted": highlighted,
        "marked": marked,
        "linked": linked,
        "with_code": with_code,
        "sentence": sentence,
        "passage": passage,
        "speaker": speaker,
        "breakable": breakable,
        "hue": hue,
        "quoted": lambda text: quote(str(text), safe=""),
        "plural": plural,
    }
    environment.globals |= {
        "item_address": addresses.item_address,
        "post_address": addresses.post_address,
        "file_address": addresses.file_address,
        "account_address": addresses.account_address,
        "author_of": author_of,
        "reference_address": addresses.reference_address,
        "note_address": addresses.note_address,
        "with_query": addresses.with_query,
        "changed_query": addresses.changed_query,
        "kind_names": _KIND_NAMES,
        "sections": _SECTIONS,
        "new_key": lambda: secrets.token_hex(16),
    }
    return environment


def _printable(value: Any) -> Any:
    """Return what a template prints for a value: nothing for None, and no invisible characters in a text."""
    if value is None:
        return ""
    return without_hidden(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def ago(instant_ms: int | None, now_ms: int) -> Markup:
    """Return an instant as its age, or as its date if it is long ago, with the exact time as its title."""
    if instant_ms is None:
        return Markup("never")
    written, readable = format_instant(instant_ms), exact(instant_ms)
    seconds = (now_ms - instant_ms) / 1000
    if abs(seconds) >= DATED_SECONDS:
        text = written[:10]
    elif abs(seconds) < NOW_SECONDS:
        text = "just now" if seconds >= 0 else "now"
    else:
        age = describe_age(abs(seconds))
        text = f"{age} ago" if seconds > 0 else f"in {age}"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(written, readable, text)


def exact(instant_ms: int) -> str:
    """Return an instant as its date and time."""
    written = format_instant(instant_ms)
    return f"{written[:10]} {written[11:16]} UTC"


def highlighted(text: str, spans: Any) -> Markup:
    """Return a passage without its Markdown, the spans of its matches marked."""
    return marked(*without_markdown(text, spans), _with_boxes)


def marked(text: str, spans: Any, change: Callable[[str], str] = str) -> Markup:
    """Return a text with the spans of its matches marked; `change` is applied to what is between them."""
    parts, end = [], 0
    for start, stop in spans:
        parts.append(escape(change(without_hidden(text[end:start]))))
        parts.append(Markup("<mark>{}</mark>").format(without_hidden(text[start:stop])))
        end = stop
    parts.append(escape(change(without_hidden(text[end:]))))
    return Markup().join(parts)


def linked(text: str) -> Markup:
    """Return plain text whose addresses are links; nothing else of it becomes HTML."""
    shown = without_hidden(text)
    parts, end = [], 0
    for found in islice(re.finditer(ADDRESS, shown), MOST_LINKS):
        parts.append(escape(shown[end : found.start()]))
        parts.append(Markup('<a href="{0}" rel="noopener noreferrer nofollow">{0}</a>').format(found[0]))
        end = found.end()
    return Markup().join([*parts, escape(shown[end:])])


def speaker(text: str) -> tuple[str | None, str | None]:
    """Return who speaks at the beginning of a passage, and on which date."""
    found = _SPEAKER.match(text)
    return (found[1], found[2]) if found else (None, None)


def passage(text: str, characters: int) -> str:
    """Return the beginning of a text of others on one line, without its Markdown."""
    start = " ".join(text[: characters * _MARGIN].split())
    return excerpt(_with_boxes(without_markdown(start)[0]), characters)[0]


def _with_boxes(text: str) -> str:
    """Return a passage in which the tasks of a list have boxes."""
    return text.replace("[ ] ", "☐ ").replace("[x] ", "☑ ").replace("[X] ", "☑ ")


def breakable(path: str) -> Markup:
    """Return a path that a narrow page breaks after a slash."""
    return Markup("/<wbr>").join(without_hidden(path).split("/"))


def sentence(text: str | None) -> str:
    """Return one of our own messages as a sentence; a path or a name in quotes stays as it is."""
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text.endswith((".", "!", "?", ":", "…")) else ".")


def with_code(text: str | None) -> Markup:
    """Return one of our own messages, in which backticks mark commands and settings; it may quote text of others."""
    pieces = re.split("`([^`]+)`", without_hidden(text or ""))
    return Markup().join(
        Markup("<code>{}</code>").format(piece) if at % 2 else escape(piece) for at, piece in enumerate(pieces)
    )


def hue(text: str) -> int:
    """Return one of twelve classes for the colour of a label, always the same for a name."""
    return sum(text.encode()) % 12


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, which stay on one line."""
    if count != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,}\N{NO-BREAK SPACE}{noun}"
