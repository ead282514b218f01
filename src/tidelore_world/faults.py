"""What can go wrong on the way: a plan of faults that strike chosen requests a chosen number of times.

Owns when a fault strikes and counts how often it did. What it does to a response lives in `damage`.
Refuses to know any forge. Invariant: a fault counts as fired only if it really changed what the client sees
or what the world holds, so a test that asserts `fault.fired` cannot pass on a fault that never happened.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from tidelore_world import damage
from tidelore_world.damage import Broken, SimulatedDisconnect, SimulatedTimeout
from tidelore_world.streaming import Upgrade
from tidelore_world.wire import Request, Response

Kind = Literal[
    "status",
    "timeout",
    "disconnect",
    "truncated",
    "not_json",
    "duplicate",
    "edit_between",
    "delete_between",
    "invalid_timestamp",
    "malformed_item",
    "slow",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
_REFUSALS = ("timeout", "disconnect", "status")
_DISTURBANCES = ("edit_between", "delete_between")
_NEEDS_PREVIOUS_PAGE = ("duplicate", *_DISTURBANCES)

Handler = Callable[[], Response]


@runtime_checkable
class Disturbable(Protocol):
    """A forge that can change one of its listed rows between two pages."""

    def disturb(self, request: Request, row: Mapping[str, Any], change: Literal["edit", "delete"]) -> bool:
        """Edit or delete the object a list row shows; False when it cannot."""


@runtime_checkable
class Aliased(Protocol):
    """A forge that answers the same request under two paths."""

    def other_path(self, request: Request) -> str | None:
        """Return the other path of a request, or None when it has only one."""


@dataclass(slots=True)
class Fault:
    """One planned fault: which requests it strikes, how often, and what it does."""

    kind: Kind
    route: str | re.Pattern[str] | None = None
    times: int | None = 1
    after: int = 0
    chance: float = 1.0
    options: dict[str, Any] = field(default_factory=dict)
    fired: int = 0
    passed: int = 0

    @property
    def spent(self) -> bool:
        """Whether it has struck as often as planned."""
        return self.times is not None and self.fired >= self.times

    def matches(self, name: str, request: Request, other_path: str | None = None) -> bool:
        """A string is a prefix, a pattern is searched; both in the route's name and in `METHOD /path`, either path."""
        if self.route is None:
            return True
        texts = [name, name.partition(" ")[2]]
        for path in (request.path, other_path):
            texts += [] if path is None else [f"{request.method} {path}", path]
        if isinstance(self.route, str):
            return any(text.startswith(self.route) for text in texts)
        return any(self.route.search(text) for text in texts)


