"""Use-cases of the console: the service in a thread, what the screens show, and the changes a user may make.

Every change is also available as a command; each opens what it needs and returns a one-line message.
Search uses keywords, and embeddings only if the model runs in this process: typing never causes a network call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tidelore.app.accounts import Account, account
from tidelore.app.answers import copy_fields
from tidelore.app.feedback_tracking import Event, PendingPull, Reply, event, pending_pull, reply
from tidelore.app.listing import (
    ListedIssue,
    ListedMergeRequest,
    ListedPost,
    ListRequest,
    PostRequest,
    list_issues,
    list_merge_requests,
    list_posts,
)
from tidelore.app.positions import ServiceState, SourcesOverview, read_sources, service_state
from tidelore.app.reading.referring import find_thread, parse_any
from tidelore.app.reading.threads import ListedThread, ThreadQuestion, list_threads
from tidelore.app.searching import FoundThread, SearchPage, rank_by_meaning, search_page
from tidelore.app.showing import (
    ShownIssue,
    ShownMergeRequest,
    ShownPost,
    ShownTopic,
    read_item,
    read_shown_post,
    read_shown_topic,
)
from tidelore.app.status import JobEntry, ShownRun, job_entry, shown_run
from tidelore.app.wiring import App, SettingsFile
from tidelore.app.writing.targets import find_target, place_of
from tidelore.core.errors import Cancelled, LockHeld, NotFound, RemoteError, TideloreError, UserError
from tidelore.core.references import parse_since
from tidelore.engine import ledger
from tidelore.search.find import SearchMode, SearchRequest, find
from tidelore.search.query import Query, parse_query, resolve_filters
from tidelore.service.control import Control
from tidelore.service.status import read_service
from tidelore.store.database.port import Database
from tidelore.store.reading.changes import newest_change
from tidelore.store.work import activity
from tidelore.store.work.events import peek, pending_counts
from tidelore.store.work.runs import UNFINISHED
from tidelore.store.work.tracked_pull_requests import AWAITING, BLOCKED, list_tracked

if TYPE_CHECKING:
    from logging import LogRecord

    from tidelore.app.writing.replying import WriteAnswer
    from tidelore.feedback.repositories import ConfiguredRepo
    from tidelore.search.similarity import MeaningRanker
    from tidelore.store.database.port import Transaction


T = TypeVar("T")
PHASES = ledger.PHASES
"""The phases of a run, in their order."""
STOP_SECONDS = 4.0
"""How long the service may take to stop cleanly before it is asked to stop at once."""
_JOBS = {
    "lore sync": ("sync", ""),
    "lore ingest": ("sync", ""),
    "lore poll github": ("poll", "github:"),
    "lore poll bluesky": ("poll", "bluesky:"),
    "lore stream bluesky": ("stream", "bluesky:"),
    "lore generate-docs": ("documents", ""),
    "lore embed": ("embeddings", ""),
}
"""The jobs that do the work of a command: their kind, and the prefix of their names."""
_IN_PROCESS = frozenset({"local", "minilm"})
_LATEST = 200
READING_ROWS = 200
"""The most rows of a reading list."""


class ConsoleService(Protocol):
    """The service that a console runs, in a thread or in a separate process."""

    error: TideloreError | None

    @property
    def running(self) -> bool: ...

    @property
    def elsewhere(self) -> bool: ...

    def start(self) -> None: ...

    def run_now(self, names: Iterable[str]) -> None: ...

    def stop(self) -> None: ...


class ServiceThread:
    """The service in a thread with a separate event loop; `error` is set if it ended without a stop request.

    `on_end` is called in this thread when it has ended.
    """

    def __init__(self, app: App, settings: SettingsFile | None = None) -> None:
        # Shared by all connections of the service, so that `stop` ends their waits.
        self._patience = app.patience or app.new_patience()
        self._app = replace(app, patience=self._patience)
        self._settings = settings and settings.obeying(self._patience)
        self._control = Control()
        self._thread = threading.Thread(target=self._run, name="service", daemon=True)
        self.error: TideloreError | None = None
        self.on_end: Callable[[], None] = lambda: None

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

    def _end(self) -> None:
        if self._thread.is_alive():
            self._control.stop()
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        import asyncio

        from tidelore.app.serving import ServeRequest, serve

        try:
            asyncio.run(serve(self._app, ServeRequest(), self._control, self._settings))
        except TideloreError as error:
            self.error = error
        except Exception as error:  # noqa: BLE001 - shown on the screen; nothing else handles errors of this thread
            self.error = TideloreError(
                f"the service stopped unexpectedly: {error!r}", fix="check the log, then restart"
            )
        finally:
            self.on_end()


def fork_service(app: App, settings: SettingsFile | None, on_record: Callable[[LogRecord], object]) -> ConsoleService:
    """Return the service in a separate process; its log records are given to `on_record`."""
    from tidelore.service.process import ServiceProcess

    return ServiceProcess(lambda: ServiceThread(app, settings), on_record)


class BarStatus(Struct, frozen=True):
    """What the bar on top of every screen shows: the service, its jobs, and which sources are stale.

    `watched`: whether any source has a staleness bound.
    """

    service: ServiceState
    jobs: list[JobEntry]
    stale: list[str]
    watched: bool
    now_ms: int


class BoardPull(PendingPull, frozen=True, kw_only=True):
    """A tracked pull request on the feedback screen; its ids are those of its rows."""

    id: int
    project_id: int


class FeedbackBoard(Struct, frozen=True):
    """Tracked pull requests, blocked ones first, pending events, and replies."""

    pulls: list[BoardPull]
    events: list[Event]
    answers: list[Reply]


class ReadingRow(Struct, frozen=True, kw_only=True):
    """A row of a reading list: an item, or a thread of an item.

    `thread` is the id of a thread on its server, `thread_state` its state if it can be resolved.
    """

    key: str
    reference: str
    title: str
    state: str
    by: str | None
    at: int
    place: str | None = None
    text: str | None = None
    web_url: str | None = None
    thread: str | None = None
    thread_state: str | None = None

    @property
    def answerable(self) -> bool:
        """Whether a reply can be written here: not to posts."""
        return not self.reference.startswith("at://")


class QuotedNote(Struct, frozen=True):
    """A note that is shown to the user who answers it."""

    by: str | None
    at: int
    text: str


class ReplyDraft(Struct, frozen=True):
    """A reply to write: the item or thread as `lore reply` names it, and the notes it answers."""

    reference: str
    quoted: list[QuotedNote]


class ReadingList(Struct, frozen=True):
    """A reading list; `notice` says why it cannot be read, or is None. `seq` is the last change of the copy."""

    rows: list[ReadingRow]
    total: int
    notice: str | None = None
    seq: int = 0


READING_LISTS = {
    "inbox": "Inbox",
    "mine": "Mine",
    "unresolved": "Unresolved",
    "issues": "Issues",
    "mrs": "Merge requests",
    "posts": "Posts",
}
"""The reading lists and their titles; the first three are lists of threads."""
_ASK_AGAIN = -1
"""Not the number of any change, so the list is read again."""
_THREADS = {
    "inbox": ThreadQuestion(waiting_on="me", limit=READING_ROWS),
    "mine": ThreadQuestion(mine=True, limit=READING_ROWS),
    "unresolved": ThreadQuestion(unresolved=True, limit=READING_ROWS),
}


class ConsoleViews:
    """Reads what the screens show, over one connection of its own; used from a single thread.

    The connection is opened by the first view; after `close` the next view opens another one.
    """

    def __init__(self, app: App) -> None:
        self._app = app.searching_often()
        self._opened: Database | None = None

    @property
    def _database(self) -> Database:
        if self._opened is None:
            self._opened = self._app.open_store()
        return self._opened

    def close(self) -> None:
        """Close the connection."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def bar(self, now_ms: int) -> BarStatus:
        """Return the service and the health of the sources."""
        found = read_service(self._database, now_ms)
        stale = [one.source for one in found.health.sources if not one.ok]
        jobs = [job_entry(job) for job in found.jobs]
        return BarStatus(service_state(found), jobs, stale, bool(found.health.sources), now_ms)

    def sources(self, now_ms: int) -> SourcesOverview:
        """Return the overview of all sources."""
        return read_sources(self._app, self._database, now_ms)

    def feedback(self, now_ms: int) -> FeedbackBoard:
        """Return tracked pull requests, events and replies."""
        return read_feedback(self._database, now_ms)

    def accounts(self, part: str) -> list[Account]:
        """Return accounts whose handle contains a text, up to a limit."""
        return [account(row, self._app.config) for row in activity.accounts(self._database, part)]

    def runs(self, limit: int, *, unfinished: bool = False) -> list[ShownRun]:
        """Return the newest runs first; `unfinished` selects those that were not completed."""
        read = activity.newest_unfinished if unfinished else activity.newest_runs
        return [shown_run(run) for run in read(self._database, limit)]

    def reading_list(self, name: str, known_seq: int | None = None) -> ReadingList | None:
        """Return a reading list, newest first; None if nothing has changed since `known_seq`."""
        seq = newest_change(self._database).seq
        if seq == known_seq:
            return None
        try:
            if name in _THREADS:
                page = list_threads(self._app, _THREADS[name])
                return ReadingList([_thread_row(one) for one in page.items], page.total, None, seq)
            if name == "posts":
                posts = list_posts(self._app, PostRequest(limit=READING_ROWS))
                return ReadingList([_post_row(one) for one in posts.items], posts.total, None, seq)
            read = list_issues if name == "issues" else list_merge_requests
            found = read(self._app, ListRequest(limit=READING_ROWS))
            return ReadingList([found_row(one, one.web_url) for one in found.items], found.total, None, seq)
        except UserError as error:
            # Whose threads to list is not known. The login may become known without a change of the copy.
            return ReadingList([], 0, f"Your login is not known: {error.fix}. The key → shows other lists.", _ASK_AGAIN)

    def read_thread(self, row: ReadingRow) -> ShownIssue | ShownMergeRequest | ShownTopic | ShownPost:
        """Return the item that a row of a reading list belongs to."""
        database = self._database
        try:
            key = find_thread(database, parse_any(row.reference))
        except UserError:
            # Two hosts have a project with this path; the URL distinguishes them.
            if row.web_url is None:
                raise
            key = find_thread(database, parse_any(row.web_url.partition("#")[0]))
        if key.type == "post":
            return read_shown_post(database, key.id)
        if key.type == "topic":
            return read_shown_topic(database, key.id)
        return read_item(database, "mr" if key.type == "merge_request" else "issue", key.id)

    def draft_reply(self, row: ReadingRow) -> ReplyDraft:
        """Return what a reply to a row answers; raise an error if it cannot be sent."""
        database, name = self._database, row.thread or row.reference
        try:
            target = find_target(self._app, database, name)
        except NotFound:
            raise
        except UserError:
            # Two hosts have a project with this path; the URL distinguishes them.
            if row.web_url is None:
                raise
            name = row.web_url if row.thread else row.web_url.partition("#")[0]
            target = find_target(self._app, database, name)
        place_of(self._app, database, target)
        item = self.read_thread(row)
        if isinstance(item, ShownPost):
            raise UserError(f"{row.reference} cannot be answered here", fix="answer it on its web page: press o")
        if isinstance(item, ShownTopic):
            return ReplyDraft(name, [QuotedNote(item.author, item.created_at, item.body or "")])
        notes = next((one.notes for one in item.discussions if one.id == row.thread), None)
        if notes is None:
            return ReplyDraft(name, [QuotedNote(item.author, item.created_at, item.description or "")])
        return ReplyDraft(name, [QuotedNote(one.author, one.created_at, one.body) for one in notes if not one.system])

    def by_words(self, text: str, limit: int) -> SearchPage:
        """Search by keywords only."""
        return self._find(parse_query(text), "lexical", None, limit)

    def by_meaning(self, text: str, limit: int) -> SearchPage | None:
        """Search by keywords and by meaning; None if that is not possible without a network call."""
        query = parse_query(text)
        ranker = self._ranker(query.text)
        return None if ranker is None else self._find(query, "hybrid", ranker, limit)

    def _find(self, query: Query, mode: SearchMode, ranker: MeaningRanker | None, limit: int) -> SearchPage:
        database = self._database
        now = self._app.clock.now_ms()
        wanted = resolve_filters(database, query.fields, lambda text: parse_since(text, now, "since"))
        request = SearchRequest(query=query, wanted=wanted, mode=mode, limit=limit)
        return search_page(find(database, request, ranker), query)

    def _ranker(self, text: str) -> MeaningRanker | None:
        if self._app.config.embedding.provider not in _IN_PROCESS:
            return None
        return rank_by_meaning(self._app, self._database, text).ranker


