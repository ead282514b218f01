"""Posts as they are written: identity by address, a new version as an edit, deletion as a tombstone.

Owns the rows of `posts`. What one reading knows of a version and another does not (a handle, the time it was indexed,
the text of what a repost repeats) is kept: a poorer reading never takes anything away. A tombstone keeps identity and
times only. Every change marks the post for its document in the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from tidelore.core.content import digest
from tidelore.core.model import Item, PostRecord, RemoteId, Version
from tidelore.store.database import Database, Row, Transaction
from tidelore.store.dirty import mark_rows
from tidelore.store.documents import remove_documents
from tidelore.store.links import link_posts, unlink_posts
from tidelore.store.payloads import Content, Pack, store_contents

SOURCE_TYPE = "post"
SETTLING_MS = 3_600_000
"""How long a deletion is believed more than a list that still shows the same version: lists are late."""
_NO_PAYLOAD = b"{}"
"""What a tombstone keeps of its payload."""
VERSION_AT = 0
"""An edit has no time of its own, so every version has the same: the digest alone tells them apart."""

_PLAIN = (
    *("uri", "cid", "author_did", "kind", "text", "reply_parent", "reply_root", "quoted_uri", "subject_uri"),
    *("created_at", "indexed_at", "sort_at", "url", "embed_kind"),
)
_MADE = ("author_handle", "langs", "alt_text", "labels", "tags", "account_id", "payload_hash", "content_hash", "now")
_NAMES = (*_PLAIN, *_MADE)
_KEPT = ("author_handle", "account_id", "indexed_at", "url", "embed_kind")
"""Where a reading that does not know leaves what is known."""
_TAKEN = ("author_did", "kind", "reply_parent", "reply_root", "quoted_uri", "subject_uri", "created_at")
# A feed may show a repost without its cid, and nobody edits a repost: it has nothing of its own.
_EDITED = "(excluded.cid <> posts.cid AND posts.kind <> 'repost')"
_TEXTS = ("text", "alt_text", "labels", "tags")


def _texts() -> str:
    """Return how texts are updated: a reading that has none takes none away, unless it is another version."""
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


class Author(NamedTuple):
    """Whom we follow, as a row."""

    id: int
    handle: str


def write_posts(tx: Transaction, items: Sequence[Item[PostRecord]], *, pack: Pack, now_ms: int) -> int:
    """Store posts with their payloads and links; return how many links they share."""
    newest = {item.record.uri: item for item in items}
    # The version of a post says nothing of its payload, which is stored under an address of its own.
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
    """Return the version we hold of each post; of a deleted one only while lists may still show it."""
    rows = database.read(
        "SELECT uri, content_hash FROM posts WHERE (deleted_at IS NULL OR deleted_at > :settled)"
        f" AND uri {database.among('uris')}",
        {"uris": database.texts(uris), "settled": now_ms - SETTLING_MS},
    )
    return {uri: Version(uri, VERSION_AT, bytes(content)) for uri, content in rows}


def held_between(
    database: Database, author_did: str, created_from: int, created_before: int | None
) -> dict[RemoteId, str]:
    """Return what we hold of an author that was created in a span; a post is asked for by its address."""
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
    """Make deleted posts tombstones: out of lists, search and trends, without their text. Return how many."""
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
    """Make all posts of a deleted account tombstones. Return how many.

    Other accounts' reposts of them stay, because the records still exist, but lose the text that they repeat.
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
    """Mark posts for their documents, and the reposts of the same post: only one of them all has one."""
    own = list(ids)
    rows = tx.execute(f"SELECT uri, subject_uri FROM posts WHERE id {tx.among('ids')}", {"ids": tx.integers(own)})
    reposts = _reposts(tx, [uri for row in rows for uri in row if uri is not None])
    mark_rows(tx, SOURCE_TYPE, "posts", [*own, *reposts], now_ms)


def _empty(tx: Transaction, rows: Sequence[Row], now_ms: int) -> None:
    """Remove text, links, payloads and documents of posts; their identity and times stay."""
    uris: dict[int, str] = dict(rows)
    if not uris:
        return
    ids = list(uris)
    nothing = digest(_NO_PAYLOAD)
    contents = [Content(uri, nothing, _NO_PAYLOAD) for uri in uris.values()]
    store_contents(tx, None, SOURCE_TYPE, contents, pack=lambda payload: ("identity", payload), now_ms=now_ms)
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
    """Return the texts of a column that holds one on each line."""
    return tuple(stored.split("\n")) if stored else ()


def row_ids(tx: Transaction, uris: Iterable[str]) -> dict[str, int]:
    """Return our row id of each post that is stored."""
    return dict(tx.execute(f"SELECT uri, id FROM posts WHERE uri {tx.among('uris')}", {"uris": tx.texts(uris)}))


def _reposts(tx: Transaction, uris: Iterable[str]) -> list[int]:
    """Return the stored reposts of these posts."""
    rows = tx.execute(
        f"SELECT id FROM posts WHERE subject_uri IS NOT NULL AND subject_uri {tx.among('uris')}",
        {"uris": tx.texts(uris)},
    )
    return [row_id for (row_id,) in rows]


def _authors(tx: Transaction, dids: Iterable[str]) -> dict[str, Author]:
    rows = tx.execute(
        f"SELECT did, id, handle FROM accounts WHERE did {tx.among('dids')}", {"dids": tx.texts(sorted(dids))}
    )
    return {did: Author(row_id, handle) for did, row_id, handle in rows}


def _row(item: Item[PostRecord], author: Author | None, payload_hash: bytes, now_ms: int) -> Row:
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
    """Return texts as they are stored: each on a line of its own."""
    return "\n".join(part for part in (" ".join(text.split()) for text in parts) if part)
