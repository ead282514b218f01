"""The values of records as their authors write them: posts, embeds, replies, reposts, follows, profiles.

Owns the record shapes of the lexicons. Pure. What the AppView adds to them lives in `views`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidelore_world.bluesky.ids import blob_cid_of
from tidelore_world.bluesky.records import LIST, LIST_ITEM, POST, PROFILE, STARTER_PACK, Account, Card, Record

Value = dict[str, Any]

_EXTERNAL = "app.bsky.embed.external"
_IMAGES = "app.bsky.embed.images"
_VIDEO = "app.bsky.embed.video"
_RECORD = "app.bsky.embed.record"
_BOTH = "app.bsky.embed.recordWithMedia"


def strong_ref(record: Record) -> Value:
    """A reference to one version of a record."""
    return {"uri": record.uri, "cid": record.cid}


def post(
    text: str,
    created_at: str,
    *,
    facets: Sequence[Value],
    reply: Value | None,
    embed: Value | None,
    langs: Sequence[str],
    labels: Sequence[str],
    tags: Sequence[str] = (),
) -> Value:
    """A post; what it does not have is left out."""
    value: Value = {"$type": POST, "text": text, "createdAt": created_at}
    if langs:
        value["langs"] = list(langs)
    if facets:
        value["facets"] = list(facets)
    if reply is not None:
        value["reply"] = reply
    if embed is not None:
        value["embed"] = embed
    if tags:
        value["tags"] = list(tags)
    if labels:
        shown = [{"val": label} for label in labels]
        value["labels"] = {"$type": "com.atproto.label.defs#selfLabels", "values": shown}
    return value


def with_text(value: Mapping[str, Any], text: str, facets: Sequence[Value]) -> Value:
    """The same post with another text."""
    kept = {name: part for name, part in value.items() if name != "facets"}
    return kept | {"text": text} | ({"facets": list(facets)} if facets else {})


def embed(external: Card | None, images: Sequence[str], quote: Record | None, video: str | None = None) -> Value | None:
    """The embed of a post: a card, images or a video, a quoted record, or both together."""
    media: Value | None = None
    if external is not None:
        card = {"uri": external.url, "title": external.title, "description": external.description}
        media = {"$type": _EXTERNAL, "external": card}
    elif images:
        media = {"$type": _IMAGES, "images": [{"alt": alt, "image": _blob(alt)} for alt in images]}
    elif video is not None:
        media = {"$type": _VIDEO, "video": _blob(video), "alt": video}
    if quote is None:
        return media
    quoted = {"$type": _RECORD, "record": strong_ref(quote)}
    return quoted if media is None else {"$type": _BOTH, "record": quoted, "media": media}


def quoted_uri(value: Mapping[str, Any]) -> str | None:
    """The address of the post a post quotes."""
    part = value.get("embed", {})
    if part.get("$type") == _BOTH:
        part = part["record"]
    return str(part["record"]["uri"]) if part.get("$type") == _RECORD else None


def has_media(value: Mapping[str, Any]) -> bool:
    """Whether a post shows images."""
    part = value.get("embed", {})
    return str(part.get("media", part).get("$type")) == _IMAGES


def subject_record(collection: str, subject: Value | str, created_at: str) -> Value:
    """A record that is only about another: a repost, a follow."""
    return {"$type": collection, "subject": subject, "createdAt": created_at}


def account_list(name: str, created_at: str) -> Value:
    """A list of accounts; its members are records of their own."""
    return {"$type": LIST, "name": name, "purpose": "app.bsky.graph.defs#curatelist", "createdAt": created_at}


def list_item(list_uri: str, subject: str, created_at: str) -> Value:
    """One member of a list."""
    return {"$type": LIST_ITEM, "list": list_uri, "subject": subject, "createdAt": created_at}


def starter_pack(name: str, list_uri: str, created_at: str) -> Value:
    """A starter pack."""
    return {"$type": STARTER_PACK, "name": name, "list": list_uri, "createdAt": created_at}


def profile(account: Account, created_at: str) -> Value:
    """A profile."""
    return {
        "$type": PROFILE,
        "displayName": account.display_name,
        "description": account.description,
        "createdAt": created_at,
    }


def _blob(alt: str) -> Value:
    cid = blob_cid_of(alt)
    return {"$type": "blob", "ref": {"$link": cid}, "mimeType": "image/jpeg", "size": 40_000 + len(alt)}
