"""Search for a screen. Owns one embedder for as long as the screen lives; asks no server, whatever is configured.

By words at every key; by meaning too where the model runs in this process. A model behind a server is left to
`lore search`: a screen never makes a network call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelore.core.references import parse_since
from tidelore.search.filters import resolve_filters
from tidelore.search.finding import Found, Mode, Request, find
from tidelore.search.query import Query, parse_query

if TYPE_CHECKING:
    from tidelore.app import App
    from tidelore.embedding.embedder import Embedder
    from tidelore.search.semantic import MeaningRanker
    from tidelore.store.database.port import Database

_IN_PROCESS = frozenset({"local", "minilm"})


class Finder:
    """Finds threads, in one thread of the process."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._embedder: Embedder | None = None
        self._opened = False

    def by_words(self, database: Database, text: str, limit: int) -> Found:
        """Search by words alone."""
        return self._find(database, parse_query(text), "lexical", None, limit)

    def by_meaning(self, database: Database, text: str, limit: int) -> Found | None:
        """Search by words and by meaning; None where nothing here can tell meanings."""
        query = parse_query(text)
        ranker = self._ranker(database, query.text)
        return None if ranker is None else self._find(database, query, "hybrid", ranker, limit)

    def _find(self, database: Database, query: Query, mode: Mode, ranker: MeaningRanker | None, limit: int) -> Found:
        wanted = resolve_filters(database, query.fields, lambda text: parse_since(text, self._app.clock.now_ms()))
        return find(database, Request(query=query, wanted=wanted, mode=mode, limit=limit), ranker)

    def _ranker(self, database: Database, text: str) -> MeaningRanker | None:
        from tidelore.store.reading.vector_models import has_vectors

        if not text.strip() or not has_vectors(database):
            return None
        if not self._opened:
            self._opened = True
            self._embedder = self._open_embedder()
        if self._embedder is None:
            return None
        from tidelore.search.semantic import rank_now

        return rank_now(database, self._embedder, text)

    def _open_embedder(self) -> Embedder | None:
        from tidelore.embedding.embedder import Unavailable
        from tidelore.embedding.registry import open_embedder

        config = self._app.config
        if config.embedding.provider not in _IN_PROCESS:
            return None
        embedder = open_embedder(config.embedding, config.http, self._app.environ, self._app.clock)
        return None if isinstance(embedder, Unavailable) else embedder
