"""Surgical syncs with a witness at every seam, and what they may not touch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.databases.samples import TABLES
from tests.faces.desk import Outcome
from tests.situations.gitlab.bench import PROJECT, Bench

from tidelore.cli.main import main
from tidelore.engine.crashpoint import Crashpoint, Seam, no_seam

CONTROL = {"sync_runs", "leases"}
CONTENT = tuple(table for table in TABLES if table not in CONTROL)


def operate(bench: Bench, *argv: str, seam: Crashpoint = no_seam) -> Outcome:
    """Run a surgical sync in robot mode; numbers belong to the bench's project."""
    bench.read()
    where = () if "--retry-failed" in argv or "-p" in argv else ("-p", PROJECT)
    places = ["--config", str(bench.config), "--db", str(bench.db)]
    code = main(["--full", "sync", *argv, *where, "--robot", *places], seam=seam)
    return Outcome(code, *bench.read())


def once(at: Seam, act: Callable[[], object]) -> Crashpoint:
    """Do something at the first visit of a seam."""
    left = [act]

    def passing(here: Seam) -> None:
        if here is at and left:
            left.pop()()

    return passing


def spent(bench: Bench, act: Callable[[], object]) -> Counter[str]:
    """The requests that reach the world meanwhile, by route."""
    before = bench.world.requests.copy()
    act()
    return Counter({name.removeprefix("GET /projects/:id"): n for name, n in (bench.world.requests - before).items()})


def content(bench: Bench) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table but the ledger and the lease."""
    return {table: sorted(bench.query(f"SELECT * FROM {table}"), key=repr) for table in CONTENT}


def last_run(bench: Bench, *columns: str) -> tuple[Any, ...]:
    """These columns of the newest run."""
    (row,) = bench.query(f"SELECT {', '.join(columns)} FROM sync_runs ORDER BY id DESC LIMIT 1")
    return row


def lease_holder(bench: Bench) -> Any:
    return bench.one("SELECT holder_host FROM leases")
