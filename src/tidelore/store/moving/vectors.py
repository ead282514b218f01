"""Gives the vectors of a moved database the form that the target searches: blocks, or rows if it has them.

Blocks are copied as they are, so vectors that came from blocks go back into blocks unchanged. Two forms of a vector are
compared by the bytes it has, or would have, in a block. Imported only if one of the databases keeps vectors in rows.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray

from tidelore.core.errors import IntegrityError
from tidelore.engine.crashpoint import Crashpoint, Seam
from tidelore.store.database.port import Database, Row, Transaction
from tidelore.store.moving.copying import Claim, Comparison, claimed
from tidelore.store.moving.tables import RowHash, Table, TableState, read_rows, tables
from tidelore.store.reading.vector_blocks import VectorEntry, put, quantised
from tidelore.store.reading.vector_models import in_rows
from tidelore.store.reading.vector_rows import as_text

_BATCH = 256
_MISSING = (
    "SELECT model_id, document_id, position FROM embeddings WHERE {missing}"
    " AND (model_id, document_id, position) > (:model, :document, :position)"
    " ORDER BY model_id, document_id, position LIMIT :limit"
)
_PLACE = " WHERE model_id = :model AND document_id = :document AND position = :position"

Vector = NDArray[np.float32]


def place_vectors(source: Database, target: Database, held: Claim, seam: Crashpoint) -> None:
    """Write the vectors that the target has no usable form of yet; call it inside `one_state` of the source."""
    rows_there = in_rows(target)
    sql = _MISSING.format(missing="vector IS NULL" if rows_there else "block IS NULL")
    last: Row = (-1, -1, -1)
    while keys := target.read(sql, {"limit": _BATCH, "model": last[0], "document": last[1], "position": last[2]}):
        found = _read(source, keys)
        lost = [key for key in keys if key not in found]
        if lost:
            raise IntegrityError(
                f"the source has no vector for piece {lost[0][2]} of document {lost[0][1]}",
                fix="run `lore check` on the source; `lore embed --full` there makes all vectors again",
            )
        seam(Seam.BEFORE_COMMIT)
        with claimed(target, held) as tx:
            (_write_rows if rows_there else _write_blocks)(tx, {key: found[key] for key in keys})
            seam(Seam.INSIDE_COMMIT)
        seam(Seam.AFTER_COMMIT)
        last = keys[-1]


def compare_vectors(source: Database, target: Database) -> Comparison:
    """Compare the vectors of both databases, inside `one_state` of both."""
    return Comparison("vectors", _hashed(source), _hashed(target))


def _write_rows(tx: Transaction, vectors: dict[Row, Vector]) -> None:
    tx.execute_rows(
        f"UPDATE embeddings SET vector = CAST(:vector AS halfvec){_PLACE}",
        ("vector", "model", "document", "position"),
        [(as_text(vector), *key) for key, vector in vectors.items()],
    )


def _write_blocks(tx: Transaction, vectors: dict[Row, Vector]) -> None:
    for model in sorted({key[0] for key in vectors}):
        own = [(key, vector) for key, vector in vectors.items() if key[0] == model]
        entries = [VectorEntry(key[1], key[2], vector) for key, vector in own]
        places = put(tx, model, len(own[0][1]), entries)
        tx.execute_rows(
            f"UPDATE embeddings SET block = :block, slot = :slot{_PLACE}",
            ("block", "slot", "model", "document", "position"),
            [(*place, *key) for (key, _), place in zip(own, places, strict=True)],
        )


def _hashed(database: Database) -> TableState:
    found = RowHash()
    for keys in read_rows(database, _embeddings(), columns=_embeddings().key):
        vectors = _read(database, keys)
        known = [key for key in keys if key in vectors]
        if known:
            steps = _steps([vectors[key] for key in known])
            found.add([(*key, step) for key, step in zip(known, steps, strict=True)])
    return found.state()


def _steps(vectors: list[Vector]) -> list[bytes]:
    """Return the bytes that vectors have in a block. Models differ in length, so each vector is taken by itself."""
    return [quantised(vector[np.newaxis])[0].tobytes() for vector in vectors]


def _embeddings() -> Table:
    return next(table for table in tables() if table.name == "embeddings")


def _read(database: Database, keys: Iterable[Row]) -> dict[Row, Vector]:
    """Return the vectors of pieces of documents by their keys: those of rows, and the others from their blocks."""
    wanted = set(keys)
    rows_here = in_rows(database)
    found: dict[Row, Vector] = {}
    for model in {key[0] for key in wanted}:
        documents = database.integers({key[1] for key in wanted if key[0] == model})
        text = "CAST(vector AS TEXT)" if rows_here else "NULL"
        rows = database.read(
            f"SELECT document_id, position, block, slot, {text} FROM embeddings"
            f" WHERE model_id = :model AND document_id {database.among('ids')}",
            {"model": model, "ids": documents},
        )
        blocks = _blocks(database, model, {row[2] for row in rows if row[4] is None and row[2] is not None})
        for document, position, block, slot, told in rows:
            key = (model, document, position)
            if key not in wanted:
                continue
            if told is not None:
                found[key] = np.array(msgspec.json.decode(told), dtype=np.float32)
            elif block in blocks and slot < len(blocks[block]):
                found[key] = blocks[block][slot]
    return found


def _blocks(database: Database, model: int, numbers: set[int]) -> dict[int, Vector]:
    if not numbers:
        return {}
    rows = database.read(
        "SELECT b.block, m.dimension, b.scales, b.vectors FROM embedding_blocks b JOIN embedding_models m"
        f" ON m.id = b.model_id WHERE b.model_id = :model AND b.block {database.among('blocks')}",
        {"model": model, "blocks": database.integers(numbers)},
    )
    return {
        number: np.frombuffer(vectors, np.int8).reshape(-1, dimension).astype(np.float32)
        * np.frombuffer(scales, "<f4")[:, np.newaxis]
        for number, dimension, scales, vectors in rows
    }
