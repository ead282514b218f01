"""Reads children of many pull requests over GraphQL: the state of review threads, closing issues and reviews.

Many pull requests are read with one query, by their global ids. Each of them gets a `Page` of its own, or None if it
does not exist for this token. A pull request with more than one page is read to its end before anything is returned.
REST shows neither threads nor closing issues; a review read by either way is the same version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from tidelore.core.content import digest
from tidelore.core.errors import AccessRefused, RemoteNotFound, RemotePermanent
from tidelore.core.model import (
    REVIEW_SUMMARY,
    ChildRecord,
    ClosedIssueRecord,
    CommentRecord,
    Item,
    Rejected,
    ReviewThreadRecord,
    Version,
    comment_key,
)
from tidelore.engine.ports import ListRequest, Page
from tidelore.sources.github.graphql import Actor, GraphQlClient, actor_login
from tidelore.sources.github.payloads import Number
from tidelore.sources.graphql import Connection, GraphQlData, PageSize, PartialAnswer, Path, decode, present
from tidelore.sources.items import instant, refuse_nul, reject

_THREADS = """reviewThreads(first: $first, after: $after) {
    pageInfo { hasNextPage endCursor }
    nodes { id isResolved isOutdated path line subjectType resolvedBy { __typename login }
      comments(first: 1) { nodes { fullDatabaseId } } }
  }"""
_CLOSING = """closingIssuesReferences(first: $first, after: $after) {
    pageInfo { hasNextPage endCursor }
    nodes { id fullDatabaseId number title url repository { databaseId nameWithOwner } }
  }"""
_REVIEWS = """reviews(first: $first, after: $after) {
    pageInfo { hasNextPage endCursor }
    nodes { fullDatabaseId state body submittedAt url authorAssociation author { __typename login } commit { oid }
      pullRequest { number } }
  }"""


def _query(*lists: str) -> str:
    return (
        "query($ids: [ID!]!, $first: Int!, $after: String) {\n  rateLimit { cost remaining resetAt }\n"
        f"  nodes(ids: $ids) {{ id ... on PullRequest {{ {' '.join(lists)} }} }}\n}}"
    )


REVIEW_THREADS = _query(f"threads: {_THREADS}")
CLOSING_ISSUES = _query(f"closes_issues: {_CLOSING}")
REVIEWS = _query(_REVIEWS)
_MANY = 50
"""Each answer in a thread is a review by itself, so there are many. They cost no points: nothing hangs below them."""
EVERYTHING = _query(f"threads: {_THREADS}", f"closes_issues: {_CLOSING}", _REVIEWS.replace("$first", str(_MANY)))
AT_ONCE = PageSize(100, 10)
"""Few pull requests have more than ten threads, and a query costs points for every thread that it might find."""
_ALONE = PageSize(1, 100)
"""The size for the further pages of one pull request."""


class _Root(Struct, frozen=True, rename="camel"):
    full_database_id: Number | str | None = None


class _Roots(Struct, frozen=True):
    nodes: tuple[_Root | None, ...]


class _Thread(Struct, frozen=True, rename="camel"):
    id: str
    is_resolved: bool
    is_outdated: bool
    path: str
    subject_type: str
    comments: _Roots
    line: Number | None = None
    resolved_by: Actor | None = None


class _IssueRepository(Struct, frozen=True, rename="camel"):
    database_id: Number | None = None
    name_with_owner: str | None = None


class _ClosingIssue(Struct, frozen=True, rename="camel"):
    id: str
    number: Number
    full_database_id: Number | str | None = None
    title: str | None = None
    url: str | None = None
    repository: _IssueRepository | None = None


class _Commit(Struct, frozen=True):
    oid: str


class _Reviewed(Struct, frozen=True):
    number: Number


class _Review(Struct, frozen=True, rename="camel"):
    full_database_id: Number | str
    state: str
    body: str
    pull_request: _Reviewed
    submitted_at: str | None = None
    url: str | None = None
    author_association: str | None = None
    author: Actor | None = None
    commit: _Commit | None = None


class _Pull(Struct, frozen=True):
    id: str
    threads: Connection | None = None
    closes_issues: Connection | None = None
    reviews: Connection | None = None


class _Nodes(Struct, frozen=True):
    nodes: tuple[Raw, ...]


class _Found(Struct):
    """One list of a pull request, as far as it has been read."""

    items: list[Item[ChildRecord]]
    rejected: list[Rejected]
    after: str | None
    server_at: int | None


_Lists = dict[str, _Found]


class PagesOf(Protocol):
    """The same list by another way."""

    async def fetch(self, request: ListRequest) -> Page[ChildRecord]:
        """Read one page."""
        ...


Pages = Mapping[str, Page[ChildRecord]]
"""The children of one pull request by their kind."""

LEFT_OVER = 4000
"""How many pages of other kinds to keep for later, at most."""


class PullBatches:
    """Reads the children of many pull requests with few queries, although each of them asks for its own.

    A query for one pull request also asks for the next ones that were announced, and for all kinds of children, as long
    as few answers are waiting for somebody to ask for them.
    """

    def __init__(self, graphql: Callable[[], GraphQlClient]) -> None:
        self._graphql = graphql
        self._announced: dict[str, dict[str, None]] = {}
        self._asked: dict[tuple[str, str], asyncio.Task[Mapping[str, Pages | None]]] = {}
        self._left: dict[tuple[str, str], Page[ChildRecord] | None] = {}

    def announce(self, kind: str, node_ids: Iterable[str]) -> None:
        """Remember whose children of a kind will be asked for next, instead of those announced before."""
        self._announced[kind] = dict.fromkeys(node_ids)

    async def page(self, kind: str, node_id: str) -> Page[ChildRecord]:
        """Return one kind of children of one pull request; raises RemoteNotFound if it is not there."""
        key = (kind, node_id)
        if key in self._left:
            page = self._left.pop(key)
        else:
            if key not in self._asked:
                self._ask(kind, node_id)
            # Shielded, because others wait for the same answer.
            answer = (await asyncio.shield(self._asked.pop(key)))[node_id]
            page = None if answer is None else answer[kind]
        if page is None:
            raise RemoteNotFound("the pull request does not exist for this token", status=404, reason="not_found")
        return page

    def _ask(self, kind: str, node_id: str) -> None:
        coming = self._announced.setdefault(kind, {})
        others = (
            other
            for other in coming
            if other != node_id and (kind, other) not in self._asked and (kind, other) not in self._left
        )
        batch = [node_id, *islice(others, AT_ONCE.outer - 1)]
        whole = len(self._left) < LEFT_OVER
        task = asyncio.ensure_future(self._read(kind, batch, whole=whole))
        for each in batch:
            coming.pop(each, None)
            self._asked[kind, each] = task

    async def _read(self, kind: str, batch: Sequence[str], *, whole: bool) -> Mapping[str, Pages | None]:
        found = await read_children(self._graphql(), batch, tuple(READERS) if whole else (kind,))
        for node_id, pages in found.items():
            for other in READERS if whole else ():
                if other != kind:
                    self._left[other, node_id] = None if pages is None else pages[other]
        return found


class BatchedList:
    """One kind of children of one pull request, read together with those of others."""

    def __init__(self, batches: PullBatches, kind: str, node_id: str | None) -> None:
        self._batches = batches
        self._kind = kind
        self._node_id = node_id

    async def fetch(self, _request: ListRequest) -> Page[ChildRecord]:
        if self._node_id is None:
            raise RemotePermanent("the server sent no global id for this pull request", reason="no_node_id")
        return await self._batches.page(self._kind, self._node_id)


class BatchedReviews(BatchedList):
    """The reviews of one pull request; without access to GraphQL they are read by REST."""

    def __init__(self, batches: PullBatches, node_id: str | None, by_rest: PagesOf) -> None:
        super().__init__(batches, "reviews", node_id)
        self._by_rest = by_rest

    async def fetch(self, request: ListRequest) -> Page[ChildRecord]:
        if request.token is not None:
            return await self._by_rest.fetch(request)
        try:
            return await super().fetch(request)
        except AccessRefused:
            return await self._by_rest.fetch(request)


_thread = msgspec.json.Decoder(_Thread)
_closing = msgspec.json.Decoder(_ClosingIssue)
_review = msgspec.json.Decoder(_Review)


def read_review_thread(payload: bytes) -> Item[ReviewThreadRecord]:
    """Parse one review thread."""
    parsed = _thread.decode(payload)
    root = next(iter(parsed.comments.nodes), _NO_ROOT)
    if root is None:
        raise PartialAnswer("the first comment of a review thread is null")
    record = ReviewThreadRecord(
        remote_id=parsed.id,
        is_resolved=parsed.is_resolved,
        is_outdated=parsed.is_outdated,
        resolved_by=actor_login(parsed.resolved_by),
        path=parsed.path,
        line=parsed.line,
        subject_type=parsed.subject_type.lower(),
        root_comment_id=_whole(root.full_database_id),
    )
    return Item(Version(record.remote_id, 0, digest(msgspec.json.encode(record))), 0, payload, record)


def read_closing_issue(payload: bytes) -> Item[ClosedIssueRecord]:
    """Parse one issue that a pull request closes."""
    parsed = _closing.decode(payload)
    home = parsed.repository or _NOWHERE
    remote_id = _whole(parsed.full_database_id)
    record = ClosedIssueRecord(
        issue_key=parsed.id if remote_id is None else str(remote_id),
        issue_remote_id=remote_id,
        issue_iid=parsed.number,
        issue_project_remote_id=home.database_id,
        reference=None if home.name_with_owner is None else f"{home.name_with_owner}#{parsed.number}",
        title=parsed.title,
        web_url=parsed.url,
    )
    return Item(Version(record.issue_key, 0, digest(msgspec.json.encode(record))), 0, payload, record)


def read_review(payload: bytes) -> Item[CommentRecord] | None:
    """Parse one review into the record that REST gives; None for one not submitted yet."""
    parsed = _review.decode(payload)
    if parsed.submitted_at is None:
        return None
    submitted_at, login = instant("submittedAt", parsed.submitted_at), actor_login(parsed.author)
    remote_id = _whole(parsed.full_database_id) or 0
    record = CommentRecord(
        remote_id=remote_id,
        kind=REVIEW_SUMMARY,
        number=parsed.pull_request.number,
        author=None if login is not None and login.casefold() == "ghost" else login,
        is_bot=login is not None and login.endswith("[bot]"),
        body=parsed.body,
        commit_sha=None if parsed.commit is None else parsed.commit.oid,
        review_id=remote_id,
        review_state=parsed.state,
        url=parsed.url,
        created_at=submitted_at,
        updated_at=submitted_at,
        association=parsed.author_association,
    )
    version = Version(comment_key(REVIEW_SUMMARY, remote_id), submitted_at, digest(msgspec.json.encode(record)))
    return Item(version, submitted_at, payload, record)


READERS: Mapping[str, tuple[str, Callable[[bytes], Item[ChildRecord] | None]]] = MappingProxyType(
    {
        "reviews": (REVIEWS, read_review),
        "threads": (REVIEW_THREADS, read_review_thread),
        "closes_issues": (CLOSING_ISSUES, read_closing_issue),
    }
)
"""For each kind of children the query for it alone, and how an entry is parsed."""

_NO_ROOT = _Root()
_NOWHERE = _IssueRepository()


def _whole(text: int | str | None) -> int | None:
    """Return a BigInt, which is written as a text."""
    if text is None or isinstance(text, int):
        return text
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise ValueError(f"fullDatabaseId: not a number: {text[:40]!r}")
    return int(text)


async def read_children(
    graphql: GraphQlClient, node_ids: Sequence[str], kinds: Sequence[str]
) -> dict[str, Pages | None]:
    """Return these kinds of children of pull requests by their global ids; None for one that is not there.

    Raises AccessRefused if the token may not read them.
    """
    document = READERS[kinds[0]][0] if len(kinds) == 1 else EVERYTHING
    route = kinds[0].replace("_", "-") if len(kinds) == 1 else "pull-requests"
    found: dict[str, _Lists | None] = {}
    waiting = list(dict.fromkeys(node_ids))
    while waiting:
        # The batch may become smaller while it is asked for, so the answer says which ids it covers.
        size = PageSize(AT_ONCE.outer, _MANY) if tuple(kinds) == ("reviews",) else AT_ONCE
        batch = await _ask(graphql, waiting, None, document, kinds, route, size)
        found |= batch
        waiting = waiting[len(batch) :]
    return {
        node_id: None if lists is None else await _completed(graphql, node_id, lists)
        for node_id, lists in found.items()
    }


async def _completed(graphql: GraphQlClient, node_id: str, lists: _Lists) -> Pages | None:
    """Read the lists of one pull request to their end; None if it is gone since."""
    pages: dict[str, Page[ChildRecord]] = {}
    for kind, found in lists.items():
        seen: set[str] = set()
        while found.after is not None:
            if found.after in seen:
                raise RemotePermanent("the pages of a query repeat", reason="graphql")
            seen.add(found.after)
            route = f"{kind.replace('_', '-')}/more"
            more = await _ask(graphql, [node_id], found.after, READERS[kind][0], (kind,), route, _ALONE)
            rest = more[node_id]
            if rest is None:
                return None
            found.items += rest[kind].items
            found.rejected += rest[kind].rejected
            found.after, found.server_at = rest[kind].after, rest[kind].server_at
        pages[kind] = Page(items=found.items, rejected=found.rejected, server_at=found.server_at)
    return pages


async def _ask(
    graphql: GraphQlClient,
    node_ids: Sequence[str],
    after: str | None,
    document: str,
    kinds: Sequence[str],
    route: str,
    size: PageSize,
) -> dict[str, _Lists | None]:
    asked: list[str] = []

    def variables(fitting: PageSize) -> dict[str, object]:
        asked[:] = node_ids[: fitting.outer]
        return {"ids": list(asked), "first": fitting.inner, "after": after}

    def read(answer: GraphQlData) -> dict[str, _Lists | None]:
        nodes = decode(answer, _Nodes).nodes
        if len(nodes) != len(asked):
            raise PartialAnswer("another number of objects than asked for")
        return {
            node_id: _read_pull(bytes(raw), answer, place, kinds)
            for place, (node_id, raw) in enumerate(zip(asked, nodes, strict=True))
        }

    # A closing issue may be in a repository that the token cannot see; nothing else is hidden by itself.
    skips_hidden = "closes_issues" in kinds
    return await graphql.ask(document, variables, read, route=route, size=size, skips_hidden=skips_hidden)


def _read_pull(payload: bytes, answer: GraphQlData, place: int, kinds: Sequence[str]) -> _Lists | None:
    if payload == b"null":
        if ("nodes", place) in answer.hidden:
            return None
        raise PartialAnswer("a pull request is null")
    try:
        pull = msgspec.json.decode(payload, type=_Pull)
    except msgspec.DecodeError as error:
        raise RemotePermanent(f"unexpected answer to a query: {error}", reason="bad_shape") from None
    return {kind: _read_list(pull, kind, answer, place) for kind in kinds}


def _read_list(pull: _Pull, kind: str, answer: GraphQlData, place: int) -> _Found:
    connection: Connection | None = getattr(pull, kind)
    if connection is None:
        raise PartialAnswer("a list of a pull request is null")
    path = ("nodes", place, kind, "nodes")
    # Only an issue may be hidden by itself.
    hidden = answer.hidden if kind == "closes_issues" else frozenset[Path]()
    found = _Found([], [], connection.page_info.following, answer.server_at)
    for raw in present(connection.nodes, hidden, path):
        try:
            item = READERS[kind][1](raw)
            if item is not None and b"\\u0000" in raw:
                refuse_nul(item.record)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            found.rejected.append(reject(raw, str(error), None))
            continue
        if item is not None:
            found.items.append(item)
    return found