def read_feedback(database: Database, now_ms: int) -> FeedbackBoard:
    """Read open tracked pull requests, pending events and replies, with a bounded cost."""
    waiting = {(count.project_id, count.thread_number): count for count in pending_counts(database, now_ms)}
    rows = sorted(list_tracked(database, statuses=(BLOCKED, AWAITING)), key=lambda row: row.status != BLOCKED)
    pulls = [copy_fields(BoardPull, pending_pull(row, waiting), id=row.id, project_id=row.project_id) for row in rows]
    events = [event(row) for row in peek(database, limit=_LATEST)]
    return FeedbackBoard(pulls, events, [reply(row) for row in activity.answers(database)])


def _thread_row(thread: ListedThread) -> ReadingRow:
    said = f"@{thread.last_by or 'unknown'}: {thread.last or thread.opening}"
    return ReadingRow(
        key=f"{thread.reference} {thread.id}",
        reference=thread.reference,
        title=thread.title,
        state=thread.state or thread.item_state,
        by=thread.last_by,
        at=thread.last_at,
        place=thread.place,
        text=said,
        web_url=thread.url,
        thread=None if thread.kind == "comments" else thread.id,
        thread_state=thread.state,
    )


def _post_row(post: ListedPost) -> ReadingRow:
    return ReadingRow(
        key=post.uri,
        reference=post.uri,
        title=post.text or " ".join(post.alt_text),
        state=post.kind,
        by=post.author,
        at=post.listed_at,
        web_url=post.web_url,
    )


