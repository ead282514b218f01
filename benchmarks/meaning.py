"""The default embedder, as the benchmarks of search use it. Owns how a copy gets vectors: by the product's stage."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tidelore.core.clock import SystemClock
from tidelore.core.config import Config
from tidelore.documents.embed import embed_documents
from tidelore.embedding.local import LocalEmbedder
from tidelore.embedding.registry import open_embedder
from tidelore.engine.crashpoint import no_seam
from tidelore.search.semantic import open_index
from tidelore.search.similarity import MeaningRanker
from tidelore.search.vector_index import VectorIndex
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database
from tidelore.store.work.session import Workshop


def find_embedder() -> LocalEmbedder | None:
    """Return the default embedder with its default weights, or say that it is not installed."""
    config = Config()
    found = open_embedder(config.embedding, config.http, {})
    if isinstance(found, LocalEmbedder):
        return found
    print("search: no local model here, so nothing is measured by meaning", file=sys.stderr)
    return None


def embed(path: Path, embedder: LocalEmbedder) -> None:
    """Give every document of a copy its vectors."""
    database = open_database(str(path))
    try:
        shop = Workshop(database, Config(), SystemClock(), no_seam, "benchmark")
        report = asyncio.run(embed_documents(shop, embedder))
        if report.error is not None or report.failed:
            raise RuntimeError(f"the stage did not reach its end: {report}")
    finally:
        database.close()


class Meaning:
    """Ranks by meaning in one process, the vectors kept from one query to the next."""

    def __init__(self, database: Database, embedder: LocalEmbedder) -> None:
        index = open_index(database, embedder.identity)
        assert index is not None
        self._index: VectorIndex = index
        self._embedder = embedder

    def ranker(self, text: str) -> MeaningRanker:
        """Return what ranks by this text, embedded here and now."""
        vector = self._embedder.embed_now([text])[0]
        return MeaningRanker(
            self._index, vector, self._embedder.fusion_weight, self._embedder.rrf_k, self._embedder.min_similarity
        )
