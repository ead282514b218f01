"""Vectors in the rows of `embeddings`: half precision of pgvector, and a graph (HNSW) for many.

Only databases that were filled before migration 3 have them; all others keep vectors in blocks (`vector_blocks.py`).
Up to `GRAPH_FROM` vectors of a model are compared one by one, which is exact. Above that the stage that makes vectors
builds an index of type HNSW for the model, without blocking writers; a search uses it as soon as it is complete.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from tidelore.core.errors import StorageFailed
from tidelore.store.database.port import Database, Row
from tidelore.store.reading.vector_models import COLUMNS, VectorModel, in_rows

GRAPH_FROM = 50_000
"""The number of vectors of a model from which a graph is built."""
MOST_NEAR = 1_000
"""The most vectors that a graph returns: the limit of pgvector's `hnsw.ef_search`."""
_NAME = "idx_embeddings_graph_"
_GRAPHS = (
    "SELECT c.relname, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
    " WHERE i.indrelid = to_regclass('embeddings') AND c.relname LIKE 'idx_embeddings_graph_%'"
)
_BUILDING = {"maintenance_work_mem": "256MB", "statement_timeout": "0"}


def as_text(vector: NDArray[np.float32]) -> str:
    """Return a vector in the text format of pgvector."""
    return f"[{','.join(map(repr, vector.tolist()))}]"


def has_graph(database: Database, model: VectorModel) -> bool:
    """Return whether a complete graph of a model exists."""
    return (f"{_NAME}{model.id}", True) in database.read(_GRAPHS)


def build_graph(database: Database, model: VectorModel) -> bool:
    """Build the graph of a model if it has many vectors and no graph; return whether there is one now.

    Call it outside a transaction. If it cannot be built now, because a lock is held for too long or another process
    builds it, vectors are compared one by one until the next attempt.
    """
    if not in_rows(database):
        return False
    name = f"{_NAME}{model.id}"
    graphs: dict[str, bool] = dict(database.read(_GRAPHS))
    if graphs.get(name):
        return True
    many = "SELECT 1 FROM embeddings WHERE model_id = :id OFFSET :count LIMIT 1"
    if not database.read(many, {"id": model.id, "count": GRAPH_FROM}):
        return False
    # Minutes for a million vectors: on this connection, everything else would wait for it.
    other = database.another()
    try:
        for setting, value in _BUILDING.items():
            other.script(f"SET {setting} = '{value}'")
        for outdated in graphs:
            # Of a model that was replaced, or left incomplete by an interrupted attempt.
            other.script(f"DROP INDEX CONCURRENTLY IF EXISTS {outdated}")
        other.script(
            f"CREATE INDEX CONCURRENTLY {name} ON embeddings USING hnsw"
            f" ((vector::halfvec({model.dimension})) halfvec_ip_ops) WHERE model_id = {model.id}"
        )
    except StorageFailed:
        return False
    finally:
        other.close()
    return True


def build_graphs(database: Database) -> None:
    """Build the graphs of all models that have many vectors."""
    if in_rows(database):
        for row in database.read(f"SELECT {COLUMNS} FROM embedding_models ORDER BY id"):
            build_graph(database, VectorModel(*row))


def nearest_rows(
    database: Database,
    model: VectorModel,
    vector: NDArray[np.float32],
    limit: int,
    allowed: Sequence[int] | None = None,
    *,
    by_graph: bool = False,
) -> list[Row]:
    """Return (document, position, cosine) of the nearest documents, each by its nearest piece, best first.

    By a graph, not all of the nearest may be found, and fewer than `limit` if many pieces belong to one document.
    """
    width = 2 * limit
    while True:
        if by_graph:
            width = min(width, MOST_NEAR)
            database.read("SELECT set_config('hnsw.ef_search', :width, false)", {"width": str(width)})
        rows = _nearest(database, model, vector, width, allowed, by_graph=by_graph)
        best: dict[int, Row] = {}
        for row in rows:
            best.setdefault(row[0], row)
        found = sorted((row for row in best.values() if row[2] > 0), key=lambda row: (-row[2], row[0]))
        is_all = len(rows) < width or len(found) < len(best) or (by_graph and width == MOST_NEAR)
        if len(found) >= limit or is_all:
            return found[:limit]
        width *= 4


def _nearest(
    database: Database,
    model: VectorModel,
    vector: NDArray[np.float32],
    width: int,
    allowed: Sequence[int] | None,
    *,
    by_graph: bool,
) -> list[Row]:
    # The same expression and condition as those of the index, so that it is used, or another one, so that it is not.
    kind = f"halfvec({model.dimension})" if by_graph else "halfvec"
    stored = f"CAST(vector AS {kind})" if by_graph else "vector"
    distance = f"{stored} <#> CAST(:vector AS {kind})"
    narrowed = "" if allowed is None else f" AND document_id {database.among('allowed')}"
    params: dict[str, object] = {"vector": as_text(vector), "width": width}
    if allowed is not None:
        params["allowed"] = database.integers(allowed)
    return database.read(
        f"SELECT document_id, position, -({distance}) FROM embeddings WHERE model_id = {model.id}{narrowed}"
        f" ORDER BY {distance}{'' if by_graph else ', document_id, position'} LIMIT :width",
        params,
    )


def rows_of(database: Database, model_id: int, documents: Sequence[int]) -> NDArray[np.float32]:
    """Return the vectors of all pieces of documents."""
    rows = database.read(
        f"SELECT CAST(vector AS TEXT) FROM embeddings WHERE model_id = :model AND document_id {database.among('ids')}",
        {"model": model_id, "ids": database.integers(documents)},
    )
    return np.array([msgspec.json.decode(text) for (text,) in rows], dtype=np.float32)
