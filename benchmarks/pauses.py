"""Benchmark `pauses`: the longest transaction that writes documents into a growing copy.

A full-text index merges its parts now and then, inside the transaction that wrote the last of them, and other writers
wait for it. Written are as many documents at once as the product does; what counts is the processor time of each
transaction, which other programs do not disturb.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from time import thread_time

from benchmarks.findings import Finding
from benchmarks.scale import Scale
from benchmarks.search_corpus import create, documents_of, write
from tidelore.core.model import Document
from tidelore.documents.generation import BATCH
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database

BOUND_MS = 250.0
"""The most processor time of one transaction."""
ONE_BY_ONE = 2_000
"""As many documents are written alone, as a running service does."""


def run(scale: Scale) -> Iterator[Finding]:
    """Measure while the copy grows, and then with a document in each transaction."""
    count = scale.histories[-1]
    documents = list(documents_of(random.Random(20_260_302), count + ONE_BY_ONE))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lore.db"
        create(path)
        database = open_database(str(path))
        try:
            grown = [_timed(database, documents[start : start + BATCH]) for start in range(0, count, BATCH)]
            alone = [_timed(database, [entry]) for entry in documents[count:]]
        finally:
            database.close()
    title = f"{count:,} documents, {BATCH} in a transaction"
    yield Finding("pauses", f"{title}: median", median(grown), "ms")
    yield Finding("pauses", f"{title}: longest", max(grown), "ms", BOUND_MS)
    title = f"then {ONE_BY_ONE:,} more, each alone"
    yield Finding("pauses", f"{title}: median", median(alone), "ms")
    yield Finding("pauses", f"{title}: longest", max(alone), "ms", BOUND_MS)


def _timed(database: Database, entries: Sequence[Document]) -> float:
    began = thread_time()
    write(database, entries)
    return (thread_time() - began) * 1000
