"""`App`: settings, clock and database of a command, running it until a signal, and what derives feedback from a run.

Opens the store and configures sources; the use-cases of the other modules take an `App`. Imports what only some
commands need inside functions, so that an offline read loads no HTTP client.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from tidelore.core.clock import Clock, SharedClock, SystemClock
from tidelore.core.config import Config, Host, names_something
from tidelore.core.config_file import database_address, is_url, load_config
from tidelore.core.errors import Cancelled, ConfigError, NotFound, RemoteError, TideloreError
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database, Limits, Patience
from tidelore.store.work.last_sync import last_success_at

if TYPE_CHECKING:
    from tidelore.engine.crashpoint import Crashpoint
    from tidelore.feedback.consumer import FeedbackConsumer
    from tidelore.feedback.report import RepoReport
    from tidelore.http.grants import GrantBook
    from tidelore.http.limits import RequestAllowance
    from tidelore.http.response import RequestMetric
    from tidelore.http.transport import KeptTransports, Transport
    from tidelore.search.kept_meaning import KeptMeaning
    from tidelore.service.control import ConfigReloader
    from tidelore.sources.ports import ProjectSource, Wiring
    from tidelore.store.database.kept import KeptConnections
    from tidelore.store.work.leases import Unended
    from tidelore.store.work.session import Workshop
    from tidelore.sync.projects import ListTarget


_LONGEST_MS = 86_400_000
"""The longest stored pause: a server that asks for more than a day is requested again after a day, because the longer
pause may be a mistake."""


class StoredPauses:
    """Stores pauses. Opens the database for each call: pauses are rare, and sources are opened before the database."""

    def __init__(self, open_store: Callable[[], Database], clock: Clock) -> None:
        self._open_store = open_store
        self._clock = clock

    def until(self, source: str) -> int | None:
        """Return until when a source must not be requested, or None; also None without a database."""
        from tidelore.store.work.service_records import paused_until

        with suppress(TideloreError), closing(self._open_store()) as database:
            return paused_until(database, source, self._clock.now_ms())
        return None

    def keep(self, source: str, until_ms: int) -> None:
        """Store a pause; if that fails, this process still respects it."""
        from tidelore.store.work.service_records import save_pause

        now = self._clock.now_ms()
        with suppress(TideloreError), closing(self._open_store()) as database:
            save_pause(database, source, min(until_ms, now + _LONGEST_MS), now)


T = TypeVar("T")


def load_settings(explicit: str | None = None, environ: Mapping[str, str] | None = None) -> Config:
    """Read and validate the settings, with the tables of every forge in the registry."""
    return load_config(explicit, environ, _host_tables)


def _host_tables() -> Mapping[str, type[Host]]:
    from tidelore.sources.registry import host_tables

    return host_tables()


class App(Struct, frozen=True):
    """The context of every command: settings, clock, and access to the database and the sources.

    `patience_seconds`: the longest pause that a command waits for if a server asks for one; it fails if it is longer.
    `insists`: whether the end of a run is recorded however long the database is unreachable, as a service does.
    `unended`: leases and runs that this process could not end, such as on a full disk; the next command ends them.
    `patience`: shared by all its connections, for a program that must be able to stop while they wait.
    `on_reading`: called with the end of the last successful sync whenever the local copy is read.
    `on_left_out`: called with the number of texts that a lockdown leaves out.
    `allowance`: limits the requests of a run to all sources together.
    `grants`: the rate limits that this process shares with others.
    `kept`: connections that were closed and are used again, for a program that opens the database often.
    `transports`: the same for connections to hosts; not for what sends replies, whose connections are new.
    `kept_meaning`: what searches by meaning load, for a program that searches often.
    """

    config: Config
    environ: Mapping[str, str]
    db: str | None = None
    clock: Clock = SystemClock()
    seam: Crashpoint = lambda _seam: None
    transport: Transport | None = None
    patience_seconds: float = 300.0
    insists: bool = False
    unended: Unended = field(default_factory=dict)
    patience: Patience | None = None
    on_reading: Callable[[int | None], None] = lambda _synced_at: None
    on_left_out: Callable[[int], None] = lambda _texts: None
    allowance: RequestAllowance | None = None
    grants: GrantBook | None = None
    kept: KeptConnections | None = None
    transports: KeptTransports | None = None
    kept_meaning: KeptMeaning | None = None

    @property
    def address(self) -> str:
        """The database: a path, or a postgresql:// URL."""
        return database_address(self.config, self.db, self.environ)

    def open_store(self, *, create: bool = False, patience: Patience | None = None) -> Database:
        """Open the database and migrate its schema; readers do not create it."""
        kept = self.kept.take() if self.kept is not None else None
        database = kept or self._open(create=create, patience=patience)
        try:
            if isinstance(self.clock, SharedClock) and self.clock.is_due:
                self.clock.set(database.server_time)
            if kept is None:
                migrate(database, self.clock.now_ms(), create=create)
                if self.kept is not None:
                    self.kept.adopt(database)
        except BaseException:
            database.close()
            raise
        return database

    def store(self, *, create: bool = False) -> AbstractContextManager[Database]:
        """Open the database until the block ends."""
        return closing(self.open_store(create=create))

    def _open(self, *, create: bool, patience: Patience | None) -> Database:
        waits = patience or self.patience or self.new_patience()
        try:
            return open_database(self.address, create=create, patience=waits)
        except NotFound as error:
            if error.has_no_copy and self.config == Config():
                error.fix = "run `lore init` and `lore sync` first, or point --db at an existing database"
            elif error.has_no_copy and not names_something(self.config):
                error.fix = "add projects to the configuration file or follow accounts with `lore accounts add HANDLE`"
            raise

    @contextmanager
    def reading(self) -> Iterator[Database]:
        """Open the database for reading until the block ends."""
        with self.store() as database:
            self.on_reading(last_success_at(database))
            yield database

    def workshop(self, database: Database, command: str) -> Workshop:
        """Return what a command needs to write, and the name under which its run is recorded."""
        from tidelore.store.work.session import Workshop

        return Workshop(database, self.config, self.clock, self.seam, command, self.insists, self.unended)

    def note_synced(self) -> None:
        """Report the end of the last successful sync, after a command that has changed it."""
        with self.reading():
            pass

    def searching_often(self) -> App:
        """Return the same for a program that searches often: it keeps what searches by meaning load."""
        from tidelore.search.kept_meaning import KeptMeaning

        return replace(self, kept_meaning=KeptMeaning())

    def new_patience(self) -> Patience:
        """Return the time limits of connections; SQLite has its own."""
        storage = self.config.storage
        times = (storage.lock_timeout_seconds, storage.statement_timeout_seconds)
        limits = Limits(*times, storage.idle_in_transaction_timeout_seconds)
        return Patience(limits if is_url(self.address) else None)

    def wiring(self, on_request: Callable[[RequestMetric], None], patience_seconds: float | None = None) -> Wiring:
        """Return the dependencies of a source; pauses that servers ask for are stored in the database."""
        from tidelore.sources.ports import Wiring

        patience = self.patience_seconds if patience_seconds is None else min(patience_seconds, self.patience_seconds)
        pauses = StoredPauses(self.open_store, self.clock)
        shared = (self.allowance, self.grants, self.transports)
        return Wiring(self.config, self.clock, self.environ, on_request, self.transport, patience, pauses, *shared)


