"""Stores which embedding models have vectors here (table `embedding_models`), and reads their vectors without numpy.

A model is identified by name, version and dimension; vectors of two models are never mixed. If texts are split
differently, every document becomes due again, but only pieces that changed are embedded. Must not import numpy, because
offline searches use this module: a search that starts a process reads the signs of all vectors, then a few numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tidelore.store.database.port import Database, Params, Row, Transaction

COLUMNS = "id, name, version, dimension, chunking, created_at"
_FIND = f"SELECT {COLUMNS} FROM embedding_models WHERE name = :name AND version = :version AND dimension = :dimension"


class VectorModel(Struct, frozen=True):
    """A model that has, or will have, vectors here."""

    id: int
    name: str
    version: str
    dimension: int
    chunking: str
    created_at: int


def find_model(database: Database, name: str, version: str, dimension: int) -> VectorModel | None:
    """Return the model, or None if it was never used here."""
    rows = database.read(_FIND, {"name": name, "version": version, "dimension": dimension})
    return VectorModel(*rows[0]) if rows else None


def has_vectors(database: Database) -> bool:
    """Return whether there are vectors of any model."""
    return bool(database.read("SELECT 1 FROM embeddings LIMIT 1"))


def models_of(database: Database, documents: Sequence[int]) -> list[VectorModel]:
    """Return the models that have vectors of these documents, newest first."""
    rows = database.read(
        f"SELECT {COLUMNS} FROM embedding_models m WHERE EXISTS (SELECT 1 FROM embeddings e"
        f" WHERE e.model_id = m.id AND e.document_id {database.among('ids')}) ORDER BY id DESC",
        {"ids": database.integers(documents)},
    )
    return [VectorModel(*row) for row in rows]


def ensure_model(
    database: Database, name: str, version: str, dimension: int, chunking: str, now_ms: int
) -> VectorModel:
    """Return the model, adding it if it is new. If texts were split differently, make all documents due again."""
    found = find_model(database, name, version, dimension)
    if found is not None and found.chunking == chunking:
        return found
    identity = {"name": name, "version": version, "dimension": dimension}
    with database.transaction() as tx:
        tx.execute(
            "INSERT INTO embedding_models (name, version, dimension, chunking, created_at)"
            " VALUES (:name, :version, :dimension, :chunking, :now) ON CONFLICT (name, version, dimension) DO NOTHING",
            {**identity, "chunking": chunking, "now": now_ms},
        )
        model = VectorModel(*tx.execute(_FIND, identity)[0])
        if model.chunking != chunking:
            tx.execute(
                "UPDATE embedding_models SET chunking = :chunking WHERE id = :id",
                {"chunking": chunking, "id": model.id},
            )
            _make_due(tx, model.id)
    return replace(model, chunking=chunking)


def forget_vectors(database: Database, model_id: int) -> None:
    """Make every document due and invalidate its vectors; searches use them until they are replaced."""
    with database.transaction() as tx:
        tx.execute("UPDATE embeddings SET chunk_hash = :none WHERE model_id = :id", {"none": b"", "id": model_id})
        _make_due(tx, model_id)


def drop_other_models(database: Database, keep: int) -> int:
    """Delete all other models with their vectors; return the number of deleted vectors."""
    if not database.read("SELECT 1 FROM embedding_models WHERE id <> :keep", {"keep": keep}):
        return 0
    with database.transaction() as tx:
        removed = tx.change("DELETE FROM embeddings WHERE model_id <> :keep", {"keep": keep})
        for table in ("embedding_holes", "embedding_blocks"):
            tx.execute(f"DELETE FROM {table} WHERE model_id <> :keep", {"keep": keep})
        tx.execute("DELETE FROM embedding_models WHERE id <> :keep", {"keep": keep})
    return removed


def _make_due(tx: Transaction, model_id: int) -> None:
    tx.execute("UPDATE embeddings SET content_hash = :none WHERE model_id = :id", {"none": b"", "id": model_id})


BLOCK = 64
"""As in `vector_blocks`, which imports numpy. All blocks but the last are full."""


_ROWS_AT_ONCE = 32


class SignTable(Struct, frozen=True):
    """The documents and signs of all places, and the free ones. A place is a block times its size plus a slot."""

    documents: bytearray
    signs: bytearray
    holes: frozenset[int]

    def owners(self) -> tuple[int, ...]:
        """Return the document of each place."""
        return struct.unpack(f"<{len(self.documents) // 8}q", self.documents)

    def owner(self, place: int) -> int:
        """Return the document of one place."""
        return int.from_bytes(self.documents[8 * place : 8 * place + 8], "little", signed=True)


class NumberBlock(Struct, frozen=True):
    """The positions, scales and numbers of one block."""

    positions: bytes
    scales: bytes
    vectors: bytes


def count_places(database: Database, model_id: int) -> int:
    """Return how many places for vectors a model has."""
    rows = database.read("SELECT slots FROM embedding_models WHERE id = :id", {"id": model_id})
    return int(rows[0][0]) if rows else 0


def read_signs(database: Database, model_id: int) -> SignTable:
    """Return the signs of all vectors of a model."""
    own = {"model": model_id}
    holes = database.read("SELECT block, slot FROM embedding_holes WHERE model_id = :model", own)
    documents, signs = bytearray(), bytearray()
    sql = "SELECT documents, signs FROM embedding_blocks WHERE model_id = :model ORDER BY block"
    for rows in _batches(database, sql, own):
        for own_documents, own_signs in rows:
            documents += own_documents
            signs += own_signs
    return SignTable(documents, signs, frozenset(block * BLOCK + slot for block, slot in holes))


def read_numbers(database: Database, model_id: int, blocks: Iterable[int]) -> Iterator[tuple[int, NumberBlock]]:
    """Yield the numbers of some blocks."""
    sql = (
        "SELECT block, positions, scales, vectors FROM embedding_blocks"
        f" WHERE model_id = :model AND block {database.among('blocks')}"
    )
    own = {"model": model_id, "blocks": database.integers(blocks)}
    for rows in _batches(database, sql, own):
        for number, *parts in rows:
            yield number, NumberBlock(*parts)


def _batches(database: Database, sql: str, params: Params) -> Iterator[list[Row]]:
    if database.dialect == "sqlite":
        # A few rows at a time, so that the same memory holds them: a new process has to be given each page of it.
        return database.rows(sql, params, _ROWS_AT_ONCE)
    return iter([database.read(sql, params)])


def in_rows(database: Database) -> bool:
    """Return whether vectors are stored in the rows of `embeddings`, as in a database from before migration 3."""
    return database.dialect == "postgres" and bool(
        database.read(
            "SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass(quote_ident(current_schema()) || '.embeddings')"
            " AND attname = 'vector' AND NOT attisdropped"
        )
    )
