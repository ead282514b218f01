"""Threads like a thread. Owns what 'like' means: near to where the vectors of all its documents point together.

Needs no embedder: the vectors are there. The thread itself is never among the answers.
"""

from __future__ import annotations

from tidelore.core.errors import UserError
from tidelore.search.fuse import Fused
from tidelore.search.results import ThreadGroup, ThreadResult, group_by_thread, make_result, read_snippet
from tidelore.search.semantic import NAME, VectorIndex, mean_direction
from tidelore.store.database.port import Database
from tidelore.store.reading.documents import ThreadKey, read_documents, read_openings, read_threads_of
from tidelore.store.reading.vector_models import models_of
from tidelore.store.reading.vectors import documents_of

_OPENING_LENGTH = 240


def find_similar(database: Database, thread: ThreadKey, limit: int) -> list[ThreadResult]:
    """Return the threads nearest to one, the nearest first; `score` is the cosine of their best document."""
    own = documents_of(database, thread.type, thread.id)
    models = models_of(database, own)
    direction = index = None
    if models:
        index = VectorIndex(database, models[0])
        direction = mean_direction(index.vectors_of(database, own))
    if index is None or direction is None:
        raise UserError("it has no embeddings yet", fix="run `lore embed`")
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
