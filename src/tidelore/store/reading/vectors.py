"""Stores the vectors of documents, and checks that each is where its row says.

Table `embeddings`. A document is due when the hash it was embedded under is not its current one, so neither a crash nor
a concurrent change can miss one. The vector is in a block, or in the row if the database is older; callers need not
know which. The check reads a few dozen blocks at a time, each with its rows and holes in one query, so that a
concurrent writer causes no false finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tidelore.core.errors import UserError
from tidelore.store.database.port import Database, Lists, Row, Transaction
from tidelore.store.reading.vector_blocks import BLOCK, VectorEntry, put, sign_bytes
from tidelore.store.reading.vector_models import VectorModel, in_rows
from tidelore.store.reading.vector_rows import as_text

_INSERT = (
    "INSERT INTO embeddings (model_id, document_id, position, content_hash, chunk_hash, {place})"
    " VALUES (:model_id, :document_id, :position, :content_hash, :chunk_hash, {value})"
)
_COLUMNS = ("model_id", "document_id", "position", "content_hash", "chunk_hash")


class DocumentText(Struct, frozen=True):
    """The text of a document to embed, and the hash it is embedded under."""

    id: int
    title: str
    content: str
    content_hash: bytes


class Piece(Struct, frozen=True):
    """A piece of a document. Without a vector, the one already stored at its position is kept."""

    hash: bytes
    vector: NDArray[np.float32] | None


class Embedded(Struct, frozen=True):
    """A document's pieces in order."""

    document_id: int
    content_hash: bytes
    pieces: tuple[Piece, ...]


class StoredVectors(Struct, frozen=True):
    """What was written: the numbers of documents, of new vectors, and of removed pieces."""

    documents: int
    chunks: int
    removed: int


def count_due(database: Database, model_id: int, only: Sequence[int] | None = None) -> tuple[int, int]:
    """Return how many documents there are, and how many of them are due."""
    where, params = _due(database, model_id, only)
    everything = f"WHERE d.id {database.among('ids')}" if only is not None else ""
    known = {"ids": params["ids"]} if only is not None else None
    total = database.read(f"SELECT COUNT(*) FROM documents d {everything}", known)[0][0]
    return int(total), int(database.read(f"SELECT COUNT(*) {where}", params)[0][0])


def due_documents(
    database: Database, model_id: int, after: int, limit: int, only: Sequence[int] | None = None
) -> list[int]:
    """Return due documents by id, after a given one, so that each is returned once in a run."""
    where, params = _due(database, model_id, only)
    rows = database.read(
        f"SELECT d.id {where} AND d.id > :after ORDER BY d.id LIMIT :limit", {**params, "after": after, "limit": limit}
    )
    return [row[0] for row in rows]


def read_texts(database: Database, ids: Sequence[int]) -> list[DocumentText]:
    """Return the texts to embed for these documents."""
    rows = database.read(
        f"SELECT id, title, content, content_hash FROM documents WHERE id {database.among('ids')} ORDER BY id",
        {"ids": database.integers(ids)},
    )
    return [DocumentText(row_id, title, content, bytes(value)) for row_id, title, content, value in rows]


def documents_of(database: Database, thread_type: str, thread_id: int) -> list[int]:
    """Return the documents of a thread: its own, and those of its discussions."""
    rows = database.read(
        "SELECT id FROM documents WHERE thread_type = :type AND thread_id = :id ORDER BY id",
        {"type": thread_type, "id": thread_id},
    )
    return [row[0] for row in rows]


def held_pieces(database: Database, model_id: int, ids: Sequence[int]) -> dict[int, dict[int, bytes]]:
    """Return the hashes of the stored pieces, by document and position."""
    return _by_document(database.read(_held(database), {"model": model_id, "ids": database.integers(ids)}))


