"""The webhooks that were installed on a simulated forge, and what became of their deliveries.

Owns the rows. Secrets are kept for signing and never shown. `hooks.HookSender` delivers to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_KEPT = 100


@dataclass
class Sent:
    """One delivery: its event, its id, the status it was answered (0 for none), and when it was sent."""

    event: str
    delivery_id: str
    status: int
    at_us: int


@dataclass
class Installed:
    """One webhook. `fields` are what the forge shows of it."""

    id: int
    url: str
    secret: str
    fields: dict[str, Any]
    sent: list[Sent] = field(default_factory=list)


class InstalledHooks:
    """The webhooks of all projects of one forge, by the number of the project."""

    def __init__(self) -> None:
        self._rows: dict[int, dict[int, Installed]] = {}
        self._last = 500

    def of(self, project_id: int) -> list[Installed]:
        """The webhooks of a project, oldest first."""
        return list(self._rows.get(project_id, {}).values())

    def find(self, project_id: int, hook_id: int) -> Installed | None:
        """One webhook, if it exists."""
        return self._rows.get(project_id, {}).get(hook_id)

    def add(self, project_id: int, url: str, secret: str, fields: Mapping[str, Any]) -> Installed:
        """Install a webhook."""
        self._last += 1
        made = self._rows.setdefault(project_id, {})[self._last] = Installed(self._last, url, secret, dict(fields))
        return made

    @staticmethod
    def record(hook: Installed, sent: Sent) -> None:
        """Keep a delivery, the newest first."""
        hook.sent.insert(0, sent)
        del hook.sent[MOST_KEPT:]
