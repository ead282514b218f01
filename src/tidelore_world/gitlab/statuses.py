"""The statuses an issue can be in: GitLab's five system-defined ones, and which one an issue shows.

Owns the list and the fallback by state. Refuses to change an issue (`issues`) or to answer a query (`graphql`).
Invariant: a status that closes is shown on closed issues only, one that does not on open issues only.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelore_world.gitlab.state import Issue, State


@dataclass(frozen=True, slots=True)
class Status:
    """One status, in the names GraphQL gives its fields."""

    number: int
    name: str
    category: str
    color: str
    icon_name: str

    @property
    def state(self) -> State:
        """The state an issue takes with this status."""
        return "closed" if self.category in ("done", "canceled") else "opened"


STATUSES = (
    Status(1, "To do", "to_do", "#737278", "status-waiting"),
    Status(2, "In progress", "in_progress", "#1f75cb", "status-running"),
    Status(3, "Done", "done", "#108548", "status-success"),
    Status(4, "Won't do", "canceled", "#DD2B0E", "status-cancelled"),
    Status(5, "Duplicate", "canceled", "#DD2B0E", "status-cancelled"),
)
_TYPES_WITH_STATUS = frozenset({"issue", "task"})


def status_named(name: str) -> Status:
    """Find a status; case does not matter."""
    for status in STATUSES:
        if status.name.casefold() == name.casefold():
            return status
    known = ", ".join(status.name for status in STATUSES)
    raise ValueError(f"no status {name!r}; known: {known}")


def shown_status(issue: Issue) -> Status | None:
    """The status an issue shows: the one set, else its state's default; an incident has none."""
    if issue.issue_type not in _TYPES_WITH_STATUS:
        return None
    if issue.status is not None:
        return status_named(issue.status)
    return status_named("Done" if issue.state == "closed" else "To do")