class FaultPlan:
    """The faults of one world, in the order they were added; at most one strikes a request."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.faults: list[Fault] = []
        self._served: dict[str, bytes] = {}
        self._spoiled: dict[str, str] = {}

    @classmethod
    def random(
        cls,
        rng: random.Random,
        rate: float,
        kinds: Sequence[Kind] = KINDS,
        *,
        times: int | None = None,
        route: str | re.Pattern[str] | None = None,
    ) -> FaultPlan:
        """A plan in which about `rate` of all requests meet a fault, of kinds drawn evenly."""
        plan = cls(rng)
        for kind in kinds:
            fault = plan.add(kind, route, times, chance=rate / len(kinds))
            if kind == "status":
                fault.options |= {"status": damage.TRANSIENT_STATUSES, "retry_after": 1}
        return plan

    def add(
        self,
        kind: Kind,
        route: str | re.Pattern[str] | None = None,
        times: int | None = 1,
        after: int = 0,
        *,
        chance: float = 1.0,
        **options: Any,
    ) -> Fault:
        """Plan a fault: skip the first `after` matching requests, then strike `times` (None: for ever)."""
        if kind not in KINDS:
            raise ValueError(f"unknown fault {kind!r}; known: {', '.join(KINDS)}")
        fault = Fault(kind, route, times, after, chance, options)
        self.faults.append(fault)
        return fault

    def clear(self) -> None:
        """Drop every fault and heal every object whose timestamp was spoiled."""
        self.faults.clear()
        self._spoiled.clear()
        self._served.clear()

    def fired(self) -> int:
        """How often any fault has struck."""
        return sum(fault.fired for fault in self.faults)

    def answer(self, name: str, request: Request, handler: Handler, forge: object, now_us: int) -> Response:
        """Answer a request through the plan."""
        fault = self._due(name, request, forge.other_path(request) if isinstance(forge, Aliased) else None)
        if fault is not None:
            if fault.kind in _REFUSALS and "events" not in fault.options:
                fault.fired += 1
                return self._refuse(fault, now_us)
            if fault.kind in _DISTURBANCES:
                fault.fired += self._disturb(fault.kind, request, forge)
        response = handler()
        if fault is not None and isinstance(response, Upgrade):
            return _cut_later(fault, response)
        whole = response.body if response.status == 200 else None
        if self._spoiled:
            response = damage.spoil(response, self._spoiled) or response
        if fault is not None and fault.kind not in _DISTURBANCES:
            damaged = self._damage(fault, request, response)
            fault.fired += damaged is not None
            response = damaged or response
        if whole is not None and any(fault.kind in _NEEDS_PREVIOUS_PAGE for fault in self.faults):
            self._served[request.path] = whole
        return response

    def _due(self, name: str, request: Request, other_path: str | None) -> Fault | None:
        due: Fault | None = None
        for fault in self.faults:
            if fault.spent or not fault.matches(name, request, other_path):
                continue
            if fault.passed < fault.after:
                fault.passed += 1
            elif due is None and (fault.chance >= 1.0 or self._rng.random() < fault.chance):
                due = fault
        return due

    def _refuse(self, fault: Fault, now_us: int) -> Response:
        if fault.kind == "timeout":
            raise SimulatedTimeout(float(fault.options.get("seconds", 30.0)))
        if fault.kind == "disconnect":
            raise SimulatedDisconnect("connection dropped")
        return damage.refusal(self._rng, fault.options, now_us)

    def _disturb(self, kind: Kind, request: Request, forge: object) -> bool:
        """Change a row of the page served before this one; the first page of a list cannot be disturbed."""
        previous = self._served.get(request.path)
        rows = damage.rows_of(json.loads(previous)) if previous else None
        known = [row for row in rows or [] if isinstance(row, dict)]
        if not known or not isinstance(forge, Disturbable):
            return False
        return forge.disturb(request, self._rng.choice(known), "edit" if kind == "edit_between" else "delete")

    def _damage(self, fault: Fault, request: Request, response: Response) -> Response | None:
        options = fault.options
        match fault.kind:
            case "truncated":
                return damage.cut(response, str(options.get("mode", "length")))
            case "not_json":
                return damage.foreign_body(response)
            case "duplicate":
                return damage.repeat(response, self._served.get(request.path), int(options.get("count", 1)))
            case "malformed_item":
                return damage.malform(response, self._rng, options.get("shape"))
            case "slow":
                return damage.delay(response, float(options.get("seconds", 1.0)))
            case _:
                return self._spoil(response)

    def _spoil(self, response: Response) -> Response | None:
        """Spoil one more object for good: every later answer shows it so, until the plan is cleared."""
        chosen = damage.choose_row(response, self._rng)
        if chosen is None:
            return None
        self._spoiled[chosen] = damage.BAD_TIMESTAMP
        return damage.spoil(response, self._spoiled)


def _cut_later(fault: Fault, response: Upgrade) -> Upgrade:
    """Let a stream break after so many `events`; only then has the fault struck."""

    def strike() -> None:
        fault.fired += 1

    if fault.kind == "disconnect" and response.subscription is not None:
        response.subscription.cut_after(int(fault.options["events"]), strike)
    return response


__all__ = ["KINDS", "Broken", "Disturbable", "Fault", "FaultPlan", "SimulatedDisconnect", "SimulatedTimeout"]
