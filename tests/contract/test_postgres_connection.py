"""A connection to a server: opened again where nothing is lost by it, and otherwise a clear failure."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from tests.databases.postgres_server import PostgresServer
from tests.support.manual_clock import ManualClock

from tidelore.core.errors import DatabaseUnreachable, StorageFailed, UserError
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database, Transaction
from tidelore.store.database.postgres import PATIENCE

COUNT = "SELECT COUNT(*) FROM pebbles"
DEAF_SECONDS = 30
"""Longer than the time that the address names, and shorter than the one that is used where it names none."""
ADD = "INSERT INTO pebbles VALUES (:number)"


@pytest.fixture
def beach(postgres_address: str) -> Iterator[Database]:
    """An open database with one table."""
    database = open_database(postgres_address)
    with database.transaction() as tx:
        tx.execute("CREATE TABLE pebbles (number BIGINT)")
    yield database
    database.close()


def add(database: Database, number: int) -> None:
    with database.transaction() as tx:
        tx.execute(ADD, {"number": number})


def test_a_connection_cut_between_two_uses_is_reopened_silently(
    beach: Database, postgres_server: PostgresServer, postgres_address: str
) -> None:
    assert postgres_server.cut(postgres_address) == 1
    assert beach.read(COUNT) == [(0,)]
    assert postgres_server.cut(postgres_address) == 1
    add(beach, 1)
    assert postgres_server.cut(postgres_address) == 1
    with beach.transaction(durable=True) as tx:
        tx.execute(ADD, {"number": 2})
    assert beach.read(COUNT) == [(2,)]


@pytest.mark.parametrize("how", ["execute", "change", "execute_many", "read"])
def test_a_transaction_never_continues_after_its_connection_was_cut(
    beach: Database, postgres_server: PostgresServer, postgres_address: str, how: str
) -> None:
    def go_on(tx: Transaction) -> None:
        if how == "read":
            beach.read(COUNT)
        elif how == "execute_many":
            tx.execute_many(ADD, [{"number": 2}])
        else:
            getattr(tx, how)(ADD, {"number": 2})

    def work() -> None:
        with beach.transaction() as tx:
            tx.execute(ADD, {"number": 1})
            postgres_server.cut(postgres_address)
            # Also when whoever works there takes a failure for a small one, and tries again.
            for _ in range(2):
                with pytest.raises(DatabaseUnreachable):
                    go_on(tx)

    with pytest.raises(DatabaseUnreachable, match="cannot be reached"):
        work()
    assert beach.read(COUNT) == [(0,)]
    add(beach, 3)
    assert beach.read("SELECT number FROM pebbles") == [(3,)]


def test_a_commit_on_a_cut_connection_fails_and_stores_nothing(
    beach: Database, postgres_server: PostgresServer, postgres_address: str
) -> None:
    def work() -> None:
        with beach.transaction() as tx:
            tx.execute(ADD, {"number": 1})
            postgres_server.cut(postgres_address)

    with pytest.raises(DatabaseUnreachable):
        work()
    assert beach.read(COUNT) == [(0,)]


def test_a_closed_database_is_not_reopened(postgres_address: str) -> None:
    database = open_database(postgres_address)
    database.close()
    with pytest.raises(DatabaseUnreachable):
        database.read("SELECT 1")
    with pytest.raises(DatabaseUnreachable), database.transaction():
        pass


def test_an_unreachable_server_is_reported_on_one_line_without_the_password() -> None:
    with pytest.raises(DatabaseUnreachable) as caught:
        open_database("postgresql://harbor:s3cret@127.0.0.1:1/tide")
    assert caught.value.message.startswith("database tide cannot be reached: ")
    assert "\n" not in caught.value.message
    assert "s3cret" not in caught.value.message
    assert (caught.value.exit_code, caught.value.retryable) == (1, True)


def test_a_server_that_never_answers_times_out_after_connect_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(PATIENCE, "connect_timeout", 10 * DEAF_SECONDS)
    with deaf_server() as port, pytest.raises(DatabaseUnreachable, match="timeout expired"):
        open_database(f"postgresql://harbor@127.0.0.1:{port}/tide?connect_timeout=2")


@contextmanager
def deaf_server() -> Iterator[int]:
    """A server that says nothing to its client, and hangs up at the end or after DEAF_SECONDS."""
    over = threading.Event()

    def listen() -> None:
        with listener.accept()[0]:
            over.wait(DEAF_SECONDS)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            thread.join()


@pytest.mark.parametrize("address", ["postgresql://%zz", "postgresql:///tide?colour=blue"])
def test_an_invalid_postgresql_url_is_a_user_error(address: str) -> None:
    with pytest.raises(UserError, match="invalid PostgreSQL address"):
        open_database(address)


def test_a_read_only_role_is_reported_when_writing(
    beach: Database, postgres_server: PostgresServer, postgres_address: str
) -> None:
    role = f"reader_{postgres_server.name_of(postgres_address)}"
    add(beach, 1)
    with psycopg.connect(postgres_address, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN")
        owner.execute(f"GRANT SELECT ON pebbles TO {role}")
    reader = open_database(postgres_address.replace("postgres@", f"{role}@"))
    try:
        assert reader.read(COUNT) == [(1,)]
        with pytest.raises(StorageFailed, match="cannot be written: permission denied"):
            add(reader, 2)
        with pytest.raises(StorageFailed, match="cannot be written: permission denied") as caught:
            migrate(reader, ManualClock().now_ms())
        assert not isinstance(caught.value, DatabaseUnreachable), "waiting does not help"
    finally:
        reader.close()
        with psycopg.connect(postgres_address, autocommit=True) as owner:
            owner.execute(f"DROP OWNED BY {role}")
            owner.execute(f"DROP ROLE {role}")


def test_a_server_that_became_read_only_counts_as_unreachable_and_is_connected_to_again(
    beach: Database, postgres_server: PostgresServer, postgres_address: str
) -> None:
    name = postgres_server.name_of(postgres_address)
    with psycopg.connect(postgres_address, autocommit=True) as administrator:
        administrator.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        assert postgres_server.cut(postgres_address) == 2
    with pytest.raises(DatabaseUnreachable, match="read-only"):
        add(beach, 1)
    assert beach.read(COUNT) == [(0,)], "it can be read"
    with psycopg.connect(postgres_address, autocommit=True) as administrator:
        administrator.execute("SET default_transaction_read_only = off")
        administrator.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    # The session that was opened before is still read-only, so it must be another one that writes.
    with pytest.raises(DatabaseUnreachable, match="read-only"):
        add(beach, 2)
    add(beach, 3)
    assert beach.read(COUNT) == [(1,)]
