"""One poll: repositories are read, then commands applied, answers sent and handlers run. Owns the wiring of the steps.

A quiet poll by feeds is three requests: who we are is asked only where an answer of ours has not been seen yet.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from msgspec import Struct

from tidelore.app.feedback.hub import Hub, open_hub
from tidelore.core.errors import RemoteError, TideloreError
from tidelore.feedback.places import choose_places
from tidelore.store.mirror.projects import list_projects
from tidelore.store.work.runs import count_later_requests

if TYPE_CHECKING:
    from tidelore.app import App
    from tidelore.feedback.after_poll import Deeds, Duties, OnEvent, Stop
    from tidelore.feedback.polling import RepoTarget
    from tidelore.feedback.report import PollReport, RepoReport


class PollRequest(Struct, frozen=True):
    """What a poll was asked to do."""

    repo: str | None = None
    full: bool = False
    force: bool = False
    handler: bool = True
    command: str = "lore poll github"


class PollOutcome(Struct):
    """What a poll read, and what was done about it. `requests` are those that went over the wire."""

    report: PollReport
    deeds: Deeds
    requests: int = 0
    seconds: float = 0.0


async def poll_github(
    app: App,
    request: PollRequest,
    on_repo: Callable[[RepoReport], None] = lambda _report: None,
    on_event: OnEvent = lambda _event: None,
) -> PollOutcome:
    """Read what is new in every repository, then apply commands, send answers and run handlers."""
    from tidelore.feedback.after_poll import Deeds
    from tidelore.feedback.polling import poll
    from tidelore.store.work.session import Workshop

    began = app.clock.monotonic()
    async with open_hub(app, choose_places(app.config, request.repo)) as hub:
        shop = Workshop(hub.database, app.config, app.clock, app.seam, request.command)
        report = await poll(
            shop,
            await find_targets(hub),
            force=request.force,
            full=request.full,
            on_repo=on_repo,
            asked=lambda: hub.count.total,
        )
        outcome = PollOutcome(report, Deeds())
        unread = {(repo.source, repo.repo) for repo in report.repos if repo.error is not None}
        await send_due_outbox(hub, outcome.deeds, without=unread)
        # The row of the run is closed by now, and what was asked since belongs to it all the same.
        count_later_requests(hub.database, report.run_id, hub.count.total - report.requests)
        if request.handler:
            await handle_events(hub, outcome.deeds, on_event)
        outcome.requests, outcome.seconds = hub.count.total, app.clock.monotonic() - began
    return outcome


async def find_targets(hub: Hub) -> list[RepoTarget]:
    """Return the repositories to read, with who we are on their host or why that could not be learned."""
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
    """Return who we are on each host where that matters: where an answer of ours has not been seen yet.

    Only then can a forged mark stand for it; a quiet poll asks nobody.
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


async def send_due_outbox(hub: Hub, deeds: Deeds, *, without: Collection[tuple[str, str]] = ()) -> None:
    """Apply stored commands and send due answers, host by host; one of which nothing could be read is left alone."""
    for name, stops in _stops(hub).items():
        readable = [stop for stop in stops if (name, stop.project.path) not in without]
        if readable:
            await _duties(hub, name, deeds).talk(readable)


async def handle_events(hub: Hub, deeds: Deeds, on_event: OnEvent = lambda _event: None) -> None:
    """Run the configured handlers for the events that are ready; asks no host."""
    for name, stops in _stops(hub).items():
        await _duties(hub, name, deeds).handle(stops, on_event)


def _duties(hub: Hub, name: str, deeds: Deeds) -> Duties:
    from tidelore.feedback.after_poll import Duties

    host = next(place.host for place in hub.places if place.host.name == name)
    return Duties(hub.database, hub.sources[name], host, hub.app.clock, hub.app.seam, deeds)


def _stops(hub: Hub) -> dict[str, list[Stop]]:
    """Return the repositories that are known, by the name of their host."""
    from tidelore.feedback.after_poll import Stop

    found: dict[str, list[Stop]] = {}
    for place in hub.places:
        project = hub.known(place)
        if project is not None and hub.source(place).closed is None:
            found.setdefault(place.host.name, []).append(Stop(project, place.settings))
    return found
