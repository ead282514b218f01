"""Turns payloads of the AT Protocol into posts with their links, and raw items into items or rejections.

Pure functions. A timestamp that cannot be parsed is an error of that item, never 0; one before 1970, which the network
allows, is stored as the epoch. Links come from facets, the card and the plain text, one for each normalised URL in
reading order; a facet counts BYTES of the UTF-8 text. An item that cannot be parsed becomes a `Rejected` under the URI
by which it can be requested again (invariant 7). Invariant: a post has one version, whether it was read from a feed, a
repository or the stream.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from tidelore.core.content import digest
from tidelore.core.links import find_urls, normalise
from tidelore.core.model import Item, LinkRecord, PostRecord, Rejected, RemoteId, Version
from tidelore.core.references import NO_HANDLE
from tidelore.http.response import read_marker
from tidelore.sources.bluesky.payloads import (
    POST,
    REPOST,
    Author,
    Card,
    Described,
    Embed,
    Facet,
    FeedItem,
    Post,
    PostView,
    Reason,
    RecordAddress,
    Repost,
    SelfLabels,
    StoredRecord,
    split_uri,
    tid_instant,
    web_address,
)
from tidelore.sources.items import instant, refuse_nul

T = TypeVar("T")

_PARTS = msgspec.json.Decoder(list[Raw])
_FACET = msgspec.json.Decoder(Facet | None)
_EMBED = msgspec.json.Decoder(Embed | None)
_LANGS = msgspec.json.Decoder(tuple[str, ...])
_LABELS = msgspec.json.Decoder(SelfLabels | None)
_IMAGE = msgspec.json.Decoder(Described)
_LINK = "app.bsky.richtext.facet#link"
_TEXT = msgspec.json.Decoder(str | None)
_SHORT = 64
"""Longer values are unusual and not cached."""
_NO_EMBED = Embed()


def read_facets(raw: Raw) -> list[Facet]:
    """Return the facets that can be parsed."""
    if len(raw) <= 2:
        return []
    found = []
    for part in _lenient(_PARTS, raw, []):
        facet = _lenient(_FACET, part, None)
        if facet is not None:
            found.append(facet)
    return found


def read_embed(raw: Raw) -> Embed:
    """Return the embed, or an empty one if it cannot be parsed."""
    if len(raw) <= 4:
        return _NO_EMBED
    return _lenient(_EMBED, raw, None) or _NO_EMBED


def read_langs(raw: Raw) -> tuple[str, ...]:
    """Return the declared languages of a post."""
    # Cached, because nearly all posts have one of a few values.
    return _langs(bytes(raw)) if len(raw) <= _SHORT else _lenient(_LANGS, raw, ())


def read_tags(raw: Raw) -> tuple[str, ...]:
    """Return the tags of a post that are not in its text."""
    return () if len(raw) <= 2 else tuple(dict.fromkeys(tag for tag in _lenient(_LANGS, raw, ()) if tag))


def read_labels(raw: Raw) -> tuple[str, ...]:
    """Return the labels that the author gave a post."""
    if len(raw) <= 4:
        return ()
    labels = _lenient(_LABELS, raw, None) or SelfLabels()
    return tuple(dict.fromkeys(label.val for label in labels.values if label.val))


def alt_texts(embed: Embed) -> tuple[str, ...]:
    """Return the alternative texts of images and videos, also of a post that quotes another one."""
    found: list[str] = []
    for holder in (embed, embed.media):
        if holder is None:
            continue
        if len(holder.images) > 2:
            found += [_lenient(_IMAGE, image, Described()).alt for image in _lenient(_PARTS, holder.images, [])]
        if len(holder.alt) > 4:
            found.append(_lenient(_TEXT, holder.alt, None) or "")
    return tuple(text for text in found if text.strip())


def card_of(embed: Embed) -> Card | None:
    """Return the link card of an embed, also of a post that quotes another one."""
    return embed.external or (embed.media.external if embed.media is not None else None)


def links_of(text: str, facets: Sequence[Facet], card: Card | None) -> tuple[LinkRecord, ...]:
    """Return the links of a post, without duplicates."""
    if card is None and not facets and not _might_link(text):
        return ()
    found: dict[str, LinkRecord] = {}
    for raw in _addresses(text, facets):
        url = normalise(raw)
        if url is not None and url not in found:
            found[url] = LinkRecord(url, raw, None, None, None)
    if card is not None and card.uri is not None:
        url = normalise(card.uri)
        if url is not None:
            raw = found[url].raw if url in found else card.uri
            thumb = _lenient(_TEXT, card.thumb, None)
            found[url] = LinkRecord(url, raw, card.title or None, card.description or None, thumb)
    return tuple(found.values())


def _addresses(text: str, facets: Sequence[Facet]) -> list[str]:
    found, covered = [], []
    for facet in facets:
        for feature in facet.features:
            if feature.type == _LINK and feature.uri is not None:
                covered.append(facet.index)
                found.append(feature.uri)
    if covered and _might_link(text):
        rest = bytearray(text.encode())
        for span in covered:
            if 0 <= span.start < span.end <= len(rest):
                rest[span.start : span.end] = b" " * (span.end - span.start)
        text = rest.decode("utf-8", "replace")
    if _might_link(text):
        found += find_urls(text)
    return found


def _might_link(text: str) -> bool:
    """Return whether a text may contain URLs; a quick check, because searching for them is slow."""
    return "://" in text or "www." in text or "WWW." in text or "Www." in text


@lru_cache(maxsize=256)
def _langs(raw: bytes) -> tuple[str, ...]:
    return _lenient(_LANGS, raw, ())


def _lenient(decoder: msgspec.json.Decoder[T], raw: Raw | bytes, otherwise: T) -> T:
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return otherwise


_POST = msgspec.json.Decoder(Post)
_REPOST = msgspec.json.Decoder(Repost)
_REPOSTED = "app.bsky.feed.defs#reasonRepost"
_PINNED = "app.bsky.feed.defs#reasonPin"
_EPOCH_YEAR = "1970"


def version_of(record: PostRecord) -> Version:
    """Return the version of a post; it differs for another URI, or for another content under the same URI."""
    return Version(record.uri, 0, digest(f"{record.uri}\n{record.cid}".encode()))


def is_pinned(item: FeedItem) -> bool:
    """Return whether an item is pinned, so that it is first in its feed regardless of its age."""
    return item.reason is not None and item.reason.type == _PINNED


def transform_item(item: FeedItem) -> PostRecord:
    """Normalise an item of an author feed, or raise ValueError naming the field."""
    if item.reason is not None and item.reason.type == _REPOSTED:
        return _repost_view(item.post, item.reason)
    return transform_view(item.post)


def transform_view(view: PostView) -> PostRecord:
    """Normalise a post as the AppView shows it."""
    address = split_uri(view.uri)
    created_at = dated("createdAt", view.record.created_at)
    indexed_at = dated("indexedAt", view.indexed_at)
    shown = read_embed(view.embed)
    return _post(
        address,
        view.cid,
        view.record,
        handle=_handle_of(view.author, address),
        created_at=created_at,
        indexed_at=indexed_at,
        sort_at=min(created_at, indexed_at),
        shown=shown,
    )


def transform_record(record: StoredRecord, seen_at: int | None = None) -> PostRecord:
    """Normalise a record of a repository; `seen_at` is when the network first saw it, if known."""
    address = split_uri(record.uri)
    if address.collection == POST:
        post = _POST.decode(record.value)
        created_at = dated("createdAt", post.created_at)
        sort_at = _placed(address, created_at, seen_at)
        return _post(
            address,
            record.cid,
            post,
            handle=None,
            created_at=created_at,
            indexed_at=seen_at,
            sort_at=sort_at,
            shown=None,
        )
    if address.collection != REPOST:
        raise ValueError(f"uri: neither a post nor a repost: {record.uri[:200]!r}")
    repost = _REPOST.decode(record.value)
    created_at = dated("createdAt", repost.created_at)
    return _repost(
        address,
        record.cid,
        repost.subject.uri,
        created_at=created_at,
        indexed_at=seen_at,
        sort_at=_placed(address, created_at, seen_at),
    )


def dated(field: str, text: str) -> int:
    """Return an instant of a payload; a year before the epoch counts as the epoch."""
    if text < _EPOCH_YEAR and text[:4].isdecimal() and text[4:5] == "-":
        instant(field, f"1972{text[4:]}")
        return 0
    return instant(field, text)


def _post(
    address: RecordAddress,
    cid: str,
    post: Post,
    *,
    handle: str | None,
    created_at: int,
    indexed_at: int | None,
    sort_at: int,
    shown: Embed | None,
) -> PostRecord:
    embed = read_embed(post.embed)
    card = (card_of(shown) if shown is not None else None) or card_of(embed)
    quoted_uri = _quoted(embed)
    return PostRecord(
        uri=str(address),
        cid=cid,
        kind=_kind(post, quoted_uri),
        author_did=address.did,
        author_handle=handle,
        text=post.text,
        langs=read_langs(post.langs),
        reply_parent=post.reply.parent.uri if post.reply else None,
        reply_root=post.reply.root.uri if post.reply else None,
        quoted_uri=quoted_uri,
        subject_uri=None,
        created_at=created_at,
        indexed_at=indexed_at,
        sort_at=sort_at,
        links=links_of(post.text, read_facets(post.facets), card),
        url=web_address(address),
        embed_kind=embed.type.rpartition(".")[2].partition("#")[0] or None,
        alt_text=alt_texts(embed),
        labels=read_labels(post.labels),
        tags=read_tags(post.tags),
    )


def _repost(
    address: RecordAddress, cid: str, subject_uri: str, *, created_at: int, indexed_at: int | None, sort_at: int
) -> PostRecord:
    subject = split_uri(subject_uri)
    return PostRecord(
        uri=str(address),
        cid=cid,
        kind="repost",
        author_did=address.did,
        author_handle=None,
        text="",
        langs=(),
        reply_parent=None,
        reply_root=None,
        quoted_uri=None,
        subject_uri=subject_uri,
        created_at=created_at,
        indexed_at=indexed_at,
        sort_at=sort_at,
        links=(),
        url=web_address(subject),
        embed_kind=None,
    )


def _repost_view(view: PostView, reason: Reason) -> PostRecord:
    if reason.by is None or reason.uri is None or reason.indexed_at is None:
        # The reposted post may be in the same feed: without the repost's URI the two could not be distinguished.
        raise ValueError("reason: a repost without author, address or time")
    reposted_at = dated("reason.indexedAt", reason.indexed_at)
    subject, address = transform_view(view), split_uri(reason.uri)
    bare = _repost(
        address,
        reason.cid or "",
        view.uri,
        created_at=reposted_at,
        indexed_at=reposted_at,
        sort_at=reposted_at,
    )
    return msgspec.structs.replace(
        bare,
        author_handle=_handle_of(reason.by, address),
        text=subject.text,
        langs=subject.langs,
        links=subject.links,
        embed_kind=subject.embed_kind,
        alt_text=subject.alt_text,
        labels=subject.labels,
        tags=subject.tags,
    )


def _handle_of(author: Author, address: RecordAddress) -> str | None:
    """Return the author's handle; None if it is unknown or invalid, so that the stored account's handle is used."""
    return author.handle if author.did == address.did and author.handle != NO_HANDLE else None


def _placed(address: RecordAddress, created_at: int, seen_at: int | None) -> int:
    """Return the instant at which a feed shows a record: its own date, but never later than it was written."""
    written_at = seen_at if seen_at is not None else tid_instant(address.rkey)
    return created_at if written_at is None else min(created_at, written_at)


def _kind(post: Post, quoted_uri: str | None) -> str:
    if post.reply is not None:
        return "reply"
    return "quote" if quoted_uri is not None and f"/{POST}/" in quoted_uri else "post"


def _quoted(embed: Embed) -> str | None:
    if embed.record is None:
        return None
    return embed.record.uri or (embed.record.record.uri if embed.record.record is not None else None)


_LOG = logging.getLogger(__name__)
_ITEM = msgspec.json.Decoder(FeedItem)
_RECORD = msgspec.json.Decoder(StoredRecord)
_SKEW_MS = 5 * 60 * 1000


class ParsedPosts(Struct):
    """The items of a page: those that were parsed and those that were rejected."""

    items: list[Item[PostRecord]]
    rejected: list[Rejected]
    pinned: set[RemoteId]


def read_feed(raws: Sequence[Raw]) -> ParsedPosts:
    """Parse the items of a feed; invalid ones are rejected one by one."""
    found = ParsedPosts([], [], set())
    for raw in raws:
        payload = bytes(raw)
        try:
            item = _ITEM.decode(payload)
            record = _checked(transform_item(item), payload)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            found.rejected.append(reject_post(payload, str(error)))
            continue
        version = version_of(record)
        found.items.append(Item(version, record.sort_at, payload, record))
        if is_pinned(item):
            found.pinned.add(version.id)
    return found


def read_records(raws: Sequence[Raw], server_at: int | None) -> ParsedPosts:
    """Parse the records of a repository; invalid ones are rejected one by one."""
    found = ParsedPosts([], [], set())
    for raw in raws:
        payload = bytes(raw)
        try:
            found.items.append(parse_record(_RECORD.decode(payload), payload, server_at=server_at))
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            found.rejected.append(reject_post(payload, str(error)))
    return found


def parse_record(
    stored: StoredRecord, payload: bytes, *, seen_at: int | None = None, server_at: int | None = None
) -> Item[PostRecord]:
    """Return the item of a record, dated at the instant of writing, or raise DecodeError or ValueError."""
    record = _checked(transform_record(stored, seen_at), payload)
    written_at = seen_at if seen_at is not None else _written_at(record, server_at)
    return Item(version_of(record), written_at, payload, record)


def reject_post(payload: bytes, error: str) -> Rejected:
    """Return a `Rejected` for a payload that cannot be parsed, with its URI for another request if it can be found."""
    payload, error = read_marker(payload) or (payload, error)
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        value = None
    uri = _address_in(value)
    key = uri or f"content:{digest(payload).hex()}"
    _LOG.warning("could not parse item %s: %s", key, error)
    return Rejected(key, uri, payload, error)


def _address_in(value: Any) -> str | None:
    """Return the URI of the repost for a repost, else that of the post or record."""
    holder = value if isinstance(value, dict) else {}
    for part in (holder.get("reason"), holder.get("post"), holder):
        uri = part.get("uri") if isinstance(part, dict) else None
        if isinstance(uri, str) and uri.startswith("at://did:") and "\x00" not in uri:
            return uri
    return None


def _checked(record: PostRecord, payload: bytes) -> PostRecord:
    if b"\\u0000" in payload:
        refuse_nul(record)
        for link in record.links:
            refuse_nul(link)
    return record


def _written_at(record: PostRecord, server_at: int | None) -> int:
    """Return when a record was written, from its key; a key with a time in the future is ignored."""
    written_at = tid_instant(split_uri(record.uri).rkey)
    if written_at is None or (server_at is not None and written_at > server_at + _SKEW_MS):
        return record.created_at if server_at is None else min(record.created_at, server_at)
    return written_at
