"""What a person may change from a screen. Owns the wiring of each change; every one is a change a command makes too.

Nothing here is called by a look: a key asks for it and somebody has confirmed. Each call opens what it needs, and says
in one line what it did.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidelore.core.errors import UserError

if TYPE_CHECKING:
    from tidelore.app import App
    from tidelore.app.console.thread import ServiceThread
    from tidelore.feedback.places import Place
    from tidelore.store.database.port import Database, Transaction
    from tidelore.store.mirror.accounts import AccountRow
    from tidelore.store.work.events import EventRow
    from tidelore.store.work.service_records import JobRow
    from tidelore.store.work.tracked_pull_requests import TrackedPr


class Hands:
    """Changes, made one at a time."""

    def __init__(self, app: App) -> None:
        self._app = app

    def unblock(self, pull: TrackedPr) -> str:
        """Follow a blocked pull request again; its host is asked for its head."""
        from tidelore.app.feedback.tracking import unblock

        row = asyncio.run(unblock(self._app, self._place(pull), pull.pr_number, None))
        return f"{row.repo_full_name}#{row.pr_number} is tracked again"

    def pause_pull(self, pull: TrackedPr) -> str:
        """Hold the events of a pull request back, or hand them out again."""
        from tidelore.store.work.tracked_pull_requests import set_paused

        self._change(lambda tx, now: set_paused(tx, pull.id, not pull.paused, now))
        done = "delivered again" if pull.paused else "paused"
        return f"{pull.repo_full_name}#{pull.pr_number}: its events are {done}"

    def retry_thread(self, event: EventRow) -> str:
        """Let what waits in a thread be handed out at once, its failures forgotten."""
        from tidelore.store.work.events import retry_now

        count = self._change(lambda tx, _now: retry_now(tx, event.project_id, event.thread_number))
        return f"{event.repo_full_name}#{event.thread_number}: retrying {count} pending"

    def pause_account(self, account: AccountRow) -> str:
        """Ask an account no more, or one that is paused again."""
        from tidelore.store.mirror.accounts import pause_account, resume_account

        if account.state == "paused":
            self._change(lambda tx, now: resume_account(tx, account.id, now))
            return f"@{account.handle} is polled again"
        self._change(lambda tx, now: pause_account(tx, account.id, "paused in the console", now))
        return f"@{account.handle} is paused"

    def retry_run(self, run_id: int) -> str:
        """Repeat what a surgical run left; its hosts are asked."""
        from tidelore.app import surgical_sync
        from tidelore.sync.report import SurgicalReport
        from tidelore.sync.surgical_preflight import SurgicalFlags

        report = SurgicalReport()
        asyncio.run(surgical_sync(self._app, (), SurgicalFlags(retry_failed=run_id), report, force=False))
        if report.run_id is None:
            return f"run {run_id}: nothing to retry"
        failed = len(report.entity_failures)
        told = f", {failed} failed" if failed else ""
        return f"run {report.run_id}: {report.processed_count} of {report.requested_count} refreshed{told}"

    def run_now(self, service: ServiceThread, jobs: Sequence[JobRow]) -> str:
        """Let jobs run at once. A poll of accounts asks whoever is due: so all of them are."""
        from tidelore.app.service.bluesky_jobs import SOURCE
        from tidelore.store.mirror.accounts import followed_dids, make_due

        if not service.running:
            raise UserError("the service of this console has stopped", fix="restart the console")
        if any((job.source, job.kind) == (SOURCE, "poll") for job in jobs):
            with self._store() as database:
                everybody = followed_dids(database)
                with database.transaction() as tx:
                    make_due(tx, everybody, self._app.clock.now_ms())
        service.run_now([job.name for job in jobs])
        return f"{jobs[0].name if len(jobs) == 1 else f'{len(jobs)} jobs'}: due now"

    def _place(self, pull: TrackedPr) -> Place:
        from tidelore.feedback.places import choose_places
        from tidelore.store.mirror.projects import list_projects

        with self._store() as database:
            project = next(row for row in list_projects(database) if row.id == pull.project_id)
        for place in choose_places(self._app.config, None):
            if (place.host.name, place.name) == (project.source, project.configured):
                return place
        raise UserError(f"{project.path} is no longer configured", fix="list it under [[github.repos]]")

    def _change(self, change: Callable[[Transaction, int], int]) -> int:
        with self._store() as database, database.transaction() as tx:
            return change(tx, self._app.clock.now_ms())

    @contextmanager
    def _store(self) -> Iterator[Database]:
        database = self._app.open_store()
        try:
            yield database
        finally:
            database.close()
