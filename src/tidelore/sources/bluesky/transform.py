"""From the AT Protocol's payloads to our records. Pure; owns what kind a post is and where it stands in its list.

A timestamp that cannot be parsed is an error of that item, never 0. One before 1970, which the network allows, is
kept as the epoch: it stands where the feed shows it, below everything else.
"""

from __future__ import annotations

import msgspec

from tidelore.core.content import digest
from tidelore.core.model import PostRecord, Version
from tidelore.sources.bluesky.addresses import RecordAddress, split_uri, tid_instant, web_address
from tidelore.sources.bluesky.payloads import (
    POST,
    REPOST,
    Embed,
    FeedItem,
    Post,
    PostView,
    Reason,
    Repost,
    StoredRecord,
)
from tidelore.sources.bluesky.sharing import (
    alt_texts,
    card_of,
    links_of,
    read_embed,
    read_facets,
    read_labels,
    read_langs,
    read_tags,
)
from tidelore.sources.reading import instant

_POST = msgspec.json.Decoder(Post)
_REPOST = msgspec.json.Decoder(Repost)
_REPOSTED = "app.bsky.feed.defs#reasonRepost"
_PINNED = "app.bsky.feed.defs#reasonPin"
_EPOCH_YEAR = "1970"


def version_of(record: PostRecord) -> Version:
    """Return what makes a post new: an address not met before, or another content under it."""
    return Version(record.uri, 0, digest(f"{record.uri}\n{record.cid}".encode()))


def is_pinned(item: FeedItem) -> bool:
    """Return whether an item stands on top of its feed whatever its age."""
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
        handle=view.author.handle if view.author.did == address.did else None,
        created_at=created_at,
        indexed_at=indexed_at,
        sort_at=min(created_at, indexed_at),
        shown=shown,
    )


def transform_record(record: StoredRecord, seen_at: int | None = None) -> PostRecord:
    """Normalise a record of a repository; `seen_at` is when the network met it, where that is known."""
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
        # Its own post may be in the same feed: without the repost's address the two would be one.
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
        author_handle=reason.by.handle if reason.by.did == address.did else None,
        text=subject.text,
        langs=subject.langs,
        links=subject.links,
        embed_kind=subject.embed_kind,
        alt_text=subject.alt_text,
        labels=subject.labels,
        tags=subject.tags,
    )


def _placed(address: RecordAddress, created_at: int, seen_at: int | None) -> int:
    """Return where a feed would show a record: at its own date, but never after it was written."""
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
