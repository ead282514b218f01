"""The composition root: the only place where objects are wired together.

Owns the way from settings to a running command. Refuses logic: what to read is decided in `sync`, how
to show it in the faces. What only some commands need is imported by them: an offline read loads no client.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from tidelore.core.clock import Clock, SystemClock
from tidelore.core.config import Config, database_address
from tidelore.core.errors import Cancelled, NotFound, TideloreError
from tidelore.engine.crashpoint import Crashpoint, no_seam
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database, Limits, Patience
from tidelore.store.mirror.projects import ProjectRow, list_projects

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from tidelore.core.progress import DocumentReport, EmbedReport, Progress
    from tidelore.http.response import RequestMetric
    from tidelore.http.transport import Transport
    from tidelore.search.semantic import MeaningRanker
    from tidelore.sources.ports import Wiring
    from tidelore.store.work.session import Workshop
    from tidelore.sync.audit import AuditReport
    from tidelore.sync.diagnosis import Finding
    from tidelore.sync.mirror import MirrorRequest
    from tidelore.sync.projects import ListTarget
    from tidelore.sync.report import RunReport, SurgicalReport
    from tidelore.sync.surgical_preflight import ChosenItem, RequestedItem, SurgicalFlags

T = TypeVar("T")


class App(Struct, frozen=True):
    """Everything a face needs: settings, clock, and the doors to the rooms below.

    `patience_seconds`: how long a command waits for a server that asked for a pause, before it gives up instead.
    `insists`: whether its runs end in the ledger however long the database is out of reach, as those of a service do.
    `patience`: shared by all its connections, for a program that must be able to stop while they wait.
    """

    config: Config
    environ: Mapping[str, str]
    db: str | None = None
    clock: Clock = SystemClock()
    seam: Crashpoint = no_seam
    transport: Transport | None = None
    patience_seconds: float = 300.0
    insists: bool = False
    patience: Patience | None = None

    @property
    def address(self) -> str:
        """The database: a path, or a postgresql:// address."""
        return database_address(self.config, self.db, self.environ)

    def open_store(self, *, create: bool = False, patience: Patience | None = None) -> Database:
        """Open the database and bring its schema up to date; a reader does not create it."""
        waits = patience or self.patience or self.new_patience()
        database = open_database(self.address, create=create, patience=waits)
        try:
            migrate(database, self.clock.now_ms(), create=create)
        except BaseException:
            database.close()
            raise
        return database

    def new_patience(self) -> Patience:
        """Return how long connections wait; SQLite has its own limit."""
        storage = self.config.storage
        times = (storage.lock_timeout_seconds, storage.statement_timeout_seconds)
        limits = Limits(*times, storage.idle_in_transaction_timeout_seconds)
        return Patience(limits if self.address.startswith(("postgresql://", "postgres://")) else None)

    def wiring(self, on_request: Callable[[RequestMetric], None], patience_seconds: float | None = None) -> Wiring:
        """Return what every source is given; pauses that servers asked for are kept in the database."""
        from tidelore.app.pauses import StoredPauses
        from tidelore.sources.ports import Wiring

        patience = self.patience_seconds if patience_seconds is None else min(patience_seconds, self.patience_seconds)
        pauses = StoredPauses(self.open_store, self.clock)
        return Wiring(self.config, self.clock, self.environ, on_request, self.transport, patience, pauses)


