"""Nothing waits for ever: a program that freezes inside a transaction loses it, and one that waits gives up."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest
from tests.databases.postgres_server import PostgresServer
from tests.support.manual_clock import ManualClock

from tidelore.app.wiring import App
from tidelore.core.config_file import load_config
from tidelore.core.errors import DatabaseUnreachable, StorageFailed
from tidelore.core.process import ProcessIdentity
from tidelore.engine.lease import Lease, acquire
from tidelore.store.database.port import Database, Limits, Patience, Transaction
from tidelore.store.database.postgres import PostgresDatabase
from tidelore.store.mirror.projects import list_projects
from tidelore.store.work.leases import LeaseTable, writing

NAMES = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
OTHER = ProcessIdentity("elsewhere", 20, "200")


@contextmanager
def connected(address: str, **limits: float) -> Iterator[PostgresDatabase]:
    with closing(PostgresDatabase(address, Patience(Limits(**limits)))) as database:
        yield database


def timeouts(database: Database) -> list[str]:
    return [str(database.read(f"SHOW {name}")[0][0]) for name in NAMES]


def take(database: Database, clock: ManualClock, who: ProcessIdentity) -> Lease:
    return acquire(LeaseTable(database), "sync", who, "lore", clock, stale_after_ms=-1, is_dead=lambda _: False)


def test_every_connection_has_timeouts_including_reopened_ones(
    migrated_postgres_address: str, postgres_server: PostgresServer
) -> None:
    with closing(PostgresDatabase(migrated_postgres_address)) as database:
        assert timeouts(database) == ["45s", "10min", "30s"]
        postgres_server.cut(migrated_postgres_address)
        assert timeouts(database) == ["45s", "10min", "30s"]


def test_the_timeouts_are_those_of_the_configuration(
    migrated_postgres_address: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    config = tmp_path_factory.mktemp("config") / "config.toml"
    config.write_text(
        "[storage]\nlock_timeout_seconds = 7\nstatement_timeout_seconds = 90\n"
        "idle_in_transaction_timeout_seconds = 11\n"
    )
    app = App(load_config(str(config), {}), {}, migrated_postgres_address)
    with closing(app.open_store()) as database:
        assert timeouts(database) == ["7s", "90s", "11s"]


def test_timeouts_in_the_database_url_take_precedence(migrated_postgres_address: str) -> None:
    mark = "&" if "?" in migrated_postgres_address else "?"
    with connected(f"{migrated_postgres_address}{mark}options=-c%20lock_timeout%3D3s", lock=9) as database:
        assert timeouts(database) == ["3s", "10min", "30s"]


def test_a_holder_frozen_inside_a_transaction_loses_it_and_the_lease_is_taken_over(
    migrated_postgres_address: str, clock: ManualClock
) -> None:
    with (
        connected(migrated_postgres_address, idle=0.3) as frozen,
        connected(migrated_postgres_address, lock=60) as heir,
    ):
        held = take(frozen, clock, ProcessIdentity.current())
        clock.advance(5)
        with heir.transaction() as tx:
            # As behind a pooler that shows another name: then nobody can end the connection by it.
            tx.execute("UPDATE leases SET holder_session = 'another'")

        def freeze() -> None:
            with writing(frozen, held) as tx:
                tx.execute(
                    "INSERT INTO projects (source, remote_id, path, name, configured, created_at, updated_at)"
                    " VALUES ('gitlab', 1, 'p', 'p', 'p', 1, 1)"
                )
                # Waits for the row that the frozen one holds, until the server ends its transaction.
                assert take(heir, clock, OTHER).taken_as == "stale"
                tx.execute("SELECT 1")

        with pytest.raises(DatabaseUnreachable, match="idle-in-transaction timeout"):
            freeze()
        assert list_projects(heir) == []
        with pytest.raises(Exception, match="took over"), writing(frozen, held):
            raise AssertionError("the transaction must not begin")


_FREEZES = """
from tests.contract.test_postgres_timeouts import add_projects, connected, take
from tests.support.manual_clock import ManualClock
from tidelore.core.process import ProcessIdentity
from tidelore.store.work.leases import writing
import sys
def rows():
    yield from range(1, 200)
    print("inside", flush=True)
    sys.stdin.readline()
    yield 200
with connected(sys.argv[1], idle=600) as database:
    held = take(database, ManualClock(), ProcessIdentity.current())
    with writing(database, held) as tx:
        add_projects(tx, rows())
"""


def add_projects(tx: Transaction, numbers: Iterable[int]) -> None:
    tx.execute_many(
        "INSERT INTO projects (source, remote_id, path, name, configured, created_at, updated_at)"
        " VALUES ('gitlab', :n, 'p' || :n, 'p', 'p' || :n, 1, 1)",
        ({"n": n} for n in numbers),
    )


def test_a_holder_stopped_in_the_middle_of_a_batch_is_taken_over_at_once(
    migrated_postgres_address: str, clock: ManualClock
) -> None:
    """No timeout ends it soon, as while a batch is sent in parts; its successor lets the server end its connection."""
    with (
        frozen_process(_FREEZES, migrated_postgres_address) as frozen,
        closing(PostgresDatabase(migrated_postgres_address, Patience(Limits(lock=5)))) as heir,
    ):
        assert frozen.stdout is not None
        assert frozen.stdout.readline() == "inside\n"
        frozen.send_signal(signal.SIGSTOP)
        (held,) = heir.read("SELECT generation FROM leases")
        clock.advance(5)
        successor = take(heir, clock, OTHER)
        assert (successor.taken_as, successor.generation) == ("stale", held[0] + 1)
        with writing(heir, successor) as tx:
            add_projects(tx, [200])
        frozen.send_signal(signal.SIGCONT)
        assert "DatabaseUnreachable" in frozen.communicate("go\n", timeout=30)[1]
        assert [project.remote_id for project in list_projects(heir)] == [200]


@contextmanager
def frozen_process(script: str, address: str) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", script, address], stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def blocked(migrated_postgres_address: str) -> Iterator[Callable[[], None]]:
    """Another program that holds a lock on a table."""
    with psycopg.connect(migrated_postgres_address) as other:
        other.execute("LOCK TABLE projects IN ACCESS EXCLUSIVE MODE")
        yield other.rollback


def test_waiting_for_a_lock_too_long_is_a_storage_error(
    migrated_postgres_address: str, blocked: Callable[[], None]
) -> None:
    with connected(migrated_postgres_address, lock=0.1) as database:
        with pytest.raises(StorageFailed, match=r"another program holds a lock for more than 0\.1 s") as caught:
            list_projects(database)
        assert "storage.lock_timeout_seconds" in (caught.value.fix or "")
        blocked()
        assert list_projects(database) == []


def test_a_program_asked_to_stop_says_how_long_it_waited_for_a_lock(
    migrated_postgres_address: str, blocked: Callable[[], None]
) -> None:
    patience = Patience(Limits(lock=45))
    with closing(PostgresDatabase(migrated_postgres_address, patience)) as database:
        patience.end()
        with pytest.raises(StorageFailed, match=r"holds a lock for more than 0\.1 s"), database.transaction() as tx:
            tx.execute("SELECT 1 FROM projects")
    blocked()


def test_a_statement_beyond_its_timeout_is_a_storage_error(migrated_postgres_address: str) -> None:
    with connected(migrated_postgres_address, statement=0.1) as database:
        with pytest.raises(StorageFailed, match="statement timeout"):
            database.read("SELECT pg_sleep(30)")
        assert list_projects(database) == []
