"""The vectors of one model in memory, and the nearest documents to a vector.

The signs of all vectors are compared first, one bit per number; then the few thousand vectors that agree most are
compared by their numbers, so that their similarities are exact. A small index is compared whole. An index may be kept
between searches, which threads may make, and then reads only what was written since. The comparison needs no database,
so it can run in another thread while SQLite ranks by words: both release the interpreter's lock. Where the database
compares vectors itself (pgvector), nothing is kept here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tidelore.search.lexical import ENOUGH
from tidelore.search.similarity import Hit
from tidelore.store.database.port import Database
from tidelore.store.reading.vector_blocks import BLOCK, Block, BlockState, read_mark, read_states
from tidelore.store.reading.vector_models import VectorModel, in_rows
from tidelore.store.reading.vector_rows import MOST_NEAR, has_graph, nearest_rows, rows_of

if TYPE_CHECKING:
    from tidelore.embedding.embedder import Vector

MOST_ASKED = 6_400
"""How many of the nearest documents are checked against a filter; if too few pass, the filter is evaluated first."""
WHOLE = 8_000
"""Up to this many vectors are compared by their numbers without comparing their signs first."""
COMPARED, COMPARED_OF = 2_000, 200
"""How many vectors are compared by their numbers: this many, and one in so many of the others. The benchmark `search`
measures the quality that is left."""
LARGE = (0.5, 0.8)
"""The shares of the numbers of a query above which its signs count more."""
_STEP = 1 << 14
"""How many signs are compared at a time, so that intermediate results stay in the processor's cache."""
_FAR = np.iinfo(np.uint16).max
_WORD = 8
_Number = TypeVar("_Number", bound=np.generic)


