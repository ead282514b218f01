"""The payloads of the AT Protocol: the fields we use, `at://` URIs and record keys.

Unknown fields are ignored, wrong types are refused. Records are written by many programs, so all fields except those of
the post itself (facets, embeds) are optional and an invalid card or mention does not reject its post. A record key is
usually a TID, which contains the time of writing; its author may choose another, so callers must expect None.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Raw, Struct, field

POST = "app.bsky.feed.post"
REPOST = "app.bsky.feed.repost"
COLLECTIONS = (POST, REPOST)


class Author(Struct, frozen=True):
    did: str
    handle: str | None = None


class Reference(Struct, frozen=True):
    """One version of a record."""

    uri: str
    cid: str | None = None


class Reply(Struct, frozen=True):
    root: Reference
    parent: Reference


class Card(Struct, frozen=True):
    """The preview of a web page in a post. `thumb` is a URL in a view and an uploaded file in a record."""

    uri: str | None = None
    title: str | None = None
    description: str | None = None
    thumb: Raw = Raw(b"null")


class Quoted(Struct, frozen=True):
    """The quoted record; if the post also has media it is wrapped once more."""

    uri: str | None = None
    record: Reference | None = None


class Media(Struct, frozen=True):
    type: str = field(name="$type", default="")
    external: Card | None = None
    images: Raw = Raw(b"[]")
    alt: Raw = Raw(b"null")


class Embed(Struct, frozen=True):
    """The embed of a post. Each image contains its alternative text; that of a video is a field of the embed."""

    type: str = field(name="$type", default="")
    external: Card | None = None
    images: Raw = Raw(b"[]")
    alt: Raw = Raw(b"null")
    record: Quoted | None = None
    media: Media | None = None


class Described(Struct, frozen=True):
    """The alternative text of an image."""

    alt: str = ""


class SelfLabel(Struct, frozen=True):
    val: str = ""


class SelfLabels(Struct, frozen=True):
    values: tuple[SelfLabel, ...] = ()


class Span(Struct, frozen=True):
    """A range of the text, in BYTES of its UTF-8 encoding."""

    start: int = field(name="byteStart")
    end: int = field(name="byteEnd")


class Feature(Struct, frozen=True):
    type: str = field(name="$type", default="")
    uri: str | None = None


class Facet(Struct, frozen=True):
    index: Span
    features: tuple[Feature, ...] = ()


class Post(Struct, frozen=True):
    """The record of a post. All parts but the text are parsed separately, so that invalid ones can be left out."""

    created_at: str = field(name="createdAt")
    text: str = ""
    langs: Raw = Raw(b"[]")
    reply: Reply | None = None
    facets: Raw = Raw(b"[]")
    embed: Raw = Raw(b"null")
    labels: Raw = Raw(b"null")
    tags: Raw = Raw(b"[]")


class Repost(Struct, frozen=True):
    """The record of a repost."""

    subject: Reference
    created_at: str = field(name="createdAt")


class PostView(Struct, frozen=True):
    """A post as the AppView shows it."""

    uri: str
    cid: str
    author: Author
    record: Post
    indexed_at: str = field(name="indexedAt")
    embed: Raw = Raw(b"null")


class Reason(Struct, frozen=True):
    """Why an item is in a feed: it was reposted or pinned."""

    type: str = field(name="$type", default="")
    by: Author | None = None
    uri: str | None = None
    cid: str | None = None
    indexed_at: str | None = field(name="indexedAt", default=None)


class FeedItem(Struct, frozen=True):
    post: PostView
    reason: Reason | None = None


class StoredRecord(Struct, frozen=True):
    """A record as a repository lists it."""

    uri: str
    cid: str
    value: Raw


class FeedPage(Struct, frozen=True):
    feed: list[Raw]
    cursor: str | None = None


class PostsAnswer(Struct, frozen=True):
    posts: list[Raw]


class RecordsPage(Struct, frozen=True):
    records: list[Raw]
    cursor: str | None = None


class ProfileView(Struct, frozen=True):
    did: str
    handle: str
    display_name: str | None = field(name="displayName", default=None)
    posts_count: int | None = field(name="postsCount", default=None)


class ProfilesAnswer(Struct, frozen=True):
    profiles: list[Raw]


class FollowsPage(Struct, frozen=True):
    follows: list[Raw]
    cursor: str | None = None


class ListItem(Struct, frozen=True):
    subject: Raw


class ListPage(Struct, frozen=True):
    items: list[ListItem]
    cursor: str | None = None


class StarterPackView(Struct, frozen=True):
    list: Reference | None = None


class StarterPackAnswer(Struct, frozen=True):
    pack: StarterPackView = field(name="starterPack")


class Resolved(Struct, frozen=True):
    did: str


class RepoStatus(Struct, frozen=True):
    """The state of a repository on its server; `status` is the reason if it is not active."""

    did: str
    active: bool
    status: str | None = None


class Service(Struct, frozen=True):
    id: str = ""
    type: str | None = None
    endpoint: Any = field(name="serviceEndpoint", default=None)


class DidDocument(Struct, frozen=True):
    id: str
    also_known_as: tuple[str, ...] = field(name="alsoKnownAs", default=())
    service: tuple[Service, ...] = ()


_ALPHABET = "234567abcdefghijklmnopqrstuvwxyz"
_DIGITS = {digit: value for value, digit in enumerate(_ALPHABET)}
_TID_LENGTH = 13


class RecordAddress(NamedTuple):
    """The parts of an `at://` URI."""

    did: str
    collection: str
    rkey: str

    def __str__(self) -> str:
        return f"at://{self.did}/{self.collection}/{self.rkey}"


def split_uri(uri: str) -> RecordAddress:
    """Return the parts of a URI, or raise ValueError."""
    parts = uri.split("/")
    if len(parts) == 5:
        scheme, empty, did, collection, rkey = parts
        if scheme == "at:" and not empty and did.startswith("did:") and collection and rkey:
            return RecordAddress(did, collection, rkey)
    raise ValueError(f"uri: not the address of a record: {uri[:200]!r}")


def tid_instant(rkey: str) -> int | None:
    """Return the instant in a record key in milliseconds, or None if the key is not a TID."""
    if len(rkey) != _TID_LENGTH or rkey[0] > "j":
        return None
    number = 0
    for digit in rkey:
        value = _DIGITS.get(digit)
        if value is None:
            return None
        number = number << 5 | value
    return (number >> 10) // 1000


def key_before(instant_ms: int) -> str | None:
    """Return the greatest TID before an instant; None if there is none, as for instants before the epoch."""
    number = (instant_ms * 1000 << 10) - 1
    if number < 0:
        return None
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(60, -1, -5))


def web_address(address: RecordAddress) -> str | None:
    """Return the web URL of a post; with the DID, because the handle may change."""
    if address.collection != POST:
        return None
    return f"https://bsky.app/profile/{address.did}/post/{address.rkey}"
