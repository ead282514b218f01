"""A tiny model that counts letters, and copies that are embedded with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from tests.databases.samples import CREATED, add_project, issue
from tests.databases.talk import keep
from tests.support.manual_clock import ManualClock

from tidelore.core.config import Config, Embedding
from tidelore.core.progress import EmbedReport
from tidelore.documents.embed import embed_documents
from tidelore.documents.generation import make_documents
from tidelore.embedding.embedder import ModelIdentity
from tidelore.engine.crashpoint import Crashpoint, no_seam
from tidelore.search.semantic import open_index
from tidelore.search.vector_index import VectorIndex
from tidelore.store.database.port import Database
from tidelore.store.mirror.parents import ISSUES
from tidelore.store.work.session import Workshop, open_session

T = TypeVar("T")
DIMENSION = 16
TITLES = ("aaaa", "bbbb", "cccc", "dddd", "eeee", "ffff", "gggg", "hhhh")


class Words:
    """A real, tiny model: a vector counts the letters of a text. `before` is called with each batch."""

    fusion_weight = 1.0
    rrf_k = 10
    min_similarity = 0.0
    batch_size = 4

    def __init__(self, version: str = "1", before: Callable[[Sequence[str]], None] = lambda _texts: None) -> None:
        self._version = version
        self._before = before
        self.texts: list[str] = []

    async def identify(self) -> ModelIdentity:
        return ModelIdentity("letters", self._version, DIMENSION)

    async def embed(self, texts: Sequence[str]) -> list[np.ndarray]:
        self._before(texts)
        self.texts += texts
        return [vector_of(text) for text in texts]

    async def aclose(self) -> None:
        return


def vector_of(text: str) -> np.ndarray:
    counts = np.zeros(DIMENSION, np.float32)
    for letter in text.lower():
        counts[ord(letter) % DIMENSION] += 1
    length = float(np.linalg.norm(counts))
    return counts / length if length else counts


def document(database: Database) -> None:
    async def run() -> None:
        shop = Workshop(database, Config(), ManualClock(CREATED + 5000), no_seam, "test")
        async with open_session(shop, force=True, phase="docs") as session:
            await make_documents(session)

    asyncio.run(run())


def embedded(
    database: Database,
    model: Words | None = None,
    *,
    only: list[int] | None = None,
    full: bool = False,
    seam: Crashpoint = no_seam,
    words: int = 20,
) -> EmbedReport:
    config = Config(embedding=Embedding(chunk_words=words, chunk_overlap=0))
    shop = Workshop(database, config, ManualClock(CREATED), seam, "test")
    return asyncio.run(embed_documents(shop, model or Words(), only, full=full))


def index_of(database: Database, version: str = "1") -> VectorIndex:
    index = open_index(database, ModelIdentity("letters", version, DIMENSION))
    assert index is not None
    return index


def titles_near(database: Database, text: str, limit: int = 3, index: VectorIndex | None = None) -> list[str]:
    hits = (index or index_of(database)).nearest(database, vector_of(text), limit)
    titles: dict[int, str] = dict(database.read("SELECT id, title FROM documents"))
    return [titles[hit.document_id] for hit in hits]


def retitle(database: Database, number: int, title: str, later: int = 1) -> None:
    project = add_project(database)
    keep(database, project, ISSUES, [issue(number, CREATED + later, title=title)])
    document(database)


def in_a_thread(work: Callable[[], T]) -> T:
    """Run a loop beside the one that runs here."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()
