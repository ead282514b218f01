"""Use-cases of the console: the service in a thread, the changes a user may make, search, and reading a thread.

Every change is also available as a command; each opens what it needs and returns a one-line message.
Search uses keywords, and embeddings only if the model runs in this process: typing never causes a network call.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tidelore.core.errors import LockHeld, TideloreError, UserError
from tidelore.core.references import KINDS, parse_post_reference, parse_reference, parse_since
from tidelore.search.find import SearchMode, SearchRequest, SearchResults, find
from tidelore.search.query import Query, parse_query, resolve_filters
from tidelore.search.results import ThreadResult
from tidelore.service.control import Control
from tidelore.store.database.port import Database
from tidelore.store.reading.conversations import Conversation, read_conversation, resolve
from tidelore.store.reading.posts import PostDetails, read_post, resolve_post

if TYPE_CHECKING:
    from tidelore.app.wiring import App
    from tidelore.embedding.embedder import Embedder
    from tidelore.feedback.repositories import ConfiguredRepo
    from tidelore.search.semantic import MeaningRanker
    from tidelore.store.database.port import Transaction
    from tidelore.store.mirror.accounts import AccountRow
    from tidelore.store.work.events import EventRow
    from tidelore.store.work.service_records import JobRow
    from tidelore.store.work.tracked_pull_requests import TrackedPr


STOP_SECONDS = 4.0
"""How long the service may take to stop cleanly before it is asked to stop at once."""


class ServiceThread:
    """The service in a thread with a separate event loop; `error` is set if it ended without a stop request."""

    def __init__(self, app: App, load: Callable[[], App] | None = None, config_file: str | None = None) -> None:
        # Shared with the App that `load` returns, so that `stop` ends the waits of all connections of the service.
        self._patience = app.patience or app.new_patience()
        self._app = self._obeying(app)
        self._load = None if load is None else lambda: self._obeying(load())
        self._config_file = config_file
        self._control = Control()
        self._thread = threading.Thread(target=self._run, name="service", daemon=True)
        self.error: TideloreError | None = None

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @property
    def elsewhere(self) -> bool:
        """Whether another process runs the service of this database."""
        return isinstance(self.error, LockHeld)

    def start(self) -> None:
        """Start the service."""
        self._thread.start()

    def run_now(self, names: Iterable[str]) -> None:
        """Run jobs now, even if they are backing off after a failure."""
        self._control.run_now(names)

    def stop(self) -> None:
        """Stop cleanly and wait for it: pages in progress are finished, runs closed, leases released."""
        try:
            self._end()
        finally:
            # The second stop request does not wait, not even for a locked database.
            self._patience.end()
            self._end()

    def _obeying(self, app: App) -> App:
        return replace(app, patience=self._patience)

    def _end(self) -> None:
        if self._thread.is_alive():
            self._control.stop()
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        from tidelore.app.serving import ServeRequest, serve

        try:
            asyncio.run(serve(self._app, ServeRequest(), self._control, load=self._load, config_file=self._config_file))
        except TideloreError as error:
            self.error = error
        except Exception as error:  # noqa: BLE001 - shown on the screen; nothing else handles errors of this thread
            self.error = TideloreError(
                f"the service stopped unexpectedly: {error!r}", fix="check the log, then restart"
            )


class ConsoleActions:
    """The changes that a user can make on the screens."""

    def __init__(self, app: App) -> None:
        self._app = app

    def unblock(self, pull: TrackedPr) -> str:
        """Unblock a pull request; its current head is requested from the host."""
        from tidelore.app.feedback_tracking import unblock

        row = asyncio.run(unblock(self._app, self._place(pull), pull.pr_number, None))
        return f"{row.repo_full_name}#{row.pr_number} is tracked again"

    def pause_pull(self, pull: TrackedPr) -> str:
        """Pause the events of a pull request, or resume them if paused."""
        from tidelore.store.work.tracked_pull_requests import set_paused

        self._change(lambda tx, now: set_paused(tx, pull.id, not pull.paused, now))
        done = "delivered again" if pull.paused else "paused"
        return f"{pull.repo_full_name}#{pull.pr_number}: its events are {done}"

    def retry_thread(self, event: EventRow) -> str:
        """Make the pending events of a thread available at once and reset their failures."""
        from tidelore.store.work.events import retry_now

        count = self._change(lambda tx, _now: retry_now(tx, event.project_id, event.thread_number))
        return f"{event.repo_full_name}#{event.thread_number}: retrying {count} pending"

    def pause_account(self, account: AccountRow) -> str:
        """Pause an account, or resume it if paused."""
        from tidelore.store.mirror.accounts import pause_account, resume_account

        if account.state == "paused":
            self._change(lambda tx, now: resume_account(tx, account.id, now))
            return f"@{account.handle} is polled again"
        self._change(lambda tx, now: pause_account(tx, account.id, "paused in the console", now))
        return f"@{account.handle} is paused"

    def retry_run(self, run_id: int) -> str:
        """Retry the items that a surgical run left; sends requests to their hosts."""
        from tidelore.app.mirroring import surgical_sync
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
        """Run jobs now. An account poll reads only due accounts, so all accounts are made due first."""
        from tidelore.app.service_jobs import BLUESKY
        from tidelore.store.mirror.accounts import followed_dids, make_due

        if not service.running:
            raise UserError("the service of this console has stopped", fix="restart the console")
        if any((job.source, job.kind) == (BLUESKY, "poll") for job in jobs):
            with self._store() as database:
                everybody = followed_dids(database)
                with database.transaction() as tx:
                    make_due(tx, everybody, self._app.clock.now_ms())
        service.run_now([job.name for job in jobs])
        return f"{jobs[0].name if len(jobs) == 1 else f'{len(jobs)} jobs'}: due now"

    def _place(self, pull: TrackedPr) -> ConfiguredRepo:
        from tidelore.feedback.repositories import choose_repos
        from tidelore.store.mirror.projects import list_projects

        with self._store() as database:
            project = next(row for row in list_projects(database) if row.id == pull.project_id)
        for place in choose_repos(self._app.config, None):
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


_IN_PROCESS = frozenset({"local", "minilm"})


class ConsoleSearch:
    """Searches threads; used from a single thread of the process."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._embedder: Embedder | None = None
        self._opened = False

    def by_words(self, database: Database, text: str, limit: int) -> SearchResults:
        """Search by keywords only."""
        return self._find(database, parse_query(text), "lexical", None, limit)

    def by_meaning(self, database: Database, text: str, limit: int) -> SearchResults | None:
        """Search by keywords and by meaning; None if that is not possible without a network call."""
        query = parse_query(text)
        ranker = self._ranker(database, query.text)
        return None if ranker is None else self._find(database, query, "hybrid", ranker, limit)

    def _find(
        self, database: Database, query: Query, mode: SearchMode, ranker: MeaningRanker | None, limit: int
    ) -> SearchResults:
        wanted = resolve_filters(database, query.fields, lambda text: parse_since(text, self._app.clock.now_ms()))
        return find(database, SearchRequest(query=query, wanted=wanted, mode=mode, limit=limit), ranker)

    def _ranker(self, database: Database, text: str) -> MeaningRanker | None:
        from tidelore.store.reading.vector_models import has_vectors

        if not text.strip() or not has_vectors(database):
            return None
        if not self._opened:
            self._opened = True
            self._embedder = self._open_embedder()
        if self._embedder is None:
            return None
        from tidelore.search.semantic import make_ranker

        return make_ranker(database, self._embedder, text)

    def _open_embedder(self) -> Embedder | None:
        from tidelore.embedding.embedder import Unavailable
        from tidelore.embedding.registry import open_embedder

        config = self._app.config
        if config.embedding.provider not in _IN_PROCESS:
            return None
        embedder = open_embedder(config.embedding, config.http, self._app.environ, self._app.clock)
        return None if isinstance(embedder, Unavailable) else embedder


def read_thread(database: Database, found: ThreadResult) -> Conversation | PostDetails:
    """Return the issue, merge request or post a result leads to."""
    if found.type == "post":
        return read_post(database, resolve_post(database, parse_post_reference(found.reference)))
    kind = next(kind for kind in KINDS if kind == found.type)
    try:
        row_id = resolve(database, kind, parse_reference(found.reference, kind))
    except UserError:
        # Two hosts have a project with this path; the URL distinguishes them.
        if found.web_url is None:
            raise
        row_id = resolve(database, kind, parse_reference(found.web_url, kind))
    return read_conversation(database, kind, row_id)
