"""One mirroring run: the lists, then the share that is spent on verification, then the verdict.

Owns the order of stages inside a run and what its ledger row says at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from tidelore.engine.intake import Tally
from tidelore.pipeline.ingest import Target, ingest
from tidelore.pipeline.report import RunReport
from tidelore.pipeline.scrub import candidate, scrub, scrub_budget
from tidelore.pipeline.session import Workshop, open_session
from tidelore.sources.http import RequestMetric


class MirrorRequest(Struct, frozen=True):
    """What a mirroring command was asked to do. Without `walk` only verification is done."""

    resources: tuple[str, ...]
    project: str | None = None
    full: bool = False
    force: bool = False
    walk: bool = True
    scrub_budget: int | None = None


class RequestCount:
    """Counts requests as they go over the wire, retries included."""

    def __init__(self) -> None:
        self.total = 0

    def __call__(self, _metric: RequestMetric) -> None:
        self.total += 1


async def mirror(
    shop: Workshop,
    targets: Sequence[Target],
    request: MirrorRequest,
    count: RequestCount,
    on_page: Callable[[Target, Tally], None],
) -> RunReport:
    """Bring the chosen lists up to date and report."""
    started = shop.clock.monotonic()
    note = "full: cursors reset by the operator" if request.full else None
    async with open_session(shop, force=request.force, note=note) as session:
        report = RunReport(session.run.id, taken_over=session.lease.taken_as, crashed_runs=session.crashed_runs)
        # Before the walk: what it completes for the first time is verified by that.
        turns = [turn for target in targets if (turn := candidate(session, target)) is not None]
        if request.walk:
            report.scopes = await ingest(session, targets, full=request.full, on_page=on_page)
        failed = {(scope.source, scope.configured) for scope in report.scopes if scope.error is not None}
        turns = [turn for turn in turns if (turn.target.source.name, turn.target.configured) not in failed]
        session.run.set_phase("scrub")
        budget = request.scrub_budget
        if budget is None:
            budget = scrub_budget(count.total, shop.config.sync.scrub_share)
        report.scrubbed = await scrub(session, turns, budget, lambda: count.total)
        report.requests = session.counters.requests = count.total
        errors = [scope.error for scope in (*report.scopes, *report.scrubbed) if scope.error is not None]
        session.warnings = len(errors)
        if report.scopes and all(scope.error is not None for scope in report.scopes):
            session.error = errors[0].message
    report.seconds = shop.clock.monotonic() - started
    return report
