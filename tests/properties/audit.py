"""What must be true of a copy: it equals the truth, took each version once, and never moved a watermark back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from tests.properties.inprocess import PROJECT, House, decode
from tests.properties.offspring import compare_children

from tidelore.core.clock import parse_instant
from tidelore.core.model import Position, Version
from tidelore.engine.cursor import order_key
from tidelore.engine.ports import Batch
from tidelore.store.database.port import Database
from tidelore.store.mirror.page_writer import PageWriter
from tidelore.store.mirror.payloads import PayloadReader
from tidelore_world.world import World

TABLES = {"issues": ("issue_id", "issue"), "merge_requests": ("merge_request_id", "mr")}


class Journal:
    """Every batch whose commit returned: nothing else counts as ingested."""

    def __init__(self) -> None:
        self.versions: Counter[tuple[str, Version]] = Counter()
        self.watermarks: dict[str, list[Position | None]] = {}

    def note(self, surface: str, batch: Batch[Any]) -> None:
        """Record a batch that is durable."""
        self.versions.update((surface, item.version) for item in batch.items)
        self.watermarks.setdefault(surface, []).append(batch.cursor.watermark)

    def check(self) -> None:
        """Each version once; each watermark only forward."""
        twice = [entry for entry, times in self.versions.items() if times > 1]
        assert not twice, f"ingested more than once: {twice}"
        for surface, marks in self.watermarks.items():
            placed = [order_key(mark) if mark is not None else (-1, 0, "") for mark in marks]
            assert placed == sorted(placed), f"the watermark of {surface} moved back: {marks}"


@contextmanager
def journal() -> Iterator[Journal]:
    """Listen to every commit of a store of parents."""
    kept = Journal()
    commit = PageWriter.commit

    def recording(self: PageWriter[Any], batch: Batch[Any]) -> None:
        commit(self, batch)
        kept.note(self._scope.surface, batch)

    with patch.object(PageWriter, "commit", recording):
        yield kept


def rows(database: Database, table: str) -> dict[int, dict[str, Any]]:
    """Every live row of a table with what hangs on it, by remote id."""
    parent, short = TABLES[table]
    sha = "p.head_sha" if table == "merge_requests" else "NULL"
    found = database.read(
        f"SELECT p.id, p.remote_id, p.iid, p.title, p.state, p.updated_at, p.created_at, p.description,"
        f" p.milestone_title, {sha}, r.encoding, r.payload, r.dictionary_id FROM {table} p"
        " JOIN raw_payloads r ON r.id = p.raw_payload_id WHERE p.deleted_at IS NULL"
    )
    names = ("iid", "title", "state", "updated_at", "created_at", "description", "milestone", "sha")
    result = {row[1]: dict(zip(names, row[2:10], strict=True)) for row in found}
    reader = PayloadReader(database.read)
    for row in found:
        entry = result[row[1]]
        entry["payload"] = decode(reader.unpack(*row[10:]))
        entry["labels"] = _linked(
            database, f"SELECT name FROM {short}_labels l JOIN labels n ON n.id = l.label_id", f"l.{parent}", row[0]
        )
        entry["assignees"] = _linked(database, f"SELECT username FROM {short}_assignees", parent, row[0])
    return result


def _linked(database: Database, select: str, column: str, row_id: int) -> list[str]:
    return sorted(row[0] for row in database.read(f"{select} WHERE {column} = :id", {"id": row_id}))


def truth(world: World, table: str) -> dict[int, dict[str, Any]]:
    """What the copy must hold of a list, by remote id."""
    forge = world.gitlab
    payloads = forge.truth_issues(PROJECT) if table == "issues" else forge.truth_merge_requests(PROJECT)
    return {payload["id"]: _expected(payload) for payload in payloads}


def _expected(payload: dict[str, Any]) -> dict[str, Any]:
    entry = {name: payload[name] for name in ("iid", "title", "state", "description")}
    entry["updated_at"] = parse_instant(payload["updated_at"])
    entry["created_at"] = parse_instant(payload["created_at"])
    entry["milestone"] = payload["milestone"]["title"] if payload["milestone"] else None
    entry["sha"] = payload.get("sha")
    entry["labels"] = sorted(payload["labels"])
    entry["assignees"] = sorted(user["username"] for user in payload["assignees"])
    entry["payload"] = payload
    return entry


def compare(house: House, *, exact: bool = False, children: bool = True) -> None:
    """Everything a list shows is in the copy as it is shown, with all its children; with `exact`, nothing else is."""
    with house.database() as database:
        for table in TABLES:
            held, wanted = rows(database, table), truth(house.world, table)
            missing = sorted(set(wanted) - set(held))
            assert not missing, f"{table} missing: {missing}"
            for key, entry in wanted.items():
                assert held[key] == entry, f"{table} {key} differs"
            if exact:
                extra = sorted(set(held) - set(wanted))
                assert not extra, f"{table} not buried: {extra}"
        if children:
            compare_children(database, house.world.gitlab, (PROJECT,), ("issues", "merge_requests"))