async def mirror(
    app: App,
    request: MirrorRequest,
    command: str,
    on_progress: Callable[[Progress], None] = lambda _progress: None,
    *,
    embedding: bool = False,
) -> RunReport:
    """Open the sources and the store, and run one mirroring command; with `embedding`, vectors are made at its end."""
    from contextlib import AsyncExitStack

    from tidelore.documents.generation import make_documents
    from tidelore.store.work.session import Workshop
    from tidelore.sync import mirror as run
    from tidelore.sync.projects import check_resources
    from tidelore.sync.report import RequestCount

    check_resources(request.resources)
    count = RequestCount()
    async with AsyncExitStack() as stack:
        targets = await _find_targets(app, request.project, request.resources, count, stack)
        database = app.open_store(create=True)
        stack.callback(database.close)
        shop = Workshop(database, app.config, app.clock, app.seam, command, app.insists)

        async def make_vectors(made: EmbedReport, tell: Callable[[Progress], None]) -> None:
            await _make_vectors(app, shop, made, on_progress=tell)

        embed = make_vectors if embedding else None
        return await run.mirror(shop, targets, request, count, on_progress, embed, make_documents)


async def sync(
    app: App,
    request: MirrorRequest,
    *,
    embedding: bool,
    on_progress: Callable[[Progress], None] = lambda _progress: None,
) -> tuple[RunReport, EmbedReport | None]:
    """Mirror, and then, when the lease is given back, make vectors; all of it is one run of the ledger."""
    report = await mirror(app, request, "lore sync", on_progress, embedding=embedding)
    return report, report.embeddings


async def surgical_sync(
    app: App,
    asked: Sequence[RequestedItem],
    flags: SurgicalFlags,
    report: SurgicalReport,
    *,
    force: bool,
    wait_seconds: float = 0.0,
    on_progress: Callable[[Progress], None] = lambda _progress: None,
) -> None:
    """Open the hosts of the items that are meant and the store, and refresh these items; the report tells of each."""
    from contextlib import AsyncExitStack

    from tidelore.documents.generation import make_documents
    from tidelore.sources.registry import open_hosts
    from tidelore.store.work.session import Workshop
    from tidelore.sync.projects import check_configured
    from tidelore.sync.report import RequestCount
    from tidelore.sync.surgical import SurgicalRequest, operate

    check_configured(app.config)
    choices = _choose_items(app, asked, flags)
    if not choices:
        report.completion_status = "succeeded"
        return
    count = RequestCount()
    async with AsyncExitStack() as stack:
        hosts = [host for host in app.config.gitlab if host.name in {choice.source for choice in choices}]
        # A pause longer than an item may take is a rate limit, not a timeout.
        wiring = app.wiring(count, app.config.sync.surgical_entity_timeout_seconds)
        sources = {source.name: source for source in await open_hosts(hosts, wiring, stack)}
        database = app.open_store(create=True)
        stack.callback(database.close)
        shop = Workshop(database, app.config, app.clock, app.seam, "lore sync")

        async def make_vectors(only: Sequence[int], made: EmbedReport, tell: Callable[[Progress], None]) -> None:
            await _make_vectors(app, shop, made, only=only, on_progress=tell)

        request = SurgicalRequest(force, wait_seconds, flags.preflight_only, documents=not flags.no_docs)
        embed = None if flags.no_embed else make_vectors
        await operate(shop, sources, choices, request, count, on_progress, report, embed, make_documents)


def _choose_items(app: App, asked: Sequence[RequestedItem], flags: SurgicalFlags) -> list[ChosenItem]:
    """Return the items that are meant: those that were named, or what is left of an earlier run."""
    from tidelore.store.work.runs import find_record
    from tidelore.store.work.session import Workshop, close_dead
    from tidelore.sync.surgical_preflight import choose_again, select

    if flags.retry_failed is None:
        return select(app.config, _known_projects(app), asked, flags.project)
    database = app.open_store()
    try:
        # So that a run whose process was killed is not taken for one that is under way.
        close_dead(Workshop(database, app.config, app.clock, app.seam, "lore sync"))
        return choose_again(app.config, find_record(database, flags.retry_failed))
    finally:
        database.close()


