"""Embed documents: choose those that are due, adapt the size of the steps, and commit each step.

No lease is needed: a step stores only vectors that still match their documents, so several runs and a sync may run at
the same time, and a killed run continues where it stopped. If the embedder is not reachable, the stage ends with a
notice and the run does not fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from tidelore.core.content import digest
from tidelore.core.errors import RemoteError, RemotePermanent, UserError
from tidelore.core.progress import EmbedReport, OnProgress, Progress, silent
from tidelore.documents.composition import PART
from tidelore.embedding.chunks import chunk
from tidelore.embedding.embedder import Embedder
from tidelore.engine.crashpoint import Seam
from tidelore.store.reading.vector_models import VectorModel, drop_other_models, ensure_model, forget_vectors
from tidelore.store.reading.vector_rows import build_graph
from tidelore.store.reading.vectors import (
    DocumentText,
    Embedded,
    Piece,
    VectorTable,
    count_due,
    due_documents,
    held_pieces,
    read_texts,
)
from tidelore.store.work.session import Workshop

if TYPE_CHECKING:
    from tidelore.embedding.embedder import Vector

READ = 256
MOST = 1024
"""The most pieces in one step: a full block."""
_QUICK_SECONDS, _SLOW_SECONDS = 0.5, 2.0
_REFUSED_TEXT = frozenset({400, 413, 422})
_PATIENCE = 5


class _Cut(Struct, frozen=True):
    """A document cut into pieces: their hashes, and by position the texts of those without a vector."""

    text: DocumentText
    hashes: tuple[bytes, ...]
    missing: dict[int, str]


async def embed_documents(
    shop: Workshop,
    embedder: Embedder,
    only: Sequence[int] | None = None,
    on_progress: OnProgress = silent,
    *,
    full: bool = False,
    report: EmbedReport | None = None,
    limit: int | None = None,
) -> EmbedReport:
    """Embed the due documents, of all or of `only`; with `full`, discard existing vectors first.

    With `limit`, stop after the step in which that many were embedded; vectors of other models are kept until then.
    A `report` that is passed in is updated after each step, so it is correct even if the stage is cancelled.
    """
    began = shop.clock.monotonic()
    report = EmbedReport() if report is None else report
    try:
        await _Stage(shop, embedder, report, on_progress, limit).run(only, full=full)
    except (RemoteError, UserError) as error:
        report.error = error
        report.notice = f"embedding stopped: {error.message}"
    report.seconds = shop.clock.monotonic() - began
    return report


def next_step(size: int, seconds: float, least: int) -> int:
    """Return the size of the next step: larger while steps are quick, smaller if an interruption would lose much."""
    if seconds < _QUICK_SECONDS:
        return min(size * 2, max(MOST, least))
    return max(size // 2, least) if seconds > _SLOW_SECONDS else size


class _Stage:
    """One run over the due documents."""

    def __init__(
        self, shop: Workshop, embedder: Embedder, report: EmbedReport, on_progress: OnProgress, limit: int | None
    ) -> None:
        self._limit = limit
        self._shop = shop
        self._embedder = embedder
        self._report = report
        self._on_progress = on_progress
        self._refused_in_a_row = 0

    async def run(self, only: Sequence[int] | None, *, full: bool) -> None:
        shop, report = self._shop, self._report
        settings = shop.config.embedding
        identity = await self._embedder.identify()
        chunking = f"{settings.chunk_words}/{settings.chunk_overlap}"
        model = ensure_model(
            shop.database, identity.name, identity.version, identity.dimension, chunking, shop.clock.now_ms()
        )
        report.model = model.name
        if full:
            forget_vectors(shop.database, model.id)
        total, due = count_due(shop.database, model.id, only)
        report.unchanged, report.failed = total - due, due
        table = VectorTable(shop.database, model)
        if due:
            await self._work(table, self._cuts(model, only), due)
        if only is None and not self._is_full():
            report.removed += drop_other_models(shop.database, model.id)
            await asyncio.to_thread(build_graph, shop.database, model)

    async def _work(self, table: VectorTable, cuts: Iterator[_Cut], due: int) -> None:
        """Embed step by step. After each step `failed` counts the remaining documents, in case the run ends here."""
        clock, least = self._shop.clock, self._embedder.batch_size
        size, refused = least, 0
        while step := _take(cuts, size):
            began = clock.monotonic()
            refused += await self._embed(table, step)
            size = next_step(size, clock.monotonic() - began, least)
            done = self._report.embedded + refused
            self._report.failed = max(0, due - self._report.embedded)
            note = f"{self._report.chunks:,} vectors"
            self._on_progress(Progress("all projects", "embeddings", done, due, note))
            await clock.sleep(0)
            if self._is_full():
                return
        self._report.failed = refused

    def _is_full(self) -> bool:
        """Return whether as many documents were embedded as one batch has."""
        return self._limit is not None and self._report.embedded >= self._limit

    async def _embed(self, table: VectorTable, step: list[_Cut]) -> int:
        """Embed and store a step; if it is refused, retry document by document. Return how many were refused."""
        try:
            vectors = await self._embedder.embed([text for cut in step for text in cut.missing.values()])
        except RemotePermanent as error:
            if error.status not in _REFUSED_TEXT:
                raise
            if len(step) > 1:
                return sum([await self._embed(table, [cut]) for cut in step])
            self._refused_in_a_row += 1
            if self._refused_in_a_row >= _PATIENCE:
                raise
            self._report.notice = f"document {step[0].text.id} was refused: {error.message}"
            return 1
        self._refused_in_a_row = 0
        self._store(table, list(_filled(step, vectors)))
        return 0

    def _store(self, table: VectorTable, batch: list[Embedded]) -> None:
        shop, report = self._shop, self._report
        shop.seam(Seam.BEFORE_COMMIT)
        with shop.database.transaction() as tx:
            stored = table.write(tx, batch)
            shop.seam(Seam.INSIDE_COMMIT)
        shop.seam(Seam.AFTER_COMMIT)
        report.embedded += stored.documents
        report.chunks += stored.chunks
        report.removed += stored.removed

    def _cuts(self, model: VectorModel, only: Sequence[int] | None) -> Iterator[_Cut]:
        database, settings = self._shop.database, self._shop.config.embedding
        last = 0
        while ids := due_documents(database, model.id, last, READ, only):
            last = ids[-1]
            held = held_pieces(database, model.id, ids)
            for text in read_texts(database, ids):
                yield cut(text, held.get(text.id, {}), settings.chunk_words, settings.chunk_overlap)


def cut(text: DocumentText, held: dict[int, bytes], words: int, overlap: int) -> _Cut:
    """Cut a document into pieces: its title, then its content. A document without text is one empty piece."""
    pieces = chunk([text.title, *text.content.split(PART)], words=words, overlap=overlap)
    pieces = pieces or [""]
    hashes = tuple(digest(piece.encode("utf-8", "surrogatepass")) for piece in pieces)
    missing = {place: piece for place, piece in enumerate(pieces) if held.get(place) != hashes[place]}
    return _Cut(text, hashes, missing)


def _take(cuts: Iterator[_Cut], size: int) -> list[_Cut]:
    """Return documents until their missing pieces fill a step, at most MOST documents."""
    taken: list[_Cut] = []
    pieces = 0
    for one in cuts:
        taken.append(one)
        pieces += len(one.missing)
        if pieces >= size or len(taken) >= MOST:
            break
    return taken


def _filled(step: list[_Cut], vectors: list[Vector]) -> Iterator[Embedded]:
    place = 0
    for one in step:
        found = dict(zip(one.missing, vectors[place : place + len(one.missing)], strict=True))
        place += len(one.missing)
        pieces = tuple(Piece(value, found.get(position)) for position, value in enumerate(one.hashes))
        yield Embedded(one.text.id, one.text.content_hash, pieces)
