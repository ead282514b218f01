"""Connections that a worker keeps for their next user: one user at a time, and none that is not idle."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.databases.postgres_server import PostgresServer
from tests.support.manual_clock import ManualClock

from tidelore.app.wiring import App
from tidelore.core.clock import SharedClock, SystemClock
from tidelore.core.config_file import parse_config
from tidelore.core.errors import SchemaTooNew
from tidelore.store.database.kept import CHECK_SECONDS, KeptConnections

PID = "SELECT pg_backend_pid()"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def app(postgres_address: str, clock: ManualClock) -> Iterator[App]:
    kept = KeptConnections(clock)
    yield App(parse_config({}), os.environ, postgres_address, clock=clock, kept=kept)
    kept.close()


def use(app: App) -> int:
    database = app.open_store(create=True)
    try:
        return int(database.read(PID)[0][0])
    finally:
        database.close()


def test_a_connection_is_used_again_and_by_one_user_at_a_time(app: App) -> None:
    first = use(app)
    assert use(app) == first
    one, other = app.open_store(), app.open_store()
    assert one.read(PID) != other.read(PID)
    one.close()
    other.close()
    assert app.kept is not None
    app.kept.close()
    assert use(app) != first


def test_a_handle_is_of_no_use_after_its_connection_was_given_back(app: App) -> None:
    old = app.open_store(create=True)
    pid = old.read(PID)
    old.close()
    old.close()
    one, other = app.open_store(), app.open_store()
    assert one.read(PID) == pid
    assert other.read(PID) != pid, "closing twice gives it back once"
    with pytest.raises(AttributeError):
        old.read(PID)
    one.close()
    other.close()


def test_a_connection_that_the_server_cut_or_that_is_in_a_transaction_is_not_given_away_as_it_is(
    app: App, postgres_server: PostgresServer, postgres_address: str
) -> None:
    first = use(app)
    postgres_server.cut(postgres_address)
    second = use(app)
    assert second != first
    database = app.open_store()
    unfinished = database.transaction()
    unfinished.__enter__()
    database.close()
    assert use(app) != second


def test_a_newer_schema_is_noticed_although_connections_are_kept(app: App, clock: ManualClock) -> None:
    use(app)
    database = app.open_store()
    with database.transaction() as tx:
        tx.execute("INSERT INTO schema_version VALUES (9999, 'of a newer program', 'x', 1)")
    database.close()
    clock.advance(CHECK_SECONDS + 1)
    with pytest.raises(SchemaTooNew):
        app.open_store()


def test_the_clock_of_the_server_is_that_of_the_program(app: App, clock: ManualClock) -> None:
    shared = SharedClock(clock)
    App(app.config, app.environ, app.db, clock=shared).open_store(create=True).close()
    assert abs(shared.now_ms() - SystemClock().now_ms()) < 60_000
