"""Reads the sources of documents.

Sources are read in batches. A source that is gone, or whose parent is a tombstone, is not returned: its document must
be deleted. A repost has a document only if it is the first repost of a post that is not stored itself. Composes no
text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tidelore.store.database.port import Database
from tidelore.store.mirror.kinds import ISSUE, MERGE_REQUEST, ParentKind
from tidelore.store.mirror.posts import parts_of
from tidelore.store.reading.lists import labels_of

PARENTS_BY_TYPE: dict[str, ParentKind] = {"issue": ISSUE, "merge_request": MERGE_REQUEST}


class ParentSource(Struct, frozen=True):
    """An issue or merge request with its people, labels and other details."""

    id: int
    project_id: int
    title: str
    description: str | None
    state: str
    author_username: str | None
    url: str | None
    created_at: int
    updated_at: int
    labels: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


class NoteSource(Struct, frozen=True):
    """A note written by a user, with its position in a diff."""

    remote_id: int
    author_username: str | None
    body: str
    created_at: int
    updated_at: int
    old_path: str | None
    new_path: str | None
    old_line: int | None
    new_line: int | None
    range_start: int | None
    range_end: int | None
    is_internal: int = 0
    url: str | None = None


class ThreadSource(Struct, frozen=True):
    """A discussion, its parent, and its notes in order."""

    id: int
    parent_type: str
    parent: ParentSource
    notes: tuple[NoteSource, ...]


def read_parents(database: Database, source_type: str, ids: Sequence[int]) -> dict[int, ParentSource]:
    """Return those of these parents that are not deleted."""
    if not ids:
        return {}
    parents = PARENTS_BY_TYPE[source_type]
    wanted = {"ids": database.integers(ids)}
    rows = database.read(
        "SELECT id, project_id, title, description, state, author_username, web_url, created_at, updated_at"
        f" FROM {parents.table} WHERE deleted_at IS NULL AND id {database.among('ids')}",
        wanted,
    )
    labels = labels_of(database, parents, ids)
    people = _people(database, parents, wanted)
    paths = _paths(database, wanted) if source_type == "merge_request" else {}
    return {
        row[0]: replace(
            ParentSource(*row),
            labels=labels.get(row[0], ()),
            people=people.get(row[0], ()),
            paths=paths.get(row[0], ()),
        )
        for row in rows
    }


def read_threads(database: Database, ids: Sequence[int]) -> dict[int, ThreadSource]:
    """Return those of these discussions that exist, have a live parent, and contain a user note with a text."""
    if not ids:
        return {}
    wanted = {"ids": database.integers(ids)}
    rows = database.read(
        f"SELECT id, issue_id, merge_request_id FROM discussions WHERE id {database.among('ids')}", wanted
    )
    homes = {
        row_id: ("issue", issue) if issue is not None else ("merge_request", request) for row_id, issue, request in rows
    }
    # Each parent once: many discussions of a batch belong to one.
    live = {
        source_type: read_parents(
            database, source_type, sorted({key for kind, key in homes.values() if kind == source_type})
        )
        for source_type in PARENTS_BY_TYPE
    }
    notes = _grouped_notes(
        database.read(
            "SELECT discussion_id, remote_id, author_username, body, created_at, updated_at, position_old_path,"
            " position_new_path, position_old_line, position_new_line, position_line_range_start,"
            " position_line_range_end, is_internal, url"
            f" FROM notes WHERE discussion_id {database.among('ids')} AND is_system = 0 AND body <> ''"
            " ORDER BY discussion_id, position",
            wanted,
        )
    )
    return {
        row_id: ThreadSource(row_id, kind, live[kind][parent_id], notes[row_id])
        for row_id, (kind, parent_id) in homes.items()
        if parent_id in live[kind] and row_id in notes
    }


def _people(database: Database, parents: ParentKind, wanted: dict[str, Any]) -> dict[int, tuple[str, ...]]:
    """Return the people involved in a parent: assignees, reviewers and authors of notes."""
    column = parents.column
    parts = [
        f"SELECT {column} AS parent, username FROM {table} WHERE {column} {database.among('ids')}"
        for table in parents.people.values()
    ]
    parts.append(
        f"SELECT d.{column}, n.author_username FROM discussions d JOIN notes n ON n.discussion_id = d.id"
        f" WHERE d.{column} {database.among('ids')} AND n.is_system = 0 AND n.author_username IS NOT NULL"
    )
    return _grouped(database.read(f"{' UNION '.join(parts)} ORDER BY 1, 2", wanted))


def _paths(database: Database, wanted: dict[str, Any]) -> dict[int, tuple[str, ...]]:
    rows = database.read(
        "SELECT f.merge_request_id, f.new_path FROM mr_file_changes f JOIN merge_requests m"
        " ON m.id = f.merge_request_id AND f.head_sha = COALESCE(m.head_sha, '')"
        f" WHERE f.merge_request_id {database.among('ids')}"
        " UNION SELECT f.merge_request_id, f.old_path FROM mr_file_changes f JOIN merge_requests m"
        " ON m.id = f.merge_request_id AND f.head_sha = COALESCE(m.head_sha, '')"
        f" WHERE f.merge_request_id {database.among('ids')} ORDER BY 1, 2",
        wanted,
    )
    return _grouped(rows)


def _grouped(rows: Sequence[tuple[Any, ...]]) -> dict[int, tuple[str, ...]]:
    found: defaultdict[int, list[str]] = defaultdict(list)
    for key, value in rows:
        found[key].append(value)
    return {key: tuple(values) for key, values in found.items()}


def _grouped_notes(rows: Sequence[tuple[Any, ...]]) -> dict[int, tuple[NoteSource, ...]]:
    found: defaultdict[int, list[NoteSource]] = defaultdict(list)
    for key, *values in rows:
        found[key].append(NoteSource(*values))
    return {key: tuple(values) for key, values in found.items()}


class TopicCommentSource(Struct, frozen=True):
    """A comment of a topic, or a reply."""

    author_username: str | None
    body: str
    created_at: int
    is_answer: int


class TopicSource(Struct, frozen=True):
    """A topic and its comments in order, without deleted ones."""

    id: int
    project_id: int
    title: str
    body: str | None
    state: str
    author_username: str | None
    category: str | None
    url: str | None
    created_at: int
    updated_at: int
    comments: tuple[TopicCommentSource, ...] = ()


def read_topics(database: Database, ids: Sequence[int]) -> dict[int, TopicSource]:
    """Return those of these topics that are not deleted."""
    if not ids:
        return {}
    wanted = {"ids": database.integers(ids)}
    rows = database.read(
        "SELECT id, project_id, title, body, state, author_username, category, web_url, created_at, updated_at"
        f" FROM topics WHERE deleted_at IS NULL AND id {database.among('ids')}",
        wanted,
    )
    comments: defaultdict[int, list[TopicCommentSource]] = defaultdict(list)
    for topic_id, *values in database.read(
        "SELECT topic_id, author_username, body, created_at, is_answer FROM topic_comments"
        f" WHERE topic_id {database.among('ids')} AND deleted_at IS NULL ORDER BY topic_id, position",
        wanted,
    ):
        comments[topic_id].append(TopicCommentSource(*values))
    return {row[0]: replace(TopicSource(*row), comments=tuple(comments[row[0]])) for row in rows}


DOCUMENTED = (
    "p.deleted_at IS NULL AND (p.kind <> 'repost' OR (p.text <> ''"
    " AND NOT EXISTS (SELECT 1 FROM posts o WHERE o.uri = p.subject_uri)"
    " AND NOT EXISTS (SELECT 1 FROM posts o WHERE o.subject_uri = p.subject_uri AND o.subject_uri IS NOT NULL"
    " AND o.deleted_at IS NULL AND o.text <> '' AND o.id < p.id)))"
)
"""The condition on `posts p` for having a document."""


class SharedLink(Struct, frozen=True):
    """A link as described in a document."""

    url: str
    title: str | None
    description: str | None


class PostSource(Struct, frozen=True):
    """A post and the links it shares. `author` is the handle if known, otherwise the DID."""

    id: int
    kind: str
    author: str
    text: str
    url: str | None
    created_at: int
    sort_at: int
    edited_at: int | None
    alt_text: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    links: tuple[SharedLink, ...] = ()


def read_posts(database: Database, ids: Sequence[int]) -> dict[int, PostSource]:
    """Return those of these posts that have a document."""
    if not ids:
        return {}
    wanted = {"ids": database.integers(ids)}
    rows = database.read(
        "SELECT p.id, p.kind, COALESCE(p.author_handle, p.author_did), p.text, p.url, p.created_at, p.sort_at,"
        " p.edited_at, p.alt_text, p.labels, p.tags"
        f" FROM posts p WHERE p.id {database.among('ids')} AND {DOCUMENTED}",
        wanted,
    )
    links: defaultdict[int, list[SharedLink]] = defaultdict(list)
    for post_id, *values in database.read(
        "SELECT l.post_id, k.url, k.title, k.description FROM post_links l JOIN links k ON k.id = l.link_id"
        f" WHERE l.post_id {database.among('ids')} ORDER BY l.post_id, k.url",
        wanted,
    ):
        links[post_id].append(SharedLink(*values))
    found: dict[int, PostSource] = {}
    for *values, alt_text, labels, tags in rows:
        found[values[0]] = replace(
            PostSource(*values),
            alt_text=parts_of(alt_text),
            labels=parts_of(labels),
            tags=parts_of(tags),
            links=tuple(links[values[0]]),
        )
    return found
