"""Stores documents, and the marks of sources whose documents must be generated again.

Tables `dirty_sources` and `documents`. A mark is written in the transaction of the change it belongs to, so no change
is missed; marking twice has no effect. A deleted source is marked too, because its document must be deleted. A document
whose content is unchanged is not written again, so its index entries and vectors are kept. Does not compose text.
A mark also notes the change of its item in `changes`, except when all sources are marked at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.content import digest
from tidelore.core.model import Document
from tidelore.core.words import bigrams_of
from tidelore.engine.lease import Lease
from tidelore.store.database.port import Database, Transaction
from tidelore.store.mirror.changes import note_changes
from tidelore.store.mirror.kinds import ParentKind
from tidelore.store.reading.fulltext import add_words, remove_words, words_of
from tidelore.store.work.leases import writing

SOURCE_TYPES = {"issues": "issue", "merge_requests": "merge_request", "topics": "topic"}
_AGAIN = (
    " ON CONFLICT (source_type, source_id)"
    " DO UPDATE SET queued_at = excluded.queued_at, attempts = 0, last_error = NULL"
)


class DocumentSource(NamedTuple):
    """The row that a document is made from."""

    type: str
    id: int


class DirtyMark(NamedTuple):
    """A marked source, and since when it is marked."""

    type: str
    id: int
    queued_at: int

    @property
    def source(self) -> DocumentSource:
        return DocumentSource(self.type, self.id)


def mark_parents(
    tx: Transaction, kind: ParentKind, parents: Iterable[int], now_ms: int, older: Collection[int] | None = None
) -> None:
    """Mark parents and their discussions, whose documents contain the parent's title, labels and state.

    If `older` is given, only those of the parents were stored before and can have discussions.
    """
    ids = list(parents)
    mark_rows(tx, SOURCE_TYPES[kind.table], kind.table, ids, now_ms)
    with_discussions = ids if older is None else older
    if with_discussions:
        _mark_where(tx, "discussion", "discussions", kind.column, with_discussions, now_ms)


def mark_rows(tx: Transaction, source_type: str, table: str, ids: Iterable[int], now_ms: int) -> None:
    """Mark sources that are rows of a table, in a single statement."""
    chosen = list(ids)
    note_changes(tx, source_type, chosen, now_ms)
    _mark_where(tx, source_type, table, "id", chosen, now_ms)


def _mark_where(tx: Transaction, source_type: str, table: str, column: str, ids: Iterable[int], now_ms: int) -> None:
    tx.execute(
        "INSERT INTO dirty_sources (source_type, source_id, queued_at)"
        f" SELECT :type, id, :now FROM {table} WHERE {column} {tx.among('ids')}{_AGAIN}",
        {"type": source_type, "now": now_ms, "ids": tx.integers(ids)},
    )


def mark(tx: Transaction, source_type: str, ids: Iterable[int], now_ms: int) -> None:
    """Mark sources by id, whether or not they still exist."""
    ids = list(ids)
    note_changes(tx, source_type, ids, now_ms)
    tx.execute_rows(
        f"INSERT INTO dirty_sources (source_type, source_id, queued_at) VALUES (:type, :id, :now){_AGAIN}",
        ("type", "id", "now"),
        [(source_type, source_id, now_ms) for source_id in ids],
    )


def mark_all(database: Database, lease: Lease, now_ms: int) -> None:
    """Mark all sources, and every document whose source no longer exists."""
    with writing(database, lease) as tx:
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


def due_sources(database: Database, limit: int, after: DirtyMark | None = None) -> list[DirtyMark]:
    """Return marked sources, longest marked first; `after` continues after an earlier one, so each is returned once."""
    queued_at, source_type, source_id = (after.queued_at, after.type, after.id) if after else (-1, "", -1)
    rows = database.read(
        "SELECT source_type, source_id, queued_at FROM dirty_sources"
        " WHERE (queued_at, source_type, source_id) > (:queued_at, :type, :id)"
        " ORDER BY queued_at, source_type, source_id LIMIT :limit",
        {"queued_at": queued_at, "type": source_type, "id": source_id, "limit": limit},
    )
    return [DirtyMark(*row) for row in rows]


def marks_of(database: Database, sources: Sequence[DocumentSource]) -> list[DirtyMark]:
    """Return the marks of these sources, leaving out those that are not marked."""
    marks: list[DirtyMark] = []
    for source_type in dict.fromkeys(source.type for source in sources):
        ids = [source.id for source in sources if source.type == source_type]
        rows = database.read(
            "SELECT source_type, source_id, queued_at FROM dirty_sources"
            f" WHERE source_type = :type AND source_id {database.among('ids')}",
            {"type": source_type, "ids": database.integers(ids)},
        )
        marks += [DirtyMark(*row) for row in rows]
    return marks


def wipe(tx: Transaction, marks: Iterable[DirtyMark]) -> None:
    """Delete the marks that were processed; a source that was marked again meanwhile keeps its mark."""
    tx.execute_rows(
        "DELETE FROM dirty_sources WHERE source_type = :type AND source_id = :id AND queued_at = :queued_at",
        ("type", "id", "queued_at"),
        [tuple(entry) for entry in marks],
    )


def record_trouble(tx: Transaction, entry: DirtyMark, error: str) -> None:
    """Record that the document of a source could not be generated; it stays marked."""
    tx.execute(
        "UPDATE dirty_sources SET attempts = attempts + 1, last_error = :error"
        " WHERE source_type = :type AND source_id = :id",
        {"error": error, "type": entry.type, "id": entry.id},
    )


def count_dirty(database: Database) -> int:
    """Return how many sources are marked."""
    return int(database.read("SELECT COUNT(*) FROM dirty_sources")[0][0])


_COLUMNS = (*Document.__struct_fields__, "bigrams", "generated_at", "content_hash")
_UPDATES = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS if name not in {"source_type", "source_id"})
_UPSERT = (
    f"INSERT INTO documents ({', '.join(_COLUMNS)}) VALUES ({', '.join(f':{name}' for name in _COLUMNS)})"
    f" ON CONFLICT (source_type, source_id) DO UPDATE SET {_UPDATES}"
)
_INDEX_NOW = (
    "SELECT gin_clean_pending_list(oid) FROM pg_class"
    " WHERE oid = to_regclass('idx_documents_search') AND pg_has_role(relowner, 'USAGE')"
)
"""Adds the gathered words to PostgreSQL's index. Only its owner may; for others the server does it later."""


