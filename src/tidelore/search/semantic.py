"""Rank documents by meaning, and find threads similar to a thread.

Search is an exact scan over the stored vectors; the similarity of a document is that of its nearest piece. Only vectors
of one model are compared. A `VectorIndex` may be kept between searches and then reads only what was written since.
Similar threads are those nearest to the mean direction of all vectors of a thread; this needs no embedder and never
returns the thread itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tidelore.core.errors import UserError
from tidelore.embedding.embedder import Embedder, InProcess, ModelIdentity
from tidelore.search.fuse import Fused, Ranking
from tidelore.search.lexical import ENOUGH, NARROW
from tidelore.search.results import ThreadGroup, ThreadResult, group_by_thread, make_result, read_snippet
from tidelore.store.database.port import Database
from tidelore.store.reading.documents import ThreadKey, read_documents, read_openings, read_threads_of
from tidelore.store.reading.fulltext import DocumentFilter, Term, full_text
from tidelore.store.reading.vector_blocks import BLOCK, Block, read_states
from tidelore.store.reading.vector_models import VectorModel, find_model, models_of
from tidelore.store.reading.vectors import documents_of, in_rows, nearest_rows, rows_of

if TYPE_CHECKING:
    from tidelore.embedding.embedder import Vector
    from tidelore.search.find import SearchRequest


NAME = "semantic"
MOST_ASKED = 6_400
"""How many of the nearest documents are checked against a filter; if too few pass, the filter is evaluated first."""
WITH_WORDS, WITHOUT_WORDS = 0.4, 0.7
"""The similarity that is enough if words of the query match, as a fraction of the floor or, if greater, of the best
similarity: for a document of a thread with a matching word, and for any other. Measured: these lose no answer."""
_ALL = 2**31 - 1


class Hit(Struct, frozen=True):
    """A document with its nearest piece and that piece's cosine."""

    document_id: int
    position: int
    score: float


class _Compared(Struct, frozen=True):
    """The cosine of every stored vector, with its document and position."""

    scores: NDArray[np.float32]
    documents: NDArray[np.int64]
    positions: NDArray[np.int32]

    def hits(self, places: Iterable[int]) -> list[Hit]:
        return [Hit(int(self.documents[at]), int(self.positions[at]), float(self.scores[at])) for at in places]


class VectorIndex:
    """The vectors of one model: kept in memory if stored in blocks, left in the database if it can compare vectors."""

    def __init__(self, database: Database, model: VectorModel) -> None:
        self.model = model
        self._in_rows = in_rows(database)
        self._blocks: dict[int, Block] = {}
        self._holes: dict[int, tuple[int, ...]] = {}

    def nearest(
        self, database: Database, vector: Vector, limit: int, allowed: Sequence[int] | None = None
    ) -> list[Hit]:
        """Return the nearest documents, only from `allowed` if given, the best first."""
        if self._in_rows:
            return [Hit(*row) for row in nearest_rows(database, self.model.id, vector, limit, allowed)]
        compared = self._compared(database, vector)
        if allowed is not None:
            compared.scores[~np.isin(compared.documents, np.asarray(allowed, dtype=np.int64))] = 0
        return compared.hits(best_places(compared.scores, compared.documents, limit))

    def nearest_passing(
        self, database: Database, vector: Vector, limit: int, passing: Callable[[Sequence[int]], set[int]]
    ) -> list[Hit] | None:
        """Return the nearest documents that pass, ENOUGH or more; None if listing all that pass first is cheaper."""
        if self._in_rows:
            return None
        compared = self._compared(database, vector)
        passed: set[int] = set()
        asked: set[int] = set()
        width = 2 * limit
        while width <= MOST_ASKED:
            hits = compared.hits(best_places(compared.scores, compared.documents, width))
            fresh = {hit.document_id for hit in hits} - asked
            asked |= fresh
            passed |= passing(sorted(fresh))
            if len(passed) >= ENOUGH or len(hits) < width:
                return [hit for hit in hits if hit.document_id in passed][:limit]
            width *= 2
        return None

    def vectors_of(self, database: Database, documents: Sequence[int]) -> NDArray[np.float32]:
        """Return the vectors of all pieces of documents, one per row."""
        if self._in_rows:
            return rows_of(database, self.model.id, documents)
        self._refresh(database)
        wanted = np.asarray(documents, dtype=np.int64)
        found = [np.zeros((0, self.model.dimension), np.float32)]
        for number, block in self._blocks.items():
            own = np.isin(block.documents, wanted)
            own[list(self._holes[number])] = False
            found.append(block.vectors[own].astype(np.float32) * block.scales[own, np.newaxis])
        return np.concatenate(found)

    def _compared(self, database: Database, vector: Vector) -> _Compared:
        self._refresh(database)
        blocks = list(self._blocks.values())
        return _Compared(
            self._scores(blocks, vector),
            np.concatenate([np.zeros(0, np.int64), *(block.documents for block in blocks)]),
            np.concatenate([np.zeros(0, np.int32), *(block.positions for block in blocks)]),
        )

    def _refresh(self, database: Database) -> None:
        known = max((block.generation for block in self._blocks.values()), default=-1)
        states = read_states(database, self.model.id, self.model.dimension, known)
        held = self._blocks
        if any(state.content is None and state.number not in held for state in states):
            # The model was removed and created again, so the blocks in memory are outdated.
            states = read_states(database, self.model.id, self.model.dimension)
        self._blocks = {state.number: state.content or held[state.number] for state in states}
        self._holes = {state.number: state.holes for state in states}

    def _scores(self, blocks: Sequence[Block], vector: Vector) -> NDArray[np.float32]:
        """Return the cosine of every stored vector; 0 for holes."""
        scores = np.empty(sum(len(block.documents) for block in blocks), np.float32)
        # One block at a time, so that its float32 copy stays in the processor's cache.
        wide = np.empty((BLOCK, self.model.dimension), np.float32)
        start = 0
        for block in blocks:
            count = len(block.documents)
            np.copyto(wide[:count], block.vectors)
            part = scores[start : start + count]
            np.dot(wide[:count], vector, out=part)
            part *= block.scales
            if self._holes[block.number]:
                part[list(self._holes[block.number])] = 0
            start += count
        return scores


