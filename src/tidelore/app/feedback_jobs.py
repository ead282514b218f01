"""Service jobs of feedback: replies per host, and a handler per repository that has one.

With the jobs that sync they do what `lore poll` does in one go, so no sync waits for replies or handlers. Each
works from stored rows and wakes the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelore.core.config import feedback_hosts
from tidelore.feedback.repositories import ConfiguredRepo, expects_feedback
from tidelore.service.jobs import Job, JobResult
from tidelore.service.schedule import JobSpec

if TYPE_CHECKING:
    from tidelore.app.sources import Hub
    from tidelore.app.wiring import App
    from tidelore.core.config import FeedbackHost
    from tidelore.feedback.report import RepoReport

ANSWERS_SECONDS = 15.0
HANDLER_SECONDS = 15.0
"""How often rows are checked when no poll reports new ones, because failed events are retried after a delay."""


def feedback_jobs(app: App) -> list[Job]:
    """Return the jobs of every configured repository and its host; a host that is only mirrored has none."""
    jobs: list[Job] = []
    for host in filter(expects_feedback, feedback_hosts(app.config)):
        places = [ConfiguredRepo(host, name) for name in host.configured]
        jobs += [_handler_job(app, place) for place in places if place.settings.handler]
        if places:
            jobs.append(_answers_job(app, host, places))
    return jobs


def sync_name(kind: str, host: str, project: str | None) -> str:
    """Return the name of the job that syncs a host, or one project of it."""
    return f"{kind}:{host}" if project is None else f"{kind}:{host}/{project}"


def jobs_to_wake(app: App, report: RepoReport, configured: str) -> list[str]:
    """Return the jobs that have work after a sync of one repository."""
    host = next((host for host in feedback_hosts(app.config) if host.name == report.source), None)
    if host is None:
        return []
    place = ConfiguredRepo(host, configured)
    wakes = [_answers_name(host)] if report.effects["commands"] or report.effects["planned"] else []
    return wakes + ([_handler_name(place)] if place.settings.handler and report.effects["events"] else [])


def _answers_name(host: FeedbackHost) -> str:
    return f"answers:{host.name}"


def _handler_name(place: ConfiguredRepo) -> str:
    return f"handler:{place.host.name}/{place.name}"


def _answers_job(app: App, host: FeedbackHost, places: list[ConfiguredRepo]) -> Job:
    spec = JobSpec(_answers_name(host), host.name, "answers", host.base_url, ANSWERS_SECONDS)
    return Job(spec, lambda: _answer(app, places))


def _handler_job(app: App, place: ConfiguredRepo) -> Job:
    spec = JobSpec(
        _handler_name(place), place.host.name, "handler", place.name, HANDLER_SECONDS, lane="handler", asks=False
    )
    return Job(spec, lambda: _handle(app, place))


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

    with app.store() as database:
        found = [find_configured(database, place.host.name, place.name) for place in places]
        ids = [project.id for project in found if project is not None]
        free_dead(database, app.clock.now_ms())
        return bool(ids) and has_answers_to_send(database, ids, app.clock.now_ms())


def _unread(hub: Hub) -> set[tuple[str, str]]:
    """Return the repositories that the last poll could not read; nothing is posted there either."""
    from tidelore.store.work.service_records import list_jobs

    failing = {row.name for row in list_jobs(hub.database) if row.failures}
    known = [(place, hub.known(place)) for place in hub.places if not failing.isdisjoint(_sync_jobs(place))]
    return {(place.host.name, project.path) for place, project in known if project is not None}


def _sync_jobs(place: ConfiguredRepo) -> set[str]:
    """Return the names of the jobs that may sync a repository: its own, or that of its host."""
    return {sync_name(place.host.kind, place.host.name, project) for project in (place.name, None)}


async def _handle(app: App, place: ConfiguredRepo) -> JobResult:
    """Run the handler of one repository until no event is ready; sends no requests."""
    from tidelore.feedback.delivery import HandlerRunner
    from tidelore.store.mirror.projects import find_configured

    with app.store() as database:
        project = find_configured(database, place.host.name, place.name)
        if project is None:
            return JobResult(idle=True)
        runner = HandlerRunner(database, project, place.settings, app.clock, "lore service")
        handled = await runner.run_all()
        return JobResult(idle=not handled, wakes=(_answers_name(place.host),) if handled else ())
