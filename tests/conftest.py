"""Fixtures every suite shares: an address of each kind of database, and an open, migrated one of both kinds."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.databases.migrated_file import lay_out
from tests.support.deep import mark_surplus_cases
from tests.support.first_collection import compiled_once
from tests.support.manual_clock import ManualClock
from tests.support.memory import memory_folder
from tests.support.proven import ROOT, SUITES, is_proven

from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database

if TYPE_CHECKING:
    from tests.databases.postgres_pool import PooledDatabase, PostgresPool
    from tests.databases.postgres_server import PostgresServer

DIALECTS = ("sqlite", "postgres")

if memory := memory_folder():
    # Where pytest makes its folders, unless --basetemp or the environment names another place.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave a suite out of the gate that `make test-all` has proven on the same files; never one that is asked for."""
    suite = collection_path.relative_to(ROOT).as_posix() if collection_path.is_relative_to(ROOT) else ""
    asked_for = any(suite in Path(argument).as_posix() for argument in config.args)
    if suite in SUITES and not os.environ.get("TIDELORE_DEEP") and not asked_for and is_proven(suite):
        return True
    return None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let the first worker compile the tests of a fresh clone for all."""
    with compiled_once(ROOT / "tests"):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave most cases of some tests to `make test-all`, before the marks are evaluated."""
    mark_surplus_cases(items)


class _Failures:
    """Names each failed test when it fails, because the reports come at the end of an hour."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.write(f"\nfailed: {report.nodeid} ({report.when})\n", red=True)


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("TIDELORE_DEEP") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Failures(config))


def pytest_collection_finish() -> None:
    """Keep the collected tests out of the garbage collector, which would else visit them again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    """Undo what a command has set up for the log of its process, so that no test depends on the one before."""
    logger = logging.getLogger("tidelore")
    handlers, propagate, level = list(logger.handlers), logger.propagate, logger.level
    yield
    logger.handlers, logger.propagate = handlers, propagate
    logger.setLevel(level)


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


@pytest.fixture
def migrated_sqlite_address(sqlite_address: str) -> str:
    """A file with nothing but the schema."""
    lay_out(Path(sqlite_address))
    return sqlite_address


@pytest.fixture(scope="session")
def postgres_pool(postgres_server: PostgresServer) -> Iterator[PostgresPool]:
    """Migrated databases that tests borrow one after another."""
    from tests.databases.postgres_pool import PostgresPool

    with ExitStack() as stack:
        yield PostgresPool(postgres_server, stack)


@pytest.fixture
def postgres_change() -> str:
    """SQL that changes the migrated schema of a PostgreSQL database; a module may override it."""
    return ""


@pytest.fixture
def lent_postgres(postgres_pool: PostgresPool, postgres_change: str) -> Iterator[PooledDatabase]:
    """A migrated database without rows, for one test."""
    with postgres_pool.lent(postgres_change) as lent:
        yield lent


@pytest.fixture
def migrated_postgres_address(lent_postgres: PooledDatabase) -> str:
    """A database with nothing but the schema."""
    return lent_postgres.address


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> str:
    """Whatever asks for this runs on both databases."""
    return str(request.param)


@pytest.fixture
def address(dialect: str, request: pytest.FixtureRequest) -> str:
    """A database of the dialect with nothing but the schema."""
    return str(request.getfixturevalue(f"migrated_{dialect}_address"))


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
def database(dialect: str, request: pytest.FixtureRequest) -> Database:
    """An open database of each dialect, its schema up to date."""
    if dialect == "postgres":
        lent: PooledDatabase = request.getfixturevalue("lent_postgres")
        return lent.database
    opened: Database = request.getfixturevalue("connect")()
    return opened
