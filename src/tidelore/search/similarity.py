"""Rank documents by similarity of meaning, whatever compares the vectors. Must not import numpy.

A fresh process compares vectors without numpy (`sign_scan`), a long-lived one with it (`vector_index`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from msgspec import Struct

from tidelore.search.fuse import Ranking
from tidelore.search.lexical import NARROW
from tidelore.store.database.port import Database
from tidelore.store.reading.found_documents import full_text
from tidelore.store.reading.fulltext import FilterShare

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

    def nearest(self, database: Database, vector: Any, limit: int, allowed: Sequence[int] | None = None) -> list[Hit]:
        """Return the nearest documents, only from `allowed` if given, the best first."""
        ...

    def nearest_passing(
        self, database: Database, vector: Any, limit: int, passing: Callable[[Sequence[int]], set[int]]
    ) -> list[Hit] | None:
        """Return the nearest documents that pass; None if listing all that pass first is cheaper."""
        ...


@runtime_checkable
class ComparesAhead(Protocol):
    """Can compare in another thread while words are ranked."""

    def ahead(self, database: Database, vector: Any, limit: int, *, is_filtered: bool) -> NearestDocuments | None:
        """Begin to compare a vector with all and return what waits for that; None if it is not worth a thread.

        `is_filtered`: it is for `nearest_passing`, otherwise for `nearest` without `allowed`.
        """
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
        self._ahead: NearestDocuments | None = None

    def begin(self, database: Database, request: SearchRequest, share: FilterShare, depth: int) -> None:
        """Begin to compare in another thread, while words are ranked."""
        self._share = share
        if share.total >= NARROW and isinstance(self._index, ComparesAhead):
            self._ahead = self._index.ahead(database, self._vector, depth, is_filtered=_is_filtered(request))

    def __call__(self, database: Database, request: SearchRequest, depth: int, *, alone: bool) -> Ranking:
        """Return the nearest documents that pass the filters of the request and are similar enough."""
        hits = self._hits(database, request, depth)
        best = hits[0].score if hits else 0.0
        least = self._floor if alone else max(self._floor, best) * WITH_WORDS
        sure = max(self._floor, best) * WITHOUT_WORDS
        ids = tuple(hit.document_id for hit in hits if hit.score >= least)
        return Ranking(NAME, ids, self._weight, sure=sum(hit.score >= sure for hit in hits))

    def _hits(self, database: Database, request: SearchRequest, depth: int) -> list[Hit]:
        share, index = self._share, self._ahead or self._index
        self._share = self._ahead = None
        if not _is_filtered(request):
            return index.nearest(database, self._vector, depth)
        text, excluded, wanted = full_text(database), request.query.excluded, request.wanted
        if (share or text.share(wanted)).total >= NARROW:
            found = index.nearest_passing(
                database, self._vector, depth, lambda ids: text.fitting(ids, excluded, wanted)
            )
            if found is not None:
                return found
        return index.nearest(database, self._vector, depth, text.newest(excluded, wanted, _ALL))


def _is_filtered(request: SearchRequest) -> bool:
    return bool(request.query.excluded) or request.wanted.narrows