async def document(
    app: App, *, full: bool, force: bool, on_progress: Callable[[Progress], None] = lambda _progress: None
) -> DocumentReport:
    """Make the documents of what is marked; asks nobody."""
    from tidelore.documents.generation import make_documents
    from tidelore.store.mirror.documents import mark_all
    from tidelore.store.work.session import Workshop, open_session
    from tidelore.sync.report import also_to_ledger

    database = app.open_store()
    try:
        shop = Workshop(database, app.config, app.clock, app.seam, "lore generate-docs", app.insists)
        async with open_session(shop, force=force, phase="docs", note="full" if full else None) as session:
            if full:
                mark_all(database, session.lease, app.clock.now_ms())
            report = await make_documents(session, also_to_ledger(session, on_progress))
            session.warnings = report.failed
            return report
    finally:
        database.close()


async def embed(
    app: App,
    *,
    full: bool = False,
    only: Sequence[int] | None = None,
    on_progress: Callable[[Progress], None] = lambda _progress: None,
) -> EmbedReport:
    """Make the vectors of documents that have none, under no lease; why none could be made is told in the report."""
    from tidelore.core.progress import EmbedReport
    from tidelore.store.work.session import Workshop

    made = EmbedReport()
    database = app.open_store()
    try:
        shop = Workshop(database, app.config, app.clock, app.seam, "lore embed", app.insists)
        await _make_vectors(app, shop, made, full=full, only=only, on_progress=on_progress)
    finally:
        database.close()
    return made


async def _make_vectors(
    app: App,
    shop: Workshop,
    made: EmbedReport,
    *,
    full: bool = False,
    only: Sequence[int] | None = None,
    on_progress: Callable[[Progress], None],
) -> None:
    """Open the embedder and let it work; the report says as it goes what was stored."""
    from tidelore.core.errors import ExtraMissing, UserError
    from tidelore.embedding.embedder import Unavailable
    from tidelore.embedding.registry import open_embedder

    try:
        embedder = open_embedder(app.config.embedding, app.config.http, app.environ, app.clock)
        if embedder is None:
            made.notice = 'embeddings are disabled (embedding.provider = "none")'
            return
        if isinstance(embedder, Unavailable):
            failure = UserError if embedder.extra is None else ExtraMissing
            raise failure(embedder.reason, fix=embedder.fix, extra=embedder.extra)
        # Not before: without an embedder there may be no numpy either.
        from tidelore.documents.embed import embed_documents

        try:
            await embed_documents(shop, embedder, only, on_progress, full=full, report=made)
        finally:
            await embedder.aclose()
    except UserError as error:
        made.notice, made.error = error.message, error


class Meaning(Struct, frozen=True):
    """What ranks by meaning, or why nothing does; `extra` when that is an extra that is not installed."""

    ranker: MeaningRanker | None = None
    notice: str | None = None
    extra: str | None = None


def rank_by_meaning(app: App, database: Database, text: str) -> Meaning:
    """Return what ranks documents by the meaning of a text; whatever is missing for it is a notice."""
    from tidelore.core.errors import RemoteError
    from tidelore.core.extras import install_command
    from tidelore.embedding.embedder import InProcess, Unavailable
    from tidelore.embedding.registry import missing_extra, open_embedder
    from tidelore.store.reading.vector_models import has_vectors

    if app.config.embedding.provider == "none" or not text.strip():
        return Meaning()
    extra = missing_extra(app.config.embedding)
    if extra is not None:
        reason = f"the extra {extra!r} is not installed ({install_command(extra)})"
        return Meaning(notice=reason, extra=extra)
    if not has_vectors(database):
        return Meaning()
    embedder = open_embedder(app.config.embedding, app.config.http, app.environ, app.clock)
    if embedder is None or isinstance(embedder, Unavailable):
        return Meaning(notice=None if embedder is None else embedder.reason)
    from tidelore.search.semantic import rank_now, rank_soon

    async def ask() -> MeaningRanker | None:
        try:
            return await rank_soon(database, embedder, text)
        finally:
            await embedder.aclose()

    try:
        within = isinstance(embedder, InProcess)
        ranker = rank_now(database, embedder, text) if within else run_until_signalled(ask(), "nothing was changed")
    except RemoteError as error:
        return Meaning(notice=error.message)
    if ranker is None:
        return Meaning(notice="embeddings were made with another model; run `lore embed`")
    return Meaning(ranker)


