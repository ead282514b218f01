"""Chooses the full-text search of a database; reads what it found, and whether there is anything to search.

Apart from the sources of documents, because a search must not load the modules that write the mirror.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from tidelore.store.database.port import Database
from tidelore.store.reading.fulltext import FullText, SqliteFullText


class ThreadKey(Struct, frozen=True):
    """The issue, merge request, topic or post a document belongs to."""

    type: str
    id: int


class DocumentRow(Struct, frozen=True):
    """A document without its content, and how its thread is named: by project and number, or by URL."""

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
    references_short: str | None


class DocumentText(Struct, frozen=True):
    """A text of a document, and who wrote it: a description, a note or a comment."""

    document_id: int
    project_id: int
    author: str | None
    association: str | None
    body: str


class Readiness(Struct, frozen=True):
    """What can be searched: whether there are documents, and how many sources still wait for one."""

    has_documents: bool
    waiting: int


def full_text(database: Database) -> FullText:
    """Return the full-text search for the dialect of a database."""
    if database.dialect == "postgres":
        from tidelore.store.reading.fulltext_postgres import PostgresFullText

        return PostgresFullText(database)
    return SqliteFullText(database)


def read_threads_of(database: Database, ids: Sequence[int]) -> dict[int, ThreadKey]:
    """Return the thread of each of these documents."""
    rows = database.read(
        f"SELECT id, thread_type, thread_id FROM documents WHERE id {database.among('ids')}",
        {"ids": database.integers(ids)},
    )
    return {row_id: ThreadKey(kind, thread) for row_id, kind, thread in rows}


def read_documents(database: Database, ids: Sequence[int]) -> dict[int, DocumentRow]:
    """Return these documents; one whose thread is no longer stored is left out."""
    rows = database.read(
        "SELECT d.id, d.source_type, d.thread_type, p.path, COALESCE(i.iid, m.iid, t.iid), o.uri, d.title, d.state,"
        " d.author_username, d.labels, d.url, d.updated_at, COALESCE(i.references_short, m.references_short)"
        " FROM documents d LEFT JOIN projects p ON p.id = d.project_id"
        " LEFT JOIN issues i ON d.thread_type = 'issue' AND i.id = d.thread_id"
        " LEFT JOIN merge_requests m ON d.thread_type = 'merge_request' AND m.id = d.thread_id"
        " LEFT JOIN topics t ON d.thread_type = 'topic' AND t.id = d.thread_id"
        " LEFT JOIN posts o ON d.thread_type = 'post' AND o.id = d.thread_id"
        f" WHERE COALESCE(i.id, m.id, t.id, o.id) IS NOT NULL AND d.id {database.among('ids')}",
        {"ids": database.integers(ids)},
    )
    return {row[0]: DocumentRow(*row) for row in rows}


def read_openings(database: Database, ids: Sequence[int], length: int) -> dict[int, str]:
    """Return the beginning of the content of documents."""
    rows = database.read(
        f"SELECT id, substr(content, 1, :length) FROM documents WHERE id {database.among('ids')}",
        {"ids": database.integers(ids), "length": length},
    )
    return dict(rows)


def read_passages(database: Database, ids: Sequence[int], part: str, length: int) -> dict[int, str]:
    """Return the passage around the first occurrence of a text in the content of documents that contain it."""
    place = "instr" if database.dialect == "sqlite" else "strpos"
    rows = database.read(
        "SELECT id, content_at, substr(content, CASE WHEN content_at > :before THEN content_at - :before ELSE 1 END,"
        f" :length) FROM (SELECT id, content, {place}(content, :part) AS content_at FROM documents"
        f" WHERE id {database.among('ids')}) AS found WHERE content_at > 0",
        {"ids": database.integers(ids), "part": part, "length": length, "before": length // 4},
    )
    return {row_id: f"…{text}" if found_at > length // 4 else text for row_id, found_at, text in rows}


_TEXTS = (
    ("issue", "JOIN issues n ON n.id = d.source_id", "description", "n.id"),
    ("merge_request", "JOIN merge_requests n ON n.id = d.source_id", "description", "n.id"),
    ("topic", "JOIN topics n ON n.id = d.source_id", "body", "n.id"),
    ("topic", "JOIN topic_comments n ON n.topic_id = d.source_id AND n.deleted_at IS NULL", "body", "n.position"),
    ("discussion", "JOIN notes n ON n.discussion_id = d.source_id AND n.is_system = 0", "body", "n.position, n.id"),
)
"""Where the texts of each type of document are: the type, the join, the column with the text, and their order."""
_TITLES = {"issue": "issues", "merge_request": "merge_requests", "topic": "topics"}


def read_document_texts(database: Database, ids: Sequence[int]) -> dict[int, list[DocumentText]]:
    """Return the texts of documents with their authors, in order; none for posts."""
    found: dict[int, list[DocumentText]] = {}
    for kind, join, column, order in _TEXTS:
        rows = database.read(
            f"SELECT d.id, d.project_id, n.author_username, n.author_association, n.{column} FROM documents d {join}"
            f" WHERE d.source_type = '{kind}' AND d.id {database.among('ids')} AND n.{column} <> '' ORDER BY {order}",
            {"ids": database.integers(ids)},
        )
        for row in rows:
            found.setdefault(row[0], []).append(DocumentText(*row))
    return found


def read_titles_of(database: Database, ids: Sequence[int]) -> dict[int, DocumentText]:
    """Return the titles of the threads of documents with their authors; none for posts."""
    found: dict[int, DocumentText] = {}
    for kind, table in _TITLES.items():
        rows = database.read(
            "SELECT d.id, d.project_id, t.author_username, t.author_association, t.title FROM documents d"
            f" JOIN {table} t ON t.id = d.thread_id WHERE d.thread_type = '{kind}' AND d.id {database.among('ids')}",
            {"ids": database.integers(ids)},
        )
        found |= {row[0]: DocumentText(*row) for row in rows}
    return found


def readiness(database: Database) -> Readiness:
    """Return whether there are documents to search, and how many sources still wait for one."""
    waiting = database.read("SELECT COUNT(*) FROM dirty_sources")[0][0]
    return Readiness(bool(database.read("SELECT 1 FROM documents LIMIT 1")), int(waiting))
