"""Benchmark `console`: what a refresh of each screen costs in a copy of a million notes, and how long keys wait.

Each screen's own question is timed on one open connection, as the console asks it, with the bar's; the slowest of many
is told beside the median, because a person sees every one of them. Everything is due, so that the backlog is as long as
it can be.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.console_keys import key_findings
from benchmarks.findings import Finding
from benchmarks.multiply import multiply
from benchmarks.reads import NOTES_EACH, settle
from benchmarks.scale import Scale
from benchmarks.workplace import copy_world, served_world
from benchmarks.world_server import Contents
from tidelore.app.console import read_feedback
from tidelore.app.positions import read_sources
from tidelore.app.wiring import App
from tidelore.core.clock import SystemClock
from tidelore.core.config import Config
from tidelore.core.process import ProcessIdentity
from tidelore.engine.ledger import Run
from tidelore.service.status import read_service
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database
from tidelore.store.work import activity
from tidelore.store.work.runs import RunTable

BOUND_MS = 20.0
RUNS = 5_000
LOOKS: dict[str, Callable[[Database, int], Any]] = {
    "overview": lambda database, now: read_sources(App(Config(), {}), database, now),
    "feedback": read_feedback,
    "accounts": lambda database, _now: activity.accounts(database, ""),
    "runs": lambda database, _now: activity.newest_runs(database, 300),
}


def run(scale: Scale) -> Iterator[Finding]:
    """Fill a copy and look at it."""
    contents = Contents(10, scale.few_notes // NOTES_EACH + 1, discussions=5, notes=3, events=2, files=4)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "many.db"
        with served_world(contents) as url:
            copy_world(url, path)
        settle(path)
        multiply(path, -(-scale.many_notes // scale.few_notes))
        database = open_database(str(path))
        try:
            migrate(database, SystemClock().now_ms())
            _make_busy(database)
            notes = database.read("SELECT COUNT(*) FROM notes")[0][0]
            for name, look in LOOKS.items():
                taken = _times(database, look, scale.starts)
                yield Finding("console", f"{name}, {notes:,} notes, median", median(taken), "ms", BOUND_MS)
                yield Finding("console", f"{name}, {notes:,} notes, slowest", max(taken), "ms")
        finally:
            database.close()
    yield from key_findings()


def _make_busy(database: Database) -> None:
    """Make everything due, and the ledger long."""
    with database.transaction() as tx:
        tx.execute("UPDATE child_sync SET synced_for = NULL WHERE parent_kind = 'merge_requests'")
    now = SystemClock().now_ms()
    with database.transaction() as tx:
        tx.execute(
            "WITH RECURSIVE n (k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < :runs)"
            " INSERT INTO sync_runs (started_at, heartbeat_at, finished_at, status, command, mode, phase, requests,"
            " holder_host, holder_pid, holder_started) SELECT :now - k * 1000, :now, :now - k * 500, 'succeeded',"
            " 'lore sync', 'standard', 'done', 9, 'here', 1, '1' FROM n",
            {"runs": RUNS, "now": now},
        )
    Run.start(RunTable(database), SystemClock(), "lore sync", ProcessIdentity.current())


def _times(database: Database, look: Callable[[Database, int], Any], rounds: int) -> list[float]:
    """Return how many milliseconds each look took, with what the bar reads; the first one warms up."""
    taken = []
    for _ in range(rounds + 1):
        now = SystemClock().now_ms()
        began = perf_counter()
        look(database, now)
        read_service(database, now)
        taken.append((perf_counter() - began) * 1000)
    return taken[1:]
