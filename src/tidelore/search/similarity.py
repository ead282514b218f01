"""Rank documents by similarity of meaning, whatever compares the vectors. Must not import numpy.

A fresh process compares vectors without numpy (`sign_scan`), a long-lived one with it (`vector_index`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from tidelore.search.fuse import Ranking
from tidelore.search.lexical import NARROW
from tidelore.store.database.port import Database
from tidelore.store.reading.fulltext import FilterShare, full_text

if TYPE_CHECKING:
    from tidelore.search.find import SearchRequest


NAME = "semantic"
WITH_WORDS, WITHOUT_WORDS = 0.4, 0.7
"""The similarity that is enough if words of the query match, as a fraction of the floor or, if greater, of the best
similarity: for a document of a thread with a matching word, and for any other. Measured: these lose no answer."""
_ALL = 2**31 - 1


class Hit(Struct, frozen=True):
    """A document with its nearest piece and that piece's cosine."""

    document_id: int
    position: int
    score: float


class NearestDocuments(Protocol):
    """Finds the documents nearest to a vector."""

    def begin(self, database: Database, vector: Any, limit: int, *, is_filtered: bool) -> Any:
        """Begin a comparison with all in another thread; return it, or None if that is not worth a thread.

        `is_filtered`: it is for `nearest_passing`, otherwise for `nearest` without `allowed`.
        """
        ...

    def nearest(
        self, database: Database, vector: Any, limit: int, allowed: Sequence[int] | None = None, begun: Any = None
    ) -> list[Hit]:
        """Return the nearest documents, only from `allowed` if given, the best first."""
        ...

    def nearest_passing(
        self,
        database: Database,
        vector: Any,
        limit: int,
        passing: Callable[[Sequence[int]], set[int]],
        begun: Any = None,
    ) -> list[Hit] | None:
        """Return the nearest documents that pass; None if listing all that pass first is cheaper."""
        ...


class MeaningRanker:
    """Ranks documents by meaning for a search; `vector` is the query, embedded by the model of the index.

    Any two texts are slightly similar, so `floor` is the lowest cosine that counts if no words match. If words match, a
    fraction of it is enough.
    """

    def __init__(self, index: NearestDocuments, vector: Any, weight: float, rrf_k: int, floor: float) -> None:
        self.rrf_k = rrf_k
        self._index = index
        self._vector = vector
        self._weight = weight
        self._floor = floor
        self._share: FilterShare | None = None
        self._begun: Any = None

    def begin(self, database: Database, request: SearchRequest, share: FilterShare, depth: int) -> None:
        """Begin to compare in another thread, while words are ranked."""
        self._share = share
        if share.total >= NARROW:
            self._begun = self._index.begin(database, self._vector, depth, is_filtered=_is_filtered(request))

    def __call__(self, database: Database, request: SearchRequest, depth: int, *, alone: bool) -> Ranking:
        """Return the nearest documents that pass the filters of the request and are similar enough."""
        hits = self._hits(database, request, depth)
        best = hits[0].score if hits else 0.0
        least = self._floor if alone else max(self._floor, best) * WITH_WORDS
        sure = max(self._floor, best) * WITHOUT_WORDS
        ids = tuple(hit.document_id for hit in hits if hit.score >= least)
        return Ranking(NAME, ids, self._weight, sure=sum(hit.score >= sure for hit in hits))

    def _hits(self, database: Database, request: SearchRequest, depth: int) -> list[Hit]:
        share, begun = self._share, self._begun
        self._share = self._begun = None
        if not _is_filtered(request):
            return self._index.nearest(database, self._vector, depth, begun=begun)
        text, excluded, wanted = full_text(database), request.query.excluded, request.wanted
        if (share or text.share(wanted)).total >= NARROW:
            found = self._index.nearest_passing(
                database, self._vector, depth, lambda ids: text.fitting(ids, excluded, wanted), begun
            )
            if found is not None:
                return found
        return self._index.nearest(database, self._vector, depth, text.newest(excluded, wanted, _ALL))


def _is_filtered(request: SearchRequest) -> bool:
    return bool(request.query.excluded) or request.wanted.narrows
