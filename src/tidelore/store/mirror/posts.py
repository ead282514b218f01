"""Stores Bluesky posts and the links they share (tables `posts`, `links`, `post_links`).

`PostWriter` commits payloads, posts, links, marks, tombstones, quarantine, gaps and the cursor together, under the
lease (invariant 1), for one account's list or for a stream of many. A read that contains less about a version (no
handle, no index time, no text of the reposted post) never removes what is known. A repost shares the links of the post
it repeats, whichever arrives first; an edit replaces links; a tombstone keeps identity and times only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from tidelore.core.content import digest
from tidelore.core.model import Item, LinkRecord, PostRecord, RemoteId, Scope, Version
from tidelore.engine.crashpoint import Crashpoint, no_seam
from tidelore.engine.lease import Lease
from tidelore.store.database.port import Database, Row, Transaction
from tidelore.store.mirror.documents import mark_rows, remove_documents
from tidelore.store.mirror.payloads import Content, Pack, packer, store_contents
from tidelore.store.mirror.scope_writer import ScopeWriter

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


class LinkShare(NamedTuple):
    """A link in a post, with the time and the person who shared it."""

    post_id: int
    shared_at: int
    sharer: str
    link: LinkRecord


def link_posts(tx: Transaction, records: Mapping[int, PostRecord], edited: Sequence[int], *, repeated: bool) -> int:
    """Set the links of posts, by row id, removing those that an edit removed. Return the number of links.

    `repeated` is whether there are reposts among them or of them.
    """
    unlink_posts(tx, edited)
    own = [
        LinkShare(row_id, record.sort_at, record.author_did, link)
        for row_id, record in records.items()
        for link in record.links
    ]
    write_shares(tx, own)
    if repeated:
        write_shares(tx, _repeated(tx, records))
    return len(own)


def unlink_posts(tx: Transaction, ids: Sequence[int]) -> None:
    """Remove all links of posts."""
    if ids:
        tx.execute(f"DELETE FROM post_links WHERE post_id {tx.among('ids')}", {"ids": tx.integers(ids)})


def write_shares(tx: Transaction, shares: Sequence[LinkShare]) -> None:
    """Store links and who shares them; existing shares do not change."""
    if not shares:
        return
    tx.execute_rows(
        _LINK,
        ("url", "title", "description", "thumb", "shared_at"),
        # By address, for the same reason as posts.
        [
            (share.link.url, share.link.title, share.link.description, share.link.thumb, share.shared_at)
            for share in sorted(shares, key=lambda share: share.link.url)
        ],
    )
    ids = _link_ids(tx, {share.link.url for share in shares})
    tx.execute_rows(
        _SHARE,
        ("post_id", "link_id", "raw", "shared_at", "sharer"),
        [(share.post_id, ids[share.link.url], share.link.raw, share.shared_at, share.sharer) for share in shares],
    )


def _repeated(tx: Transaction, records: Mapping[int, PostRecord]) -> list[LinkShare]:
    """Return the links that reposts share through the repeated post: these reposts, and reposts of these posts."""
    reposts = [row_id for row_id, record in records.items() if record.subject_uri is not None]
    subjects = [row_id for row_id, record in records.items() if record.links and record.subject_uri is None]
    found: dict[tuple[int, str], LinkShare] = {}
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
            found[post_id, url] = LinkShare(post_id, shared_at, sharer, LinkRecord(url, raw, None, None, None))
    return list(found.values())


def _link_ids(tx: Transaction, urls: Iterable[str]) -> dict[str, int]:
    return dict(tx.execute(f"SELECT url, id FROM links WHERE url {tx.among('urls')}", {"urls": tx.texts(urls)}))


SOURCE_TYPE = "post"
SETTLING_MS = 3_600_000
"""For how long a deletion overrides a list that still contains the same version, because lists lag behind."""
_NO_PAYLOAD = b"{}"
"""The payload of a tombstone."""
VERSION_AT = 0
"""Edits have no timestamp, so every version has this one and only the digest differs."""

_PLAIN = (
    *("uri", "cid", "author_did", "kind", "text", "reply_parent", "reply_root", "quoted_uri", "subject_uri"),
    *("created_at", "indexed_at", "sort_at", "url", "embed_kind"),
)
_MADE = ("author_handle", "langs", "alt_text", "labels", "tags", "account_id", "payload_hash", "content_hash", "now")
_NAMES = (*_PLAIN, *_MADE)
_KEPT = ("author_handle", "account_id", "indexed_at", "url", "embed_kind")
"""Columns that keep their value if a read does not contain them."""
_TAKEN = ("author_did", "kind", "reply_parent", "reply_root", "quoted_uri", "subject_uri", "created_at")
# A feed may show a repost without its cid, and reposts cannot be edited: they have no content.
_EDITED = "(excluded.cid <> posts.cid AND posts.kind <> 'repost')"
_TEXTS = ("text", "alt_text", "labels", "tags")


def _texts() -> str:
    """Return the SQL that updates texts: an empty text replaces a stored one only if the version is different."""
    return ", ".join(
        f"{name} = CASE WHEN excluded.{name} = '' AND NOT {_EDITED} THEN posts.{name} ELSE excluded.{name} END"
        for name in _TEXTS
    )


_UPSERT = (
    f"INSERT INTO posts ({', '.join(_PLAIN)}, author_handle, langs, alt_text, labels, tags, account_id,"
    " raw_payload_id, content_hash,"
    " first_seen_at, last_seen_at)"
    f" VALUES ({', '.join(f':{name}' for name in _PLAIN)}, :author_handle, :langs, :alt_text, :labels, :tags,"
    " :account_id,"
    " (SELECT id FROM raw_payloads WHERE remote_id = :uri AND content_hash = :payload_hash), :content_hash, :now, :now)"
    f" ON CONFLICT (uri) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _TAKEN)},"
    f" {', '.join(f'{name} = COALESCE(excluded.{name}, posts.{name})' for name in _KEPT)},"
    " cid = CASE WHEN excluded.cid = '' THEN posts.cid ELSE excluded.cid END,"
    " langs = CASE WHEN excluded.langs = '' THEN posts.langs ELSE excluded.langs END,"
    f" {_texts()},"
    " sort_at = CASE WHEN excluded.sort_at < posts.sort_at THEN excluded.sort_at ELSE posts.sort_at END,"
    " raw_payload_id = excluded.raw_payload_id, content_hash = excluded.content_hash,"
    " last_seen_at = excluded.last_seen_at, deleted_at = NULL,"
    f" edited_at = CASE WHEN {_EDITED} THEN excluded.last_seen_at ELSE posts.edited_at END"
)
_values = attrgetter(*_PLAIN)


class PostAuthor(NamedTuple):
    """The row of a followed account."""

    id: int
    handle: str


def write_posts(tx: Transaction, items: Sequence[Item[PostRecord]], *, pack: Pack, now_ms: int) -> int:
    """Store posts with their payloads and links; return the number of links."""
    # By address: a poll and a stream that store the same posts in different orders would wait for each other.
    newest = dict(sorted({item.record.uri: item for item in items}.items()))
    # The digest of a post's version does not cover its payload, so the payload is stored under a separate digest.
    contents = [Content(uri, digest(item.payload), item.payload) for uri, item in newest.items()]
    store_contents(tx, None, SOURCE_TYPE, contents, pack=pack, now_ms=now_ms)
    before: dict[str, str] = dict(
        tx.execute(f"SELECT uri, cid FROM posts WHERE uri {tx.among('uris')}", {"uris": tx.texts(newest)})
    )
    authors = _authors(tx, {item.record.author_did for item in newest.values()})
    tx.execute_rows(
        _UPSERT,
        _NAMES,
        [
            _row(item, authors.get(item.record.author_did), content.digest, now_ms)
            for item, content in zip(newest.values(), contents, strict=True)
        ],
    )
    ids = row_ids(tx, newest)
    records = {ids[uri]: item.record for uri, item in newest.items()}
    edited = [
        ids[uri]
        for uri, cid in before.items()
        if newest[uri].record.cid != cid and newest[uri].record.subject_uri is None
    ]
    repeated = [item.record.subject_uri for item in newest.values() if item.record.subject_uri is not None]
    reposts = _reposts(tx, [*newest, *repeated])
    shared = link_posts(tx, records, edited, repeated=bool(reposts))
    mark_rows(tx, SOURCE_TYPE, "posts", [*ids.values(), *reposts], now_ms)
    return shared


def stored_versions(database: Database, uris: Iterable[str], now_ms: int) -> dict[RemoteId, Version]:
    """Return the stored version of each post; for a deleted one only while lists may still contain it."""
    rows = database.read(
        "SELECT uri, content_hash FROM posts WHERE (deleted_at IS NULL OR deleted_at > :settled)"
        f" AND uri {database.among('uris')}",
        {"uris": database.texts(uris), "settled": now_ms - SETTLING_MS},
    )
    return {uri: Version(uri, VERSION_AT, bytes(content)) for uri, content in rows}


def held_between(
    database: Database, author_did: str, created_from: int, created_before: int | None
) -> dict[RemoteId, str]:
    """Return the stored posts of an author that were created in a span; the locator of a post is its URI."""
    rows = database.read(
        "SELECT uri FROM posts WHERE author_did = :did AND deleted_at IS NULL"
        " AND created_at >= :created_from AND created_at < :created_before",
        {
            "did": author_did,
            "created_from": created_from,
            "created_before": 2**62 if created_before is None else created_before,
        },
    )
    return {uri: uri for (uri,) in rows}


def bury_posts(tx: Transaction, uris: Iterable[str], now_ms: int) -> int:
    """Turn deleted posts into tombstones, without text and not in lists, search or trends. Return how many."""
    wanted = tx.texts(list(uris))
    rows = tx.execute(
        f"UPDATE posts SET deleted_at = :now WHERE deleted_at IS NULL AND uri {tx.among('uris')} RETURNING id, uri",
        {"now": now_ms, "uris": wanted},
    )
    reposts = tx.execute(
        f"SELECT id, uri FROM posts WHERE subject_uri IS NOT NULL AND subject_uri {tx.among('uris')}",
        {"uris": wanted},
    )
    _empty(tx, [*rows, *reposts], now_ms)
    return len(rows)


def bury_author(tx: Transaction, author_did: str, now_ms: int) -> int:
    """Turn all posts of a deleted account into tombstones. Return how many.

    Other accounts' reposts of them are kept, because the records still exist, but lose the repeated text.
    """
    rows = tx.execute(
        "UPDATE posts SET deleted_at = :now WHERE deleted_at IS NULL AND author_did = :did RETURNING id, uri",
        {"now": now_ms, "did": author_did},
    )
    prefix = f"at://{author_did}/"
    reposts = tx.execute(
        "SELECT id, uri FROM posts WHERE subject_uri IS NOT NULL AND substr(subject_uri, 1, :length) = :prefix",
        {"length": len(prefix), "prefix": prefix},
    )
    _empty(tx, [*rows, *reposts], now_ms)
    return len(rows)


def mark_posts(tx: Transaction, ids: Iterable[int], now_ms: int) -> None:
    """Mark posts, and the reposts of the same post, for new documents: only one of them has a document."""
    own = list(ids)
    rows = tx.execute(f"SELECT uri, subject_uri FROM posts WHERE id {tx.among('ids')}", {"ids": tx.integers(own)})
    reposts = _reposts(tx, [uri for row in rows for uri in row if uri is not None])
    mark_rows(tx, SOURCE_TYPE, "posts", [*own, *reposts], now_ms)


def _empty(tx: Transaction, rows: Sequence[Row], now_ms: int) -> None:
    """Remove text, links, payloads and documents of posts; identity and times are kept."""
    uris: dict[int, str] = dict(rows)
    if not uris:
        return
    ids = list(uris)
    nothing = digest(_NO_PAYLOAD)
    contents = [Content(uri, nothing, _NO_PAYLOAD) for uri in uris.values()]
    store_contents(tx, None, SOURCE_TYPE, contents, pack=packer(compress=False), now_ms=now_ms)
    tx.execute(
        "UPDATE posts SET text = '', langs = '', alt_text = '', labels = '', tags = '', raw_payload_id ="
        " (SELECT id FROM raw_payloads r WHERE r.remote_id = posts.uri AND r.content_hash = :nothing)"
        f" WHERE id {tx.among('ids')}",
        {"nothing": nothing, "ids": tx.integers(ids)},
    )
    tx.execute(
        "DELETE FROM raw_payloads WHERE resource_type = :type AND content_hash <> :nothing"
        f" AND remote_id {tx.among('uris')}",
        {"type": SOURCE_TYPE, "nothing": nothing, "uris": tx.texts(list(uris.values()))},
    )
    unlink_posts(tx, ids)
    remove_documents(tx, SOURCE_TYPE, ids)
    mark_posts(tx, ids, now_ms)


def parts_of(stored: str) -> tuple[str, ...]:
    """Split a column that contains one text per line."""
    return tuple(stored.split("\n")) if stored else ()


def row_ids(tx: Transaction, uris: Iterable[str]) -> dict[str, int]:
    """Return the row id of each stored post."""
    return dict(tx.execute(f"SELECT uri, id FROM posts WHERE uri {tx.among('uris')}", {"uris": tx.texts(uris)}))


def _reposts(tx: Transaction, uris: Iterable[str]) -> list[int]:
    """Return the stored reposts of these posts."""
    rows = tx.execute(
        f"SELECT id FROM posts WHERE subject_uri IS NOT NULL AND subject_uri {tx.among('uris')}",
        {"uris": tx.texts(uris)},
    )
    return [row_id for (row_id,) in rows]


def _authors(tx: Transaction, dids: Iterable[str]) -> dict[str, PostAuthor]:
    rows = tx.execute(
        f"SELECT did, id, handle FROM accounts WHERE did {tx.among('dids')}", {"dids": tx.texts(sorted(dids))}
    )
    return {did: PostAuthor(row_id, handle) for did, row_id, handle in rows}


def _row(item: Item[PostRecord], author: PostAuthor | None, payload_hash: bytes, now_ms: int) -> Row:
    record = item.record
    return (
        *_values(record),
        record.author_handle or (author.handle if author else None),
        "\n".join(record.langs),
        *map(_joined, (record.alt_text, record.labels, record.tags)),
        author.id if author else None,
        payload_hash,
        item.version.digest,
        now_ms,
    )


def _joined(parts: Sequence[str]) -> str:
    """Join texts for storage, one per line."""
    return "\n".join(part for part in (" ".join(text.split()) for text in parts) if part)


class PostWriter(ScopeWriter[PostRecord, int]):
    """Implements the engine's `ScopeStore` for posts. `links` counts the links of the posts it stored.

    Writers of many accounts share one `pack`, because creating it is expensive.
    """

    def __init__(
        self,
        database: Database,
        scope: Scope,
        now_ms: Callable[[], int],
        *,
        lease: Lease | None = None,
        pack: Pack | None = None,
        seam: Crashpoint = no_seam,
    ) -> None:
        super().__init__(database, scope, now_ms, lease, seam)
        self._pack = packer(compress=True) if pack is None else pack
        self.links = 0

    def stored(self, ids: Iterable[RemoteId]) -> Mapping[RemoteId, Version]:
        return stored_versions(self._database, map(str, ids), self._now_ms())

    def held(self, created_from: int, created_before: int | None) -> Mapping[RemoteId, str]:
        return held_between(self._database, self._scope.key, created_from, created_before)

    def _write(self, tx: Transaction, items: Sequence[Item[PostRecord]], now_ms: int) -> int:
        return write_posts(tx, items, pack=self._pack, now_ms=now_ms)

    def _bury(self, tx: Transaction, gone: Sequence[RemoteId], now_ms: int) -> None:
        bury_posts(tx, map(str, gone), now_ms)

    def _count(self, links: int) -> None:
        self.links += links
