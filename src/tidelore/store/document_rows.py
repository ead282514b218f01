"""Documents as a search shows them. Owns the queries that turn found ids into threads, titles and links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from tidelore.store.database import Database


class ThreadKey(NamedTuple):
    """The issue, merge request or post a document belongs to."""

    type: str
    id: int


class DocumentRow(Struct, frozen=True):
    """A document without its content, and what names its thread: a project and a number, or an address."""

    id: int
    source_type: str
    thread_type: str
    project: str | None
    iid: int | None
    uri: str | None
    title: str
    state: str
    author_username: str | None
    labels: str
    url: str | None
    updated_at: int


class Readiness(NamedTuple):
    """How much can be found: whether there is any document, and how many sources wait to become one."""

    has_documents: bool
    waiting: int


def read_threads_of(database: Database, ids: Sequence[int]) -> dict[int, ThreadKey]:
    """Return which thread each of these documents belongs to."""
    rows = database.read(
        f"SELECT id, thread_type, thread_id FROM documents WHERE id {database.among('ids')}",
        {"ids": database.integers(ids)},
    )
    return {row_id: ThreadKey(kind, thread) for row_id, kind, thread in rows}


def read_documents(database: Database, ids: Sequence[int]) -> dict[int, DocumentRow]:
    """Return these documents; one whose thread is no longer stored is left out."""
    rows = database.read(
        "SELECT d.id, d.source_type, d.thread_type, p.path, COALESCE(i.iid, m.iid), o.uri, d.title, d.state,"
        " d.author_username, d.labels, d.url, d.updated_at FROM documents d LEFT JOIN projects p ON p.id = d.project_id"
        " LEFT JOIN issues i ON d.thread_type = 'issue' AND i.id = d.thread_id"
        " LEFT JOIN merge_requests m ON d.thread_type = 'merge_request' AND m.id = d.thread_id"
        " LEFT JOIN posts o ON d.thread_type = 'post' AND o.id = d.thread_id"
        f" WHERE COALESCE(i.id, m.id, o.id) IS NOT NULL AND d.id {database.among('ids')}",
        {"ids": database.integers(ids)},
    )
    return {row[0]: DocumentRow(*row) for row in rows}


def read_openings(database: Database, ids: Sequence[int], length: int) -> dict[int, str]:
    """Return how the contents of documents begin."""
    rows = database.read(
        f"SELECT id, substr(content, 1, :length) FROM documents WHERE id {database.among('ids')}",
        {"ids": database.integers(ids), "length": length},
    )
    return dict(rows)


def readiness(database: Database) -> Readiness:
    """Return how much can be found."""
    waiting = database.read("SELECT COUNT(*) FROM dirty_sources")[0][0]
    return Readiness(bool(database.read("SELECT 1 FROM documents LIMIT 1")), int(waiting))
