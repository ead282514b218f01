"""Fixtures every suite shares: an address of each kind of database, and an open, migrated one of both kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidelore.clock import ManualClock
from tidelore.store.database import Database
from tidelore.store.migrate import migrate
from tidelore.store.opening import open_database

if TYPE_CHECKING:
    from tests.databases.postgres_server import PostgresServer

DIALECTS = ("sqlite", "postgres")


@pytest.fixture
def sqlite_address(tmp_path: Path) -> str:
    """A file that does not exist yet."""
    return str(tmp_path / "lore.db")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for each process that runs tests, started when the first test asks for it."""
    from tests.databases.postgres_server import running_server

    with running_server() as server:
        yield server


@pytest.fixture
def postgres_address(postgres_server: PostgresServer) -> Iterator[str]:
    """An empty database of its own."""
    with postgres_server.fresh_database() as address:
        yield address


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> str:
    """Whatever asks for this runs on both databases."""
    return str(request.param)


@pytest.fixture
def address(dialect: str, request: pytest.FixtureRequest) -> str:
    """An empty database of the dialect."""
    return str(request.getfixturevalue(f"{dialect}_address"))


@pytest.fixture
def connect(address: str) -> Iterator[Callable[[], Database]]:
    """Open further connections to the test's database; all are closed at the end."""
    with ExitStack() as stack:

        def opened() -> Database:
            database = open_database(address)
            stack.callback(database.close)
            return database

        yield opened


@pytest.fixture
def clock() -> ManualClock:
    """A clock moved by hand."""
    return ManualClock()


@pytest.fixture
def database(connect: Callable[[], Database], clock: ManualClock) -> Database:
    """An open database of each dialect, its schema up to date."""
    opened = connect()
    migrate(opened, clock.now_ms())
    return opened
