"""Use-cases of documents and vectors: generate documents, compute embeddings, rank by meaning.

A missing embedder or extra is reported as a notice, not an error, where the command can go on without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from tidelore.app.wiring import App, run_until_signalled
from tidelore.store.database.port import Database

if TYPE_CHECKING:
    from tidelore.core.progress import DocumentReport, EmbedReport, Progress
    from tidelore.search.semantic import MeaningRanker
    from tidelore.store.work.session import Workshop


async def document(
    app: App, *, full: bool, force: bool, on_progress: Callable[[Progress], None] = lambda _progress: None
) -> DocumentReport:
    """Generate the documents of items marked as changed; sends no requests."""
    from tidelore.documents.generation import make_documents
    from tidelore.store.mirror.documents import mark_all
    from tidelore.store.work.session import Workshop, open_session
    from tidelore.sync.report import also_to_ledger

    database = app.open_store()
    try:
        shop = Workshop(database, app.config, app.clock, app.seam, "lore generate-docs", app.insists)
        async with open_session(shop, force=force, phase="docs", note="full" if full else None) as session:
            if full:
                mark_all(database, session.lease, app.clock.now_ms())
            report = await make_documents(session, also_to_ledger(session, on_progress))
            session.warnings = report.failed
            return report
    finally:
        database.close()


async def embed(
    app: App,
    *,
    full: bool = False,
    only: Sequence[int] | None = None,
    on_progress: Callable[[Progress], None] = lambda _progress: None,
) -> EmbedReport:
    """Compute missing embeddings, without a lease; if none can be computed, the report contains the reason."""
    from tidelore.core.progress import EmbedReport
    from tidelore.store.work.session import Workshop

    made = EmbedReport()
    database = app.open_store()
    try:
        shop = Workshop(database, app.config, app.clock, app.seam, "lore embed", app.insists)
        await store_vectors(app, shop, made, full=full, only=only, on_progress=on_progress)
    finally:
        database.close()
    return made


async def store_vectors(
    app: App,
    shop: Workshop,
    made: EmbedReport,
    *,
    full: bool = False,
    only: Sequence[int] | None = None,
    on_progress: Callable[[Progress], None],
) -> None:
    """Open the embedder and store embeddings; the report is updated while it runs."""
    from tidelore.core.errors import ExtraMissing, UserError
    from tidelore.embedding.embedder import Unavailable
    from tidelore.embedding.registry import open_embedder

    try:
        embedder = open_embedder(app.config.embedding, app.config.http, app.environ, app.clock)
        if embedder is None:
            made.notice = 'embeddings are disabled (embedding.provider = "none")'
            return
        if isinstance(embedder, Unavailable):
            failure = UserError if embedder.extra is None else ExtraMissing
            raise failure(embedder.reason, fix=embedder.fix, extra=embedder.extra)
        # Imported late: without an embedder numpy may be missing too.
        from tidelore.documents.embed import embed_documents

        try:
            await embed_documents(shop, embedder, only, on_progress, full=full, report=made)
        finally:
            await embedder.aclose()
    except UserError as error:
        made.notice, made.error = error.message, error


class Meaning(Struct, frozen=True):
    """The semantic ranker, or why there is none; `extra` is set if an extra is not installed."""

    ranker: MeaningRanker | None = None
    notice: str | None = None
    extra: str | None = None


def rank_by_meaning(app: App, database: Database, text: str) -> Meaning:
    """Return the semantic ranker for a query; anything missing is reported as a notice."""
    from tidelore.core.errors import RemoteError
    from tidelore.core.extras import install_command
    from tidelore.embedding.embedder import InProcess, Unavailable
    from tidelore.embedding.registry import missing_extra, open_embedder
    from tidelore.store.reading.vector_models import has_vectors

    if app.config.embedding.provider == "none" or not text.strip():
        return Meaning()
    extra = missing_extra(app.config.embedding)
    if extra is not None:
        reason = f"the extra {extra!r} is not installed ({install_command(extra)})"
        return Meaning(notice=reason, extra=extra)
    if not has_vectors(database):
        return Meaning()
    embedder = open_embedder(app.config.embedding, app.config.http, app.environ, app.clock)
    if embedder is None or isinstance(embedder, Unavailable):
        return Meaning(notice=None if embedder is None else embedder.reason)
    from tidelore.search.semantic import make_ranker, make_ranker_async

    async def ask() -> MeaningRanker | None:
        try:
            return await make_ranker_async(database, embedder, text)
        finally:
            await embedder.aclose()

    try:
        within = isinstance(embedder, InProcess)
        ranker = make_ranker(database, embedder, text) if within else run_until_signalled(ask(), "nothing was changed")
    except RemoteError as error:
        return Meaning(notice=error.message)
    if ranker is None:
        return Meaning(notice="embeddings were made with another model; run `lore embed`")
    return Meaning(ranker)
