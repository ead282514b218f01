"""Use-cases of GitHub polls: poll repositories and act on new comments; audit and repair stored events.

After the repositories were read, commands are applied, replies sent and handlers run. Our login is requested only for
hosts where a reply of ours was not observed yet, so a poll by feeds without changes stays at three requests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from msgspec import Struct

from tidelore.app.sources import Hub, open_hub
from tidelore.core.errors import RemoteError, TideloreError
from tidelore.feedback.repositories import ConfiguredRepo, choose_repos
from tidelore.store.mirror.projects import ProjectRow, list_projects
from tidelore.store.work.runs import count_later_requests

if TYPE_CHECKING:
    from tidelore.app.wiring import App
    from tidelore.feedback.actions import ActionReport, HostActions, KnownRepo, OnEvent
    from tidelore.feedback.audit import FeedbackAuditReport, RepoAudit
    from tidelore.feedback.polling import RepoTarget
    from tidelore.feedback.report import FeedbackPollReport, RepoReport


class FeedbackPollRequest(Struct, frozen=True):
    """The options of a poll."""

    repo: str | None = None
    full: bool = False
    force: bool = False
    handler: bool = True
    command: str = "lore poll github"


class PollOutcome(Struct):
    """What a poll read and did. `requests` counts the HTTP requests sent."""

    report: FeedbackPollReport
    actions: ActionReport
    requests: int = 0
    seconds: float = 0.0


async def poll_github(
    app: App,
    request: FeedbackPollRequest,
    on_repo: Callable[[RepoReport], None] = lambda _report: None,
    on_event: OnEvent = lambda _event: None,
) -> PollOutcome:
    """Poll every repository, then apply commands, send replies and run handlers."""
    from tidelore.feedback.actions import ActionReport
    from tidelore.feedback.polling import poll
    from tidelore.store.work.session import Workshop

    began = app.clock.monotonic()
    async with open_hub(app, choose_repos(app.config, request.repo)) as hub:
        shop = Workshop(hub.database, app.config, app.clock, app.seam, request.command)
        report = await poll(
            shop,
            await find_targets(hub),
            force=request.force,
            full=request.full,
            on_repo=on_repo,
            asked=lambda: hub.count.total,
        )
        outcome = PollOutcome(report, ActionReport())
        unread = {(repo.source, repo.repo) for repo in report.repos if repo.error is not None}
        await send_due_outbox(hub, outcome.actions, without=unread)
        # The run is closed already; add the requests sent since then to it.
        count_later_requests(hub.database, report.run_id, hub.count.total - report.requests)
        if request.handler:
            await handle_events(hub, outcome.actions, on_event)
        outcome.requests, outcome.seconds = hub.count.total, app.clock.monotonic() - began
    return outcome


async def find_targets(hub: Hub) -> list[RepoTarget]:
    """Return the repositories to read, with our login on their host or the error of requesting it."""
    from tidelore.feedback.polling import RepoTarget

    logins = await own_logins(hub)
    targets = []
    for place in hub.places:
        login = logins.get(place.host.name)
        failed = login if isinstance(login, TideloreError) else None
        name = None if isinstance(login, TideloreError) else login
        targets.append(RepoTarget(hub.source(place), place.settings, name, failed))
    return targets


async def own_logins(hub: Hub) -> dict[str, str | TideloreError | None]:
    """Return our login on each host where a reply of ours has not been observed yet.

    Only there could a forged marker be mistaken for our reply. A poll without such replies sends no request.
    """
    from tidelore.store.work.action_tokens import unobserved

    homes = {project.id: project.source for project in list_projects(hub.database)}
    waiting = {homes.get(token.project_id) for token in unobserved(hub.database)}
    logins: dict[str, str | TideloreError | None] = {}
    for name, source in hub.sources.items():
        if name in waiting and source.closed is None:
            try:
                logins[name] = await source.login()
            except RemoteError as error:
                logins[name] = error
    return logins


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


async def audit_github(
    app: App,
    repo: str | None,
    *,
    repair: bool = False,
    force: bool = False,
    on_thread: Callable[[str, int, int], None] = lambda _repo, _done, _total: None,
) -> AuditOutcome:
    """Scan every tracked thread and compare; with `repair`, ingest what is missing and compare again."""
    from tidelore.feedback.audit import FeedbackAuditReport, RepoAudit

    began = app.clock.monotonic()
    report = FeedbackAuditReport()
    async with open_hub(app, choose_repos(app.config, repo), create=False) as hub:
        for place in hub.places:
            project = hub.known(place)
            found = RepoAudit(place.host.name, place.name if project is None else project.path)
            report.repos.append(found)
            found.error = hub.source(place).closed
            if project is not None and found.error is None:
                await _audit_repo(hub, place, project, found, on_thread)
        outcome = AuditOutcome(report, report.missing)
        if repair and report.missing:
            outcome.mended = await _mend(hub, report, force=force)
        report.requests, report.seconds = hub.count.total, app.clock.monotonic() - began
    return outcome


async def _audit_repo(
    hub: Hub, place: ConfiguredRepo, project: ProjectRow, found: RepoAudit, on_thread: Callable[[str, int, int], None]
) -> None:
    from tidelore.core.errors import CredentialsRejected, RateLimited
    from tidelore.feedback.audit import ThreadAudit, compare, followed, scan
    from tidelore.feedback.repositories import check_identity

    try:
        record = await hub.source(place).resolve(project.path)
        check_identity(project, record.remote_id)
    except RemoteError as error:
        found.error = error
        return
    pulls = followed(hub.database, project, place.settings, hub.app.clock.now_ms())
    for place_in_line, pull in enumerate(pulls):
        thread = ThreadAudit(pull.pr_number)
        found.threads.append(thread)
        on_thread(found.repo, place_in_line, len(pulls))
        try:
            thread.surfaces = await scan(hub.source(place), project.remote_id, pull.pr_number)
        except (CredentialsRejected, RateLimited) as error:
            found.error = error
            return
        except RemoteError as error:
            thread.error = error
            continue
        compare(hub.database, project, place.settings, thread)


async def _mend(hub: Hub, report: FeedbackAuditReport, *, force: bool) -> int:
    from tidelore.feedback.audit import compare, mend
    from tidelore.feedback.polling import LEASE
    from tidelore.store.work.session import Workshop, open_session

    app, mended = hub.app, 0
    shop = Workshop(hub.database, app.config, app.clock, app.seam, "lore audit github --repair")
    async with open_session(shop, force=force, lease=LEASE, note="events found missing by an audit") as session:
        for place, found in zip(hub.places, report.repos, strict=True):
            project = hub.known(place)
            for thread in found.threads if project is not None else ():
                assert project is not None
                now = app.clock.now_ms()
                mended += mend(hub.database, project, place.settings, thread, now, session.lease)
                compare(hub.database, project, place.settings, thread)
    return mended
