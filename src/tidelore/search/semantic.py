"""Rank documents by meaning, and find threads similar to a thread.

The similarity of a document is that of its nearest piece. Similar threads are those nearest to the mean direction of
all vectors of a thread; this needs no embedder and never returns the thread itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tidelore.core.errors import UserError
from tidelore.embedding.embedder import Embedder, InProcess, ModelIdentity
from tidelore.search.fuse import Fused
from tidelore.search.kept_meaning import KeptMeaning
from tidelore.search.results import ThreadGroup, ThreadResult, group_by_thread, make_result, read_snippet
from tidelore.search.similarity import NAME, MeaningRanker
from tidelore.search.vector_index import VectorIndex
from tidelore.store.database.port import Database
from tidelore.store.reading.found_documents import ThreadKey, read_documents, read_openings, read_threads_of
from tidelore.store.reading.vector_models import find_model, models_of
from tidelore.store.reading.vectors import documents_of

if TYPE_CHECKING:
    from tidelore.embedding.embedder import Vector


def open_index(database: Database, identity: ModelIdentity, kept: KeptMeaning | None = None) -> VectorIndex | None:
    """Return the index of a model, or None if the model was never used with this database."""
    model = find_model(database, identity.name, identity.version, identity.dimension)
    if model is None:
        return None
    return VectorIndex(database, model) if kept is None else kept.index(database, model)


def mean_direction(vectors: NDArray[np.float32]) -> Vector | None:
    """Return the normalised sum of vectors, or None if it is almost zero."""
    total = vectors.sum(axis=0)
    length = float(np.sqrt(total @ total))
    return (total / length).astype(np.float32) if length > 1e-6 else None


def make_ranker(
    database: Database, embedder: Embedder, text: str, kept: KeptMeaning | None = None
) -> MeaningRanker | None:
    """Return the ranker of a text, embedded in this process; None if the model has no stored vectors."""
    assert isinstance(embedder, InProcess)
    index = open_index(database, embedder.identity, kept)
    if index is None:
        return None
    return MeaningRanker(
        index, embedder.embed_now([text])[0], embedder.fusion_weight, embedder.rrf_k, embedder.min_similarity
    )


async def make_ranker_async(
    database: Database, embedder: Embedder, text: str, kept: KeptMeaning | None = None
) -> MeaningRanker | None:
    """Return the ranker of a text, embedded by a server; raise RemoteError if it does not respond."""
    index = open_index(database, await embedder.identify(), kept)
    if index is None:
        return None
    return MeaningRanker(
        index, (await embedder.embed([text]))[0], embedder.fusion_weight, embedder.rrf_k, embedder.min_similarity
    )


_OPENING_LENGTH = 240


def find_similar(database: Database, thread: ThreadKey, limit: int) -> list[ThreadResult]:
    """Return the threads most similar to a thread, the best first; `score` is the cosine of their best document."""
    own = documents_of(database, thread.type, thread.id)
    models = models_of(database, own)
    direction = index = None
    if models:
        index = VectorIndex(database, models[0])
        direction = mean_direction(index.vectors_of(database, own))
    if index is None or direction is None:
        raise UserError("the thread has no embeddings yet", fix="run `lore embed`")
    width = 4 * limit + len(own)
    while True:
        hits = index.nearest(database, direction, width)
        ranked = [
            Fused(hit.document_id, hit.score, {NAME: place})
            for place, hit in enumerate((hit for hit in hits if hit.document_id not in set(own)), 1)
        ]
        groups = group_by_thread(ranked, read_threads_of(database, [entry.id for entry in ranked]))
        if len(groups) >= limit or len(hits) < width:
            return _read(database, groups[:limit])
        width *= 4


def _read(database: Database, groups: list[ThreadGroup]) -> list[ThreadResult]:
    ids = [group.best.id for group in groups]
    rows = read_documents(database, ids)
    openings = read_openings(database, ids, _OPENING_LENGTH)
    return [
        make_result(group, rows[group.best.id], read_snippet(openings.get(group.best.id, "")))
        for group in groups
        if group.best.id in rows
    ]