class SettingsFile(Struct, frozen=True):
    """The file of the settings of a program that runs on, how it is loaded, and what is called with new settings."""

    path: str
    load: Callable[[], App]
    on_new: Callable[[App], None] = lambda _app: None

    def obeying(self, patience: Patience) -> SettingsFile:
        """Return the same file; the connections of the applications that it loads wait with this patience."""
        return replace(self, load=lambda: replace(self.load(), patience=patience))

    def watch(self, app: App, program: str, check: Callable[[App], object]) -> ConfigReloader[App]:
        """Return what reloads the file; refuses another database, and what `check` refuses."""
        from tidelore.service.control import ConfigReloader

        def load() -> App:
            new = self.load()
            if new.address != app.address:
                raise ConfigError(
                    f"storage.path changed; the running {program} keeps its database",
                    fix=f"restart the {program} to use the new database",
                    key="storage.path",
                )
            check(new)
            return replace(new, unended=app.unended)

        return ConfigReloader(self.path, load)


def run_until_signalled(work: Coroutine[Any, Any, T], fate: str = "everything fetched so far is stored") -> T:
    """Run a coroutine; SIGINT and SIGTERM cancel it, so that its run is closed, and the command exits with 130."""
    import asyncio
    import signal
    import threading

    from tidelore.core.signals import heard

    if threading.current_thread() is not threading.main_thread():
        # Signals reach the main thread only, whose program handles them.
        return asyncio.run(work)

    async def supervised() -> T:
        task = asyncio.ensure_future(work)
        try:
            with heard({signal.SIGINT: task.cancel, signal.SIGTERM: task.cancel}):
                return await task
        except asyncio.CancelledError:
            raise Cancelled(f"interrupted; {fate}", fix="run the command again") from None

    return asyncio.run(supervised())


