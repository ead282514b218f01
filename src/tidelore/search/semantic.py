"""Search by meaning: the documents whose vectors point where the query's does. Exact; owns the scan of the blocks.

A document is as near as its nearest piece. Only vectors of one model are compared, the one that embeds the query.
An index may be kept between searches: it reads again only what was written since, in one consistent reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tidelore.embedding.embedder import Embedder, InProcess, ModelIdentity
from tidelore.search.fuse import Ranking
from tidelore.store.database import Database
from tidelore.store.fulltext import full_text
from tidelore.store.nearest import nearest_rows, rows_of
from tidelore.store.vector_blocks import BLOCK, Block, read_states
from tidelore.store.vector_models import Model, find_model
from tidelore.store.vectors import in_rows

if TYPE_CHECKING:
    from tidelore.embedding.embedder import Vector
    from tidelore.search.finding import Request

NAME = "semantic"
_ALL = 2**31 - 1


class Hit(Struct, frozen=True):
    """A document with its nearest piece and that piece's cosine."""

    document_id: int
    position: int
    score: float


class VectorIndex:
    """The vectors of one model: held here where they are in blocks, left in the database where it can compare."""

    def __init__(self, database: Database, model: Model) -> None:
        self.model = model
        self._in_rows = in_rows(database)
        self._blocks: dict[int, Block] = {}
        self._holes: dict[int, tuple[int, ...]] = {}

    def nearest(
        self, database: Database, vector: Vector, limit: int, allowed: Sequence[int] | None = None
    ) -> list[Hit]:
        """Return the nearest documents, of these if some are named, the best first."""
        if self._in_rows:
            return [Hit(*row) for row in nearest_rows(database, self.model.id, vector, limit, allowed)]
        self._refresh(database)
        if not self._blocks:
            return []
        blocks = list(self._blocks.values())
        scores = self._scores(blocks, vector)
        documents = np.concatenate([block.documents for block in blocks])
        if allowed is not None:
            scores[~np.isin(documents, np.asarray(allowed, dtype=np.int64))] = 0
        places = best_places(scores, documents, limit)
        positions = np.concatenate([block.positions for block in blocks])
        return [Hit(int(documents[at]), int(positions[at]), float(scores[at])) for at in places]

    def vectors_of(self, database: Database, documents: Sequence[int]) -> NDArray[np.float32]:
        """Return the vectors of all pieces of documents, one in each row."""
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

    def _refresh(self, database: Database) -> None:
        known = max((block.generation for block in self._blocks.values()), default=-1)
        states = read_states(database, self.model.id, self.model.dimension, known)
        held = self._blocks
        if any(state.content is None and state.number not in held for state in states):
            # The model was removed and made again since: what is held here is of its former life.
            states = read_states(database, self.model.id, self.model.dimension)
        self._blocks = {state.number: state.content or held[state.number] for state in states}
        self._holes = {state.number: state.holes for state in states}

    def _scores(self, blocks: Sequence[Block], vector: Vector) -> NDArray[np.float32]:
        """Return the cosine of every place; a hole is near to nothing."""
        scores = np.empty(sum(len(block.documents) for block in blocks), np.float32)
        # One block at a time, so that its wide form stays in the processor's cache.
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
    """Return where the best documents have their best piece, the best first; only what is near to something."""
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
    """Return the vectors of a model, or None if it was never used here."""
    model = find_model(database, identity.name, identity.version, identity.dimension)
    return None if model is None else VectorIndex(database, model)


def mean_direction(vectors: NDArray[np.float32]) -> Vector | None:
    """Return where vectors point together, or None if they point nowhere."""
    total = vectors.sum(axis=0)
    length = float(np.sqrt(total @ total))
    return (total / length).astype(np.float32) if length > 1e-6 else None


class MeaningRanker:
    """Ranks documents by meaning for a search; the text was embedded by the model of the index."""

    def __init__(self, index: VectorIndex, vector: Vector, weight: float, rrf_k: int) -> None:
        self.rrf_k = rrf_k
        self._index = index
        self._vector = vector
        self._weight = weight

    def __call__(self, database: Database, request: Request, depth: int) -> Ranking:
        """Return the nearest documents of those the request is narrowed to."""
        excluded, wanted = request.query.excluded, request.wanted
        allowed = full_text(database).newest(excluded, wanted, _ALL) if excluded or wanted.narrows else None
        hits = self._index.nearest(database, self._vector, depth, allowed)
        return Ranking(NAME, tuple(hit.document_id for hit in hits), self._weight)


def rank_now(database: Database, embedder: Embedder, text: str) -> MeaningRanker | None:
    """Return the ranker of a text, embedded in this process; None if the model has no vectors here."""
    assert isinstance(embedder, InProcess)
    index = open_index(database, embedder.identity)
    if index is None:
        return None
    return MeaningRanker(index, embedder.embed_now([text])[0], embedder.fusion_weight, embedder.rrf_k)


async def rank_soon(database: Database, embedder: Embedder, text: str) -> MeaningRanker | None:
    """Return the ranker of a text, embedded by a server; raises RemoteError if it does not answer."""
    index = open_index(database, await embedder.identify())
    if index is None:
        return None
    return MeaningRanker(index, (await embedder.embed([text]))[0], embedder.fusion_weight, embedder.rrf_k)
