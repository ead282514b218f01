"""What has to be made into a document again. Owns the table `dirty_sources`.

A mark is written in the transaction of the change it belongs to, so no change can be forgotten; marking twice is
marking once. A source that is gone is marked too: its document has to go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tidelore.engine.lease import Lease
from tidelore.store.database import Database, Transaction
from tidelore.store.kinds import ParentKind
from tidelore.store.leases import fence

SOURCE_TYPES = {"issues": "issue", "merge_requests": "merge_request"}
_AGAIN = (
    " ON CONFLICT (source_type, source_id)"
    " DO UPDATE SET queued_at = excluded.queued_at, attempts = 0, last_error = NULL"
)


class Source(NamedTuple):
    """What a document is made of."""

    type: str
    id: int


class Mark(NamedTuple):
    """A source that is due, and since when."""

    type: str
    id: int
    queued_at: int

    @property
    def source(self) -> Source:
        return Source(self.type, self.id)


def mark_parents(tx: Transaction, kind: ParentKind, parents: Iterable[int], now_ms: int) -> None:
    """Mark parents, and their discussions: those carry the parent's title, labels and state."""
    ids = list(parents)
    mark_rows(tx, SOURCE_TYPES[kind.table], kind.table, ids, now_ms)
    mark_rows(tx, "discussion", "discussions", ids, now_ms, column=kind.column)


def mark_rows(
    tx: Transaction, source_type: str, table: str, ids: Iterable[int], now_ms: int, *, column: str = "id"
) -> None:
    """Mark sources that are rows of a table: in one statement, however many they are."""
    tx.execute(
        "INSERT INTO dirty_sources (source_type, source_id, queued_at)"
        f" SELECT :type, id, :now FROM {table} WHERE {column} {tx.among('ids')}{_AGAIN}",
        {"type": source_type, "now": now_ms, "ids": tx.integers(ids)},
    )


def mark(tx: Transaction, source_type: str, ids: Iterable[int], now_ms: int) -> None:
    """Mark sources by themselves, there or gone."""
    tx.execute_rows(
        f"INSERT INTO dirty_sources (source_type, source_id, queued_at) VALUES (:type, :id, :now){_AGAIN}",
        ("type", "id", "now"),
        [(source_type, source_id, now_ms) for source_id in ids],
    )


def mark_all(database: Database, lease: Lease, now_ms: int) -> None:
    """Mark everything there is, and every document whose source is not there any more."""
    with database.transaction() as tx:
        fence(tx, lease)
        for table, source_type in (*SOURCE_TYPES.items(), ("discussions", "discussion"), ("posts", "post")):
            tx.execute(
                "INSERT INTO dirty_sources (source_type, source_id, queued_at)"
                f" SELECT :type, id, :now FROM {table} WHERE id > 0{_AGAIN}",
                {"type": source_type, "now": now_ms},
            )
        tx.execute(
            "INSERT INTO dirty_sources (source_type, source_id, queued_at)"
            f" SELECT source_type, source_id, :now FROM documents WHERE id > 0{_AGAIN}",
            {"now": now_ms},
        )


def due_sources(database: Database, limit: int, after: Mark | None = None) -> list[Mark]:
    """Return what is marked, the longest first; after one that was looked at, so that each comes up once."""
    queued_at, source_type, source_id = (after.queued_at, after.type, after.id) if after else (-1, "", -1)
    rows = database.read(
        "SELECT source_type, source_id, queued_at FROM dirty_sources"
        " WHERE (queued_at, source_type, source_id) > (:queued_at, :type, :id)"
        " ORDER BY queued_at, source_type, source_id LIMIT :limit",
        {"queued_at": queued_at, "type": source_type, "id": source_id, "limit": limit},
    )
    return [Mark(*row) for row in rows]


def marks_of(database: Database, sources: Sequence[Source]) -> list[Mark]:
    """Return the marks of these sources; one that is not marked has none."""
    marks: list[Mark] = []
    for source_type in dict.fromkeys(source.type for source in sources):
        ids = [source.id for source in sources if source.type == source_type]
        rows = database.read(
            "SELECT source_type, source_id, queued_at FROM dirty_sources"
            f" WHERE source_type = :type AND source_id {database.among('ids')}",
            {"type": source_type, "ids": database.integers(ids)},
        )
        marks += [Mark(*row) for row in rows]
    return marks


def wipe(tx: Transaction, marks: Iterable[Mark]) -> None:
    """Remove marks that were dealt with; one that was made anew meanwhile stays."""
    tx.execute_rows(
        "DELETE FROM dirty_sources WHERE source_type = :type AND source_id = :id AND queued_at = :queued_at",
        ("type", "id", "queued_at"),
        [tuple(entry) for entry in marks],
    )


def record_trouble(tx: Transaction, entry: Mark, error: str) -> None:
    """Note that a source could not be made into a document; it stays marked."""
    tx.execute(
        "UPDATE dirty_sources SET attempts = attempts + 1, last_error = :error"
        " WHERE source_type = :type AND source_id = :id",
        {"error": error, "type": entry.type, "id": entry.id},
    )


def count_dirty(database: Database) -> int:
    """Return how many sources are marked."""
    return int(database.read("SELECT COUNT(*) FROM dirty_sources")[0][0])
