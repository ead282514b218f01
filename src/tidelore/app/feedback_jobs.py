"""Service jobs of GitHub: a poll per repository, replies per host, a handler per repository that has one.

Three kinds of jobs do what `lore poll github` does in one go, so no poll waits for replies or handlers. Each works
from stored rows and wakes the others. All repositories that are due are polled together; each gets its own result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tidelore.feedback.repositories import ConfiguredRepo
from tidelore.service.jobs import Job, JobResult, batched
from tidelore.service.schedule import JobSpec, bound_of

if TYPE_CHECKING:
    from tidelore.app.sources import Hub
    from tidelore.app.wiring import App
    from tidelore.core.config import GitHubHost
    from tidelore.core.errors import TideloreError
    from tidelore.feedback.report import RepoReport

COMMAND = "lore poll github"
POLL_TURN = "github"
PATIENCE_SECONDS = 10.0
"""How long a joint poll waits for one host that asked for a pause; for a longer pause only that host backs off."""
ANSWERS_SECONDS = 15.0
HANDLER_SECONDS = 15.0
"""How often rows are checked when no poll reports new ones, because failed events are retried after a delay."""


def feedback_jobs(app: App) -> list[Job]:
    """Return the jobs of every configured repository and its host."""
    jobs: list[Job] = []
    polling = _Polling(app)
    for host in app.config.github:
        places = [ConfiguredRepo(host, repo.name) for repo in host.repos]
        for place in places:
            jobs.append(batched(_poll_spec(place), polling.together))
            if place.settings.handler:
                jobs.append(_handler_job(app, place))
        if places:
            jobs.append(_answers_job(app, host, places))
    return jobs


def _poll_name(place: ConfiguredRepo) -> str:
    return f"github:{place.host.name}/{place.name}"


def _answers_name(host: GitHubHost) -> str:
    return f"answers:{host.name}"


def _handler_name(place: ConfiguredRepo) -> str:
    return f"handler:{place.host.name}/{place.name}"


def _poll_spec(place: ConfiguredRepo) -> JobSpec:
    name, interval = _poll_name(place), place.settings.poll_interval_seconds
    bound = bound_of(interval)
    return JobSpec(name, place.host.name, "poll", place.name, interval, bound, turn=POLL_TURN, batch=POLL_TURN)


def _answers_job(app: App, host: GitHubHost, places: list[ConfiguredRepo]) -> Job:
    spec = JobSpec(_answers_name(host), host.name, "answers", host.base_url, ANSWERS_SECONDS)
    return Job(spec, lambda: _answer(app, places))


def _handler_job(app: App, place: ConfiguredRepo) -> Job:
    spec = JobSpec(
        _handler_name(place), place.host.name, "handler", place.name, HANDLER_SECONDS, lane="handler", asks=False
    )
    return Job(spec, lambda: _handle(app, place))


class _Polling:
    """Polls repositories of any number of hosts."""

    def __init__(self, app: App) -> None:
        self._app = replace(app, patience_seconds=PATIENCE_SECONDS)
        places = [ConfiguredRepo(host, repo.name) for host in app.config.github for repo in host.repos]
        self._places = {_poll_name(place): place for place in places}

    async def together(self, names: Sequence[str]) -> dict[str, JobResult]:
        """Poll the repositories of these jobs together."""
        from tidelore.core.errors import CredentialsMissing

        hosts = list({self._places[name].host.name: None for name in names})
        try:
            return await self._poll(names)
        except CredentialsMissing:
            if len(hosts) == 1:
                raise
        # No host has a token. Poll each one alone, so that its error names its own token.
        found: dict[str, JobResult] = {}
        for host in hosts:
            own = [name for name in names if self._places[name].host.name == host]
            try:
                found |= await self._poll(own)
            except CredentialsMissing as error:
                found |= dict.fromkeys(own, JobResult(error=error))
        return found

    async def _poll(self, names: Sequence[str]) -> dict[str, JobResult]:
        from tidelore.app.feedback_polling import find_targets
        from tidelore.app.sources import open_hub
        from tidelore.feedback.polling import poll
        from tidelore.store.work.session import Workshop

        app, places = self._app, [self._places[name] for name in names]
        async with open_hub(app, places) as hub:
            shop = Workshop(hub.database, app.config, app.clock, app.seam, COMMAND, app.insists)
            report = await poll(shop, await find_targets(hub), asked=lambda: hub.count.total)
            asked = dict(hub.count.of_source)
            found: dict[str, JobResult] = {}
            for name, place, repo in zip(names, places, report.repos, strict=True):
                found[name] = _done(place, repo)
                asked[place.host.name] = asked.get(place.host.name, 0) - repo.requests
            for name, place in zip(names, places, strict=True):
                # Requests of no repository (a login, a retry) are counted for the first repository of their host.
                rest = asked.pop(place.host.name, 0)
                budget = hub.count.budgets.get(place.host.name)
                found[name] = replace(found[name], requests=found[name].requests + rest, budget=budget)
            return found


def _done(place: ConfiguredRepo, repo: RepoReport) -> JobResult:
    """Return the result of polling one repository, with the jobs that have work now."""
    wakes = [_answers_name(place.host)] if repo.effects["commands"] or repo.effects["planned"] else []
    wakes += [_handler_name(place)] if place.settings.handler and repo.effects["events"] else []
    return JobResult(repo.requests, _verdict(repo), wakes=tuple(wakes))


def _verdict(repo: RepoReport) -> TideloreError | None:
    """Return the error of a repository's poll, or a partial success if some of its threads failed."""
    from tidelore.feedback.report import FeedbackPollReport, poll_error

    return poll_error(FeedbackPollReport(0, [repo]))