class WrittenDocuments(Struct, frozen=True):
    """The result of a batch: the ids of written documents, and how many were removed or unchanged."""

    ids: list[int]
    removed: int
    unchanged: int


def write_documents(
    tx: Transaction, sources: Sequence[DocumentSource], documents: Sequence[Document], now_ms: int
) -> WrittenDocuments:
    """Replace the documents of these sources with exactly these."""
    held = _held(tx, sources)
    made = {
        DocumentSource(document.source_type, document.source_id): replace(
            document, content=tx.indexable(document.content)
        )
        for document in documents
    }
    hashes = {source: digest(msgspec.json.encode(document)) for source, document in made.items()}
    changed = [source for source in made if held.get(source, (0, b""))[1] != hashes[source]]
    gone = [row_id for source, (row_id, _) in held.items() if source not in made]
    replaced = [held[source][0] for source in changed if source in held]
    lost = _words_of(tx, [*gone, *replaced]) if gone or replaced else set()
    if gone:
        tx.execute(f"DELETE FROM documents WHERE id {tx.among('ids')}", {"ids": tx.integers(gone)})
    tx.execute_rows(_UPSERT, _COLUMNS, [_row(made[source], now_ms, hashes[source]) for source in changed])
    if changed and tx.dialect == "postgres":
        tx.execute(_INDEX_NOW)
    ids = [row_id for source, (row_id, _) in _held(tx, changed).items()]
    present = add_words(tx, (text for source in changed for text in (made[source].title, made[source].content)))
    remove_words(tx, lost - present)
    return WrittenDocuments(ids, len(gone), len(made) - len(changed))


def remove_documents(tx: Transaction, source_type: str, source_ids: Sequence[int]) -> None:
    """Delete the documents of these sources immediately, without waiting for the next run that generates documents."""
    rows = tx.execute(
        f"SELECT id FROM documents WHERE source_type = :type AND source_id {tx.among('ids')}",
        {"type": source_type, "ids": tx.integers(source_ids)},
    )
    _delete(tx, [row_id for (row_id,) in rows])


def remove_documents_of_threads(tx: Transaction, thread_type: str, thread_ids: Sequence[int]) -> None:
    """Delete the documents of marked threads immediately.

    Documents locked by a concurrent writer are left to their mark: waiting for each other would be a deadlock.
    """
    rows = tx.execute(
        f"SELECT id FROM documents WHERE thread_type = :type AND thread_id {tx.among('ids')}{tx.passing_locked()}",
        {"type": thread_type, "ids": tx.integers(thread_ids)},
    )
    _delete(tx, [row_id for (row_id,) in rows])


def _delete(tx: Transaction, ids: Sequence[int]) -> None:
    if ids:
        lost = _words_of(tx, ids)
        tx.execute(f"DELETE FROM documents WHERE id {tx.among('ids')}", {"ids": tx.integers(ids)})
        remove_words(tx, lost)


def _words_of(tx: Transaction, ids: Sequence[int]) -> set[str]:
    return words_of(tx, f"id {tx.among('ids')}", {"ids": tx.integers(ids)})


def _held(tx: Transaction, sources: Iterable[DocumentSource]) -> dict[DocumentSource, tuple[int, bytes]]:
    found: dict[DocumentSource, tuple[int, bytes]] = {}
    by_type: dict[str, list[int]] = {}
    for source in sources:
        by_type.setdefault(source.type, []).append(source.id)
    for source_type, ids in by_type.items():
        rows = tx.execute(
            "SELECT source_id, id, content_hash FROM documents"
            f" WHERE source_type = :type AND source_id {tx.among('ids')}",
            {"type": source_type, "ids": tx.integers(ids)},
        )
        found |= {DocumentSource(source_type, key): (row_id, bytes(value)) for key, row_id, value in rows}
    return found


def _row(document: Document, now_ms: int, content_hash: bytes) -> tuple[object, ...]:
    """Return the column values; lists are stored as lines, so that people and indexes can read them."""
    values = [getattr(document, name) for name in Document.__struct_fields__]
    lines = ["\n".join(value) if isinstance(value, tuple) else value for value in values]
    return (*lines, bigrams_of((document.title, document.content)), now_ms, content_hash)
