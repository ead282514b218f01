"""GitHub's rate limits: the hourly primary ones per caller for REST and GraphQL, and those for bursts of new content.

Owns who has used what. Refuses to know routes. Invariant: `remaining` never shows a request that was not
charged, so a 304 that is free leaves every header as it was.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from tidelore_world.clock import SECOND_US, WorldClock
from tidelore_world.github.settings import GitHubSettings
from tidelore_world.wire import Response, json_response

_HOUR_S = 3600
_MINUTE_S = 60
Resource = Literal["core", "graphql"]
_DOCS = "https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api"


@dataclass(slots=True)
class _Purse:
    reset_s: int = 0
    used: int = 0
    points: int = 0
    created: deque[int] = field(default_factory=deque)


@dataclass(slots=True)
class _Ban:
    """A secondary limit imposed by a test for a number of requests."""

    requests: int
    retry_after: int | None
    status: int
    writes_only: bool


class Limits:
    """The budgets of all callers; a caller is its token, or the empty text without one."""

    def __init__(self, clock: WorldClock, settings: GitHubSettings) -> None:
        self._clock = clock
        self._settings = settings
        self._purses: dict[str, _Purse] = {}
        self._ban: _Ban | None = None

    def impose_secondary(
        self, requests: int = 1, retry_after: int | None = 60, status: int = 403, *, writes_only: bool = False
    ) -> None:
        """Answer the next requests with a secondary limit; `retry_after=None` sends no such header.

        With `writes_only`, reads pass meanwhile: the limit on new content.
        """
        self._ban = _Ban(requests, retry_after, status, writes_only)

    def spend(self, caller: str, requests: int) -> None:
        """Use up budget without sending the requests."""
        self._purse(caller).used += requests

    def refusal(self, caller: str, *, creates: bool) -> Response | None:
        """The answer to a caller who may not go on; None when the request may be served."""
        banned = self.ban_refusal(caller, creates=creates)
        if banned is not None:
            return banned
        if self._left(caller) <= 0:
            return self._refuse("API rate limit exceeded for this caller.", self._settings.primary_status, caller)
        return self.creation_refusal(caller) if creates else None

    def ban_refusal(self, caller: str, *, creates: bool) -> Response | None:
        """The answer to a caller while a test imposes a secondary limit."""
        if self._ban is not None and (creates or not self._ban.writes_only):
            return self._banned(self._ban, caller)
        return None

    def points_left(self, caller: str) -> int:
        """How many GraphQL points a caller may still spend in this hour."""
        return self.graphql(caller)["remaining"]

    def charge_points(self, caller: str, points: int) -> None:
        """Count the cost of a GraphQL query."""
        self._purse(caller).points += points

    def charge_creation(self, caller: str) -> None:
        """Count something new that was created by GraphQL."""
        self._purse(caller).created.append(self._now_s())

    def charge(self, caller: str, *, creates: bool) -> None:
        """Count a served request."""
        purse = self._purse(caller)
        purse.used += 1
        if creates:
            purse.created.append(self._now_s())

    def headers(self, caller: str, resource: Resource = "core") -> dict[str, str]:
        """The `x-ratelimit-*` headers of a caller; none where nothing is limited."""
        if not self._settings.rate_limits:
            return {}
        budget = self.core(caller) if resource == "core" else self.graphql(caller)
        shown = {f"x-ratelimit-{name}": str(value) for name, value in budget.items()}
        return shown | {"x-ratelimit-resource": resource}

    def graphql(self, caller: str) -> dict[str, int]:
        """The caller's budget of GraphQL points as `/rate_limit` shows it."""
        purse, limit = self._purse(caller), self._settings.graphql_limit
        most, used = (5000, 0) if limit is None else (limit, purse.points)
        return {"limit": most, "used": min(used, most), "remaining": max(0, most - used), "reset": purse.reset_s}

    def core(self, caller: str) -> dict[str, int]:
        """The caller's primary budget as `/rate_limit` shows it."""
        purse, limit = self._purse(caller), self._limit(caller)
        used = purse.used if self._enforced(caller) else 0
        return {
            "limit": limit,
            "used": min(used, limit),
            "remaining": max(0, limit - used),
            "reset": purse.reset_s,
        }

    def creation_refusal(self, caller: str) -> Response | None:
        """The answer to a caller who has created too much in too short a time."""
        created, now_s = self._purse(caller).created, self._now_s()
        while created and created[0] <= now_s - _HOUR_S:
            created.popleft()
        last_minute = sum(1 for at_s in created if at_s > now_s - _MINUTE_S)
        if len(created) >= self._settings.content_per_hour:
            return self._secondary(caller, created[0] + _HOUR_S - now_s, 403)
        if last_minute >= self._settings.content_per_minute:
            return self._secondary(caller, _MINUTE_S, 403)
        return None

    def _banned(self, ban: _Ban, caller: str) -> Response:
        ban.requests -= 1
        if ban.requests <= 0:
            self._ban = None
        return self._secondary(caller, ban.retry_after, ban.status)

    def _secondary(self, caller: str, retry_after: int | None, status: int) -> Response:
        message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
        response = self._refuse(message, status, caller)
        if retry_after is not None:
            response.headers["retry-after"] = str(retry_after)
        return response

    def _refuse(self, message: str, status: int, caller: str) -> Response:
        return json_response({"message": message, "documentation_url": _DOCS}, status, self.headers(caller))

    def _purse(self, caller: str) -> _Purse:
        purse = self._purses.setdefault(caller, _Purse())
        now_s = self._now_s()
        if purse.reset_s <= now_s:
            purse.reset_s, purse.used, purse.points = now_s + _HOUR_S, 0, 0
        return purse

    def _left(self, caller: str) -> int:
        return self._limit(caller) - self._purse(caller).used if self._enforced(caller) else 1

    def _enforced(self, caller: str) -> bool:
        return self._configured(caller) is not None

    def _limit(self, caller: str) -> int:
        limit = self._configured(caller)
        return 5000 if limit is None else limit

    def _configured(self, caller: str) -> int | None:
        return self._settings.primary_limit if caller else self._settings.anonymous_limit

    def _now_s(self) -> int:
        return self._clock.now_us // SECOND_US