class VectorTable:
    """Writes the vectors of one model."""

    def __init__(self, database: Database, model: VectorModel) -> None:
        self._model = model
        self._in_rows = in_rows(database)
        # Prevents documents from being deleted before our commit. Skips those being deleted, because waiting for each
        # other would be a deadlock. SQLite needs neither: it has one writer at a time.
        self._hold = " FOR KEY SHARE SKIP LOCKED" if database.dialect == "postgres" else ""

    def write(self, tx: Transaction, batch: Sequence[Embedded]) -> StoredVectors:
        """Store the pieces of documents that have not changed since; the others stay due."""
        # Must be the first statement: it locks the row that serialises writers.
        own = {"id": self._model.id}
        if not tx.change("UPDATE embedding_models SET generation = generation + 1 WHERE id = :id", own):
            raise UserError(
                f"another process replaced the embeddings of {self._model.name} with those of a different model",
                fix="use the same [embedding] settings in all processes that write this database",
                model=self._model.name,
            )
        valid, held = self._valid(tx, batch)
        pieces_of = {embedded.document_id: embedded.pieces for embedded in valid}
        gone = [
            (self._model.id, embedded.document_id, position)
            for embedded in valid
            for position in held.get(embedded.document_id, {})
            if position >= len(embedded.pieces) or embedded.pieces[position].vector is not None
        ]
        tx.execute_rows(
            "DELETE FROM embeddings WHERE model_id = :model AND document_id = :document AND position = :position",
            ("model", "document", "position"),
            gone,
        )
        tx.execute_rows(
            "UPDATE embeddings SET content_hash = :hash WHERE model_id = :model AND document_id = :document",
            ("hash", "model", "document"),
            [(embedded.content_hash, self._model.id, embedded.document_id) for embedded in valid],
        )
        chunks = self._insert(tx, valid)
        replaced = sum(position < len(pieces_of[document]) for _, document, position in gone)
        return StoredVectors(len(valid), chunks, len(gone) - replaced)

    def _valid(self, tx: Transaction, batch: Sequence[Embedded]) -> tuple[list[Embedded], dict[int, dict[int, bytes]]]:
        """Return the documents that have not changed since they were embedded, and their stored pieces."""
        ids = tx.integers(embedded.document_id for embedded in batch)
        rows = tx.execute(
            f"SELECT id, content_hash FROM documents WHERE id {tx.among('ids')} ORDER BY id{self._hold}", {"ids": ids}
        )
        hashes = {row_id: bytes(value) for row_id, value in rows}
        held = _by_document(tx.execute(_held(tx), {"model": self._model.id, "ids": ids}))
        valid = [
            embedded
            for embedded in batch
            if hashes.get(embedded.document_id) == embedded.content_hash
            and _is_whole(embedded.pieces, held.get(embedded.document_id, {}))
        ]
        return valid, held

    def _insert(self, tx: Transaction, valid: Sequence[Embedded]) -> int:
        rows = [
            ((self._model.id, embedded.document_id, position, embedded.content_hash, piece.hash), piece.vector)
            for embedded in valid
            for position, piece in enumerate(embedded.pieces)
        ]
        fresh = [(row, vector) for row, vector in rows if vector is not None]
        if not fresh:
            return 0
        if self._in_rows:
            tx.execute_rows(
                _INSERT.format(place="vector", value="CAST(:vector AS halfvec)"),
                (*_COLUMNS, "vector"),
                [(*row, as_text(vector)) for row, vector in fresh],
            )
        else:
            entries = [VectorEntry(row[1], row[2], vector) for row, vector in fresh]
            places = put(tx, self._model.id, self._model.dimension, entries)
            tx.execute_rows(
                _INSERT.format(place="block, slot", value=":block, :slot"),
                (*_COLUMNS, "block", "slot"),
                [(*row, *place) for (row, _), place in zip(fresh, places, strict=True)],
            )
        return len(fresh)


def _is_whole(pieces: Sequence[Piece], held: Mapping[int, bytes]) -> bool:
    """Return whether every piece without a vector has a stored one with the same hash."""
    return all(piece.vector is not None or held.get(place) == piece.hash for place, piece in enumerate(pieces))


