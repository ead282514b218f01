"""Generate documents from the sources that are marked as changed.

The documents of a batch are written and their marks removed in one commit, so a killed stage continues where it
stopped. If the document of a source cannot be composed, the error is recorded and the source stays marked; the others
continue. Two commands never write documents at the same time: `make_documents` runs under the lease of a whole sync,
or takes that of documents, and `make_documents_if_free` takes it or returns None.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from tidelore.core.errors import LockHeld
from tidelore.core.model import Document
from tidelore.core.progress import DocumentReport, OnProgress, Progress, silent
from tidelore.documents.composition import compose_parent, compose_post, compose_thread, compose_topic
from tidelore.engine.crashpoint import Seam
from tidelore.engine.lease import covers
from tidelore.store.mirror.documents import (
    DirtyMark,
    DocumentSource,
    count_dirty,
    due_sources,
    marks_of,
    record_trouble,
    wipe,
    write_documents,
)
from tidelore.store.reading.documents import PARENTS_BY_TYPE, read_parents, read_posts, read_threads, read_topics
from tidelore.store.work.session import DOCUMENTS_LEASE, Session, Workshop, acquire_lease, wait_for_lease

BATCH = 100
"""Documents in one transaction: with 200, merges of the full-text index made some of them take 255 ms."""
WAIT_SECONDS = 10.0
"""How long a sync of one project waits for another process that generates documents."""


async def make_documents(
    session: Session,
    on_progress: OnProgress = silent,
    only: Sequence[DocumentSource] | None = None,
    limit: int | None = None,
) -> DocumentReport:
    """Generate the documents of all marked sources, or of `only`; yield to the heartbeat between batches.

    With `limit`, stop after the batch in which that many were done; those that fail do not count.
    """
    if covers(session.lease.name, DOCUMENTS_LEASE):
        return await _generate(session, on_progress, only, limit)
    shop = session.shop
    lease = await wait_for_lease(shop, force=False, name=DOCUMENTS_LEASE, wait_seconds=WAIT_SECONDS)
    try:
        return await _generate(replace(session, held=lease), on_progress, only, limit)
    finally:
        lease.release()


async def _generate(
    session: Session, on_progress: OnProgress, only: Sequence[DocumentSource] | None, limit: int | None = None
) -> DocumentReport:
    shop, report = session.shop, DocumentReport()
    total = count_dirty(shop.database) if only is None else len(only)
    shop.seam(Seam.DOCUMENTS)
    for marks in _batches(shop, only):
        _batch(session, marks, report)
        done = report.regenerated + report.unchanged + report.removed + report.failed
        on_progress(Progress("all projects", "documents", done, total, f"{report.regenerated:,} written"))
        session.lease.heartbeat()
        await shop.clock.sleep(0)
        if limit is not None and done - report.failed >= limit:
            break
    return report


def _batches(shop: Workshop, only: Sequence[DocumentSource] | None) -> Iterator[list[DirtyMark]]:
    if only is not None:
        marks = marks_of(shop.database, only)
        yield from (marks[start : start + BATCH] for start in range(0, len(marks), BATCH))
        return
    last: DirtyMark | None = None
    while marks := due_sources(shop.database, BATCH, last):
        last = marks[-1]
        yield marks


def _batch(session: Session, marks: list[DirtyMark], report: DocumentReport) -> None:
    shop = session.shop
    documents, troubled = _compose(shop, marks)
    done = [mark for mark in marks if mark not in troubled]
    shop.seam(Seam.BEFORE_COMMIT)
    with session.writing() as tx:
        written = write_documents(tx, [mark.source for mark in done], documents, shop.clock.now_ms())
        wipe(tx, done)
        for mark, error in troubled.items():
            record_trouble(tx, mark, error)
        shop.seam(Seam.INSIDE_COMMIT)
    shop.seam(Seam.AFTER_COMMIT)
    session.counters.docs_regenerated += len(written.ids)
    report.regenerated += len(written.ids)
    report.unchanged += written.unchanged
    report.removed += written.removed
    report.failed += len(troubled)
    report.document_ids += written.ids


def _compose(shop: Workshop, marks: list[DirtyMark]) -> tuple[list[Document], dict[DirtyMark, str]]:
    documents: list[Document] = []
    troubled: dict[DirtyMark, str] = {}
    threads = read_threads(shop.database, [mark.id for mark in marks if mark.type == "discussion"])
    topics = read_topics(shop.database, [mark.id for mark in marks if mark.type == "topic"])
    posts = read_posts(shop.database, [mark.id for mark in marks if mark.type == "post"])
    parents = {
        kind: read_parents(shop.database, kind, [mark.id for mark in marks if mark.type == kind])
        for kind in PARENTS_BY_TYPE
    }
    for mark in marks:
        try:
            if mark.type == "discussion":
                if mark.id in threads:
                    documents.append(compose_thread(threads[mark.id]))
            elif mark.type == "topic":
                if mark.id in topics:
                    documents.append(compose_topic(topics[mark.id]))
            elif mark.type == "post":
                if mark.id in posts:
                    documents.append(compose_post(posts[mark.id]))
            elif mark.id in parents[mark.type]:
                documents.append(compose_parent(mark.type, parents[mark.type][mark.id]))
        except ValueError as error:
            troubled[mark] = str(error)
    return documents, troubled


_LOG = logging.getLogger(__name__)


async def make_documents_if_free(session: Session, on_progress: OnProgress = silent) -> DocumentReport | None:
    """Generate the documents of marked sources; None if another command holds the lease and will do it."""
    try:
        lease = acquire_lease(session.shop, force=False, name=DOCUMENTS_LEASE)
    except LockHeld as error:
        _LOG.info("documents were not updated: %s", error.message)
        return None
    try:
        return await _generate(replace(session, held=lease), on_progress, None)
    finally:
        lease.release()
