"""Reads posts: one with its context, a list, a count, and the links that most people share.

A repost is a share by the reposter; a person who shares a link ten times counts once; deleted posts do not count. The
cost of the ranking depends on the shares in its time window. Writes nothing.
"""

from __future__ import annotations

from msgspec import Struct

from tidelore.core.errors import NotFound
from tidelore.core.references import PostReference
from tidelore.store.database.port import Database, Row
from tidelore.store.database.statements import Where, escape_like
from tidelore.store.reading.lists import Listing, PagePlace, read_page

KINDS = ("post", "reply", "quote", "repost")
_MOST_REPLIES = 50


class PostRow(Struct, frozen=True):
    """A stored post; `author_handle` is None if it was never received."""

    id: int
    uri: str
    cid: str
    kind: str
    author_did: str
    author_handle: str | None
    text: str
    langs: str
    reply_parent: str | None
    reply_root: str | None
    quoted_uri: str | None
    subject_uri: str | None
    created_at: int
    indexed_at: int | None
    sort_at: int
    url: str | None
    embed_kind: str | None
    edited_at: int | None
    deleted_at: int | None
    alt_text: str
    labels: str
    tags: str

    @property
    def author(self) -> str:
        return self.author_handle or self.author_did


class LinkRow(Struct, frozen=True):
    """A link in a post."""

    url: str
    raw: str
    title: str | None
    description: str | None


class PostDetails(Struct, frozen=True):
    """A post with its links, the posts it replies to or repeats, its replies and its reposts, as far as stored."""

    post: PostRow
    links: tuple[LinkRow, ...]
    parent: PostRow | None
    quoted: PostRow | None
    replies: tuple[PostRow, ...]
    replies_total: int
    reposters: tuple[str, ...]


class PostFilter(PagePlace, frozen=True, kw_only=True):
    """Filters for a list of posts; None means no filter."""

    author: str | None = None
    kind: str | None = None
    since: int | None = None


_COLUMNS = ", ".join(f"t.{name}" for name in PostRow.__struct_fields__)


def resolve_post(database: Database, reference: PostReference) -> int:
    """Return the id of the referenced post; if only a repost of it is stored, that of the repost."""
    dids = [reference.authority] if reference.is_by_did else dids_of(database, reference.authority)
    uris = [reference.address(did) for did in dids]
    rows = database.read(
        f"SELECT id, 0 FROM posts WHERE uri {database.among('uris')}"
        f" UNION SELECT MIN(id), 1 FROM posts WHERE subject_uri IS NOT NULL AND subject_uri {database.among('uris')}"
        " ORDER BY 2",
        {"uris": database.texts(uris)},
    )
    found = [row_id for row_id, _ in rows if row_id is not None]
    if not found:
        raise NotFound(
            f"the local copy has no post {reference.address(reference.authority)}",
            fix="`lore list posts` shows stored posts; `lore accounts add` follows an account",
            reference=reference.address(reference.authority),
        )
    return int(found[0])


def dids_of(database: Database, name: str) -> list[str]:
    """Return the DIDs for a handle or a DID; a handle matches its current owner, otherwise previous owners."""
    word = name.strip().removeprefix("@")
    if word.startswith("did:"):
        return [word]
    params = {"handle": word.lower()}
    rows = database.read("SELECT did FROM accounts WHERE handle = :handle", params)
    rows = rows or database.read("SELECT DISTINCT author_did FROM posts WHERE author_handle = :handle", params)
    return [did for (did,) in rows]


def read_post(database: Database, post_id: int) -> PostDetails:
    """Return one post with its context."""
    post = PostRow(*database.read(f"SELECT {_COLUMNS} FROM posts t WHERE t.id = :id", {"id": post_id})[0])
    links = database.read(
        "SELECT k.url, l.raw, k.title, k.description FROM post_links l JOIN links k ON k.id = l.link_id"
        " WHERE l.post_id = :id ORDER BY k.url",
        {"id": post_id},
    )
    answers = "FROM posts t WHERE t.reply_parent = :uri AND t.deleted_at IS NULL"
    original = post.subject_uri or post.uri
    replies = database.read(
        f"SELECT {_COLUMNS} {answers} ORDER BY t.sort_at, t.id LIMIT :most", {"uri": original, "most": _MOST_REPLIES}
    )
    reposters = database.read(
        "SELECT DISTINCT COALESCE(author_handle, author_did) FROM posts WHERE subject_uri = :uri"
        " AND deleted_at IS NULL",
        {"uri": original},
    )
    return PostDetails(
        post,
        tuple(LinkRow(*row) for row in links),
        _by_uri(database, post.reply_parent),
        _by_uri(database, post.quoted_uri),
        tuple(PostRow(*row) for row in replies),
        int(database.read(f"SELECT COUNT(*) {answers}", {"uri": original})[0][0]),
        tuple(sorted(name for (name,) in reposters)),
    )


