"""The way of one request through the simulated GitHub: token, limits, handler, ETag, headers.

Owns what every answer has in common. Refuses to know single routes. Invariants: an ETag belongs to the full
address and the caller, never to another page; a 304 to a caller with a token is free of the primary limit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlencode

from tidelore_world.clock import iso_seconds
from tidelore_world.faults import SimulatedTimeout
from tidelore_world.github.apps import Apps
from tidelore_world.github.failure import ApiFailure
from tidelore_world.github.limits import Limits, Resource
from tidelore_world.github.settings import GitHubSettings
from tidelore_world.wire import Request, Response

LOST_SECONDS = 60.0
_WRITES = frozenset({"POST", "PATCH", "PUT", "DELETE"})


@dataclass(frozen=True, slots=True)
class Desk:
    """Serves requests one at a time."""

    settings: GitHubSettings
    limits: Limits
    apps: Apps

    def serve_graphql(self, request: Request, handler: Callable[[], Response]) -> Response:
        """Answer a GraphQL request: it has a budget of its own, which the handler keeps, and nothing is conditional."""
        caller = token_of(request)
        if caller and (caller in self.settings.bad_tokens or self.apps.has_ended(caller)):
            return self._finish(ApiFailure(401, "Bad credentials").response(), "", "graphql")
        if not caller and self.settings.require_token:
            failure = ApiFailure(401, "This endpoint requires you to be authenticated.")
            return self._finish(failure.response(), "", "graphql")
        banned = self.limits.ban_refusal(caller, creates=False)
        return self._finish(self._attempt(handler) if banned is None else banned, caller, "graphql")

    def serve(self, request: Request, handler: Callable[[], Response], *, free: bool = False) -> Response:
        """Answer a request; a free one is outside the primary limit."""
        caller = token_of(request)
        creates = request.method == "POST"
        if caller and (caller in self.settings.bad_tokens or self.apps.has_ended(caller)):
            return self._finish(ApiFailure(401, "Bad credentials").response(), "")
        if free:
            return self._finish(self._attempt(handler), caller)
        refused = self.limits.refusal(caller, creates=creates)
        if refused is not None:
            return self._finish(refused, caller)
        response = self._attempt(handler)
        if request.method == "GET" and response.status == 200:
            response = _conditional(request, caller, response)
        if response.status != 304 or not caller:
            self.limits.charge(caller, creates=creates)
        if request.method in _WRITES and response.status < 300 and self.settings.lost_answers > 0:
            self.settings.lost_answers -= 1
            raise SimulatedTimeout(LOST_SECONDS)
        return self._finish(response, caller)

    def acting_login(self, request: Request) -> str:
        """The login a request acts for; refuses a request without a token where one is required."""
        token = token_of(request)
        if not token and self.settings.require_token:
            raise ApiFailure(401, "Requires authentication")
        return self.login(request)

    def login(self, request: Request) -> str:
        """The login a request acts for; nothing is refused."""
        return self.settings.tokens.get(token_of(request), self.settings.viewer)

    def _finish(self, response: Response, caller: str, resource: Resource = "core") -> Response:
        response.headers |= self.limits.headers(caller, resource)
        if resource == "core":
            response.headers.setdefault("x-github-api-version-selected", "2022-11-28")
        response.headers.setdefault("x-github-media-type", f"github.v{3 if resource == 'core' else 4}; format=json")
        if caller and not self.apps.is_installation(caller):
            response.headers |= self._of_the_token()
        return response

    def _of_the_token(self) -> dict[str, str]:
        """What every answer tells a person of the token that was sent."""
        told = {} if self.settings.scopes is None else {"x-oauth-scopes": self.settings.scopes}
        ends_us = self.settings.token_expires_us
        if ends_us is not None:
            zone = "+0000" if self.settings.token_expiration_offset else "UTC"
            told["github-authentication-token-expiration"] = f"{iso_seconds(ends_us)[:19].replace('T', ' ')} {zone}"
        return told

    @staticmethod
    def _attempt(handler: Callable[[], Response]) -> Response:
        try:
            return handler()
        except ApiFailure as failure:
            return failure.response()


def token_of(request: Request) -> str:
    """The token of a request, or the empty text."""
    return request.headers.get("authorization", "").partition(" ")[2].strip()


def _conditional(request: Request, caller: str, response: Response) -> Response:
    address = f"{request.path}?{urlencode(request.query, doseq=True)}\n{caller}\n"
    digest = hashlib.sha256(address.encode())
    digest.update(response.body)
    etag = f'W/"{digest.hexdigest()}"'
    headers = {
        "etag": etag,
        "cache-control": "private, max-age=60, s-maxage=60",
        "vary": "Accept, Authorization, Cookie",
    }
    asked = {part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")}
    if etag.removeprefix("W/") in asked:
        return Response(304, headers)
    response.headers |= headers
    return response
