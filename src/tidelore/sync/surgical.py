"""Run a surgical sync: refresh exactly the named items and their children.

    preflight   everything is fetched and checked, without the lease; if one item fails, nothing is written
    ingest      all items in one transaction; the lease is held from here
    dependents  their children, best effort: a failed kind is reported and stays due
    docs        the documents of these items only
    embed       the vectors of the documents that were written; the lease is released before

Cursors, marks and documents of other items are not touched. A signal between two stages is handled before the next one
begins. Statuses are not read here. The functions that make documents and vectors are passed in.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from msgspec import Struct

from tidelore.core.concurrency import for_each
from tidelore.core.errors import (
    CredentialsRejected,
    IntegrityError,
    RateLimited,
    StorageFailed,
    TideloreError,
)
from tidelore.core.progress import DocumentReport, EmbedReport, OnProgress, Progress
from tidelore.engine.crashpoint import Seam
from tidelore.engine.ledger import Surgery
from tidelore.engine.ports import Parent
from tidelore.http.limits import SourceOutages
from tidelore.sources.ports import ProjectSource
from tidelore.store.mirror.comments import THREADS
from tidelore.store.mirror.documents import DocumentSource
from tidelore.store.mirror.page_writer import StoredItem, sources_of
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.events import Consumer
from tidelore.store.work.session import Session, Workshop, lease_of, open_run
from tidelore.sync.children import ProjectChildren, kinds_of
from tidelore.sync.comment_parents import fetched_item, store_items
from tidelore.sync.projects import ListTarget
from tidelore.sync.report import (
    ChildReport,
    EntityOutcome,
    RequestCount,
    SurgicalReport,
    also_to_ledger,
    embed_last,
    preflight_error,
    surgical_verdict,
    write_iids,
    write_outcomes,
)
from tidelore.sync.surgical_preflight import (
    FETCH_ERROR,
    NOT_FOUND,
    RESOURCES,
    TIMEOUT,
    UNREADABLE,
    ChosenItem,
    Preflight,
    PreflightItem,
    code_of,
)

STAGES = {"closes_issues": "mr_closes_issues", "diffs": "mr_diffs", "reviewers": "mr_reviewers"}
"""Names of kinds of children in reports, where they differ from the kind."""


class SyncedItem(Struct, frozen=True):
    """A stored item: the parent whose children are read next, and the sources of its documents before the sync."""

    choice: ChosenItem
    outcome: EntityOutcome
    target: ListTarget
    project: ProjectRow
    parent: Parent
    sources: tuple[DocumentSource, ...]


async def read_dependents(
    session: Session, synced: Sequence[SyncedItem], tell: Callable[[int, int], None]
) -> Counter[str]:
    """Read and count every wanted kind of children of every item; record failures in the outcomes."""
    config = session.shop.config
    outages = SourceOutages(most=None)
    jobs = [(one, kind) for one in synced for kind in kinds_of(one.target, config)]
    done = 0
    seen: Counter[str] = Counter()

    async def work(job: tuple[SyncedItem, str]) -> None:
        nonlocal done
        seen.update(await _read_kind(session, *job, outages))
        done += 1
        tell(done, len(jobs))

    # The state of a thread is stored with its comments, so these come first.
    for late in (False, True):
        now = [job for job in jobs if (job[1] == THREADS.name) is late]
        await for_each(now, work, config.sync.dependent_concurrency)
    return seen


async def _read_kind(session: Session, one: SyncedItem, kind: str, outages: SourceOutages) -> Counter[str]:
    source, stage = one.choice.source, STAGES.get(kind, kind)
    known = outages.reason(source)
    if known is not None:
        one.outcome.fail(stage, code_of(known), known.message)
        return Counter()
    child = ChildReport(kind)
    children = ProjectChildren(session, one.target, one.project, child)
    if children.is_paused:
        return Counter()
    seconds = session.shop.config.sync.surgical_entity_timeout_seconds
    try:
        async with asyncio.timeout(seconds):
            gone = await children.read([one.parent])
    except TimeoutError:
        message = f"no response within {seconds:g} seconds"
        children.writer.record_failure(one.parent, message)
        one.outcome.fail(stage, TIMEOUT, message)
    except (CredentialsRejected, RateLimited) as error:
        outages.failed(source, error)
        one.outcome.fail(stage, code_of(error), error.message)
    except (StorageFailed, IntegrityError) as error:
        one.outcome.fail(stage, "WRITE_ERROR", error.message)
    else:
        if children.limited is not None:
            one.outcome.fail(stage, code_of(children.limited), children.limited.message)
        elif gone:
            one.outcome.fail(stage, NOT_FOUND, "deleted on the server while it was being fetched")
        elif child.tally.failed or child.tally.quarantined:
            why = children.writer.last_failure(one.parent)
            code = UNREADABLE if child.tally.quarantined else FETCH_ERROR
            one.outcome.fail(stage, code, why or "could not be fetched")
    return child.seen


Embed = Callable[[Sequence[int], EmbedReport, OnProgress], Awaitable[None]]


class SurgicalRequest(Struct, frozen=True):
    """Options of a surgical sync."""

    force: bool = False
    wait_seconds: float = 0.0
    preflight_only: bool = False
    documents: bool = True


async def operate(
    shop: Workshop,
    sources: Mapping[str, ProjectSource],
    choices: Sequence[ChosenItem],
    request: SurgicalRequest,
    count: RequestCount,
    on_progress: OnProgress,
    report: SurgicalReport,
    embed: Embed | None = None,
    make_documents: MakeDocuments | None = None,
    consumer: Consumer | None = None,
) -> None:
    """Bring the chosen items up to date; the report is updated for each item as it goes.

    `consumer` sees what is stored.
    """
    began = shop.clock.monotonic()
    report.entity_outcomes = [choice.begin() for choice in choices]
    report.preflight_only = request.preflight_only
    surgery = Surgery(write_iids(report.entity_outcomes), write_outcomes(report.entity_outcomes))
    try:
        async with open_run(shop, phase="preflight", surgery=surgery) as session:
            report.run_id = session.run.id
            session.consumer = consumer
            on_progress = also_to_ledger(session, on_progress, lambda: count.total)
            operation = _Operation(session, sources, request, on_progress, report, make_documents)
            try:
                await operation.run(choices, embed)
            finally:
                report.requests = session.counters.requests = count.total
                # The error that ends the run, or prevents this write, is reported separately.
                with suppress(TideloreError):
                    session.run.set_outcomes(write_outcomes(report.entity_outcomes))
        report.completion_status = "succeeded_with_warnings" if session.warnings else "succeeded"
    except BaseException as error:
        report.completion_status = "cancelled" if isinstance(error, asyncio.CancelledError) else "failed"
        raise
    finally:
        report.seconds = shop.clock.monotonic() - began


class _Operation(Struct):
    """A surgical run in progress."""

    session: Session
    sources: Mapping[str, ProjectSource]
    request: SurgicalRequest
    on_progress: OnProgress
    report: SurgicalReport
    make_documents: MakeDocuments | None

    async def run(self, choices: Sequence[ChosenItem], embed: Embed | None) -> None:
        """Run the stages."""
        fetched_since = self.session.shop.clock.now_ms()
        fetched = await self._preflight(choices)
        if self.request.preflight_only:
            for outcome in self.report.entity_outcomes:
                outcome.completed = True
            return
        name = lease_of(self.session.shop.database, {(one.source, one.configured) for one in choices})
        await self.session.take_lease(force=self.request.force, wait_seconds=self.request.wait_seconds, name=name)
        synced = await self._ingest(fetched, fetched_since)
        await self._dependents(synced)
        if self.request.documents and self.make_documents is not None:
            await self._documents(synced, self.make_documents)
        for outcome in self.report.entity_outcomes:
            outcome.completed = not outcome.failures
        self.session.give_back()
        self._save()
        written = [] if self.report.documents is None else self.report.documents.document_ids
        if embed is not None and written:
            made = self.report.embeddings = EmbedReport()
            with self._stage("embed"):
                await embed_last(self.session, partial(embed, written), made, self.on_progress)
            await self.session.listen()

    async def _preflight(self, choices: Sequence[ChosenItem]) -> list[PreflightItem]:
        shop, report = self.session.shop, self.report
        preflight = Preflight(shop.database, shop.config, self.sources)
        with self._stage("preflight"):
            await preflight.run(list(zip(choices, report.entity_outcomes, strict=True)))
            counters = self.session.counters
            counters.issues_fetched = sum(one.choice.kind == "issue" for one in preflight.fetched)
            counters.mrs_fetched = len(preflight.fetched) - counters.issues_fetched
        if report.entity_failures:
            report.completion_status = "failed"
            raise preflight_error(report)
        shop.seam(Seam.AFTER_PREFLIGHT)
        await self.session.listen()
        return preflight.fetched

    async def _ingest(self, fetched: Sequence[PreflightItem], fetched_since: int) -> list[SyncedItem]:
        counters = self.session.counters
        with self._stage("ingest"):
            targets = [self._target(one.choice) for one in fetched]
            primaries = [
                fetched_item(one.choice.kind, target, one.item, one.home.row, one.home.record)
                for one, target in zip(fetched, targets, strict=True)
            ]
            landed = store_items(self.session, primaries, fetched_since)
            synced = []
            for one, target, place in zip(fetched, targets, landed, strict=True):
                one.outcome.ingested = place.parent is not None
                one.outcome.stale_skipped = place.parent is None
                if place.parent is not None:
                    synced.append(_synced_item(one, target, place))
            counters.issues_ingested = sum(one.choice.kind == "issue" for one in synced)
            counters.mrs_ingested = len(synced) - counters.issues_ingested
            counters.skipped_stale = len(landed) - len(synced)
        await self.session.listen()
        return synced

    async def _dependents(self, synced: Sequence[SyncedItem]) -> None:
        def tell(done: int, total: int) -> None:
            self.on_progress(Progress("named items", "dependents", done, total, f"{done:,} of {total:,} lists"))

        with self._stage("dependents"):
            self.report.children = await read_dependents(self.session, synced, tell)
            self.session.warnings += len(self.report.entity_failures)
            missing = surgical_verdict(self.report)
            self.session.partial = None if missing is None else missing.message
        await self.session.listen()

    async def _documents(self, synced: Sequence[SyncedItem], make_documents: MakeDocuments) -> None:
        database = self.session.shop.database
        with self._stage("docs"):
            # Include the earlier sources: if one was deleted meanwhile, its document must be removed.
            keys = [
                source
                for one in synced
                for source in (*one.sources, *sources_of(database.read, one.choice.kind, one.parent.id))
            ]
            made = await make_documents(self.session, self.on_progress, list(dict.fromkeys(keys)))
            self.report.documents = made
            self.session.warnings += made.failed
        await self.session.listen()

    def _target(self, choice: ChosenItem) -> ListTarget:
        return ListTarget(self.sources[choice.source], choice.configured, RESOURCES[choice.kind])

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        """Set the phase and record its duration, however it ends; save counters and outcomes if it succeeds."""
        clock = self.session.shop.clock
        self.session.run.set_phase(name)
        began = clock.monotonic()
        try:
            yield
        finally:
            self.report.stage_timings_ms[name] = round((clock.monotonic() - began) * 1000)
        self._save()

    def _save(self) -> None:
        self.session.run.set_counters(self.session.tallied())
        self.session.run.set_outcomes(write_outcomes(self.report.entity_outcomes))


def _synced_item(one: PreflightItem, target: ListTarget, place: StoredItem) -> SyncedItem:
    assert place.parent is not None, "only what was stored has children to be read"
    return SyncedItem(one.choice, one.outcome, target, place.project, place.parent, place.sources)


MakeDocuments = Callable[[Session, OnProgress, Sequence[DocumentSource]], Awaitable[DocumentReport]]
