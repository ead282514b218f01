"""What documents of posts are made of, read for many posts at once. Owns which posts have a document.

A repost has one only where nothing else tells what it repeats: the first repost of a post that is not stored itself.
A post that is deleted has none, and what was deleted does not come back through its reposts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tidelore.store.database import Database
from tidelore.store.posts import parts_of

DOCUMENTED = (
    "p.deleted_at IS NULL AND (p.kind <> 'repost' OR (p.text <> ''"
    " AND NOT EXISTS (SELECT 1 FROM posts o WHERE o.uri = p.subject_uri)"
    " AND NOT EXISTS (SELECT 1 FROM posts o WHERE o.subject_uri = p.subject_uri AND o.subject_uri IS NOT NULL"
    " AND o.deleted_at IS NULL AND o.text <> '' AND o.id < p.id)))"
)
"""The condition on `posts p`."""


class SharedLink(Struct, frozen=True):
    """A link as its document tells of it."""

    url: str
    title: str | None
    description: str | None


class PostSource(Struct, frozen=True):
    """A post and the links it shares. `author` is the handle where one is known, else the DID."""

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
