"""A stage on each kind of database, and what an uninterrupted run over the same world costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.crash.stage import Stage, open_stage
from tests.support.deep import deep

from tidelore.engine.crashpoint import Seam
from tidelore_world.gitlab.state import Kind


@dataclass(frozen=True)
class Uninterrupted:
    """A run that nothing disturbed."""

    requests: int
    visits: dict[Seam, int]
    lists: dict[Seam, int]
    """How many of the visits belong to the lists; the others are of their children."""


@pytest.fixture(params=["sqlite", deep("postgres")])
def dialect(request: pytest.FixtureRequest) -> str:
    """Both databases; PostgreSQL in `make test-all`, because a process there costs several times as much."""
    return str(request.param)


@pytest.fixture
def stage(dialect: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """The standard world beside a database with nothing but the schema, on both kinds."""
    with open_stage(request.getfixturevalue(f"migrated_{dialect}_address"), tmp_path) as opened:
        yield opened


@pytest.fixture
def sqlite_stage(migrated_sqlite_address: str, tmp_path: Path) -> Iterator[Stage]:
    """The standard world beside a SQLite file with nothing but the schema."""
    with open_stage(migrated_sqlite_address, tmp_path) as opened:
        yield opened


@pytest.fixture(scope="session")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Kind], Uninterrupted]:
    """The cost of mirroring the standard world in one go, measured once for each list."""
    measured: dict[Kind, Uninterrupted] = {}

    def measure(resource: Kind) -> Uninterrupted:
        if resource not in measured:
            folder = tmp_path_factory.mktemp("uninterrupted")
            with open_stage(str(folder / "lore.db"), folder) as stage:
                visits = stage.count_visits("ingest", "--type", resource)
                stage.assert_copy_is_true(resource)
                whole, lists = ({seam: both[which] for seam, both in visits.items()} for which in (0, 1))
                measured[resource] = Uninterrupted(stage.requests, whole, lists)
        return measured[resource]

    return measure
