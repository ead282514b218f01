"""What goes over the simulator's wire: requests and responses, free of any server or client library.

Owns the two value types every simulated forge speaks, and small builders for them. Refuses to know
who serves them: the same `handle(request) -> response` answers a socket and an in-process test.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request. Header names are lower case; `path` is still percent-encoded, without the query."""

    method: str
    path: str
    query: Mapping[str, list[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @classmethod
    def build(cls, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Request:
        """Build a request from a target such as `/api/v4/projects?page=2`."""
        parts = urlsplit(target)
        lowered = {name.lower(): value for name, value in (headers or {}).items()}
        return cls(method.upper(), parts.path, parse_qs(parts.query, keep_blank_values=True), lowered, body)

    @property
    def segments(self) -> tuple[str, ...]:
        """The decoded path segments: `/projects/a%2Fb/issues` gives ('projects', 'a/b', 'issues')."""
        return tuple(unquote(part) for part in self.path.strip("/").split("/"))

    def first(self, name: str, default: str | None = None) -> str | None:
        """Return the first value of a query parameter."""
        values = self.query.get(name)
        return values[0] if values else default

    @property
    def origin(self) -> str:
        """Scheme and host as the client addressed us, for building absolute links."""
        return f"http://{self.headers.get('host', '127.0.0.1')}"


@dataclass(slots=True)
class Response:
    """One HTTP response. A server may still add `date` and `content-length`."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Encode a value as a JSON response."""
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return Response(status, {"content-type": "application/json", **(headers or {})}, body)