def best_places(scores: NDArray[np.float32], documents: NDArray[np.int64], limit: int) -> list[int]:
    """Return the indexes of the best pieces of the best documents, the best first; only with a positive score."""
    width = limit * 2
    while True:
        width = min(width, len(scores))
        top = np.argpartition(scores, len(scores) - width)[len(scores) - width :] if width < len(scores) else None
        candidates = np.flatnonzero(scores > 0) if top is None else top[scores[top] > 0]
        order = candidates[np.lexsort((documents[candidates], -scores[candidates]))]
        _, first = np.unique(documents[order], return_index=True)
        if len(first) >= limit or len(candidates) < width or top is None:
            return [int(at) for at in order[np.sort(first)[:limit]]]
        width *= 4


def open_index(database: Database, identity: ModelIdentity) -> VectorIndex | None:
    """Return the index of a model, or None if the model was never used with this database."""
    model = find_model(database, identity.name, identity.version, identity.dimension)
    return None if model is None else VectorIndex(database, model)


def mean_direction(vectors: NDArray[np.float32]) -> Vector | None:
    """Return the normalised sum of vectors, or None if it is almost zero."""
    total = vectors.sum(axis=0)
    length = float(np.sqrt(total @ total))
    return (total / length).astype(np.float32) if length > 1e-6 else None


class MeaningRanker:
    """Ranks documents by meaning for a search; `vector` is the query, embedded by the model of the index.

    Any two texts are slightly similar, so `floor` is the lowest cosine that counts if no words match. If words match, a
    fraction of it is enough.
    """

    def __init__(self, index: VectorIndex, vector: Vector, weight: float, rrf_k: int, floor: float) -> None:
        self.rrf_k = rrf_k
        self._index = index
        self._vector = vector
        self._weight = weight
        self._floor = floor

    def __call__(self, database: Database, request: SearchRequest, depth: int, *, alone: bool) -> Ranking:
        """Return the nearest documents that pass the filters of the request and are similar enough."""
        hits = self._hits(database, request.query.excluded, request.wanted, depth)
        best = hits[0].score if hits else 0.0
        least = self._floor if alone else max(self._floor, best) * WITH_WORDS
        sure = max(self._floor, best) * WITHOUT_WORDS
        ids = tuple(hit.document_id for hit in hits if hit.score >= least)
        return Ranking(NAME, ids, self._weight, sure=sum(hit.score >= sure for hit in hits))

    def _hits(self, database: Database, excluded: Sequence[Term], wanted: DocumentFilter, depth: int) -> list[Hit]:
        if not (excluded or wanted.narrows):
            return self._index.nearest(database, self._vector, depth)
        text = full_text(database)
        if text.share(wanted).total >= NARROW:
            found = self._index.nearest_passing(
                database, self._vector, depth, lambda ids: text.fitting(ids, excluded, wanted)
            )
            if found is not None:
                return found
        return self._index.nearest(database, self._vector, depth, text.newest(excluded, wanted, _ALL))


def make_ranker(database: Database, embedder: Embedder, text: str) -> MeaningRanker | None:
    """Return the ranker of a text, embedded in this process; None if the model has no stored vectors."""
    assert isinstance(embedder, InProcess)
    index = open_index(database, embedder.identity)
    if index is None:
        return None
    return MeaningRanker(
        index, embedder.embed_now([text])[0], embedder.fusion_weight, embedder.rrf_k, embedder.min_similarity
    )


async def make_ranker_async(database: Database, embedder: Embedder, text: str) -> MeaningRanker | None:
    """Return the ranker of a text, embedded by a server; raise RemoteError if it does not respond."""
    index = open_index(database, await embedder.identify())
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