def _due(database: Database, model_id: int, only: Sequence[int] | None) -> tuple[str, dict[str, Any]]:
    params: dict[str, Any] = {"model": model_id}
    narrowed = ""
    if only is not None:
        narrowed = f" AND d.id {database.among('ids')}"
        params["ids"] = database.integers(only)
    index = database.by_index("idx_documents_hash") if only is None else ""
    sql = (
        f"FROM documents d {index} LEFT JOIN embeddings e"
        " ON e.model_id = :model AND e.document_id = d.id AND e.position = 0"
        f" WHERE (e.content_hash IS NULL OR e.content_hash <> d.content_hash){narrowed}"
    )
    return sql, params


def _held(lists: Lists) -> str:
    return (
        "SELECT document_id, position, chunk_hash FROM embeddings"
        f" WHERE model_id = :model AND document_id {lists.among('ids')}"
    )


def _by_document(rows: Iterable[Row]) -> dict[int, dict[int, bytes]]:
    found: dict[int, dict[int, bytes]] = {}
    for document_id, position, value in rows:
        found.setdefault(document_id, {})[position] = bytes(value)
    return found


_AT_ONCE = 512
_BLOCKS = """
SELECT b.block, m.dimension, m.slots, b.documents, b.positions, LENGTH(b.scales), LENGTH(b.signs), LENGTH(b.vectors),
    e.owners, h.slots
FROM embedding_blocks b JOIN embedding_models m ON m.id = b.model_id
LEFT JOIN (
    SELECT block, string_agg(CAST(slot AS TEXT) || ' ' || document_id || ' ' || position, ',') AS owners
    FROM embeddings WHERE model_id = :model AND block BETWEEN :first AND :last GROUP BY block
) e ON e.block = b.block
LEFT JOIN (
    SELECT block, string_agg(CAST(slot AS TEXT), ',') AS slots
    FROM embedding_holes WHERE model_id = :model AND block BETWEEN :first AND :last GROUP BY block
) h ON h.block = b.block
WHERE b.model_id = :model AND b.block BETWEEN :first AND :last ORDER BY b.block
"""
_WITHOUT = "SELECT document_id, position FROM embeddings WHERE {missing} ORDER BY model_id, document_id, position"


def misplaced_vectors(database: Database) -> Iterator[str]:
    """Yield the rows without a vector, the blocks of a wrong size, and the places that name another document."""
    missing = "block IS NULL AND vector IS NULL" if in_rows(database) else "block IS NULL"
    for document_id, position in database.read(_WITHOUT.format(missing=missing)):
        yield f"embeddings {document_id} {position}"
    for model, most in database.read("SELECT model_id, MAX(block) FROM embedding_blocks GROUP BY model_id ORDER BY 1"):
        for first in range(0, most + 1, _AT_ONCE):
            rows = database.read(_BLOCKS, {"model": model, "first": first, "last": first + _AT_ONCE - 1})
            for row in rows:
                yield from _misplaced(row)


def _misplaced(row: Row) -> Iterator[str]:
    block, dimension, given_out, documents, positions, scales, signs, vectors, owners, holes = row
    size = min(BLOCK, given_out - block * BLOCK)
    sizes = (8, 4, 4, sign_bytes(dimension), dimension)
    if (len(documents), len(positions), scales, signs, vectors) != tuple(each * size for each in sizes):
        yield f"embedding_blocks {block}"
        return
    told = list(zip(np.frombuffer(documents, "<i8").tolist(), np.frombuffer(positions, "<i4").tolist(), strict=True))
    free = {int(slot) for slot in holes.split(",")} if holes else set()
    held = {}
    for text in owners.split(",") if owners else ():
        slot, document_id, position = map(int, text.split())
        held[slot] = (document_id, position)
    for slot, named in enumerate(told):
        if slot not in free and held.get(slot) != named:
            yield f"embedding_blocks {block} {slot}"
