"""A poll whose lease is taken over between any two of its transactions: it fails, and writes nothing more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.properties.inprocess import Mortal, Reaper
from tests.situations.feedback.bench import REPO, Bench, open_pulls
from tests.support.deep import gate_cases

from tidelore.core.errors import LeaseLost
from tidelore.store.database.port import Database

TABLES = (
    *("tracked_prs", "tracked_pr_history", "cursors", "issue_comment_cursors", "poll_costs", "quarantine"),
    *("notes", "merge_requests", "feedback_events", "operator_commands", "issue_followups", "outbox"),
)


class TakenOver(Mortal):
    """A connection whose process loses its lease just before the n-th transaction after it took it."""

    def __init__(self, database: Database, reaper: Reaper, at: int) -> None:
        super().__init__(database, reaper)
        self._left = at
        self.before: dict[str, list[str]] = {}

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[Any]:
        if self._database.read("SELECT 1 FROM leases WHERE holder_pid IS NOT NULL"):
            if self._left == 0:
                with self._database.transaction() as tx:
                    tx.execute("UPDATE leases SET generation = generation + 1 WHERE holder_pid IS NOT NULL")
                self.before = contents(self._database)
            self._left -= 1
        with super().transaction(durable=durable) as tx:
            yield tx


def contents(database: Database) -> dict[str, list[str]]:
    return {table: sorted(map(repr, database.read(f"SELECT * FROM {table}"))) for table in TABLES}


def much_happens(bench: Bench) -> None:
    """Something to write for everything that a poll writes."""
    open_pulls(bench.world, 2)
    bench.host["operations_issue"] = bench.hub.create_issue(REPO, "Operations").number
    source = bench.hub.create_issue(REPO, "What it is all about").number
    bench.track(1, 2)
    bench.follow(source, 1)
    bench.settle()
    bench.hub.comment(REPO, source, "said where it began")
    bench.hub.push(REPO, 1)
    bench.hub.comment(REPO, 1, "said meanwhile")
    bench.hub.review(REPO, 1, "COMMENTED", "a review")
    bench.hub.merge(REPO, 2)
    bench.world.advance(10)


@pytest.mark.parametrize(
    ("ways", "cursor"),
    [
        (("repo", "thread"), ""),
        (("thread", "repo"), ""),
        (("repo", "repo"), "watermark_at = 9999999999999"),
    ],
    ids=["feeds-to-threads", "threads-to-feeds", "invalid-cursor"],
)
@gate_cases(1)
def test_a_poll_that_lost_its_lease_writes_nothing_more(bench: Bench, ways: tuple[str, str], cursor: str) -> None:
    bench.host["fetch"] = ways[0]
    much_happens(bench)
    bench.host["fetch"] = ways[1]
    # Whoever follows by a rule reads the list; without one, each pull request is asked for by itself.
    bench.host["track_authors"] = ["robin"] if ways[1] == "repo" else []
    if cursor:
        bench.write(f"UPDATE cursors SET {cursor} WHERE surface LIKE '%merge_requests'")
    file = bench.folder / "lore.db"
    stored = file.read_bytes()
    lost = 0
    for at in range(200):
        for leftover in bench.folder.glob("lore.db*"):
            leftover.unlink()
        file.write_bytes(stored)
        opened: list[TakenOver] = []

        def connect(database: Database, reaper: Reaper, at: int = at, opened: list[TakenOver] = opened) -> Database:
            opened.append(TakenOver(database, reaper, at))
            return opened[-1]

        bench.connection = connect
        bench.killed = True
        try:
            bench.poll_all()
        except LeaseLost:
            lost += 1
        if not opened[0].before:
            break
        with bench.database() as database:
            assert contents(database) == opened[0].before, f"written after the lease was lost before transaction {at}"
    assert lost > 5
