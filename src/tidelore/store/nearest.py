"""Nearest vectors where the database itself can find them. Owns the queries of pgvector; blocks are scanned elsewhere.

Vectors have unit length, so the inner product is the cosine; an empty text has the zero vector and is near to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from tidelore.store.database import Database, Row
from tidelore.store.vectors import as_text


def nearest_rows(
    database: Database, model_id: int, vector: NDArray[np.float32], limit: int, allowed: Sequence[int] | None
) -> list[Row]:
    """Return (document, position, cosine) of the nearest documents, each by its nearest piece, the best first."""
    narrowed = "" if allowed is None else f" AND document_id {database.among('allowed')}"
    params = {"model": model_id, "vector": as_text(vector), "limit": limit}
    if allowed is not None:
        params["allowed"] = database.integers(allowed)
    return database.read(
        "SELECT document_id, position, cosine FROM ("
        " SELECT DISTINCT ON (document_id) document_id, position, -(vector <#> CAST(:vector AS vector)) AS cosine"
        f" FROM embeddings WHERE model_id = :model{narrowed} ORDER BY document_id, cosine DESC, position"
        ") best WHERE cosine > 0 ORDER BY cosine DESC, document_id LIMIT :limit",
        params,
    )


def rows_of(database: Database, model_id: int, documents: Sequence[int]) -> NDArray[np.float32]:
    """Return the vectors of all pieces of documents."""
    rows = database.read(
        f"SELECT CAST(vector AS TEXT) FROM embeddings WHERE model_id = :model AND document_id {database.among('ids')}",
        {"model": model_id, "ids": database.integers(documents)},
    )
    return np.array([msgspec.json.decode(text) for (text,) in rows], dtype=np.float32)
