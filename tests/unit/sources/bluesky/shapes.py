"""Payloads as the network sends them, small, for tests that change one thing in them."""

from __future__ import annotations

import json
from typing import Any

import msgspec

DID = "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"
OTHER = "did:plc:bbbbbbbbbbbbbbbbbbbbbbbb"
POSTS, REPOSTS = "app.bsky.feed.post", "app.bsky.feed.repost"
KEY = "3mf4iv3dm6e22"
URI = f"at://{DID}/{POSTS}/{KEY}"
AT = "2026-03-02T09:00:00.000Z"
AT_MS = 1_772_442_000_000


def post(text: str = "hello", **more: Any) -> dict[str, Any]:
    """The record of a post."""
    return {"$type": POSTS, "text": text, "createdAt": AT, "langs": ["en"], **more}


def view(record: dict[str, Any] | None = None, uri: str = URI, **more: Any) -> dict[str, Any]:
    """A post as the AppView shows it."""
    author = {"did": uri.split("/")[2], "handle": "ada.example", "displayName": "Ada"}
    shown = {"uri": uri, "cid": "bafyone", "author": author, "record": record or post(), "indexedAt": AT}
    return {**shown, "likeCount": 3, **more}


def repost_reason(**more: Any) -> dict[str, Any]:
    """Why a post of somebody else is in a feed."""
    return {
        "$type": "app.bsky.feed.defs#reasonRepost",
        "by": {"did": OTHER, "handle": "bo.example"},
        "uri": f"at://{OTHER}/{REPOSTS}/{KEY}",
        "cid": "bafytwo",
        "indexedAt": "2026-03-02T10:00:00.000Z",
        **more,
    }


def raw(value: Any) -> msgspec.Raw:
    """A value as it arrives."""
    return msgspec.Raw(json.dumps(value, ensure_ascii=False).encode())


def link_facet(text: str, caption: str, uri: str) -> dict[str, Any]:
    """A facet that links a caption, in bytes as the protocol counts."""
    start = len(text[: text.index(caption)].encode())
    index = {"byteStart": start, "byteEnd": start + len(caption.encode())}
    return {"index": index, "features": [{"$type": "app.bsky.richtext.facet#link", "uri": uri}]}
