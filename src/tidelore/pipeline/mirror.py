"""One mirroring run: the lists, their children, the share that is spent on verification, documents, vectors.

Owns the order of stages inside a run and what its ledger row says at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct

from tidelore.pipeline.dependents import sync_children
from tidelore.pipeline.documents import make_documents
from tidelore.pipeline.ingest import Target, ingest
from tidelore.pipeline.report import EmbedReport, OnProgress, RunReport, ScopeReport
from tidelore.pipeline.scrub import candidate, scrub_budget
from tidelore.pipeline.statuses import StatusStage
from tidelore.pipeline.verification import verify
from tidelore.session import Session, Workshop, open_session
from tidelore.sources.governor import Budget
from tidelore.sources.http import RequestMetric


class MirrorRequest(Struct, frozen=True):
    """What a mirroring command was asked to do. Without `walk` only verification is done."""

    resources: tuple[str, ...]
    project: str | None = None
    full: bool = False
    force: bool = False
    walk: bool = True
    scrub_budget: int | None = None
    statuses: bool = True
    documents: bool = False


class RequestCount:
    """Counts requests as they go over the wire, retries included, and keeps what each server says is left."""

    def __init__(self) -> None:
        self.total = 0
        self.of_source: Counter[str] = Counter()
        self.budgets: dict[str, Budget] = {}

    def __call__(self, metric: RequestMetric) -> None:
        self.total += 1
        self.of_source[metric.source] += 1
        if metric.budget.remaining is not None:
            self.budgets[metric.source] = metric.budget


async def mirror(
    shop: Workshop,
    targets: Sequence[Target],
    request: MirrorRequest,
    count: RequestCount,
    on_progress: OnProgress,
    embed: Callable[[EmbedReport], Awaitable[None]] | None = None,
) -> RunReport:
    """Bring the chosen lists and their children up to date, verify a share of the copy, and report.

    `embed` comes last and without the lease, and writes down what it did as it goes.
    """
    started = shop.clock.monotonic()
    note = "full: cursors and watermarks reset by the operator" if request.full else None
    async with open_session(shop, force=request.force, note=note) as session:
        report = RunReport(session.run.id, taken_over=session.lease.taken_as, crashed_runs=session.crashed_runs)
        await _read(session, targets, request, count, report, on_progress)
        report.requests = session.counters.requests = count.total
        report.asked, report.budgets = dict(count.of_source), dict(count.budgets)
        _judge(session, report)
        if request.walk and session.error is None:
            session.run.set_mirrored()
        if request.documents:
            with _stage(session, report, "docs"):
                report.documents = await make_documents(session, on_progress)
        if embed is not None:
            await _embed(session, report, embed)
    report.seconds = shop.clock.monotonic() - started
    return report


def _judge(session: Session, report: RunReport) -> None:
    """Let the row say what could not be read; a run that could read none of its lists has failed."""
    errors = [scope.error for scope in (*report.scopes, *report.scrubbed) if scope.error is not None]
    session.warnings = len(errors) + sum(_failed_children(scope) for scope in report.scopes)
    session.counters.quarantined += sum(_quarantined_children(scope) for scope in report.scopes)
    if report.scopes and all(scope.error is not None for scope in report.scopes):
        session.error = errors[0].message


async def _embed(session: Session, report: RunReport, embed: Callable[[EmbedReport], Awaitable[None]]) -> None:
    made = report.embeddings = EmbedReport()
    session.give_back()
    with _stage(session, report, "embed"):
        try:
            await session.listen()
            await embed(made)
        finally:
            session.counters.docs_embedded += made.embedded
    session.warnings += made.notice is not None


async def _read(
    session: Session,
    targets: Sequence[Target],
    request: MirrorRequest,
    count: RequestCount,
    report: RunReport,
    on_progress: OnProgress,
) -> None:
    """Go through the stages that ask the forge."""
    shop = session.shop
    statuses = StatusStage(session, on_progress, wanted=request.statuses)
    began_at = shop.clock.now_ms()
    # Before the walk: what it completes for the first time is verified by that.
    turns = [turn for target in targets if (turn := candidate(session, target)) is not None]
    if request.walk:
        with _stage(session, report, "ingest"):
            report.scopes = await ingest(session, targets, full=request.full, on_progress=on_progress)
        with _stage(session, report, "dependents"):
            await sync_children(session, list(zip(targets, report.scopes, strict=True)), on_progress)
            await statuses.sync(targets, report.scopes)
    failed = {(scope.source, scope.configured) for scope in report.scopes if scope.error is not None}
    turns = [turn for turn in turns if (turn.target.source.name, turn.target.configured) not in failed]
    budget = request.scrub_budget
    if budget is None:
        budget = scrub_budget(count.total, shop.config.sync.scrub_share)
    with _stage(session, report, "scrub"):
        report.scrubbed = await verify(session, turns, budget, lambda: count.total, began_at)
        await statuses.sync(targets, report.scrubbed)


@contextmanager
def _stage(session: Session, report: RunReport, name: str) -> Iterator[None]:
    """Enter a phase of the run, and note how long it took."""
    clock = session.shop.clock
    session.run.set_phase(name)
    began = clock.monotonic()
    yield
    report.stage_seconds[name] = clock.monotonic() - began


def _failed_children(scope: ScopeReport) -> int:
    return sum(child.tally.failed for child in scope.children.values())


def _quarantined_children(scope: ScopeReport) -> int:
    return sum(child.tally.quarantined for child in scope.children.values())
