"""What a look costs: only rows that an index leads to, and never more of them because history is long."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tidelore.app.console import read_feedback
from tidelore.app.positions import read_sources
from tidelore.app.wiring import App
from tidelore.service.status import read_service
from tidelore.store.database.port import Database
from tidelore.store.work import activity

HISTORY = ("issues", "merge_requests", "discussions", "notes", "documents", "raw_payloads", "posts", "post_links",
           "feedback_events", "feedback_comments", "outbox", "sync_runs", "embeddings")  # fmt: skip
LOOKS: dict[str, Callable[[App, Database, int], Any]] = {
    "overview": read_sources,
    "bar": lambda _app, database, now: read_service(database, now),
    "feedback": lambda _app, database, now: read_feedback(database, now),
    "accounts": lambda _app, database, _now: activity.accounts(database, ""),
    "runs": lambda _app, database, _now: activity.newest_runs(database, 300),
    "failed runs": lambda _app, database, _now: activity.newest_unfinished(database, 300),
}


class Noting:
    """A database that keeps the questions it was asked."""

    def __init__(self, inner: Database) -> None:
        self._inner = inner
        self.asked: list[tuple[str, Any]] = []

    def read(self, sql: str, params: Any = None) -> list[tuple[Any, ...]]:
        self.asked.append((sql, params))
        return self._inner.read(sql, params)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.parametrize("place", LOOKS)
def test_no_console_query_scans_a_history_table(finished: App, place: str) -> None:
    database = finished.open_store()
    try:
        noting: Any = Noting(database)
        LOOKS[place](finished, noting, finished.clock.now_ms())
        assert noting.asked
        for sql, params in noting.asked:
            steps = [row[-1] for row in database.read(f"EXPLAIN QUERY PLAN {sql}", params)]
            for table in HISTORY:
                for step in steps:
                    assert not _goes_through(step, table, sql), f"{step}: {sql}"
    finally:
        database.close()


def _goes_through(step: str, table: str, sql: str) -> bool:
    """Tell whether a step reads a whole table: a partial index holds only what waits, a key ends at a limit."""
    found = re.match(rf"SCAN {table}\b(.*)", step)
    if found is None:
        return False
    waiting = re.search(r"USING (?:COVERING )?INDEX idx_\w+_(?:sync|pending|open|thread)\b", found[1])
    return not waiting and "ORDER BY id DESC LIMIT" not in sql


def test_a_scan_of_a_history_table_would_be_detected(finished: App) -> None:
    database = finished.open_store()
    try:
        for sql in ("SELECT COUNT(*) FROM notes WHERE body LIKE 'a%'", "SELECT * FROM issues ORDER BY title"):
            steps = [row[-1] for row in database.read(f"EXPLAIN QUERY PLAN {sql}")]
            assert any(_goes_through(step, table, sql) for step in steps for table in HISTORY)
    finally:
        database.close()