def found_row(found: FoundThread | ListedIssue | ListedMergeRequest, key: str | None = None) -> ReadingRow:
    """Return an item as a row to read or answer."""
    return ReadingRow(
        key=key or found.reference,
        reference=found.reference,
        title=found.title,
        state=found.state,
        by=found.author,
        at=found.updated_at,
        web_url=found.web_url,
    )


def jobs_again(run: ShownRun, jobs: Iterable[JobEntry]) -> list[str]:
    """Return the service jobs that complete an unfinished run; none for a run of single items."""
    if run.status not in UNFINISHED or run.mode != "standard":
        return []
    known = next((known for command, known in _JOBS.items() if f"{run.command} ".startswith(f"{command} ")), None)
    if known is None:
        return []
    kind, prefix = known
    return [job.name for job in jobs if job.kind == kind and job.name.startswith(prefix)]


def _when_shown(done: WriteAnswer) -> str:
    return "" if done.refreshed else f"; the copy shows it after the next sync ({done.refresh_error})"


class ConsoleActions:
    """The changes that a user can make on the screens, one after another in one thread."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._cancel_running: Callable[[], object] | None = None

    def cancel(self) -> None:
        """Cancel the requests of the running change; may be called from another thread."""
        cancel = self._cancel_running
        if cancel is not None:
            # Its event loop may be closed already.
            with suppress(RuntimeError):
                cancel()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        import asyncio

        async def cancellable() -> T:
            task, loop = asyncio.ensure_future(work), asyncio.get_running_loop()
            self._cancel_running = lambda: loop.call_soon_threadsafe(task.cancel)
            try:
                return await task
            finally:
                self._cancel_running = None

        try:
            return asyncio.run(cancellable())
        except asyncio.CancelledError:
            raise Cancelled("cancelled, because the console was left", fix="repeat it if it is still needed") from None

    def unblock(self, pull: BoardPull) -> str:
        """Unblock a pull request; its current head is requested from the host."""
        from tidelore.app.feedback_tracking import unblock

        row = self._run(unblock(self._app, self._place(pull), pull.pr_number, None))
        return f"{row.repo_full_name}#{row.pr_number} is tracked again"

    def refresh(self, row: ReadingRow) -> str:
        """Fetch an item with its conversation from its host, and store it."""
        from tidelore.app.reading.refreshing import refresh_items

        (done,) = self._run(refresh_items(self._app, [row.reference])).items
        if done.error:
            raise RemoteError(f"{row.reference}: {done.error}", fix="try again later")
        return f"{row.reference}: {'nothing new' if done.outcome == 'unchanged' else 'refreshed'}"

    def reply(self, reference: str, body: str, *, refusals: int = 0) -> str:
        """Post a reply once: the same text in the same place is the same reply, unless the server refused it."""
        from tidelore.app.writing.replying import ReplyTo, reply_to

        key = f"console {refusals} {body}" if refusals else None
        done, error = self._run(reply_to(self._app, ReplyTo(reference=reference, body=body, token_key=key)))
        if error is not None:
            error.fix = f"press a to send it again{'; it is posted once' if error.retryable else ': the text is kept'}"
            raise error
        return f"{done.reference}: the reply is posted{_when_shown(done)}"

    def resolve(self, row: ReadingRow, *, resolved: bool) -> str:
        """Resolve or reopen a thread; one that is in this state on its server is left alone."""
        from tidelore.app.writing.replying import ChangeState, change_state

        done, error = self._run(
            change_state(self._app, ChangeState(reference=row.thread or row.reference, resolved=resolved))
        )
        if error is not None:
            raise error
        already = "" if done.resolution is not None else " already"
        return f"{done.reference}: the thread is {done.state}{already}{_when_shown(done)}"

    def pause_pull(self, pull: BoardPull) -> str:
        """Pause the events of a pull request, or resume them if paused."""
        from tidelore.store.work.tracked_pull_requests import set_paused

        self._change(lambda tx, now: set_paused(tx, pull.id, not pull.paused, now))
        return f"{pull.reference}: its events are {'delivered again' if pull.paused else 'paused'}"

    def retry_thread(self, chosen: Event) -> str:
        """Make the pending events of a thread available at once and reset their failures."""
        from tidelore.store.work.events import find_event, retry_now

        with self._app.store() as database, database.transaction() as tx:
            row = find_event(database, chosen.id)
            count = retry_now(tx, row.project_id, row.thread_number)
        return f"{chosen.thread}: retrying {count} pending"

    def pause_account(self, chosen: Account) -> str:
        """Pause an account, or resume it if paused."""
        from tidelore.app.accounts import pause_accounts, resume_accounts

        if chosen.state == "paused":
            resume_accounts(self._app, [chosen.did])
            return f"@{chosen.handle} is polled again"
        pause_accounts(self._app, [chosen.did], "paused in the console")
        return f"@{chosen.handle} is paused"

    def retry_run(self, run_id: int) -> str:
        """Retry the items that a surgical run left; sends requests to their hosts."""
        from tidelore.app.mirroring import surgical_sync
        from tidelore.sync.report import SurgicalReport
        from tidelore.sync.surgical_preflight import SurgicalFlags

        report = SurgicalReport()
        self._run(surgical_sync(self._app, (), SurgicalFlags(retry_failed=run_id), report, force=False))
        if report.run_id is None:
            return f"run {run_id}: nothing to retry"
        failed = len(report.entity_failures)
        told = f", {failed} failed" if failed else ""
        return f"run {report.run_id}: {report.processed_count} of {report.requested_count} refreshed{told}"

    def run_now(self, service: ConsoleService, jobs: Sequence[JobEntry]) -> str:
        """Run jobs now. An account poll reads only due accounts, so all accounts are made due first."""
        from tidelore.app.service_jobs import BLUESKY
        from tidelore.store.mirror.accounts import followed_dids, make_due

        if not service.running:
            raise UserError("the service of this console has stopped", fix="restart the console")
        if any((job.source, job.kind) == (BLUESKY, "poll") for job in jobs):
            with self._app.store() as database:
                everybody = followed_dids(database)
                with database.transaction() as tx:
                    make_due(tx, everybody, self._app.clock.now_ms())
        service.run_now([job.name for job in jobs])
        return f"{jobs[0].name if len(jobs) == 1 else f'{len(jobs)} jobs'}: due now"

    def _place(self, pull: BoardPull) -> ConfiguredRepo:
        from tidelore.feedback.repositories import choose_repos
        from tidelore.store.mirror.projects import list_projects

        with self._app.store() as database:
            project = next(row for row in list_projects(database) if row.id == pull.project_id)
        for place in choose_repos(self._app.config, None):
            if (place.host.name, place.name) == (project.source, project.configured):
                return place
        raise UserError(
            f"{project.path} is no longer configured",
            fix="list it under [[github.repos]], or under `projects` of [[gitlab]]",
        )

    def _change(self, change: Callable[[Transaction, int], int]) -> int:
        with self._app.store() as database, database.transaction() as tx:
            return change(tx, self._app.clock.now_ms())
