"""What a fault does to an answer: refusals, cuts, foreign bodies, rows repeated, malformed or spoiled.

Owns the damage as functions from response to response. Refuses to decide when it strikes (`faults`).
Invariant: a function that finds nothing to damage returns None, and a damaged body never keeps the ETag of
the good one, so a client cannot pin the damage by a conditional request.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidelore_world.clock import SECOND_US
from tidelore_world.wire import Response, json_response

TRANSIENT_STATUSES = (429, 403, 500, 502, 503)
BAD_TIMESTAMP = "not-a-date"

_IDENTITIES = ("uri", "url", "web_url", "id")
_TIMESTAMPS = ("updated_at", "indexedAt", "createdAt")
_PHRASES = {401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 429: "Too Many Requests"}
_HTML = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>Please sign in.</body></html>"


class Broken(Exception):
    """The request gets no response at all."""


class SimulatedTimeout(Broken):
    """The server holds the connection and never answers; `seconds` is how long a real server holds it."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no response within {seconds} s")
        self.seconds = seconds


class SimulatedDisconnect(Broken):
    """The server drops the connection without an answer."""


@dataclass(slots=True)
class SlowResponse(Response):
    """A good response that a server sends late; in process the delay is only a number."""

    delay_seconds: float = 0.0


def refusal(rng: random.Random, options: Mapping[str, Any], now_us: int) -> Response:
    """An error status; `status` may be several to draw from, `rate_limited` adds the limit headers."""
    wanted = options.get("status", 500)
    status = wanted if isinstance(wanted, int) else rng.choice(list(wanted))
    headers = dict(options.get("headers", {}))
    wait = options.get("retry_after")
    if options.get("rate_limited", (status in (403, 429) and wait is not None) or status == 429):
        reset = str(-(-now_us // SECOND_US) + int(wait or 60))
        for name, value in (("limit", "600"), ("remaining", "0"), ("reset", reset)):
            headers |= {f"ratelimit-{name}": value, f"x-ratelimit-{name}": value}
    if wait is not None:
        headers["retry-after"] = str(wait)
    text = options.get("message", f"{status} {_PHRASES.get(status, 'Server Error')}")
    return json_response({"message": text}, status, headers)


def cut(response: Response, mode: str) -> Response | None:
    """Lose the second half: `length` keeps announcing the whole, `json` announces only what is sent."""
    if response.status != 200 or len(response.body) < 2:
        return None
    half = response.body[: len(response.body) // 2]
    length = len(response.body) if mode == "length" else len(half)
    return Response(200, _headers(response) | {"content-length": str(length)}, half)


def foreign_body(response: Response) -> Response | None:
    """A sign-in page with status 200, as a proxy in the way would send."""
    if response.status != 200:
        return None
    return Response(200, {"content-type": "text/html; charset=utf-8"}, _HTML)


def delay(response: Response, seconds: float) -> Response | None:
    """The same answer, late; the agreement to another protocol is never late."""
    if response.status == 101:
        return None
    return SlowResponse(response.status, response.headers, response.body, seconds)


def repeat(response: Response, previous: bytes | None, count: int) -> Response | None:
    """Show the last rows of the page before at the start of this one."""
    payload, rows = _parse(response)
    before = rows_of(json.loads(previous)) if previous else None
    if rows is None or not before:
        return None
    rows[:0] = before[-count:]
    return _replace(response, payload)


def malform(response: Response, rng: random.Random, shape: str | None) -> Response | None:
    """Turn one row into null, into a string, or take its id."""
    payload, rows = _parse(response)
    if not rows:
        return None
    place = rng.randrange(len(rows))
    chosen = shape or rng.choice(("null", "string", "no_id"))
    if chosen == "no_id" and isinstance(rows[place], dict):
        rows[place] = {name: value for name, value in rows[place].items() if name not in _IDENTITIES}
    else:
        rows[place] = None if chosen == "null" else "unexpected"
    return _replace(response, payload)


def choose_row(response: Response, rng: random.Random) -> str | None:
    """The identity of one row of this page that has a timestamp to spoil."""
    rows = _parse(response)[1] or []
    names = [identity(row) for row in rows if isinstance(row, dict) and _timestamp_home(row)]
    known = [name for name in names if name is not None]
    return rng.choice(known) if known else None


def spoil(response: Response, spoiled: Mapping[str, str]) -> Response | None:
    """Show an unreadable timestamp in every spoiled object of this answer, list row or single object."""
    payload, rows = _parse(response)
    objects = rows if rows is not None else [payload]
    hit = False
    for row in objects:
        if isinstance(row, dict) and identity(row) in spoiled:
            home = _timestamp_home(row)
            if home is not None:
                home[0][home[1]] = spoiled[identity(row) or ""]
                hit = True
    return _replace(response, payload) if hit else None


def rows_of(payload: Any) -> list[Any] | None:
    """The rows of a list answer: the array itself, or the first array of an object."""
    if isinstance(payload, list):
        return payload
    if isinstance(payload, dict) and identity(payload) is None:
        return next((value for value in payload.values() if isinstance(value, list)), None)
    return None


def identity(row: Mapping[str, Any]) -> str | None:
    """What names an object in whichever answer shows it."""
    for holder in (row, row.get("post")):
        for name in _IDENTITIES:
            if isinstance(holder, Mapping) and holder.get(name) is not None:
                return f"{name}:{holder[name]}"
    return None


def _timestamp_home(row: dict[str, Any]) -> tuple[dict[str, Any], str] | None:
    for holder in (row, row.get("post"), row.get("value")):
        for name in _TIMESTAMPS:
            if isinstance(holder, dict) and name in holder:
                return holder, name
    return None


def _parse(response: Response) -> tuple[Any, list[Any] | None]:
    if response.status != 200 or "json" not in response.headers.get("content-type", ""):
        return None, None
    payload = json.loads(response.body)
    if response.headers.get("x-github-media-type", "").startswith("github.v4"):
        return payload, _nodes_of(payload)
    return payload, rows_of(payload)


def _nodes_of(payload: Any) -> list[Any] | None:
    """The outermost `nodes` of a GraphQL answer; None when it has none."""
    if not isinstance(payload, dict):
        return None
    nodes = payload.get("nodes")
    if isinstance(nodes, list):
        return nodes
    inside = (_nodes_of(value) for value in payload.values())
    return next((found for found in inside if found is not None), None)


def _replace(response: Response, payload: Any) -> Response:
    body = json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
    return Response(response.status, _headers(response), body)


def _headers(response: Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name != "etag"}
