"""Run the stages of commands on mirrored projects: sync, scrub, surgical sync, audit, documents,
embeddings, diagnosis.

Opens the configured hosts and the store, and runs the stages of the command with them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from tidelore.app.reading.own_logins import remember_login
from tidelore.app.wiring import App
from tidelore.core.clock import format_instant
from tidelore.core.config import all_hosts, forge_hosts
from tidelore.core.errors import NotFound, TideloreError
from tidelore.core.progress import DocumentReport, EmbedReport, OnProgress, silent
from tidelore.store.mirror.projects import ProjectRow, list_projects

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from tidelore.app.wiring import FeedbackOptions
    from tidelore.feedback.report import RepoReport
    from tidelore.sources.ports import Wiring
    from tidelore.store.work.session import Workshop
    from tidelore.sync.audit import AuditReport
    from tidelore.sync.diagnosis import Finding
    from tidelore.sync.mirror import MirrorRequest
    from tidelore.sync.projects import ListTarget
    from tidelore.sync.report import RunReport, SurgicalReport
    from tidelore.sync.surgical_preflight import ChosenItem, RequestedItem, SurgicalFlags


FEW_PROJECTS = 50
"""Up to this many configured projects, only their own rows are read: a worker syncs one of very many at a time."""
REFRESH_WAIT_SECONDS = 10.0
"""How long the refresh of a topic waits for another process that is writing."""


class RefreshedTopic(Struct, frozen=True):
    """What the refresh of a topic did: whether a new version was stored, and how many requests it took."""

    is_stored: bool
    requests: int


async def mirror(
    app: App,
    request: MirrorRequest,
    command: str,
    on_progress: OnProgress = silent,
    *,
    embedding: bool = False,
    feedback: FeedbackOptions | None = None,
) -> RunReport:
    """Open the sources and the store, and run one mirroring command; with `embedding`, also compute embeddings."""
    from contextlib import AsyncExitStack

    from tidelore.app.wiring import open_consumer
    from tidelore.documents.generation import make_documents
    from tidelore.store.mirror.source_access import note_access
    from tidelore.sync import mirror as run
    from tidelore.sync.projects import check_resources
    from tidelore.sync.report import RequestCount

    check_resources(request.resources)
    count = RequestCount()
    wiring = app.wiring(count)
    async with AsyncExitStack() as stack:
        targets = await _find_targets(app, request.project, request.resources, wiring, stack)
        database = stack.enter_context(app.store(create=True))
        note_access(database, wiring.accesses, app.clock.now_ms())
        consumer, targets = await open_consumer(app, database, targets, feedback)
        shop = app.workshop(database, command)

        async def make_vectors(made: EmbedReport, tell: OnProgress) -> None:
            await store_vectors(app, shop, made, on_progress=tell)

        embed = make_vectors if embedding else None
        return await run.mirror(shop, targets, request, count, on_progress, embed, make_documents, consumer)


async def sync(
    app: App,
    request: MirrorRequest,
    *,
    embedding: bool,
    on_progress: OnProgress = silent,
    feedback: dict[int, RepoReport] | None = None,
) -> tuple[RunReport, EmbedReport | None]:
    """Mirror, then release the lease and compute embeddings; all of it is recorded as one run.

    `feedback` receives what the comments of each project led to.
    """
    from tidelore.app.wiring import FeedbackOptions

    options = None if feedback is None else FeedbackOptions(feedback)
    report = await mirror(app, request, "lore sync", on_progress, embedding=embedding, feedback=options)
    return report, report.embeddings


async def scrub(app: App, project: str | None, budget: int, *, force: bool = False) -> RunReport:
    """Verify the projects and the followed accounts, each with its part of the budget; either may be missing.

    With `project`, only this project is verified.
    """
    from tidelore.app.accounts import scrub_accounts
    from tidelore.sources.ports import RESOURCES
    from tidelore.sync.mirror import MirrorRequest

    def projects_with(spend: int) -> Awaitable[RunReport]:
        request = MirrorRequest(RESOURCES, project, force=force, walk=False, scrub_budget=spend)
        return mirror(app, request, "lore scrub")

    if project is not None:
        return await projects_with(budget)
    if not forge_hosts(app.config):
        accounts = await scrub_accounts(app, budget, force=force)
        # Without projects and without accounts the error says what to configure.
        return accounts or await projects_with(budget)
    report = await projects_with(_part_of_projects(app, budget))
    accounts = await scrub_accounts(app, budget - report.requests, force=force)
    if accounts is not None:
        report.scrubbed += accounts.scrubbed
        report.requests += accounts.requests
        report.seconds += accounts.seconds
    return report


def _part_of_projects(app: App, budget: int) -> int:
    """Return how much of a budget the projects get: half, and what the accounts do not need of theirs."""
    from tidelore.store.mirror.accounts import count_verifiable
    from tidelore.store.work.runs import list_runs
    from tidelore.sync.account_verification import REQUESTS_EACH
    from tidelore.sync.verification import share_out

    with app.store(create=True) as database:
        waiting = count_verifiable(database, app.config.bluesky.mode, app.clock.now_ms())
        _, half = share_out(budget, next((run.id for run in list_runs(database, 1)), 0))
    return budget - min(half, waiting * REQUESTS_EACH)


async def surgical_sync(
    app: App,
    asked: Sequence[RequestedItem],
    flags: SurgicalFlags,
    report: SurgicalReport,
    *,
    force: bool,
    wait_seconds: float = 0.0,
    on_progress: OnProgress = silent,
) -> None:
    """Open the hosts of the requested items and the store, and refresh these items; each is listed in the report."""
    from contextlib import AsyncExitStack

    from tidelore.app.wiring import find_consumer
    from tidelore.documents.generation import make_documents
    from tidelore.sources.registry import open_hosts
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
        hosts = [host for host in forge_hosts(app.config) if host.name in {choice.source for choice in choices}]
        # A pause longer than the time limit of an item is reported as a rate limit, not as a timeout.
        wiring = app.wiring(count, app.config.sync.surgical_entity_timeout_seconds)
        sources = {source.name: source for source in await open_hosts(hosts, wiring, stack)}
        database = stack.enter_context(app.store(create=True))
        shop = app.workshop(database, "lore sync")

        async def make_vectors(only: Sequence[int], made: EmbedReport, tell: OnProgress) -> None:
            await store_vectors(app, shop, made, only=only, on_progress=tell)

        request = SurgicalRequest(force, wait_seconds, flags.preflight_only, documents=not flags.no_docs)
        embed = None if flags.no_embed else make_vectors
        consumer = await find_consumer(app, database, sources)
        await operate(shop, sources, choices, request, count, on_progress, report, embed, make_documents, consumer)


async def refresh_topic(
    app: App, topic_id: int, number: int, project: ProjectRow, on_progress: OnProgress
) -> RefreshedTopic:
    """Fetch a stored topic with its comments, and store it with its document."""
    from contextlib import AsyncExitStack

    from tidelore.documents.generation import make_documents
    from tidelore.sources.ports import TOPICS
    from tidelore.sources.registry import open_hosts
    from tidelore.store.mirror.documents import DocumentSource
    from tidelore.store.work.session import lease_of, open_session
    from tidelore.sync import lists
    from tidelore.sync.projects import ListTarget
    from tidelore.sync.report import RequestCount

    count = RequestCount()
    async with AsyncExitStack() as stack:
        hosts = [host for host in forge_hosts(app.config) if host.name == project.source]
        if not hosts:
            raise NotFound(f"{project.source} is no longer configured", fix="add the host to the configuration file")
        (source,) = await open_hosts(hosts, app.wiring(count, app.config.sync.surgical_entity_timeout_seconds), stack)
        database = stack.enter_context(app.store())
        shop = app.workshop(database, "lore sync")
        name = lease_of(database, {(project.source, project.configured)})
        async with open_session(shop, force=False, wait_seconds=REFRESH_WAIT_SECONDS, lease=name) as session:
            target = ListTarget(source, project.configured, TOPICS)
            tally = await lists.refresh_topic(session, target, project, number)
            await make_documents(session, on_progress, [DocumentSource("topic", topic_id)])
            session.counters.requests = count.total
    return RefreshedTopic(is_stored=bool(tally.created or tally.changed), requests=count.total)


def _choose_items(app: App, asked: Sequence[RequestedItem], flags: SurgicalFlags) -> list[ChosenItem]:
    """Return the items to refresh: the named ones, or those that an earlier run left."""
    from tidelore.store.work.runs import find_record
    from tidelore.store.work.session import close_dead
    from tidelore.sync.surgical_preflight import choose_again, select

    if flags.retry_failed is None:
        return select(app.config, _known_projects(app), asked, flags.project)
    with app.store() as database:
        # So that a run whose process was killed does not count as running.
        close_dead(app.workshop(database, "lore sync"))
        return choose_again(app.config, find_record(database, flags.retry_failed))


async def audit(
    app: App,
    project: str | None,
    on_progress: OnProgress = silent,
) -> AuditReport:
    """Open the sources and the store, and compare them; writes nothing."""
    from contextlib import AsyncExitStack

    from tidelore.sources.ports import RESOURCES
    from tidelore.sync import audit as run
    from tidelore.sync.report import RequestCount

    started = app.clock.monotonic()
    count = RequestCount()
    async with AsyncExitStack() as stack:
        database = stack.enter_context(app.store())
        targets = await _find_targets(app, project, RESOURCES, app.wiring(count), stack)
        # Of a repository of which only followed items are stored, events are compared instead.
        whole = [target for target in targets if not target.followed]
        report = await run.audit(database, app.config, whole, app.clock, on_progress)
    report.requests, report.seconds = count.total, app.clock.monotonic() - started
    return report


async def _find_targets(
    app: App,
    project: str | None,
    resources: Sequence[str],
    wiring: Wiring,
    stack: AsyncExitStack,
) -> list[ListTarget]:
    """Open the requested sources until the stack unwinds, and return their lists to read."""
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
    known = _known_projects(app, None if project else _names(app))
    one = choose_known(app.config, known, project) if project else None
    hosts = hosts_of(app.config, one)
    sources = await open_hosts(hosts, wiring, stack)
    chosen = [one] if one is not None else await find_everywhere(sources, hosts, known)
    if project:
        chosen = [choose_one(chosen, project)]
    return build_targets(sources, chosen, resources)


def _names(app: App) -> list[str] | None:
    """Return the configured names of all projects if they are few; None if they are many, or also listed by groups."""
    hosts = forge_hosts(app.config)
    names = [name for host in hosts for name in host.projects]
    return None if len(names) > FEW_PROJECTS or any(host.groups for host in hosts) else names


def _known_projects(app: App, names: Collection[str] | None = None) -> list[ProjectRow]:
    """Return the stored projects, or those with these configured names.

    Does not create the database, because the command may still be refused.
    """
    try:
        with app.store() as database:
            return list_projects(database, names)
    except NotFound:
        return []


async def diagnose(app: App) -> list[Finding]:
    """Check the login on every configured host and the access to its configured projects."""
    from tidelore.sources.registry import open_host
    from tidelore.sync.diagnosis import examine

    wiring = app.wiring(lambda _metric: None)
    findings: list[Finding] = []
    for host in all_hosts(app.config):
        check, remember = _identity_check(app, host.name), partial(remember_login, app, host.name)
        findings += await examine(open_host(host, wiring), host, check, remember, partial(_since, app, host.name))
    return findings


def _since(app: App, source: str, configured: str) -> str:
    from tidelore.sync.projects import horizon_of

    horizon = horizon_of(app.config, source, configured, app.clock)
    return format_instant(horizon)[:10] if horizon else ""


def _identity_check(app: App, source: str) -> Callable[[str, int], None]:
    """Return a check that compares a configured project's id with the stored one; an unusable database has no ids."""
    from tidelore.store.mirror.projects import check_identity

    try:
        stored = {row.configured: row for row in _known_projects(app) if row.source == source}
    except TideloreError:
        stored = {}

    def check(configured: str, remote_id: int) -> None:
        if configured in stored:
            check_identity(stored[configured], remote_id, configured)

    return check


