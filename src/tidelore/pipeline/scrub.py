"""The lists' part of verification. Owns the budget of a run and whose turn it is.

Least recently verified first. A scope that was mirrored for the first time in this run was verified by that; it
joins the round at the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from tidelore.core.errors import CredentialsRejected, RateLimited, RemoteError
from tidelore.engine.intake import Intake, Tally
from tidelore.engine.scrub import Scrub
from tidelore.pipeline.ingest import Target, shelf_for
from tidelore.pipeline.projects import find_chosen, reason_to_skip, resolve_project
from tidelore.pipeline.report import OnProgress, Progress, ScopeReport, silent
from tidelore.pipeline.slices import IsOver, never
from tidelore.session import Session


class Candidate(Struct, frozen=True):
    """A scope whose turn may have come."""

    target: Target
    verified_at: int
    under_way: bool


def scrub_budget(requests: int, share: float) -> int:
    """Return how many requests a run spends on scrubbing: a small share, at least one."""
    return max(1, int(requests * share)) if share > 0 else 0


def candidate(session: Session, target: Target) -> Candidate | None:
    """Return a target's place in the round, or None before its first mirror is complete."""
    if target.failure is not None:
        return Candidate(target, 0, under_way=True)
    project = find_chosen(session.shop.database, target.source.name, target.configured, target.listed)
    if project is None or reason_to_skip(session.shop.config, project) is not None:
        return None
    cursor = shelf_for(session, target, project).load()
    if not cursor.complete:
        return None
    return Candidate(target, cursor.census.verified_at or 0, cursor.census.after > 0)


async def scrub(
    session: Session,
    candidates: Sequence[Candidate],
    budget: int,
    requests: Callable[[], int],
    on_progress: OnProgress = silent,
    is_over: IsOver = never,
) -> list[ScopeReport]:
    """Verify scopes, the least recently verified first, until budget or time is spent or all have had a cycle."""
    reports: list[ScopeReport] = []
    stopped: set[str] = set()
    spent_before = requests()
    for turn in sorted(candidates, key=lambda turn: (turn.verified_at, not turn.under_way)):
        if requests() - spent_before >= budget or is_over():
            break
        target = turn.target
        if target.source.name in stopped:
            continue
        report = ScopeReport(target.source.name, target.surface, target.configured, target.configured)
        reports.append(report)
        if target.failure is not None:
            report.error = target.failure
            continue
        try:
            project = await resolve_project(session, target.source, target.configured, target.listed)
            report.project = project.path
            shelf, tell = shelf_for(session, target, project), _teller(project.path, target.resource, on_progress)
            intake = Intake(shelf, session.shop.clock.now_ms, session.shop.seam, tell)
            report.tally = intake.tally
            lister = target.source.listing(target.resource, project.remote_id, by_creation=True)
            work = Scrub(lister, intake)
            while not await work.stride() and requests() - spent_before < budget and not is_over():
                pass
            report.home, report.server_at = project, intake.server_at
        except RemoteError as error:
            report.error = error
            if isinstance(error, CredentialsRejected | RateLimited):
                stopped.add(target.source.name)
    return reports


def _teller(project: str, resource: str, on_progress: OnProgress) -> Callable[[Tally], None]:
    def tell(tally: Tally) -> None:
        on_progress(Progress(project, f"{resource} verified", tally.fetched, None, f"{tally.pages:,} pages"))

    return tell
