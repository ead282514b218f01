"""What is shared most. Owns the ranking: by how many different people, then by who shared last.

A repost is a share by the reposter; one person who shares a link ten times shares it once; what was deleted does not
count. The cost is that of the window: an index leads to its shares alone.
"""

from __future__ import annotations

from msgspec import Struct

from tidelore.store.database import Database, Row


class Sharer(Struct, frozen=True):
    """Somebody who shared a link, and when first in the window; without a handle the DID stands for them."""

    did: str
    handle: str | None
    shared_at: int


class Trend(Struct, frozen=True):
    """A link, how many people shared it, in how many posts, and who, the first of them first."""

    sharers: tuple[Sharer, ...]
    url: str
    title: str | None
    description: str | None
    thumb: str | None
    shares: int
    posts: int
    first_shared_at: int
    last_shared_at: int


def trending(database: Database, since_ms: int, limit: int = 50, min_shares: int = 1) -> list[Trend]:
    """Return the links that most people shared since an instant, the most shared first."""
    rows = database.read(ranking(database), {"since": since_ms, "least": min_shares, "limit": limit})
    ids = [row[0] for row in rows]
    links = {row[0]: row[1:] for row in _links(database, ids)}
    sharers = _sharers(database, ids, since_ms)
    return [Trend(tuple(sharers[row[0]]), *links[row[0]], *row[1:]) for row in rows]


def ranking(database: Database) -> str:
    """Return the query that ranks links. Without statistics SQLite would rather read all shares there ever were."""
    return (
        "SELECT link_id, COUNT(DISTINCT sharer), COUNT(*), MIN(shared_at), MAX(shared_at) FROM post_links"
        f" {database.by_index('idx_post_links_shared')} WHERE shared_at >= :since GROUP BY link_id"
        " HAVING COUNT(DISTINCT sharer) >= :least ORDER BY 2 DESC, 5 DESC, 1 LIMIT :limit"
    )


def _links(database: Database, ids: list[int]) -> list[Row]:
    return database.read(
        f"SELECT id, url, title, description, thumb FROM links WHERE id {database.among('ids')}",
        {"ids": database.integers(ids)},
    )


def _sharers(database: Database, links: list[int], since_ms: int) -> dict[int, list[Sharer]]:
    rows = database.read(
        "SELECT link_id, sharer, MIN(shared_at) FROM post_links WHERE shared_at >= :since"
        f" AND link_id {database.among('ids')} GROUP BY link_id, sharer ORDER BY 3, 2",
        {"ids": database.integers(links), "since": since_ms},
    )
    handles = _handles(database, {did for _, did, _ in rows})
    found: dict[int, list[Sharer]] = {}
    for link_id, did, shared_at in rows:
        found.setdefault(link_id, []).append(Sharer(did, handles.get(did), shared_at))
    return found


def _handles(database: Database, dids: set[str]) -> dict[str, str]:
    """Return the handle of each; of somebody we follow no more, the one under which they posted."""
    known: dict[str, str] = dict(
        database.read(
            f"SELECT did, handle FROM accounts WHERE did {database.among('dids')}", {"dids": database.texts(dids)}
        )
    )
    for did in dids - known.keys():
        rows = database.read(
            "SELECT author_handle FROM posts WHERE author_did = :did AND author_handle IS NOT NULL"
            " ORDER BY sort_at DESC LIMIT 1",
            {"did": did},
        )
        if rows:
            known[did] = rows[0][0]
    return known