async def document(
    app: App,
    *,
    full: bool,
    force: bool,
    on_progress: OnProgress = silent,
    limit: int | None = None,
) -> DocumentReport:
    """Generate the documents of items marked as changed, at most a batch of `limit`; sends no requests."""
    from tidelore.documents.generation import make_documents
    from tidelore.store.mirror.documents import mark_all
    from tidelore.store.work.session import DOCUMENTS_LEASE, open_session
    from tidelore.sync.report import also_to_ledger

    with app.store() as database:
        shop = app.workshop(database, "lore generate-docs")
        note = "full" if full else None
        async with open_session(shop, force=force, phase="docs", note=note, lease=DOCUMENTS_LEASE) as session:
            if full:
                mark_all(database, session.lease, app.clock.now_ms())
            report = await make_documents(session, also_to_ledger(session, on_progress), limit=limit)
            session.warnings = report.failed
            return report


async def embed(
    app: App,
    *,
    full: bool = False,
    on_progress: OnProgress = silent,
    limit: int | None = None,
) -> EmbedReport:
    """Compute missing embeddings, without a lease; if none can be computed, the report contains the reason."""
    made = EmbedReport()
    with app.store() as database:
        shop = app.workshop(database, "lore embed")
        await store_vectors(app, shop, made, full=full, on_progress=on_progress, limit=limit)
    return made


async def store_vectors(
    app: App,
    shop: Workshop,
    made: EmbedReport,
    *,
    full: bool = False,
    only: Sequence[int] | None = None,
    on_progress: OnProgress,
    limit: int | None = None,
) -> None:
    """Open the embedder and store embeddings; the report is updated while it runs."""
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
        # Imported late: without an embedder numpy may be missing too.
        from tidelore.documents.embed import embed_documents

        try:
            await embed_documents(shop, embedder, only, on_progress, full=full, report=made, limit=limit)
        finally:
            await embedder.aclose()
    except UserError as error:
        made.notice, made.error = error.message, error