class FeedbackOptions(Struct, frozen=True):
    """How a run derives feedback: where its reports go, and whether to compare a thread, given the share of runs."""

    reports: dict[int, RepoReport]
    is_sampled: Callable[[float], bool] | None = None


async def open_consumer(
    app: App, database: Database, targets: Sequence[ListTarget], options: FeedbackOptions | None = None
) -> tuple[FeedbackConsumer, list[ListTarget]]:
    """Return what derives feedback from a run, and the targets; a host whose login is needed and fails is not read."""
    sources = {target.source.name: target.source for target in targets}
    logins = await own_logins(database, sources)
    errors = {name: login for name, login in logins.items() if isinstance(login, TideloreError)}
    consumer = _consumer(app, database, sources, logins, options)
    failed = [replace(one, failure=one.failure or errors.get(one.source.name)) for one in targets]
    return consumer, failed


async def find_consumer(app: App, database: Database, sources: Mapping[str, ProjectSource]) -> FeedbackConsumer:
    """Return what derives feedback from a run that reads single items."""
    from tidelore.store.work.action_tokens import signing_secret
    from tidelore.store.work.tracked_pull_requests import list_tracked

    if list_tracked(database):
        # Answers that are planned while items are stored are signed with it.
        signing_secret(database, app.clock.now_ms())
    return _consumer(app, database, sources, await own_logins(database, sources))


def _consumer(
    app: App,
    database: Database,
    sources: Mapping[str, ProjectSource],
    logins: Mapping[str, str | TideloreError | None],
    options: FeedbackOptions | None = None,
) -> FeedbackConsumer:
    from tidelore.feedback.consumer import FeedbackConsumer
    from tidelore.sources.ports import FeedbackSource

    usable = {name: source for name, source in sources.items() if isinstance(source, FeedbackSource)}
    names = {name: None if isinstance(login, TideloreError) else login for name, login in logins.items()}
    consumer = FeedbackConsumer(
        database, app.config, app.clock, usable, names, None if options is None else options.is_sampled
    )
    if options is not None:
        consumer.reports = options.reports
    return consumer


async def own_logins(database: Database, sources: Mapping[str, ProjectSource]) -> dict[str, str | TideloreError | None]:
    """Return our login on each host where a reply of ours has not been observed yet.

    Only there could a forged marker be mistaken for our reply. A poll without such replies sends no request.
    """
    from tidelore.store.mirror.projects import list_projects
    from tidelore.store.work.action_tokens import unobserved

    tokens = unobserved(database)
    homes = {project.id: project.source for project in list_projects(database)} if tokens else {}
    waiting = {homes.get(token.project_id) for token in tokens}
    logins: dict[str, str | TideloreError | None] = {}
    for name, source in sources.items():
        if name in waiting and source.closed is None:
            try:
                logins[name] = await source.login()
            except RemoteError as error:
                logins[name] = error
    return logins
