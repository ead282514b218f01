"""Finished responses: errors in GitLab's words, conditional responses, pages of lists, the rate budget.

Owns what every route shares once it knows its rows. Refuses to find rows. Invariant: an ETag is a digest of
exactly the body it is sent with, so a 304 never hides a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any, TypeVar

from tidelore_world.clock import MINUTE_US, SECOND_US
from tidelore_world.gitlab.listing import Paging, offset_headers, parse_paging
from tidelore_world.gitlab.view import View, encode
from tidelore_world.wire import Request, Response, json_response

T = TypeVar("T")


def error(status: int, text: str, key: str = "message") -> Response:
    """An error in the shape GitLab gives it."""
    return json_response({key: text}, status)


def conditional(request: Request, body: bytes, headers: dict[str, str] | None = None) -> Response:
    """A 200 with an ETag, or a 304 without a body when the caller has these very bytes."""
    etag = f'W/"{blake2b(body, digest_size=16).hexdigest()}"'
    sent = {"etag": etag, "cache-control": "max-age=0, private, must-revalidate", **(headers or {})}
    known = request.headers.get("if-none-match", "")
    if known and etag.removeprefix("W/") in {part.strip().removeprefix("W/") for part in known.split(",")}:
        return Response(304, sent)
    return Response(200, {"content-type": "application/json", **sent}, body)


def page(forge: View, request: Request, chunks: Iterable[bytes], headers: dict[str, str]) -> Response:
    """A list page from encoded rows, with the forge's header options applied."""
    if forge.foreign_next_link and 'rel="next"' in headers.get("link", ""):
        links = [link for link in headers["link"].split(", ") if 'rel="next"' not in link]
        headers["link"] = ", ".join([f'<{forge.foreign_next_link}>; rel="next"', *links])
    kept = {name: value for name, value in headers.items() if name not in forge.strip_headers}
    return conditional(request, b"[" + b",".join(chunks) + b"]", kept)


def page_of(forge: View, request: Request, rows: Sequence[T], shape: Callable[[T], Any]) -> Response:
    """A list page cut from a sequence of rows by offset."""
    paging: Paging = parse_paging(request)
    shown = rows[paging.offset : paging.offset + paging.per_page]
    chunks = [encode(shape(row)) for row in shown]
    return page(forge, request, chunks, offset_headers(request, paging, len(rows)))


def spend(forge: View) -> tuple[dict[str, str], bool]:
    """Take one request from this world-minute's budget: the headers to send, and whether it was there."""
    if forge.rate_limit is None:
        return {}, True
    now_us = forge.world.clock.now_us
    minute = now_us // MINUTE_US
    used = forge.spent[1] + 1 if forge.spent[0] == minute else 1
    forge.spent = (minute, used)
    reset_us = (minute + 1) * MINUTE_US
    headers = {
        "ratelimit-limit": str(forge.rate_limit),
        "ratelimit-observed": str(used),
        "ratelimit-remaining": str(max(0, forge.rate_limit - used)),
        "ratelimit-reset": str(reset_us // SECOND_US),
    }
    if used > forge.rate_limit:
        headers["retry-after"] = str(max(1, -(-(reset_us - now_us) // SECOND_US)))
        return headers, False
    return headers, True
