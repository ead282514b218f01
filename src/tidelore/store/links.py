"""Links: every address that was shared, and by which posts. Owns `links` and `post_links`.

A repost shares what the post it repeats shares, whichever of the two comes first. An edit shares what the new version
holds, a deleted post nothing; anything else only adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tidelore.core.model import LinkRecord, PostRecord
from tidelore.store.database import Transaction

_LINK = (
    "INSERT INTO links (url, title, description, thumb, first_shared_at, last_shared_at)"
    " VALUES (:url, :title, :description, :thumb, :shared_at, :shared_at) ON CONFLICT (url) DO UPDATE SET"
    " title = COALESCE(excluded.title, links.title),"
    " description = COALESCE(excluded.description, links.description),"
    " thumb = COALESCE(excluded.thumb, links.thumb),"
    " first_shared_at = CASE WHEN excluded.first_shared_at < links.first_shared_at THEN excluded.first_shared_at"
    " ELSE links.first_shared_at END,"
    " last_shared_at = CASE WHEN excluded.last_shared_at > links.last_shared_at THEN excluded.last_shared_at"
    " ELSE links.last_shared_at END"
)
_SHARE = (
    "INSERT INTO post_links (post_id, link_id, raw, shared_at, sharer)"
    " VALUES (:post_id, :link_id, :raw, :shared_at, :sharer)"
    " ON CONFLICT (post_id, link_id) DO NOTHING"
)


class Share(NamedTuple):
    """A link in a post, when it was shared and by whom."""

    post_id: int
    shared_at: int
    sharer: str
    link: LinkRecord


def link_posts(tx: Transaction, records: Mapping[int, PostRecord], edited: Sequence[int], *, repeated: bool) -> int:
    """Link posts, by row id, to what they share; what an edit left out goes. Return how many links there are.

    `repeated` tells whether there are reposts among them or of them.
    """
    unlink_posts(tx, edited)
    own = [
        Share(row_id, record.sort_at, record.author_did, link)
        for row_id, record in records.items()
        for link in record.links
    ]
    write_shares(tx, own)
    if repeated:
        write_shares(tx, _repeated(tx, records))
    return len(own)


def unlink_posts(tx: Transaction, ids: Sequence[int]) -> None:
    """Let posts share nothing."""
    if ids:
        tx.execute(f"DELETE FROM post_links WHERE post_id {tx.among('ids')}", {"ids": tx.integers(ids)})


def write_shares(tx: Transaction, shares: Sequence[Share]) -> None:
    """Store links and who shares them; a share that is there stays as it is."""
    if not shares:
        return
    tx.execute_rows(
        _LINK,
        ("url", "title", "description", "thumb", "shared_at"),
        [
            (share.link.url, share.link.title, share.link.description, share.link.thumb, share.shared_at)
            for share in shares
        ],
    )
    ids = _link_ids(tx, {share.link.url for share in shares})
    tx.execute_rows(
        _SHARE,
        ("post_id", "link_id", "raw", "shared_at", "sharer"),
        [(share.post_id, ids[share.link.url], share.link.raw, share.shared_at, share.sharer) for share in shares],
    )


def _repeated(tx: Transaction, records: Mapping[int, PostRecord]) -> list[Share]:
    """Return what reposts share by what they repeat: these reposts, and the stored reposts of these posts."""
    reposts = [row_id for row_id, record in records.items() if record.subject_uri is not None]
    subjects = [row_id for row_id, record in records.items() if record.links and record.subject_uri is None]
    found: dict[tuple[int, str], Share] = {}
    for column, ids in (("r.id", reposts), ("s.id", subjects)):
        if not ids:
            continue
        rows = tx.execute(
            "SELECT r.id, r.sort_at, r.author_did, k.url, l.raw FROM posts r JOIN posts s ON s.uri = r.subject_uri"
            " JOIN post_links l ON l.post_id = s.id JOIN links k ON k.id = l.link_id"
            f" WHERE r.subject_uri IS NOT NULL AND r.deleted_at IS NULL AND {column} {tx.among('ids')}",
            {"ids": tx.integers(ids)},
        )
        for post_id, shared_at, sharer, url, raw in rows:
            found[post_id, url] = Share(post_id, shared_at, sharer, LinkRecord(url, raw, None, None, None))
    return list(found.values())


def _link_ids(tx: Transaction, urls: Iterable[str]) -> dict[str, int]:
    return dict(tx.execute(f"SELECT url, id FROM links WHERE url {tx.among('urls')}", {"urls": tx.texts(urls)}))
