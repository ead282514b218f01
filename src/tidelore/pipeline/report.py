"""What a run did, scope by scope. Owns the shape of reports and the verdict over them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from tidelore.engine.intake import Tally
from tidelore.errors import PartialSuccess, TideloreError
from tidelore.store.parents import LinkCounts


class ScopeReport(Struct):
    """One scope of a run."""

    source: str
    surface: str
    configured: str
    project: str
    tally: Tally = field(default_factory=Tally)
    links: LinkCounts = field(default_factory=LinkCounts)
    error: TideloreError | None = None


class RunReport(Struct):
    """One whole run."""

    run_id: int
    scopes: list[ScopeReport] = field(default_factory=list)
    scrubbed: list[ScopeReport] = field(default_factory=list)
    requests: int = 0
    seconds: float = 0.0
    taken_over: str | None = None
    crashed_runs: list[int] = field(default_factory=list)


def verdict(scopes: Sequence[ScopeReport]) -> TideloreError | None:
    """Return the error a run as a whole ends with, if any: its own when all failed alike, else a partial one."""
    failed = [scope for scope in scopes if scope.error is not None]
    errors = [scope.error for scope in failed if scope.error is not None]
    if not errors:
        return None
    if len(failed) == len(scopes) and len({type(error) for error in errors}) == 1:
        return errors[0]
    return PartialSuccess(
        f"{len(failed)} of {len(scopes)} lists could not be read; the others are stored",
        fix=errors[0].fix or "run the command again; `lore sync-status` shows what is behind",
        failed=[
            {
                "project": scope.project,
                "surface": scope.surface,
                "code": scope.error.code,
                "message": scope.error.message,
            }
            for scope in failed
            if scope.error is not None
        ],
    )
