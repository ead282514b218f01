"""The audit of GitHub feedback. Owns its wiring: a scan of every thread, the comparison, the repair under the lease."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from tidelore.app.feedback.hub import Hub, open_hub
from tidelore.core.errors import RemoteError
from tidelore.feedback.places import Place, choose_places
from tidelore.store.mirror.projects import ProjectRow

if TYPE_CHECKING:
    from tidelore.app import App
    from tidelore.feedback.audit import AuditReport, RepoAudit


class AuditOutcome(Struct):
    """A comparison; `mended` is None when nothing was to be repaired."""

    report: AuditReport
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
    """Scan every followed thread and compare; with `repair`, ingest what is missing and compare again."""
    from tidelore.feedback.audit import AuditReport, RepoAudit

    began = app.clock.monotonic()
    report = AuditReport()
    async with open_hub(app, choose_places(app.config, repo), create=False) as hub:
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
    hub: Hub, place: Place, project: ProjectRow, found: RepoAudit, on_thread: Callable[[str, int, int], None]
) -> None:
    from tidelore.core.errors import CredentialsRejected, RateLimited
    from tidelore.feedback.audit import ThreadAudit, compare, followed, scan
    from tidelore.feedback.identity import check_identity

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


async def _mend(hub: Hub, report: AuditReport, *, force: bool) -> int:
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