async def _answer(app: App, places: list[ConfiguredRepo]) -> JobResult:
    """Apply commands and send replies of one host; sends no requests while none are pending."""
    from tidelore.app.feedback_polling import send_due_outbox
    from tidelore.app.sources import open_hub
    from tidelore.feedback.actions import ActionReport, overall_error

    if not _has_answers(app, places):
        return JobResult(idle=True)
    actions = ActionReport()
    async with open_hub(app, places) as hub:
        await send_due_outbox(hub, actions, without=_unread(hub))
        host = places[0].host.name
        return JobResult(hub.count.total, overall_error(None, actions), budget=hub.count.budgets.get(host))


def _has_answers(app: App, places: list[ConfiguredRepo]) -> bool:
    from tidelore.store.mirror.projects import find_configured
    from tidelore.store.reading.totals import has_answers_to_send
    from tidelore.store.work.outbox import free_dead

    database = app.open_store()
    try:
        found = [find_configured(database, place.host.name, place.name) for place in places]
        ids = [project.id for project in found if project is not None]
        free_dead(database, app.clock.now_ms())
        return bool(ids) and has_answers_to_send(database, ids, app.clock.now_ms())
    finally:
        database.close()


def _unread(hub: Hub) -> set[tuple[str, str]]:
    """Return the repositories that the last poll could not read; nothing is posted there either."""
    from tidelore.store.work.service_records import list_jobs

    failing = {row.name for row in list_jobs(hub.database) if row.failures}
    known = [(place, hub.known(place)) for place in hub.places if _poll_name(place) in failing]
    return {(place.host.name, project.path) for place, project in known if project is not None}


async def _handle(app: App, place: ConfiguredRepo) -> JobResult:
    """Run the handler of one repository until no event is ready; sends no requests."""
    from tidelore.feedback.delivery import HandlerRunner
    from tidelore.store.mirror.projects import find_configured

    database = app.open_store()
    try:
        project = find_configured(database, place.host.name, place.name)
        if project is None:
            return JobResult(idle=True)
        runner = HandlerRunner(database, project, place.settings, app.clock, "lore service")
        handled = await runner.run_all()
        return JobResult(idle=not handled, wakes=(_answers_name(place.host),) if handled else ())
    finally:
        database.close()
