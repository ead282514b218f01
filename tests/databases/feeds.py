"""Accounts and posts to store, written as a poll writes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace
from tests.databases.samples import CREATED

from tidelore.core.content import digest
from tidelore.core.model import Item, LinkRecord, PostRecord, Scope, Version
from tidelore.engine.cursor import Cursor
from tidelore.engine.ports import Batch
from tidelore.store.database.port import Database
from tidelore.store.mirror.accounts import AccountRow, NewAccount, add_accounts, find_account
from tidelore.store.mirror.posts import PostWriter

MIRA, NOOR, OTTO = (f"did:plc:{name * 6}" for name in ("mira", "noor", "otto"))
HANDLES = {MIRA: "mira.test", NOOR: "noor.test", OTTO: "otto.test"}
POSTS, REPOSTS = "app.bsky.feed.post", "app.bsky.feed.repost"
INTERVAL = 900


def uri_of(did: str, key: str, collection: str = POSTS) -> str:
    return f"at://{did}/{collection}/{key}"


def link(url: str, title: str | None = None) -> LinkRecord:
    return LinkRecord(url, url, title, None, None)


def post(did: str, key: str, at: int = CREATED, cid: str = "c1", **changes: Any) -> Item[PostRecord]:
    """A post; with a `subject_uri`, a repost of that."""
    collection = REPOSTS if changes.get("subject_uri") else POSTS
    record = PostRecord(
        uri=uri_of(did, key, collection), cid=cid, kind="repost" if collection == REPOSTS else "post", author_did=did,
        author_handle=HANDLES.get(did), text="The tide turns at noon.", langs=("en",), reply_parent=None,
        reply_root=None, quoted_uri=None, subject_uri=None, created_at=at, indexed_at=at, sort_at=at, links=(),
        url=f"https://bsky.app/profile/{did}/post/{key}", embed_kind=None,
    )  # fmt: skip
    return item_of(replace(record, **changes))


def item_of(record: PostRecord) -> Item[PostRecord]:
    payload = json.dumps([record.uri, record.cid, record.text, len(record.links)]).encode()
    version = Version(record.uri, 0, digest(f"{record.uri}\n{record.cid}".encode()))
    return Item(version, record.sort_at, payload, record)


def follow(database: Database, *dids: str, now_ms: int = CREATED) -> list[AccountRow]:
    with database.transaction() as tx:
        add_accounts(tx, [NewAccount(did, HANDLES[did]) for did in dids], "test", INTERVAL, now_ms)
    return [find_account(database, did) for did in dids]


def feed_scope(did: str) -> Scope:
    return Scope("bluesky", "bluesky.author_feed", did, None, HANDLES.get(did, did))


def share(
    database: Database, *items: Item[PostRecord], now_ms: int = CREATED, gone: Sequence[str] = (), **more: Any
) -> PostWriter:
    """Store posts as one page of a feed; `gone` buries some."""
    writer = PostWriter(database, feed_scope(MIRA), lambda: now_ms)
    writer.commit(Batch(list(items), more.pop("cursor", Cursor()), gone=list(gone), **more))
    return writer
