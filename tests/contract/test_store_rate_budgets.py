"""A rate limit that several processes share, in the database."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.support.manual_clock import ManualClock

from tidelore.http.grants import Report
from tidelore.http.limits import Budget
from tidelore.store.database.port import Database
from tidelore.store.work.rate_budgets import RateBudgetTable


def test_a_shared_limit_is_read_back_as_written(database: Database, clock: ManualClock) -> None:
    table = RateBudgetTable(database, clock)
    reset_at = clock.now_ms() + 60_000
    assert table.exchange("host abc", Report(), 0.0).requests == 1
    granted = table.exchange("host abc", Report(1, Budget(99, reset_at, 100), 0), 0.0)
    assert granted.until_at == reset_at
    rows = database.read("SELECT key, remaining, allowed, reset_at, outstanding, is_known FROM rate_budgets")
    assert rows == [("host abc", 99 - granted.requests, 100, reset_at, granted.requests, 1)]
    assert table.exchange("other", Report(), 0.0).requests == 1, "another host has another limit"


def test_processes_that_ask_at_the_same_time_are_granted_no_more_than_the_limit(
    database: Database, connect: Callable[[], Database], clock: ManualClock
) -> None:
    RateBudgetTable(database, clock).exchange("host", Report(), 0.0)
    RateBudgetTable(database, clock).exchange("host", Report(1, Budget(40, clock.now_ms() + 60_000, 40)), 0.0)
    granted: list[int] = []

    def ask(connection: Database) -> None:
        table = RateBudgetTable(connection, clock)
        granted.extend(table.exchange("host", Report(), 0.0).requests for _ in range(41))

    threads = [threading.Thread(target=ask, args=(connect(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    first = 40 // 16
    assert sum(granted) + first == 40