def list_posts(database: Database, wanted: PostFilter) -> Listing[PostRow]:
    """Return one page of posts, newest first."""
    dids = None if wanted.author is None else database.texts(dids_of(database, wanted.author))
    where = Where("t.deleted_at IS NOT NULL" if wanted.deleted else "t.deleted_at IS NULL")
    where.narrow(f"t.author_did {database.among('dids')}", dids=dids)
    where.narrow("t.kind = :kind", kind=wanted.kind).narrow("t.sort_at >= :since", since=wanted.since)
    return read_page(database, f"SELECT {_COLUMNS}", "posts", PostRow, wanted, where, join="", sort="sort_at")


def count_posts(database: Database) -> dict[str, int]:
    """Return how many posts of each kind there are, without deleted ones."""
    found: dict[str, int] = dict(
        database.read("SELECT kind, COUNT(*) FROM posts WHERE deleted_at IS NULL GROUP BY kind")
    )
    return {kind: int(found[kind]) for kind in KINDS if kind in found}


def count_deleted_posts(database: Database) -> int:
    """Return how many deleted posts are kept."""
    return int(database.read("SELECT COUNT(*) FROM posts WHERE deleted_at IS NOT NULL")[0][0])


def count_links(database: Database) -> int:
    """Return how many different URLs were shared."""
    return int(database.read("SELECT COUNT(*) FROM links")[0][0])


def _by_uri(database: Database, uri: str | None) -> PostRow | None:
    if uri is None:
        return None
    rows = database.read(f"SELECT {_COLUMNS} FROM posts t WHERE t.uri = :uri", {"uri": uri})
    return PostRow(*rows[0]) if rows else None


class Sharer(Struct, frozen=True):
    """An account that shared a link, and when it first did in the window; without a handle the DID is shown."""

    did: str
    handle: str | None
    shared_at: int


class Trend(Struct, frozen=True):
    """A link, how many people shared it, in how many posts, and who, earliest first."""

    sharers: tuple[Sharer, ...]
    url: str
    title: str | None
    description: str | None
    thumb: str | None
    shares: int
    posts: int
    first_shared_at: int
    last_shared_at: int


def trending(database: Database, since_ms: int, limit: int = 50, min_shares: int = 1, part: str = "") -> list[Trend]:
    """Return the links that most people shared since an instant, most shared first; with `part` in their address."""
    params: dict[str, int | str] = {"since": since_ms, "least": min_shares, "limit": limit}
    if part:
        params["part"] = f"%{escape_like(part)}%"
    rows = database.read(ranking(database, narrowed=bool(part)), params)
    ids = [row[0] for row in rows]
    links = {row[0]: row[1:] for row in _links(database, ids)}
    sharers = _sharers(database, ids, since_ms)
    return [Trend(tuple(sharers[row[0]]), *links[row[0]], *row[1:]) for row in rows]


def ranking(database: Database, *, narrowed: bool = False) -> str:
    """Return the query that ranks links. Without statistics SQLite would read all shares ever stored."""
    # A lookup for each share of the window: a search of all addresses would read every link ever stored.
    like = {"sqlite": "LIKE", "postgres": "ILIKE"}[database.dialect]
    among = f" AND EXISTS (SELECT 1 FROM links k WHERE k.id = link_id AND k.url {like} :part ESCAPE '~')"
    return (
        "SELECT link_id, COUNT(DISTINCT sharer), COUNT(*), MIN(shared_at), MAX(shared_at) FROM post_links"
        f" {database.by_index('idx_post_links_shared')} WHERE shared_at >= :since"
        f"{among if narrowed else ''} GROUP BY link_id"
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
    handles, _ = find_handles(database, {did for _, did, _ in rows})
    found: dict[int, list[Sharer]] = {}
    for link_id, did, shared_at in rows:
        found.setdefault(link_id, []).append(Sharer(did, handles.get(did), shared_at))
    return found


def find_handles(database: Database, dids: set[str]) -> tuple[dict[str, str], frozenset[str]]:
    """Return the handle of each DID, and which are followed; others have the handle under which they posted last."""
    known: dict[str, str] = dict(
        database.read(
            f"SELECT did, handle FROM accounts WHERE did {database.among('dids')}", {"dids": database.texts(dids)}
        )
    )
    followed = frozenset(known)
    for did in dids - followed:
        rows = database.read(
            "SELECT author_handle FROM posts WHERE author_did = :did AND author_handle IS NOT NULL"
            " ORDER BY sort_at DESC LIMIT 1",
            {"did": did},
        )
        if rows:
            known[did] = rows[0][0]
    return known, followed
