"""Run a sync: lists, children, statuses, verification, documents, vectors.

Decides the order of the stages and the outcome recorded in the ledger. A run with a time limit makes no more requests
when it has passed, and records that: the copy counts as up to date only if nothing was left. The functions that make
documents and vectors are passed in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

from msgspec import Struct

from tidelore.core.errors import BudgetSpent, PartialSuccess, RemoteError, TideloreError
from tidelore.core.progress import DocumentReport, EmbedReport, OnProgress
from tidelore.engine.intake import Tally
from tidelore.http.limits import RequestAllowance
from tidelore.store.mirror.cursors import last_polled
from tidelore.store.work.last_sync import LEFT_OFF
from tidelore.store.work.session import LEASE, Session, Workshop, open_session
from tidelore.sync.announced import AnnouncedItems, refresh_announced
from tidelore.sync.children import (
    CONVERSATIONS,
    MANY_DUE,
    StatusStage,
    count_others,
    scan_threads,
    settle_feeds,
    sync_children,
    sync_positions,
    unread_feeds,
)
from tidelore.sync.ingest import in_turn, ingest
from tidelore.sync.lists import IsOver, TimeSlice, never
from tidelore.sync.projects import ListTarget
from tidelore.sync.report import (
    MakeDocuments,
    RequestCount,
    RunConsumer,
    RunReport,
    ScopeKey,
    ScopeReport,
    also_to_ledger,
    embed_last,
    run_verdict,
)
from tidelore.sync.verification import candidate, scrub_budget, verify


class MirrorRequest(Struct, frozen=True):
    """Options of a sync. Without `walk` only verification is done.

    `seconds`: after how long to stop making requests; `allowance`: how many it may make. With one of them, lists are
    read in the order of `turns`, the id of the run in which each list last had a turn: the least recent first. With
    `scan`, the comments of all followed threads are read from the beginning. `announced` are items, by project and
    kind, whose comments are read although their lists show no change; a run that has it (even empty) reads only a part,
    so the copy does not count as up to date. `lease`: what is locked meanwhile, by default all projects.
    """

    resources: tuple[str, ...]
    project: str | None = None
    full: bool = False
    force: bool = False
    wait_seconds: float = 0.0
    walk: bool = True
    scrub_budget: int | None = None
    statuses: bool = True
    documents: bool = False
    scan: bool = False
    seconds: float | None = None
    turns: Mapping[ScopeKey, int] = MappingProxyType({})
    announced: AnnouncedItems | None = None
    allowance: RequestAllowance | None = None
    lease: str = LEASE

    @property
    def is_limited(self) -> bool:
        return self.seconds is not None or self.allowance is not None


Embed = Callable[[EmbedReport, OnProgress], Awaitable[None]]


async def mirror(
    shop: Workshop,
    targets: Sequence[ListTarget],
    request: MirrorRequest,
    count: RequestCount,
    on_progress: OnProgress,
    embed: Embed | None = None,
    make_documents: MakeDocuments | None = None,
    consumer: RunConsumer | None = None,
) -> RunReport:
    """Bring the chosen lists and their children up to date, verify a share of the copy, and report.

    `embed` runs last and without the lease, and updates its report as it goes. `consumer` sees what is stored.
    """
    started = shop.clock.monotonic()
    note = "full sync: cursors were reset" if request.full else None
    async with open_session(
        shop, force=request.force, note=note, wait_seconds=request.wait_seconds, lease=request.lease
    ) as session:
        report = RunReport(session.run.id, taken_over=session.lease.taken_as, crashed_runs=session.crashed_runs)
        session.consumer = consumer
        on_progress = also_to_ledger(session, on_progress, lambda: count.total)
        allowance = request.allowance
        time = TimeSlice(shop.clock, request.seconds, never if allowance is None else lambda: allowance.is_spent)
        make_early = make_documents if request.documents else None
        targets = await _read(session, targets, request, count, report, on_progress, time, make_early, consumer)
        report.requests = session.counters.requests = count.total
        report.asked, report.budgets, report.points = dict(count.of_source), dict(count.budgets), dict(count.points)
        _postpone(report)
        _set_outcome(session, report)
        if report.unfinished:
            session.run.set_note("; ".join(filter(None, (_left_off(request), note))))
        elif request.walk and session.error is None and session.partial is None and _covers_all(request):
            session.run.set_mirrored()
        if make_early is not None:
            with _stage(session, report, "docs"):
                _add_documents(report, await make_early(session, on_progress))
        await _positions(session, targets, report, on_progress, time, make_early)
        report.requests = session.counters.requests = count.total
        report.asked, report.budgets, report.points = dict(count.of_source), dict(count.budgets), dict(count.points)
        if embed is not None:
            report.embeddings = EmbedReport()
            session.give_back()
            with _stage(session, report, "embed"):
                await embed_last(session, embed, report.embeddings, on_progress)
    report.seconds = shop.clock.monotonic() - started
    return report


def _covers_all(request: MirrorRequest) -> bool:
    """Return whether a run reads everything that is configured, not only what was announced or one project."""
    return request.announced is None and request.lease == LEASE


def _left_off(request: MirrorRequest) -> str:
    after = f"after {request.seconds:g} s" if request.seconds is not None else "with its requests used up"
    return f"{LEFT_OFF} {after}; the next run continues there"


def _postpone(report: RunReport) -> None:
    """Let lists for which no request was left count as left, not as failed."""
    for scope in (*report.scopes, *report.scrubbed):
        if isinstance(scope.error, BudgetSpent):
            scope.error, scope.list_left = None, True


def _set_outcome(session: Session, report: RunReport) -> None:
    errors = [scope.error for scope in (*report.scopes, *report.scrubbed) if scope.error is not None]
    session.warnings = len(errors) + sum(_failed_children(scope) for scope in report.scopes)
    # The outcome of a run that only verifies depends on what it verified.
    note_ending(session, run_verdict(report.scopes or report.scrubbed, report.scrubbed))


def note_ending(session: Session, ended: TideloreError | None) -> None:
    """Record the outcome in the ledger row, so that it agrees with the exit code."""
    if isinstance(ended, PartialSuccess):
        session.partial = ended.message
    elif ended is not None:
        session.error = ended.message


async def _read(
    session: Session,
    targets: Sequence[ListTarget],
    request: MirrorRequest,
    count: RequestCount,
    report: RunReport,
    on_progress: OnProgress,
    time: TimeSlice,
    make_early: MakeDocuments | None,
    consumer: RunConsumer | None,
) -> Sequence[ListTarget]:
    """Run the stages that make requests to the forge; return the lists in the order in which they were read."""
    shop = session.shop
    if request.is_limited:
        targets = in_turn(targets, request.turns, last_polled(shop.database, {one.source.name for one in targets}))
    statuses = StatusStage(session, on_progress, wanted=request.statuses)
    began_at = shop.clock.now_ms()
    # Chosen before the walk: a list that it reads completely for the first time needs no verification.
    turns = [turn for target in targets if (turn := candidate(session, target)) is not None]
    unread: set[tuple[str, str]] = set()
    if request.walk:
        with _stage(session, report, "ingest"):
            report.scopes = await ingest(
                session,
                targets,
                full=request.full,
                on_progress=on_progress,
                is_over=time.begin("ingest"),
                consumer=consumer,
                by_turn=request.is_limited,
            )
        _postpone(report)
        pairs = list(zip(targets, report.scopes, strict=True))
        unread = unread_feeds(pairs)
        await _children(session, pairs, report, on_progress, time.begin("dependents"), make_early, request.announced)
        with _stage(session, report, "dependents"):
            if consumer is not None:
                await _conclude(session, pairs, consumer, full=request.scan)
            await statuses.sync(targets, report.scopes, time.begin("statuses"))
            report.scopes = [scope for scope in report.scopes if not scope.absent]
    # Nothing is verified in a project that could not be read, or that is not read to its end yet.
    unread |= {(scope.source, scope.configured) for scope in report.scopes if scope.error is not None}
    turns = [turn for turn in turns if (turn.target.source.name, turn.target.configured) not in unread]
    budget = scrub_budget(request.scrub_budget, count.total, shop.config.sync.scrub_share)
    with _stage(session, report, "scrub"):
        is_over = time.begin("scrub")
        report.scrubbed = await verify(session, turns, budget, lambda: count.total, began_at, on_progress, is_over)
        await statuses.sync(targets, report.scrubbed, is_over)
    return targets


async def _children(
    session: Session,
    pairs: Sequence[tuple[ListTarget, ScopeReport]],
    report: RunReport,
    on_progress: OnProgress,
    is_over: IsOver,
    make_documents: MakeDocuments | None,
    announced: AnnouncedItems | None,
) -> None:
    """Read what was said, then the other children. If there are many of those, it is made searchable in between."""
    with _stage(session, report, "dependents"):
        settle_feeds(session, pairs)
        await refresh_announced(session, pairs, announced or {}, is_over)
        await sync_children(session, pairs, on_progress, is_over=is_over, only=lambda kind: kind in CONVERSATIONS)
        if make_documents is not None and count_others(session, pairs) >= MANY_DUE:
            _add_documents(report, await make_documents(session, on_progress))
        await sync_children(session, pairs, on_progress, is_over=is_over, only=lambda kind: kind not in CONVERSATIONS)


async def _positions(
    session: Session,
    targets: Sequence[ListTarget],
    report: RunReport,
    on_progress: OnProgress,
    time: TimeSlice,
    make_documents: MakeDocuments | None,
) -> None:
    """Read what is least urgent: the line ranges of notes that were stored, and can be searched, without them."""
    by_key = {target.key: target for target in targets}
    pairs = [(by_key[scope.key], scope) for scope in report.scopes]
    # Phases only go forward, so these are a part of the last one.
    changed = await sync_positions(session, pairs, on_progress, time.begin("scrub"))
    if changed and make_documents is not None:
        _add_documents(report, await make_documents(session, on_progress))


def _add_documents(report: RunReport, made: DocumentReport | None) -> None:
    """Add the counts of one more generation of documents to the report."""
    before = report.documents
    if before is not None and made is not None:
        made.regenerated += before.regenerated
        made.unchanged += before.unchanged
        made.removed += before.removed
        made.failed += before.failed
        made.document_ids = list(dict.fromkeys([*before.document_ids, *made.document_ids]))
    report.documents = before if made is None else made


async def _conclude(
    session: Session, pairs: Sequence[tuple[ListTarget, ScopeReport]], consumer: RunConsumer, *, full: bool
) -> None:
    """Read threads in full where that is wanted, and let the consumer act on what was read, project by project."""
    homes: dict[int, tuple[ListTarget, ScopeReport]] = {}
    for target, report in pairs:
        if report.home is not None:
            homes[report.home.id] = (target, report)
            reviews = report.children.get("reviews")
            if reviews is not None and reviews.tally.pages:
                tally = Tally(pages=reviews.tally.pages, fetched=reviews.seen["reviews"], created=reviews.tally.changed)
                consumer.note_read(report.home.id, "pr_review_summaries", tally.pages, tally)
    for target, report in homes.values():
        assert report.home is not None, "only known projects are concluded"
        try:
            numbers = consumer.threads_to_scan(session, report.home.id, full=full)
            if numbers and report.error is None:
                await scan_threads(session, target.source, report.home, numbers, consumer)
            await consumer.conclude(session, report.home)
        except RemoteError as error:
            report.error = report.error or error


@contextmanager
def _stage(session: Session, report: RunReport, name: str) -> Iterator[None]:
    """Set the phase of the run, and record how long it took."""
    clock = session.shop.clock
    session.run.set_phase(name)
    began = clock.monotonic()
    yield
    report.stage_seconds[name] = report.stage_seconds.get(name, 0.0) + clock.monotonic() - began


def _failed_children(scope: ScopeReport) -> int:
    return sum(child.tally.failed for child in scope.children.values())
