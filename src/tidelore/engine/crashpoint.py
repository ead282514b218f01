"""Names of the points at which crash tests kill the process. Production passes `no_seam`.

The crash tests pass a function that kills the process at the n-th visit of one seam, restart it, and compare the
database with the expected state (invariant 2).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Seam(StrEnum):
    """A crash point: lies between two durable writes."""

    LEASE_ACQUIRED = "lease-acquired"
    RUN_STARTED = "run-started"
    PROJECT_RESOLVED = "project-resolved"
    AFTER_PREFLIGHT = "after-preflight"
    AFTER_FETCH = "after-fetch"
    BEFORE_COMMIT = "before-commit"
    INSIDE_COMMIT = "inside-commit"
    AFTER_COMMIT = "after-commit"
    BEFORE_POST = "before-post"
    AFTER_POST = "after-post"
    SCOPE_DONE = "scope-done"
    DOCUMENTS = "documents"
    LEASE_RELEASED = "lease-released"
    BEFORE_FINISH = "before-finish"
    AFTER_FINISH = "after-finish"


Crashpoint = Callable[[Seam], None]


def no_seam(_seam: Seam) -> None:
    """Do nothing."""
