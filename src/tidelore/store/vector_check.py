"""Vectors that are not where their rows say. Owns the part of `lore check` that looks into blocks.

Only reads, and never the vectors themselves: whom each belongs to is told beside them. Blocks come with their rows and
holes in one query, so that a run which writes meanwhile accuses nobody; a few dozen at a time, so memory does not grow
with the copy.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidelore.store.database import Database, Row
from tidelore.store.vector_blocks import BLOCK
from tidelore.store.vectors import in_rows

_AT_ONCE = 64
_BLOCKS = """
SELECT b.block, m.dimension, m.slots, b.documents, b.positions, LENGTH(b.scales), LENGTH(b.vectors), e.owners, h.slots
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
    """Name the rows without a vector, the blocks of a wrong size, and the places that tell of somebody else."""
    missing = "block IS NULL AND vector IS NULL" if in_rows(database) else "block IS NULL"
    for document_id, position in database.read(_WITHOUT.format(missing=missing)):
        yield f"embeddings {document_id} {position}"
    for model, most in database.read("SELECT model_id, MAX(block) FROM embedding_blocks GROUP BY model_id ORDER BY 1"):
        for first in range(0, most + 1, _AT_ONCE):
            rows = database.read(_BLOCKS, {"model": model, "first": first, "last": first + _AT_ONCE - 1})
            for row in rows:
                yield from _misplaced(row)


def _misplaced(row: Row) -> Iterator[str]:
    block, dimension, given_out, documents, positions, scales, vectors, owners, holes = row
    size = min(BLOCK, given_out - block * BLOCK)
    if (len(documents), len(positions), scales, vectors) != (8 * size, 4 * size, 4 * size, dimension * size):
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