class VectorIndex:
    """The vectors of one model: kept in memory if stored in blocks, left in the database if it can compare vectors."""

    def __init__(self, database: Database, model: VectorModel) -> None:
        self.model = model
        self._in_rows = in_rows(database)
        self._has_graph = self._in_rows and has_graph(database, model)
        self._table = _Table(model.dimension)
        self._mark: tuple[int, int] | None = None
        self._lock = threading.Lock()
        """Held while the table is changed or compared, so that another thread never compares half a change."""
        self._thread: ThreadPoolExecutor | None = None

    def ahead(self, database: Database, vector: Vector, limit: int, *, is_filtered: bool) -> _Ahead | None:
        """Begin to compare a vector with all in another thread; None if that is not worth a thread."""
        if self._in_rows:
            return None
        with self._lock:
            table = self._refreshed(database)
            if table.is_small:
                return None
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="vectors")
        begun = self._thread.submit(self._nearest, table, vector, 4 * limit, MOST_ASKED if is_filtered else limit)
        return _Ahead(self, begun)

    def _nearest(self, table: _Table, vector: Vector, least: int, limit: int) -> _Nearest:
        with self._lock:
            return table.nearest(vector, least, limit)

    def nearest(
        self, database: Database, vector: Vector, limit: int, allowed: Sequence[int] | None = None
    ) -> list[Hit]:
        """Return the nearest documents, only from `allowed` if given, the best first."""
        if self._in_rows:
            return self._nearest_rows(database, vector, limit, allowed)
        with self._lock:
            table = self._refreshed(database)
            among = None if allowed is None else table.places_of(allowed)
            near = table.nearest(vector, 4 * limit, limit, among)
        return near.hits(slice(limit))

    def nearest_passing(
        self, database: Database, vector: Vector, limit: int, passing: Callable[[Sequence[int]], set[int]]
    ) -> list[Hit] | None:
        """Return the nearest documents that pass, ENOUGH or more; None if listing all that pass first is cheaper."""
        if self._in_rows:
            return self._nearest_passing_rows(database, vector, limit, passing)
        with self._lock:
            near = self._refreshed(database).nearest(vector, 4 * limit, MOST_ASKED)
        return near.passing(limit, passing)

    def _nearest_rows(self, database: Database, vector: Vector, limit: int, allowed: Sequence[int] | None) -> list[Hit]:
        """Let the database compare, by its graph if that finds enough."""
        if self._has_graph and allowed is None and 2 * limit <= MOST_NEAR:
            rows = nearest_rows(database, self.model, vector, limit, by_graph=True)
            if len(rows) == limit:
                return [Hit(*row) for row in rows]
        return [Hit(*row) for row in nearest_rows(database, self.model, vector, limit, allowed)]

    def _nearest_passing_rows(
        self, database: Database, vector: Vector, limit: int, passing: Callable[[Sequence[int]], set[int]]
    ) -> list[Hit] | None:
        if not self._has_graph:
            return None
        hits = [Hit(*row) for row in nearest_rows(database, self.model, vector, MOST_NEAR // 2, by_graph=True)]
        passed = passing(sorted(hit.document_id for hit in hits))
        return [hit for hit in hits if hit.document_id in passed][:limit] if len(passed) >= ENOUGH else None

    def vectors_of(self, database: Database, documents: Sequence[int]) -> NDArray[np.float32]:
        """Return the vectors of all pieces of documents, one per row."""
        if self._in_rows:
            return rows_of(database, self.model.id, documents)
        with self._lock:
            table = self._refreshed(database)
            return table.floats(table.places_of(documents))

    def _refreshed(self, database: Database) -> _Table:
        table = self._table
        mark = read_mark(database, self.model.id)
        if mark == self._mark:
            return table
        states = read_states(database, self.model.id, self.model.dimension, table.generation)
        if not table.accepts(states):
            # The model was removed and created again, so the vectors in memory are outdated.
            table = self._table = _Table(self.model.dimension)
            states = read_states(database, self.model.id, self.model.dimension)
        table.update(states)
        # Read before the blocks, so what was written in between is read again; set only when they were all read.
        self._mark = mark
        return table


class _Nearest(Struct, frozen=True):
    """Documents, the nearest first, with the position and the cosine of their nearest piece.

    `is_whole`: whether all vectors were compared by their numbers.
    """

    documents: NDArray[np.int64]
    positions: NDArray[np.int32]
    scores: NDArray[np.float32]
    is_whole: bool

    def hits(self, places: list[int] | slice) -> list[Hit]:
        chosen = (column[places].tolist() for column in (self.documents, self.positions, self.scores))
        return [Hit(*values) for values in zip(*chosen, strict=True)]

    def passing(self, limit: int, passing: Callable[[Sequence[int]], set[int]]) -> list[Hit] | None:
        """Return the nearest that pass, ENOUGH or more; None if too few of these do."""
        documents: list[int] = self.documents.tolist()
        passed: set[int] = set()
        asked, width = 0, 2 * limit
        while width <= MOST_ASKED:
            passed |= passing(sorted(documents[asked:width]))
            asked = width
            if len(passed) >= ENOUGH or (self.is_whole and len(documents) < width):
                return self.hits([at for at, key in enumerate(documents) if key in passed][:limit])
            if len(documents) < width:
                return None
            width *= 2
        return None


class _Ahead(Struct, frozen=True):
    """A comparison with all vectors that another thread has begun; `index` answers anything else."""

    index: VectorIndex
    begun: Future[_Nearest]

    def nearest(
        self, database: Database, vector: Vector, limit: int, allowed: Sequence[int] | None = None
    ) -> list[Hit]:
        if allowed is not None:
            return self.index.nearest(database, vector, limit, allowed)
        return self.begun.result().hits(slice(limit))

    def nearest_passing(
        self,
        database: Database,  # noqa: ARG002 - everything was read from it when this began
        vector: Vector,  # noqa: ARG002
        limit: int,
        passing: Callable[[Sequence[int]], set[int]],
    ) -> list[Hit] | None:
        return self.begun.result().passing(limit, passing)


class _Table:
    """The places of all blocks one after another. The document of a hole, and of a place not given out, is -1."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._words = -(-dimension // (8 * _WORD))
        self.generation = -1
        self._known: dict[int, NDArray[np.int64]] = {}
        self._holes: dict[int, tuple[int, ...]] = {}
        self._documents = np.zeros(0, np.int64)
        self._positions = np.zeros(0, np.int32)
        self._scales = np.zeros(0, np.float32)
        self._vectors = np.zeros((0, dimension), np.int8)
        self._signs = np.zeros((self._words, 0), np.uint64)
        self._dead: NDArray[np.intp] = np.zeros(0, np.intp)

    def accepts(self, states: Sequence[BlockState]) -> bool:
        """Return whether these states continue what is here."""
        numbers = {state.number for state in states}
        unknown = (state.content is None and state.number not in self._known for state in states)
        return not any(unknown) and numbers.issuperset(self._known)

    def update(self, states: Sequence[BlockState]) -> None:
        """Take over the blocks that were written since, and the holes of all."""
        size = (max((state.number for state in states), default=-1) + 1) * BLOCK
        if size != len(self._documents):
            self._resize(size)
        changed = False
        for state in states:
            if state.content is not None:
                self._put(state.content)
            if state.content is not None or self._holes.get(state.number, ()) != state.holes:
                changed = True
                first = state.number * BLOCK
                own = self._known[state.number]
                self._documents[first : first + len(own)] = own
                self._documents[[first + slot for slot in state.holes]] = -1
                self._holes[state.number] = state.holes
        if changed:
            self._dead = np.flatnonzero(self._documents < 0)

    def places_of(self, documents: Sequence[int]) -> NDArray[np.intp]:
        """Return the places of all pieces of documents."""
        chosen = np.asarray(documents, dtype=np.int64)
        top = int(max(self._documents.max(initial=0), chosen.max(initial=0)))
        # The last entry is that of the document -1.
        table = np.zeros(top + 2, dtype=bool)
        table[chosen] = True
        return np.flatnonzero(table[self._documents])

    def floats(self, places: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return vectors by their places."""
        return self._vectors[places].astype(np.float32) * self._scales[places, np.newaxis]

    @property
    def is_small(self) -> bool:
        """Whether all vectors are compared by their numbers at once."""
        return len(self._documents) - len(self._dead) <= WHOLE

    def nearest(self, vector: Vector, least: int, limit: int, among: NDArray[np.intp] | None = None) -> _Nearest:
        """Compare a vector with the most promising ones, `least` or more, or with all if they are not many.

        Return the documents of the best, at most `limit`.
        """
        live = len(self._documents) - len(self._dead) if among is None else len(among)
        count = max(least, COMPARED) + live // COMPARED_OF
        is_whole = live <= max(count, WHOLE)
        if is_whole:
            places = np.flatnonzero(self._documents >= 0) if among is None else among
        else:
            places = self._most_alike(vector, count, among)
        # Not a matrix product: for this size it would start threads, and wait for them on a busy machine.
        scores = np.einsum("ij,j->i", self._vectors[places].astype(np.float32), vector) * self._scales[places]
        best = best_places(scores, self._documents[places], limit)
        chosen = places[best]
        return _Nearest(self._documents[chosen], self._positions[chosen], scores[best], is_whole)

    def _most_alike(self, vector: Vector, count: int, among: NDArray[np.intp] | None) -> NDArray[np.intp]:
        """Return the places whose signs differ least, `count` and those that tie with the last."""
        size = np.abs(vector)
        # Sorted once: `quantile` takes as long as a tenth of the comparison.
        least = np.sort(size)[[int(share * len(size)) for share in LARGE]]
        # A sign counts twice if its number in the query is above the middle, and four times if it is very large.
        asked, large, larger = self._sign_words(
            np.packbits([vector > 0, *(size >= number for number in least)], axis=-1)
        ).T
        differing = np.zeros(len(self._documents), np.uint16)
        for start in range(0, len(differing), _STEP):
            part = differing[start : start + _STEP]
            for place, signs in enumerate(self._signs):
                differs = signs[start : start + _STEP] ^ asked[place]
                part += np.bitwise_count(differs)
                part += np.bitwise_count(differs & large[place])
                part += 2 * np.bitwise_count(differs & larger[place])
        if among is None:
            differing[self._dead] = _FAR
        else:
            chosen = np.full(len(differing), _FAR, np.uint16)
            chosen[among] = differing[among]
            differing = chosen
        # More than all signs can count: these are the places that do not.
        counts = np.bincount(differing)[: 4 * self._dimension + 1]
        most = int(np.searchsorted(np.cumsum(counts), count))
        return np.flatnonzero(differing <= most)

    def _put(self, block: Block) -> None:
        part = slice(block.number * BLOCK, block.number * BLOCK + len(block.documents))
        self._positions[part] = block.positions
        self._scales[part] = block.scales
        self._vectors[part] = block.vectors
        self._signs[:, part] = self._sign_words(block.signs)
        self.generation = max(self.generation, block.generation)
        self._known[block.number] = block.documents

    def _sign_words(self, signs: NDArray[np.uint8]) -> NDArray[np.uint64]:
        """Return signs as words, one line for each word of all vectors."""
        wide = np.zeros((len(signs), self._words * _WORD), np.uint8)
        wide[:, : signs.shape[1]] = signs
        return np.ascontiguousarray(wide.view(np.uint64).T)

    def _resize(self, size: int) -> None:
        self._documents = _resized(self._documents, (size,), -1)
        self._positions = _resized(self._positions, (size,))
        self._scales = _resized(self._scales, (size,))
        self._vectors = _resized(self._vectors, (size, self._dimension))
        self._signs = _resized(self._signs, (self._words, size))


def _resized(values: NDArray[_Number], shape: tuple[int, ...], fill: int = 0) -> NDArray[_Number]:
    """Return an array of another shape with the same beginning."""
    found = np.full(shape, fill, values.dtype)
    kept = tuple(slice(0, min(sizes)) for sizes in zip(shape, values.shape, strict=True))
    found[kept] = values[kept]
    return found


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
            found: list[int] = order[np.sort(first)[:limit]].tolist()
            return found
        width *= 4
