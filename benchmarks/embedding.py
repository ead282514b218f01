"""Benchmark `embedding`: what the stage adds to the model's own work, and what a search by meaning costs.

The floor is the provider's bare loop over the very pieces that the stage embeds. A fresh copy is embedded in each
round and compared with a loop just before it, so that both see the same machine; medians are told. The search goes
over vectors of random directions, stored as the product stores its own.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import copyfile
from statistics import median
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from benchmarks.findings import Finding
from benchmarks.scale import Scale
from benchmarks.search_corpus import fill
from tidelore.core.clock import SystemClock
from tidelore.core.config import Config
from tidelore.documents.embed import cut, embed_documents
from tidelore.embedding.embedder import Embedder, Unavailable
from tidelore.embedding.registry import open_embedder
from tidelore.engine.crashpoint import no_seam
from tidelore.search.vector_index import VectorIndex
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database
from tidelore.store.reading.vector_blocks import BLOCK, VectorEntry, put
from tidelore.store.reading.vector_models import ensure_model
from tidelore.store.reading.vectors import read_texts
from tidelore.store.work.session import Workshop

BOUND = 1.25
"""The stage takes at most so many times the bare loop: 0.8 of its throughput."""
P95_BOUNDS_MS = {100_000: 20.0, 1_000_000: 100.0}
"""How long the nearest of so many vectors, or fewer, may take at the 95th percentile."""
DEPTH = 200
DIMENSION = 256
_READ = 1_000
_WRITTEN = 64 * BLOCK


def run(scale: Scale) -> Iterator[Finding]:
    """Embed copies, then search many vectors."""
    config = Config()
    embedder = open_embedder(config.embedding, config.http, {})
    if embedder is None or isinstance(embedder, Unavailable):
        print("embedding: no local model here", file=sys.stderr)
        return
    count = scale.items
    with tempfile.TemporaryDirectory() as folder:
        untouched, path = (Path(folder) / name for name in ("untouched.db", "lore.db"))
        fill(untouched, count)
        pieces = _pieces(untouched, config)
        bare, staged = [], []
        for _ in range(scale.passes):
            path.unlink(missing_ok=True)
            copyfile(untouched, path)
            bare.append(_bare(embedder, pieces))
            staged.append(_stage(path, config, embedder))
        yield Finding("embedding", f"{len(pieces):,} pieces, bare loop", len(pieces) / median(bare), "a second")
        yield Finding("embedding", f"{count:,} documents, the stage", len(pieces) / median(staged), "a second")
        ratio = median(stage / loop for stage, loop in zip(staged, bare, strict=True))
        yield Finding("embedding", "the stage / the bare loop", ratio, "x", BOUND)
        yield Finding("embedding", f"{count:,} documents, nothing due", _stage(path, config, embedder) * 1000, "ms")
    with tempfile.TemporaryDirectory() as folder:
        for count in (scale.histories[-1], scale.vectors):
            yield from _search(Path(folder) / f"{count}.db", count)


def _pieces(path: Path, config: Config) -> list[str]:
    database = open_database(str(path))
    try:
        migrate(database, 1)
        ids = [row[0] for row in database.read("SELECT id FROM documents ORDER BY id")]
        settings = config.embedding
        return [
            piece
            for start in range(0, len(ids), _READ)
            for text in read_texts(database, ids[start : start + _READ])
            for piece in cut(text, {}, settings.chunk_words, settings.chunk_overlap).missing.values()
        ]
    finally:
        database.close()


def _bare(embedder: Embedder, pieces: Sequence[str]) -> float:
    began = perf_counter()
    asyncio.run(_loop(embedder, pieces))
    return perf_counter() - began


async def _loop(embedder: Embedder, pieces: Sequence[str]) -> None:
    for start in range(0, len(pieces), embedder.batch_size):
        await embedder.embed(pieces[start : start + embedder.batch_size])


def _stage(path: Path, config: Config, embedder: Embedder) -> float:
    database = open_database(str(path))
    try:
        shop = Workshop(database, config, SystemClock(), no_seam, "benchmark")
        began = perf_counter()
        report = asyncio.run(embed_documents(shop, embedder))
        if report.error is not None or report.failed:
            raise RuntimeError(f"the stage did not reach its end: {report}")
        return perf_counter() - began
    finally:
        database.close()


def _search(path: Path, count: int) -> Iterator[Finding]:
    rng = np.random.default_rng(1)
    database = open_database(str(path))
    try:
        migrate(database, 1)
        model = ensure_model(database, "random", "1", DIMENSION, "", 1)
        for start in range(0, count, _WRITTEN):
            rows = _directions(rng, min(_WRITTEN, count - start))
            with database.transaction() as tx:
                put(tx, model.id, DIMENSION, [VectorEntry(start + at, 0, row) for at, row in enumerate(rows, 1)])
        queries = _directions(rng, 200)
        fresh = [_timed(database, VectorIndex(database, model), query) for query in queries[:3]]
        index = VectorIndex(database, model)
        kept = [_timed(database, index, query) for query in queries][1:]
    finally:
        database.close()
    title = f"nearest {DEPTH} of {count:,} vectors"
    bound = next(bound for most, bound in P95_BOUNDS_MS.items() if count <= most)
    yield Finding("embedding", f"{title}, read first", median(fresh), "ms")
    yield Finding("embedding", f"{title}, index kept: p50", median(kept), "ms")
    yield Finding("embedding", f"{title}, index kept: p95", sorted(kept)[int(len(kept) * 0.95)], "ms", bound)


def _directions(rng: np.random.Generator, count: int) -> NDArray[np.float32]:
    rows = rng.standard_normal((count, DIMENSION)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _timed(database: Database, index: VectorIndex, vector: NDArray[np.float32]) -> float:
    began = perf_counter()
    index.nearest(database, vector, DEPTH)
    return (perf_counter() - began) * 1000
