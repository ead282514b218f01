"""Benchmark `surgical`: what a refresh of five items costs, in requests and in time, however much the copy holds.

Both copies are the same mirror many times over, with documents made by the product and vectors of random directions;
the forge that is asked is the same too, so what differs is the copy alone. Before each round the documents of the
five are taken away: each round stores, tells and embeds them. The copies take turns, and medians are compared.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import copyfile
from statistics import median

import apsw
import numpy as np

from benchmarks.findings import Finding
from benchmarks.mirror import timed
from benchmarks.multiply import multiply
from benchmarks.reads import settle
from benchmarks.scale import Scale
from benchmarks.workplace import app_of, copy_world, served_world
from benchmarks.world_server import PROJECT, Contents
from tidelore.app.mirroring import document, surgical_sync
from tidelore.embedding.embedder import Unavailable
from tidelore.embedding.registry import open_embedder
from tidelore.store.reading.vector_models import VectorModel, ensure_model
from tidelore.store.reading.vectors import DocumentText, Embedded, Piece, VectorTable, due_documents, read_texts
from tidelore.sync.report import SurgicalReport
from tidelore.sync.surgical_preflight import RequestedItem, SurgicalFlags, read_asked

BOUND = 1.5
BASE = Contents(10, 100, discussions=1, notes=2, events=1, files=2)
ISSUES, MERGE_REQUESTS = (1, 7), (1, 50, 100)
OWN_REQUESTS = len(ISSUES) * 5 + len(MERGE_REQUESTS) * 7
"""Each item, its discussions and three lists of events; of a merge request also what it closes and its files."""
_BATCH = 1_000


def run(scale: Scale) -> Iterator[Finding]:
    """Fill two copies and refresh five items in each."""
    few, many = scale.histories[0], scale.histories[-1]
    with served_world(BASE) as url, tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base.db"
        copy_world(url, base)
        settle(base)
        paths = {items: Path(folder) / f"{items}.db" for items in (few, many)}
        for items, path in paths.items():
            copyfile(base, path)
            multiply(path, items // BASE.merge_requests)
            asyncio.run(_tell(url, path))
        rounds: dict[int, list[SurgicalReport]] = {items: [] for items in paths}
        seconds: dict[int, list[float]] = {items: [] for items in paths}
        for number in range(scale.rounds + 1):
            for items, path in paths.items():
                _forget(path)
                report = SurgicalReport()
                took = timed(lambda path=path, report=report: _operate(url, path, report))  # type: ignore[misc]
                if number:  # the first warms the server, the file and the model
                    rounds[items].append(report)
                    seconds[items].append(took)
    for items in paths:
        cost = max(report.requests for report in rounds[items])
        yield Finding("surgical", f"requests for 5 items of {items:,}", cost, bound=OWN_REQUESTS)
    for items in paths:
        title = f"5 items of {items:,}"
        yield Finding("surgical", f"{title}, median of {scale.rounds}", median(seconds[items]) * 1000, "ms")
        for stage in rounds[items][0].stage_timings_ms:
            took = median(report.stage_timings_ms[stage] for report in rounds[items])
            yield Finding("surgical", f"{title}: {stage}", took, "ms")
    ratio = median(seconds[many]) / median(seconds[few])
    yield Finding("surgical", f"5 items of {many:,} / of {few:,}", ratio, "x", BOUND)
    # Loading the model costs the same in both, and as much as all the rest.
    ratio = _without_embedding(rounds[many]) / _without_embedding(rounds[few])
    yield Finding("surgical", f"5 items of {many:,} / of {few:,}, without embedding", ratio, "x", BOUND)


def _without_embedding(reports: Sequence[SurgicalReport]) -> float:
    return median(report.seconds - report.stage_timings_ms["embed"] / 1000 for report in reports)


def _operate(url: str, path: Path, report: SurgicalReport) -> None:
    asyncio.run(surgical_sync(app_of(url, path), _asked(), SurgicalFlags(project=PROJECT), report, force=False))
    done = (report.processed_count, report.entity_failures)
    if done != (len(ISSUES) + len(MERGE_REQUESTS), []) or report.documents is None or not report.documents.regenerated:
        raise RuntimeError(f"the items were not refreshed: {report}")
    if report.embeddings is None or report.embeddings.embedded != report.documents.regenerated:
        raise RuntimeError(f"the documents were not embedded: {report.embeddings}")


def _asked() -> Sequence[RequestedItem]:
    return [
        *(read_asked(str(iid), "issue") for iid in ISSUES),
        *(read_asked(str(iid), "mr") for iid in MERGE_REQUESTS),
    ]


def _forget(path: Path) -> None:
    """Take the documents of the five away, and their vectors."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA foreign_keys = ON")
    for table, kind, numbers in (("issues", "issue", ISSUES), ("merge_requests", "merge_request", MERGE_REQUESTS)):
        connection.execute(
            f"DELETE FROM documents WHERE thread_type = ? AND thread_id IN"
            f" (SELECT id FROM {table} WHERE iid IN ({', '.join(map(str, numbers))}))",
            (kind,),
        )
    connection.close()


async def _tell(url: str, path: Path) -> None:
    """Make every document, and give each a vector of the model that refreshes are embedded with."""
    app = app_of(url, path)
    await document(app, full=True, force=False)
    embedder = open_embedder(app.config.embedding, app.config.http, {})
    if embedder is None or isinstance(embedder, Unavailable):
        raise RuntimeError("no local model here")
    identity = await embedder.identify()
    await embedder.aclose()
    settings = app.config.embedding
    database = app.open_store()
    try:
        chunking = f"{settings.chunk_words}/{settings.chunk_overlap}"
        model = ensure_model(database, identity.name, identity.version, identity.dimension, chunking, 1)
        table, rng, last = VectorTable(database, model), np.random.default_rng(1), 0
        while ids := due_documents(database, model.id, last, _BATCH):
            last = ids[-1]
            with database.transaction() as tx:
                table.write(tx, [_meant(text, model, rng) for text in read_texts(database, ids)])
    finally:
        database.close()
    settle(path)


def _meant(text: DocumentText, model: VectorModel, rng: np.random.Generator) -> Embedded:
    vector = rng.standard_normal(model.dimension).astype(np.float32)
    return Embedded(text.id, text.content_hash, (Piece(text.content_hash, vector / np.linalg.norm(vector)),))
