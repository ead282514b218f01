"""Keeps what a search by meaning loads, for a program that searches often: the model, and the vectors in memory.

Both take longer to load than a search takes. Kept vectors follow the database: each search reads what was written since
the one before. Threads may share one instance. Must not import numpy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelore.core.config import Embedding
from tidelore.embedding.embedder import Embedder, InProcess, Unavailable
from tidelore.store.database.port import Database
from tidelore.store.reading.vector_models import VectorModel

if TYPE_CHECKING:
    from tidelore.search.vector_index import VectorIndex


class KeptMeaning:
    """The model and the vectors that were used last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._embedder: tuple[Embedding, Embedder] | None = None
        self._index: VectorIndex | None = None

    def embedder(
        self, settings: Embedding, open_embedder: Callable[[], Embedder | Unavailable | None]
    ) -> Embedder | Unavailable | None:
        """Return the embedder of these settings: the kept one, or one to keep if it runs in this process."""
        with self._lock:
            if self._embedder is not None and self._embedder[0] == settings:
                return self._embedder[1]
            found = open_embedder()
            if found is not None and not isinstance(found, Unavailable) and isinstance(found, InProcess):
                self._embedder = (settings, found)
            return found

    def index(self, database: Database, model: VectorModel) -> VectorIndex:
        """Return the vectors of a model: the kept ones, or ones to keep in place of those of another model."""
        from tidelore.search.vector_index import VectorIndex

        with self._lock:
            if self._index is None or self._index.model != model:
                self._index = VectorIndex(database, model)
            return self._index
