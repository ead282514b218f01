"""GitHub Apps on the simulated GitHub: who presents a claim, which installation it opens, and for how long.

Owns the installation tokens and the shape a claim must have. It holds no key and verifies no signature: what a
client signs with is its own affair. Invariant: a token opens nothing after its end.
"""

from __future__ import annotations

import base64
import json
import random
import string
from dataclasses import dataclass, field
from typing import Any

from tidelore_world.clock import SECOND_US, WorldClock, iso_seconds
from tidelore_world.github.failure import ApiFailure, not_found
from tidelore_world.github.settings import GitHubSettings
from tidelore_world.wire import Request, Response, json_response

_LONGEST_CLAIM_S = 660
_ALPHABET = string.ascii_letters + string.digits


@dataclass(slots=True)
class App:
    """A GitHub App; its installations are named by number."""

    id: int
    slug: str
    installations: set[int] = field(default_factory=set)


class Apps:
    """All Apps, and the tokens of their installations."""

    def __init__(self, clock: WorldClock, settings: GitHubSettings, rng: random.Random) -> None:
        self._clock = clock
        self._settings = settings
        self._rng = rng
        self._apps: dict[int, App] = {}
        self._ends_us: dict[str, int] = {}
        self.issued = 0

    def register(self, app_id: int, slug: str, *installations: int) -> None:
        """Make an App known, with its installations."""
        self._apps[app_id] = App(app_id, slug, set(installations))

    def is_installation(self, token: str) -> bool:
        """Whether a token was issued to an installation."""
        return token in self._ends_us

    def has_ended(self, token: str) -> bool:
        """Whether a token was one and is none any more."""
        return self._ends_us.get(token, self._clock.now_us + 1) <= self._clock.now_us

    def app(self, request: Request) -> Response:
        """`GET /app`."""
        app = self._presented(request)
        return json_response({"id": app.id, "slug": app.slug, "name": app.slug, "permissions": {"issues": "write"}})

    def access_token(self, request: Request, installation: int) -> Response:
        """`POST /app/installations/{id}/access_tokens`."""
        app = self._presented(request)
        if installation not in app.installations:
            raise not_found()
        token = "ghs_" + "".join(self._rng.choices(_ALPHABET, k=36))
        ends_us = self._clock.now_us + round(self._settings.installation_token_seconds * SECOND_US)
        self._ends_us[token] = ends_us
        self._settings.tokens[token] = f"{app.slug}[bot]"
        self.issued += 1
        return json_response(
            {"token": token, "expires_at": iso_seconds(ends_us), "permissions": {"issues": "write"}}, 201
        )

    def _presented(self, request: Request) -> App:
        """The App a request claims to be; refuses what is no claim."""
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        head, claim = _decode(text)
        if scheme.lower() != "bearer" or head.get("alg") != "RS256" or not _is_timely(claim):
            raise ApiFailure(401, "A JSON web token could not be decoded")
        issuer = str(claim.get("iss", ""))
        app = self._apps.get(int(issuer)) if issuer.isascii() and issuer.isdigit() else None
        if app is None:
            raise ApiFailure(401, "Integration not found")
        return app


def _decode(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    parts = text.split(".")
    if len(parts) != 3 or not parts[2]:
        return {}, {}
    try:
        head, claim = (json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in parts[:2])
        base64.urlsafe_b64decode(parts[2] + "=" * (-len(parts[2]) % 4))
    except ValueError:
        return {}, {}
    return (head, claim) if isinstance(head, dict) and isinstance(claim, dict) else ({}, {})


def _is_timely(claim: dict[str, Any]) -> bool:
    """A claim tells when it begins and ends, ten minutes apart at most, and a minute for clocks that differ."""
    issued, ends = claim.get("iat"), claim.get("exp")
    return isinstance(issued, int) and isinstance(ends, int) and 0 < ends - issued <= _LONGEST_CLAIM_S