async def audit(
    app: App,
    project: str | None,
    on_progress: Callable[[Progress], None] = lambda _progress: None,
) -> AuditReport:
    """Open the sources and the store, and compare the two; nothing is written."""
    from contextlib import AsyncExitStack

    from tidelore.sources.ports import RESOURCES
    from tidelore.sync import audit as run
    from tidelore.sync.report import RequestCount

    started = app.clock.monotonic()
    count = RequestCount()
    async with AsyncExitStack() as stack:
        database = app.open_store()
        stack.callback(database.close)
        targets = await _find_targets(app, project, RESOURCES, count, stack)
        report = await run.audit(database, app.config, targets, on_progress)
    report.requests, report.seconds = count.total, app.clock.monotonic() - started
    return report


async def _find_targets(
    app: App,
    project: str | None,
    resources: Sequence[str],
    on_request: Callable[[RequestMetric], None],
    stack: AsyncExitStack,
) -> list[ListTarget]:
    """Open the sources that are meant until the stack unwinds, and return the lists to read there."""
    from tidelore.sources.registry import open_hosts
    from tidelore.sync.projects import (
        build_targets,
        check_configured,
        choose_known,
        choose_one,
        find_everywhere,
        hosts_of,
    )

    check_configured(app.config)
    known = _known_projects(app)
    one = choose_known(app.config, known, project) if project else None
    hosts = hosts_of(app.config, one)
    wiring = app.wiring(on_request)
    sources = await open_hosts(hosts, wiring, stack)
    chosen = [one] if one is not None else await find_everywhere(sources, hosts, known)
    if project:
        chosen = [choose_one(chosen, project)]
    return build_targets(sources, chosen, resources)


def _known_projects(app: App) -> list[ProjectRow]:
    """Return what the copy knows of projects; a command that may yet be refused does not create it."""
    try:
        database = app.open_store()
    except NotFound:
        return []
    try:
        return list_projects(database)
    finally:
        database.close()


async def diagnose(app: App) -> list[Finding]:
    """Ask every configured host who we are and whether what is configured is within reach."""
    from tidelore.sources.github.source import open_github
    from tidelore.sources.gitlab.source import open_gitlab
    from tidelore.sync.diagnosis import examine, examine_github

    wiring = app.wiring(lambda _metric: None)
    findings: list[Finding] = []
    for host in app.config.gitlab:
        findings += await examine(open_gitlab(host, wiring), host)
    for github in app.config.github:
        findings += await examine_github(open_github(github, wiring), github, _identity_check(app, github.name))
    return findings


def _identity_check(app: App, source: str) -> Callable[[str, int], None]:
    """Return the comparison of a configured name's id with the stored one; an unusable database stores none."""
    from tidelore.feedback.identity import check_identity

    try:
        stored = {row.configured: row for row in _known_projects(app) if row.source == source}
    except TideloreError:
        stored = {}

    def check(configured: str, remote_id: int) -> None:
        if configured in stored:
            check_identity(stored[configured], remote_id, configured)

    return check


def run_until_signalled(work: Coroutine[Any, Any, T], fate: str = "everything fetched so far is stored") -> T:
    """Run a coroutine; SIGINT and SIGTERM cancel it, so that its run row is finalised, and exit 130."""
    import asyncio
    import signal

    from tidelore.core.signals import heard

    async def supervised() -> T:
        task = asyncio.ensure_future(work)
        try:
            with heard({signal.SIGINT: task.cancel, signal.SIGTERM: task.cancel}):
                return await task
        except asyncio.CancelledError:
            raise Cancelled(f"interrupted; {fate}", fix="run the command again") from None

    return asyncio.run(supervised())
