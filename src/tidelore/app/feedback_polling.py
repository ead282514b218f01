"""Use-cases of polls: sync repositories and act on new comments; audit and repair stored events of GitHub.

A poll is a sync of the configured repositories (`sync/`), from which feedback is derived. After it, commands are
applied, replies sent and handlers run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from tidelore.app.answers import copy_fields, means
from tidelore.app.feedback_tracking import Event, OperatorCommand, Reply, event, operator_command, reply
from tidelore.app.reports import ReportedError, reported_error
from tidelore.app.sources import Hub, open_hub
from tidelore.app.wiring import App, open_consumer, run_until_signalled
from tidelore.core.errors import RemoteError, RemoteTransient, TideloreError
from tidelore.core.progress import OnProgress, Progress, silent
from tidelore.feedback.context import pull_name
from tidelore.feedback.repositories import ConfiguredRepo, choose_repos, expects_feedback
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.runs import count_later_requests

if TYPE_CHECKING:
    from tidelore.feedback.actions import ActionReport, HostActions, KnownRepo, OnEvent
    from tidelore.feedback.audit import FeedbackAuditReport, RepoAudit
    from tidelore.feedback.consumer import FeedbackConsumer
    from tidelore.feedback.report import FeedbackPollReport, RepoReport
    from tidelore.store.work.events import EventRow
    from tidelore.store.work.tracked_pull_requests import TrackedPr
    from tidelore.sync.report import RunReport


class PollEffects(Struct, frozen=True, kw_only=True):
    """What the comments of a repository led to."""

    events: Annotated[int, means("new events")]
    deduped: Annotated[int, means("events that were stored already")]
    tokens: Annotated[int, means("replies confirmed by this poll")]
    commands: Annotated[int, means("operator commands, including rejected ones")]
    followups: Annotated[int, means("comments on source issues that will be batched")]
    planned: Annotated[int, means("planned replies: rejections and redirects")]


class IgnoredComments(Struct, frozen=True):
    """Comments that became no event because of their author."""

    reason: Annotated[str, means("why comments became no event: not_allowed, bot or deleted_account")]
    comments: Annotated[int, means("number of comments that this poll ignored")]
    accounts: Annotated[int, means("number of their authors")]

    @property
    def text(self) -> str:
        """How many comments were ignored, and why."""
        from tidelore.feedback.events import describe_ignored

        return describe_ignored(self.reason, self.comments, self.accounts)


class SurfaceCounts(Struct, frozen=True, kw_only=True):
    """What was read of one list."""

    surface: Annotated[str, means("what was read, such as issue_comments or pr_review_summaries")]
    requests: Annotated[int, means("requests it took")]
    pages: Annotated[int, means("pages that were read")]
    fetched: Annotated[int, means("comments on them")]
    new: Annotated[int, means("new versions")]
    replayed: Annotated[int, means("versions that were already stored")]


class PollFailure(Struct, frozen=True):
    """A failure that did not stop the poll."""

    where: Annotated[str, means("what could not be read or done: a thread, a repository or a host")]
    code: Annotated[str, means("the error's code")]
    message: Annotated[str, means("what happened")]
    retryable: Annotated[bool, means("whether a retry can help")]


class PolledRepo(Struct, frozen=True, kw_only=True):
    """What a poll read of one repository."""

    source: Annotated[str, means("the configured host")]
    repo: Annotated[str, means("the repository")]
    mode: Annotated[str | None, means("how it was read, repo or thread, or null if nothing was requested")]
    requests: Annotated[int, means("requests that reading took")]
    unfinished: Annotated[int, means("lists that are not read to the end; the next poll continues")]
    tracked: Annotated[list[int], means("pull requests tracked by rule since this poll")]
    moved: Annotated[list[str], means("status changes of pull requests, as text")]
    effects: PollEffects
    ignored: list[IgnoredComments]
    surfaces: list[SurfaceCounts]
    failures: list[PollFailure]
    error: Annotated[ReportedError | None, means("null, or why it could not be read")]


class PolledRepos(Struct, frozen=True, kw_only=True):
    """The answer of `lore poll github` and `lore poll gitlab`."""

    run_id: Annotated[int, means("the run; see lore sync-runs")]
    requests: Annotated[int, means("requests sent, including retries and replies")]
    seconds: Annotated[float, means("duration in seconds")]
    repos: list[PolledRepo]
    commands: Annotated[list[OperatorCommand], means("commands that were applied")]
    sent: Annotated[list[Reply], means("replies that were sent or tried")]
    handled: Annotated[list[Event], means("events the handler was run for")]
    troubles: list[PollFailure]


class PlannedRepo(Struct, frozen=True, kw_only=True):
    """A repository that a poll would read."""

    source: Annotated[str, means("the configured host")]
    base_url: Annotated[str, means("--dry-run: the address of the host")]
    repo: Annotated[str, means("the repository")]
    fetch: Annotated[str, means("--dry-run: auto, repo or thread")]
    incremental: Annotated[bool, means("--dry-run: whether only what changed is read")]
    handler: Annotated[list[str], means("--dry-run: the program that would be run, with its arguments")]


class ReposPlan(Struct, frozen=True, kw_only=True):
    """The answer of `lore poll github --dry-run` and `lore poll gitlab --dry-run`."""

    dry_run: Annotated[bool, means("--dry-run: true")] = True
    repos: list[PlannedRepo]


class FeedbackPollRequest(Struct, frozen=True):
    """The options of a poll."""

    repo: str | None = None
    full: bool = False
    force: bool = False
    handler: bool = True
    kind: str | None = None
    command: str = ""

    @property
    def run_command(self) -> str:
        """The command under which the run is recorded."""
        return self.command or f"lore poll {self.kind}"


class PollOutcome(Struct):
    """What a poll read and did. `requests` counts the HTTP requests sent."""

    report: FeedbackPollReport
    actions: ActionReport
    requests: int = 0
    seconds: float = 0.0


def poll_repositories(
    app: App, request: FeedbackPollRequest, on_progress: OnProgress
) -> tuple[PolledRepos, TideloreError | None]:
    """Poll a forge; also return the error of a poll that could not read everything."""
    from tidelore.feedback.actions import overall_error
    from tidelore.feedback.report import poll_error

    def on_repo(found: RepoReport) -> None:
        count = found.effects["events"]
        told = f"{count:,} new event{'' if count == 1 else 's'}" if found.error is None else "failed"
        on_progress(Progress(found.repo, "comments", 1, 1, told))

    def on_event(row: EventRow) -> None:
        told = "done" if row.processed_at is not None else "failed"
        on_progress(Progress(row.repo_full_name, "handler", 0, None, f"event {row.id} {told}"))

    places = choose_repos(app.config, request.repo, request.kind)
    outcome = run_until_signalled(poll_places(app, places, request, on_repo, on_event, on_progress))
    return _polled(outcome), overall_error(poll_error(outcome.report), outcome.actions)


def plan_repositories(app: App, request: FeedbackPollRequest) -> ReposPlan:
    """Return which repositories a poll would read."""
    return ReposPlan(
        repos=[
            PlannedRepo(
                source=place.host.name,
                base_url=place.host.base_url,
                repo=place.name,
                fetch=place.settings.fetch,
                incremental=place.settings.incremental and not request.full,
                handler=list(place.settings.handler) if request.handler else [],
            )
            for place in choose_repos(app.config, request.repo, request.kind)
        ]
    )


def _polled(outcome: PollOutcome) -> PolledRepos:
    actions = outcome.actions
    return PolledRepos(
        run_id=outcome.report.run_id,
        requests=outcome.requests,
        seconds=round(outcome.seconds, 3),
        repos=[_repo(found) for found in outcome.report.repos],
        commands=[operator_command(row) for row in actions.commands],
        sent=[reply(row) for row in actions.sent],
        handled=[event(row) for row in actions.handled],
        troubles=[_failure(trouble.where, trouble.error) for trouble in actions.troubles],
    )


def _repo(found: RepoReport) -> PolledRepo:
    return copy_fields(
        PolledRepo,
        found,
        mode=found.mode or None,
        effects=PollEffects(**{name: found.effects[name] for name in PollEffects.__struct_fields__}),
        ignored=[
            IgnoredComments(reason, sum(authors.values()), len(authors)) for reason, authors in found.ignored.items()
        ],
        surfaces=[copy_fields(SurfaceCounts, tally, surface=name) for name, tally in found.surfaces.items()],
        failures=[_failure(where, error) for where, error in found.failures.items()],
        error=reported_error(found.error),
    )


def _failure(where: str, error: TideloreError) -> PollFailure:
    return PollFailure(where, error.code, error.message, error.retryable)


def act_on_run(
    app: App, ran: RunReport, reports: Mapping[int, RepoReport], kind: str
) -> tuple[PolledRepos, TideloreError | None]:
    """Act on what a sync stored of the repositories of a forge: apply commands, send replies, run handlers."""
    from tidelore.feedback.actions import overall_error
    from tidelore.feedback.report import FeedbackPollReport

    async def work() -> PollOutcome:
        places = [place for place in choose_repos(app.config, None, kind) if expects_feedback(place.host)]
        async with open_hub(app, places) as hub:
            found = [repo_report(ran, reports, place.host.name, place.name) for place in hub.places]
            report = FeedbackPollReport(ran.run_id, found, 0, ran.seconds)
            return await _act(hub, report, FeedbackPollRequest(kind=kind))

    outcome = run_until_signalled(work())
    outcome.requests += sum(repo.requests for repo in outcome.report.repos)
    return _polled(outcome), overall_error(None, outcome.actions)


async def poll_places(
    app: App,
    places: Sequence[ConfiguredRepo],
    request: FeedbackPollRequest,
    on_repo: Callable[[RepoReport], None] = lambda _report: None,
    on_event: OnEvent = lambda _event: None,
    on_progress: OnProgress = silent,
) -> PollOutcome:
    """Sync every repository, then apply commands, send replies and run handlers."""
    began = app.clock.monotonic()
    async with open_hub(app, places) as hub:
        report = await sync_places(hub, request, on_progress)
        for repo in report.repos:
            on_repo(repo)
        outcome = await _act(hub, report, request, on_event)
        outcome.seconds = app.clock.monotonic() - began
    return outcome


async def _act(
    hub: Hub, report: FeedbackPollReport, request: FeedbackPollRequest, on_event: OnEvent = lambda _event: None
) -> PollOutcome:
    """Apply commands, send replies and run handlers, after the repositories were read."""
    from tidelore.feedback.actions import ActionReport

    outcome = PollOutcome(report, ActionReport(), seconds=report.seconds)
    unread = {(repo.source, repo.repo) for repo in report.repos if repo.error is not None}
    await send_due_outbox(hub, outcome.actions, without=unread)
    # The run is closed already; add the requests sent since then to it.
    count_later_requests(hub.database, report.run_id, hub.count.total - report.requests)
    if request.handler:
        await handle_events(hub, outcome.actions, on_event)
    outcome.requests = hub.count.total
    return outcome


async def sync_places(hub: Hub, request: FeedbackPollRequest, on_progress: OnProgress) -> FeedbackPollReport:
    """Sync the repositories of a hub and derive their feedback."""
    from tidelore.documents.generation import make_documents
    from tidelore.feedback.report import FeedbackPollReport
    from tidelore.sources.ports import RESOURCES
    from tidelore.store.mirror.source_access import note_access
    from tidelore.sync.mirror import MirrorRequest, mirror
    from tidelore.sync.projects import ChosenProject, build_targets

    app, chosen = hub.app, []
    note_access(hub.database, hub.accesses, app.clock.now_ms())
    for place in hub.places:
        known, followed = hub.known(place), place.name in place.host.mirrored.followed
        path, failure = place.name if known is None else known.path, hub.source(place).closed
        chosen.append(ChosenProject(place.host.name, place.name, path, failure=failure, followed=followed))
    targets = build_targets(list(hub.sources.values()), chosen, RESOURCES)
    consumer, targets = await open_consumer(app, hub.database, targets)
    shop = app.workshop(hub.database, request.run_command)
    wanted = MirrorRequest(RESOURCES, force=request.force, scan=request.full, documents=True)
    ran = await mirror(shop, targets, wanted, hub.count, on_progress, make_documents=make_documents, consumer=consumer)
    found = [repo_report(ran, consumer.reports, one.source, one.configured) for one in chosen]
    return FeedbackPollReport(ran.run_id, found, ran.requests, ran.seconds)


def repo_report(ran: RunReport, reports: Mapping[int, RepoReport], source: str, configured: str) -> RepoReport:
    """Return what a run did in one repository, for people who follow its pull requests."""
    from tidelore.feedback.report import RepoReport

    scopes = [scope for scope in ran.scopes if (scope.source, scope.configured) == (source, configured)]
    home = next((scope.home for scope in scopes if scope.home is not None), None)
    found = reports.get(home.id) if home is not None else None
    if found is None:
        found = RepoReport(source, configured if home is None else home.path)
    elif not found.mode and any(scope.requests for scope in scopes):
        found.mode = "repo"
    found.error = next((scope.error for scope in scopes if scope.error is not None), None)
    found.unfinished = sum(scope.is_left for scope in scopes)
    surfaces = sum(tally.requests for tally in found.surfaces.values())
    # Only the lists of a forge with feeds of comments are counted by surface.
    found.requests = max(surfaces, 0 if found.surfaces else sum(scope.requests for scope in scopes))
    for scope in scopes:
        found.failures |= scope.failures
        for child in scope.children.values():
            found.requests += child.tally.pages if child.kind != "reviews" else 0
            if child.tally.failed:
                found.failures[f"{scope.surface.rpartition('.')[2]} {child.kind}"] = RemoteTransient(
                    f"failed to fetch the {child.kind.replace('_', ' ')} of {child.tally.failed:,} items; will retry",
                    reason="children_failed",
                )
    return found


async def send_due_outbox(hub: Hub, actions: ActionReport, *, without: Collection[tuple[str, str]] = ()) -> None:
    """Apply stored commands and send due replies, host by host; repositories in `without` are skipped."""
    for name, repos in _known_repos(hub).items():
        readable = [repo for repo in repos if (name, repo.project.path) not in without]
        if readable:
            await _host_actions(hub, name, actions).apply_and_send(readable)


async def handle_events(hub: Hub, actions: ActionReport, on_event: OnEvent = lambda _event: None) -> None:
    """Run the configured handlers for the events that are ready; sends no requests."""
    for name, repos in _known_repos(hub).items():
        await _host_actions(hub, name, actions).handle(repos, on_event)


def _host_actions(hub: Hub, name: str, actions: ActionReport) -> HostActions:
    from tidelore.feedback.actions import HostActions

    host = next(place.host for place in hub.places if place.host.name == name)
    return HostActions(hub.database, hub.sources[name], host, hub.app.clock, hub.app.seam, actions)


def _known_repos(hub: Hub) -> dict[str, list[KnownRepo]]:
    """Return the known repositories by the name of their host."""
    from tidelore.feedback.actions import KnownRepo

    found: dict[str, list[KnownRepo]] = {}
    for place in hub.places:
        project = hub.known(place)
        if project is not None and hub.source(place).closed is None:
            found.setdefault(place.host.name, []).append(KnownRepo(project, place.settings))
    return found


class AuditOutcome(Struct):
    """The result of an audit; `mended` is None if no repair was requested."""

    report: FeedbackAuditReport
    found: int = 0
    mended: int | None = None


async def audit_feedback(
    app: App,
    places: Sequence[ConfiguredRepo],
    *,
    repair: bool = False,
    force: bool = False,
    on_thread: Callable[[str, int, int], None] = lambda _repo, _done, _total: None,
) -> AuditOutcome:
    """Scan every tracked thread and compare; with `repair`, ingest what is missing and compare again.

    A project that is only mirrored costs no request.
    """
    from tidelore.feedback.audit import FeedbackAuditReport, RepoAudit, followed

    began = app.clock.monotonic()
    report = FeedbackAuditReport()
    compared: list[tuple[ConfiguredRepo, ProjectRow, RepoAudit]] = []
    async with open_hub(app, places, create=False) as hub:
        for place in hub.places:
            project = hub.known(place)
            pulls = [] if project is None else followed(hub.database, project, place.settings, app.clock.now_ms())
            if not pulls and not expects_feedback(place.host):
                continue
            path = place.name if project is None else project.path
            found = RepoAudit(place.host.name, path, pull_name(place.settings, 0)[0], error=hub.source(place).closed)
            report.repos.append(found)
            if project is not None and found.error is None:
                compared.append((place, project, found))
                await _audit_repo(hub, place, project, found, pulls, on_thread)
        outcome = AuditOutcome(report, report.missing)
        if repair and report.missing:
            outcome.mended = await _mend(hub, compared, force=force)
        report.requests, report.seconds = hub.count.total, app.clock.monotonic() - began
    return outcome


async def _audit_repo(
    hub: Hub,
    place: ConfiguredRepo,
    project: ProjectRow,
    found: RepoAudit,
    pulls: Sequence[TrackedPr],
    on_thread: Callable[[str, int, int], None],
) -> None:
    from tidelore.core.errors import CredentialsRejected, RateLimited
    from tidelore.feedback.audit import ThreadAudit, ThreadSource, compare, scan
    from tidelore.store.mirror.projects import check_identity

    source = hub.source(place)
    if source.owns_names:
        try:
            check_identity(project, (await source.resolve(project.path)).remote_id)
        except RemoteError as error:
            found.error = error
            return
    for place_in_line, pull in enumerate(pulls):
        thread = ThreadAudit(pull.pr_number)
        found.threads.append(thread)
        on_thread(found.repo, place_in_line, len(pulls))
        try:
            assert isinstance(source, ThreadSource), "every source of feedback can be read thread by thread"
            thread.surfaces = await scan(source, project.remote_id, pull.pr_number)
        except (CredentialsRejected, RateLimited) as error:
            found.error = error
            return
        except RemoteError as error:
            thread.error = error
            continue
        compare(hub.database, project, place.settings, thread)


async def _mend(hub: Hub, compared: Sequence[tuple[ConfiguredRepo, ProjectRow, RepoAudit]], *, force: bool) -> int:
    """Read threads with missing events again, and judge their comments once more; return how many events were made."""
    from tidelore.feedback.audit import SURFACES, compare
    from tidelore.feedback.consumer import FeedbackConsumer
    from tidelore.store.work.action_tokens import signing_secret
    from tidelore.store.work.session import open_session
    from tidelore.sync.children import scan_threads

    app, mended = hub.app, 0
    shop = app.workshop(hub.database, "lore audit --repair")
    signing_secret(hub.database, app.clock.now_ms())
    consumer = FeedbackConsumer(hub.database, app.config, app.clock, hub.sources)
    async with open_session(shop, force=force, note="events found missing by an audit") as session:
        session.consumer = consumer
        for place, project, found in compared:
            for thread in found.threads:
                missing = {
                    (SURFACES[surface.surface], one.item.record.remote_id)
                    for surface in thread.surfaces
                    for one in surface.missing
                }
                if not missing:
                    continue
                before = _count_events(consumer, project)
                await scan_threads(session, hub.source(place), project, [thread.number], consumer)
                consumer.mend(session, project, thread.number, missing)
                mended += _count_events(consumer, project) - before
                compare(hub.database, project, place.settings, thread)
    return mended


def _count_events(consumer: FeedbackConsumer, project: ProjectRow) -> int:
    found = consumer.project(project.id)
    return 0 if found is None else found.report.effects["events"]
