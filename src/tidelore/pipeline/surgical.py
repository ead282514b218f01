"""A surgical sync: exactly the items that were named, with everything that belongs to them.

    preflight   everything is fetched and judged; no lease       one failure: nothing is written
    ingest      all items in one transaction; the lease is held from here
    dependents  their children, best effort: a failure is told and stays due
    docs        the documents of these items and no others
    embed       the vectors of the documents that were written; the lease is given back before

Owns the order of the stages and what the ledger row says. Refuses to touch what belongs to other items: cursors, the
marks of others, documents of others. A signal between two stages is heard before the next one begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from msgspec import Struct

from tidelore.core.errors import TideloreError
from tidelore.engine.crashpoint import Seam
from tidelore.engine.ledger import Surgery
from tidelore.pipeline.documents import make_documents
from tidelore.pipeline.ingest import Target
from tidelore.pipeline.ledger_progress import also_to_ledger
from tidelore.pipeline.mirror import RequestCount
from tidelore.pipeline.preflight import Fetched, Preflight
from tidelore.pipeline.report import EmbedReport, OnProgress, Progress
from tidelore.pipeline.selection import RESOURCES, Choice
from tidelore.pipeline.surgical_dependents import Kin, read_dependents
from tidelore.pipeline.surgical_report import (
    SurgicalReport,
    preflight_error,
    verdict,
    write_iids,
    write_outcomes,
)
from tidelore.session import Session, Workshop, open_run
from tidelore.sources.ports import ProjectSource
from tidelore.store.mirror.page_writer import FetchedItem, StoredItem, sources_of, store_fetched_items
from tidelore.store.mirror.payloads import packer

Embed = Callable[[Sequence[int], EmbedReport, OnProgress], Awaitable[None]]


class SurgicalRequest(Struct, frozen=True):
    """What a surgical sync does besides its items."""

    force: bool = False
    wait_seconds: float = 0.0
    preflight_only: bool = False
    documents: bool = True


async def operate(
    shop: Workshop,
    sources: Mapping[str, ProjectSource],
    choices: Sequence[Choice],
    request: SurgicalRequest,
    count: RequestCount,
    on_progress: OnProgress,
    report: SurgicalReport,
    embed: Embed | None = None,
) -> None:
    """Bring the chosen items up to date; the report tells as it goes what became of each of them."""
    began = shop.clock.monotonic()
    report.entity_outcomes = [choice.begin() for choice in choices]
    report.preflight_only = request.preflight_only
    surgery = Surgery(write_iids(report.entity_outcomes), write_outcomes(report.entity_outcomes))
    try:
        async with open_run(shop, phase="preflight", surgery=surgery) as session:
            report.run_id = session.run.id
            on_progress = also_to_ledger(session, on_progress, lambda: count.total)
            operation = _Operation(session, sources, request, on_progress, report)
            try:
                await operation.run(choices, embed)
            finally:
                report.requests = session.counters.requests = count.total
                # Whatever ends the run, or hinders this, is told by itself.
                with suppress(TideloreError):
                    session.run.set_outcomes(write_outcomes(report.entity_outcomes))
        report.completion_status = "succeeded_with_warnings" if session.warnings else "succeeded"
    except BaseException as error:
        report.completion_status = "cancelled" if isinstance(error, asyncio.CancelledError) else "failed"
        raise
    finally:
        report.seconds = shop.clock.monotonic() - began


class _Operation(Struct):
    """One surgical run while it goes on."""

    session: Session
    sources: Mapping[str, ProjectSource]
    request: SurgicalRequest
    on_progress: OnProgress
    report: SurgicalReport

    async def run(self, choices: Sequence[Choice], embed: Embed | None) -> None:
        """Go through the stages."""
        fetched_since = self.session.shop.clock.now_ms()
        fetched = await self._preflight(choices)
        if self.request.preflight_only:
            for outcome in self.report.entity_outcomes:
                outcome.completed = True
            return
        await self.session.take_lease(force=self.request.force, wait_seconds=self.request.wait_seconds)
        kin = await self._ingest(fetched, fetched_since)
        await self._dependents(kin)
        if self.request.documents:
            await self._documents(kin)
        for outcome in self.report.entity_outcomes:
            outcome.completed = not outcome.failures
        self.session.give_back()
        self._save()
        written = [] if self.report.documents is None else self.report.documents.document_ids
        if embed is not None and written:
            await self._embed(embed, written)

    async def _preflight(self, choices: Sequence[Choice]) -> list[Fetched]:
        shop, report = self.session.shop, self.report
        settings = shop.config.sync
        preflight = Preflight(
            shop.database, self.sources, settings.surgical_entity_timeout_seconds, settings.dependent_concurrency
        )
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

    async def _ingest(self, fetched: Sequence[Fetched], fetched_since: int) -> list[Kin]:
        shop, counters = self.session.shop, self.session.counters
        with self._stage("ingest"):
            targets = [self._target(one.choice) for one in fetched]
            primaries = [_primary(one, target) for one, target in zip(fetched, targets, strict=True)]
            landed = store_fetched_items(
                shop.database,
                self.session.lease,
                primaries,
                fetched_since=fetched_since,
                now_ms=shop.clock.now_ms,
                pack=packer(compress=shop.config.storage.compress_raw_payloads),
                seam=shop.seam,
            )
            kin = []
            for one, target, place in zip(fetched, targets, landed, strict=True):
                one.outcome.ingested = place.parent is not None
                one.outcome.stale_skipped = place.parent is None
                if place.parent is not None:
                    kin.append(_kin(one, target, place))
            counters.issues_ingested = sum(one.choice.kind == "issue" for one in kin)
            counters.mrs_ingested = len(kin) - counters.issues_ingested
            counters.skipped_stale = len(landed) - len(kin)
        await self.session.listen()
        return kin

    async def _dependents(self, kin: Sequence[Kin]) -> None:
        def tell(done: int, total: int) -> None:
            self.on_progress(Progress("named items", "dependents", done, total, f"{done:,} of {total:,} lists"))

        with self._stage("dependents"):
            self.report.children = await read_dependents(self.session, kin, tell)
            self.session.warnings += len(self.report.entity_failures)
            missing = verdict(self.report)
            self.session.partial = None if missing is None else missing.message
        await self.session.listen()

    async def _documents(self, kin: Sequence[Kin]) -> None:
        database = self.session.shop.database
        with self._stage("docs"):
            # Those of before too: what was swept meanwhile has a document that has to go.
            keys = [
                source
                for one in kin
                for source in (*one.sources, *sources_of(database.read, one.choice.kind, one.parent.id))
            ]
            made = await make_documents(self.session, self.on_progress, only=list(dict.fromkeys(keys)))
            self.report.documents = made
            self.session.warnings += made.failed
        await self.session.listen()

    async def _embed(self, embed: Embed, document_ids: Sequence[int]) -> None:
        made = self.report.embeddings = EmbedReport()

        def tell(progress: Progress) -> None:
            self.session.counters.docs_embedded = made.embedded
            self.on_progress(progress)

        with self._stage("embed"):
            await self.session.listen()
            try:
                await embed(document_ids, made, tell)
            finally:
                self.session.counters.docs_embedded = made.embedded
            self.session.warnings += made.notice is not None
        await self.session.listen()

    def _target(self, choice: Choice) -> Target:
        return Target(self.sources[choice.source], choice.configured, RESOURCES[choice.kind])

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        """Enter a phase; note how long it took, however it ends, and what is known at its end."""
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


def _primary(one: Fetched, target: Target) -> FetchedItem:
    choice, home = one.choice, one.home
    return FetchedItem(choice.kind, choice.source, target.surface, choice.configured, home.row, home.record, one.item)


def _kin(one: Fetched, target: Target, place: StoredItem) -> Kin:
    assert place.parent is not None, "only what was stored has children to be read"
    return Kin(one.choice, one.outcome, target, place.project, place.parent, place.sources)
