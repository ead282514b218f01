"""Reads children of many pull requests over GraphQL: review threads, closing issues, reviews, and comments.

Many pull requests are read with one query, by their global ids. Each of them gets a `Page` of its own, or None if it
does not exist for this token. A pull request with more than one page is read to its end before anything is returned;
only comments on the diff, which are lists inside a list, are left to REST then. REST shows neither threads nor closing
issues; a review or a comment read by either way is the same version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType

import msgspec
from msgspec import Raw, Struct

from tidelore.core.content import digest
from tidelore.core.errors import RemotePermanent, RemoteTransient
from tidelore.core.model import (
    ISSUE_COMMENT,
    REVIEW_COMMENT,
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
from tidelore.engine.ports import Page
from tidelore.sources.github.comment_nodes import (
    ISSUE_COMMENT_FIELDS,
    REVIEW_COMMENT_FIELDS,
    Commit,
    Numbered,
    read_issue_comment,
    read_review_comment,
    shown_author,
    whole_number,
)
from tidelore.sources.github.graphql import RATE_LIMIT, Actor, GraphQlClient, actor_login
from tidelore.sources.github.payloads import Number
from tidelore.sources.graphql import Connection, GraphQlData, PageSize, PartialAnswer, Path, decode, present
from tidelore.sources.items import instant, refuse_nul, reject

_ROOT = "comments(first: 1) { nodes { fullDatabaseId } }"
_REMARKS = (
    f"diffSide comments(first: 20) {{ pageInfo {{ hasNextPage endCursor }} nodes {{ {REVIEW_COMMENT_FIELDS} }} }}"
)
"""All comments of a thread. They cost as many points as its first one."""
_THREADS = """threads: reviewThreads(first: $first, after: $after) {
    pageInfo { hasNextPage endCursor }
    nodes { id isResolved isOutdated path line subjectType resolvedBy { __typename login }
      COMMENTS }
  }"""
_CLOSING = """closes_issues: closingIssuesReferences(first: $first, after: $after) {
    pageInfo { hasNextPage endCursor }
    nodes { id fullDatabaseId number title url repository { databaseId nameWithOwner } }
  }"""
_REVIEWS = """reviews(first: $first, after: $after) {
    pageInfo { hasNextPage endCursor }
    nodes { fullDatabaseId state body submittedAt url authorAssociation author { __typename login } commit { oid }
      pullRequest { number } }
  }"""
_CONVERSATION = f"""issue_comment: comments(first: $first, after: $after) {{
    pageInfo {{ hasNextPage endCursor }}
    nodes {{ {ISSUE_COMMENT_FIELDS} }}
  }}"""
_SELECTIONS = {
    "reviews": _REVIEWS,
    "threads": _THREADS.replace("COMMENTS", _ROOT),
    "closes_issues": _CLOSING,
    ISSUE_COMMENT: _CONVERSATION,
    REVIEW_COMMENT: _THREADS.replace("COMMENTS", _REMARKS),
}
_MANY = 50
_LEAVES = ("reviews", ISSUE_COMMENT)
"""Lists that are asked for in pages of `_MANY`. They cost no points for their entries: nothing hangs below those."""
TALK = (ISSUE_COMMENT, REVIEW_COMMENT)
"""The kinds of comments, by which their lists are named."""


@cache
def document_for(kinds: tuple[str, ...]) -> str:
    """Return the query that reads these kinds of children; comments in the conversation are those of issues too."""
    lists = []
    beside = any(kind not in _LEAVES for kind in kinds)
    for kind in kinds:
        if kind == "threads" and REVIEW_COMMENT in kinds:
            continue
        selection = _SELECTIONS[kind]
        lists.append(selection.replace("$first", str(_MANY)) if kind in _LEAVES and beside else selection)
    on_issue = f" ... on Issue {{ number {lists[0]} }}" if kinds == (ISSUE_COMMENT,) else ""
    return (
        f"query($ids: [ID!]!, $first: Int!, $after: String) {{\n  {RATE_LIMIT}\n"
        f"  nodes(ids: $ids) {{ id ... on PullRequest {{ number {' '.join(lists)} }}{on_issue} }}\n}}"
    )


AT_ONCE = PageSize(100, 10)
"""Few pull requests have more than ten threads, and a query costs points for every thread that it might find."""
_ALONE = PageSize(1, 100)
"""The size for the further pages of one pull request."""


class _Roots(Struct, frozen=True):
    nodes: tuple[Numbered | None, ...]


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


class _Remarks(Struct, frozen=True, rename="camel"):
    """A review thread, of which the comments are read."""

    diff_side: str
    comments: Connection | None = None


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
    commit: Commit | None = None


class _Pull(Struct, frozen=True):
    """A pull request, or an issue, of which only the comments are read."""

    id: str
    number: Number | None = None
    threads: Connection | None = None
    closes_issues: Connection | None = None
    reviews: Connection | None = None
    issue_comment: Connection | None = None


class _Nodes(Struct, frozen=True):
    nodes: tuple[Raw, ...]


class _Found(Struct):
    """One list of a pull request, as far as it has been read."""

    items: list[Item[ChildRecord]]
    rejected: list[Rejected]
    after: str | None
    server_at: int | None


_Lists = dict[str, _Found | None]
Pages = Mapping[str, Page[ChildRecord] | None]
"""The children of one pull request by their kind; None for a kind that only REST shows completely."""


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
        root_comment_id=whole_number(root.full_database_id),
    )
    return Item(Version(record.remote_id, 0, digest(msgspec.json.encode(record))), 0, payload, record)


def read_closing_issue(payload: bytes) -> Item[ClosedIssueRecord]:
    """Parse one issue that a pull request closes."""
    parsed = _closing.decode(payload)
    home = parsed.repository or _NOWHERE
    remote_id = whole_number(parsed.full_database_id)
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
    submitted_at, (author, is_bot) = instant("submittedAt", parsed.submitted_at), shown_author(parsed.author)
    remote_id = whole_number(parsed.full_database_id) or 0
    record = CommentRecord(
        remote_id=remote_id,
        kind=REVIEW_SUMMARY,
        number=parsed.pull_request.number,
        author=author,
        is_bot=is_bot,
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


READERS: Mapping[str, Callable[[bytes], Item[ChildRecord] | None]] = MappingProxyType(
    {"reviews": read_review, "threads": read_review_thread, "closes_issues": read_closing_issue}
)
"""How an entry of each kind of children is parsed that GraphQL alone can serve."""

_NO_ROOT = Numbered()
_NOWHERE = _IssueRepository()


async def read_children(
    graphql: GraphQlClient, node_ids: Sequence[str], kinds: Sequence[str], *, leaves_out: bool = False
) -> dict[str, Pages | None]:
    """Return these kinds of children of pull requests by their global ids; None for one that is not there.

    Raises AccessRefused if the token may not read them. With `leaves_out`, a pull request that is not answered
    completely even alone has None for each kind, and the others are read.
    """
    route = _route(kinds)
    found: dict[str, _Lists | None] = {}
    waiting = list(dict.fromkeys(node_ids))
    while waiting:
        # The batch may become smaller while it is asked for, so the answer says which ids it covers.
        size = PageSize(AT_ONCE.outer, _MANY) if len(kinds) == 1 and kinds[0] in _LEAVES else AT_ONCE
        try:
            batch = await _ask(graphql, waiting, None, kinds, route, size)
        except RemoteTransient as error:
            if not leaves_out or error.reason != "graphql_partial":
                raise
            batch = {waiting[0]: dict.fromkeys(kinds)}
        found |= batch
        waiting = waiting[len(batch) :]
    return {
        node_id: None if lists is None else await _completed(graphql, node_id, lists)
        for node_id, lists in found.items()
    }


async def _completed(graphql: GraphQlClient, node_id: str, lists: _Lists) -> Pages | None:
    """Read the lists of one pull request to their end; None if it is gone since."""
    pages: dict[str, Page[ChildRecord] | None] = {}
    for kind, found in lists.items():
        if found is None:
            pages[kind] = None
            continue
        seen: set[str] = set()
        while found.after is not None:
            if found.after in seen:
                raise RemotePermanent("the pages of a query repeat", reason="graphql")
            seen.add(found.after)
            more = await _ask(graphql, [node_id], found.after, (kind,), f"{_route((kind,))}/more", _ALONE)
            rest = (more[node_id] or {}).get(kind)
            if rest is None:
                return None
            found.items += rest.items
            found.rejected += rest.rejected
            # The clock stays that of the first page: what came after that answer may be missing.
            found.after = rest.after
        pages[kind] = Page(items=found.items, rejected=found.rejected, server_at=found.server_at)
    return pages


async def _ask(
    graphql: GraphQlClient,
    node_ids: Sequence[str],
    after: str | None,
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
    document, most = document_for(tuple(kinds)), size if after is None else None
    return await graphql.ask(document, variables, read, route=route, size=size, most=most, skips_hidden=skips_hidden)


def _read_pull(payload: bytes, answer: GraphQlData, place: int, kinds: Sequence[str]) -> _Lists | None:
    if payload == b"null":
        if ("nodes", place) in answer.hidden:
            return None
        raise PartialAnswer("a pull request is null")
    try:
        pull = msgspec.json.decode(payload, type=_Pull)
    except msgspec.DecodeError as error:
        raise RemotePermanent(f"unexpected answer to a query: {error}", reason="bad_shape") from None
    found: _Lists = {}
    for kind in kinds:
        if kind == REVIEW_COMMENT:
            found[kind] = _read_remarks(pull, answer)
        elif kind == ISSUE_COMMENT:
            found[kind] = _read_list(pull.issue_comment, partial(read_issue_comment, number=pull.number or 0), answer)
        else:
            # Only an issue may be hidden by itself.
            hidden = answer.hidden if kind == "closes_issues" else frozenset[Path]()
            connection: Connection | None = getattr(pull, kind)
            found[kind] = _read_list(connection, READERS[kind], answer, hidden, ("nodes", place, kind, "nodes"))
    return found


def _read_list(
    connection: Connection | None,
    reader: Callable[[bytes], Item[ChildRecord] | None],
    answer: GraphQlData,
    hidden: frozenset[Path] = frozenset(),
    path: Path = (),
) -> _Found:
    if connection is None:
        raise PartialAnswer("a list of a pull request is null")
    found = _Found([], [], connection.page_info.following, answer.server_at)
    for raw in present(connection.nodes, hidden, path):
        _read_entry(raw, reader, found)
    return found


def _read_entry(raw: bytes, reader: Callable[[bytes], Item[ChildRecord] | None], found: _Found) -> None:
    try:
        item = reader(raw)
        if item is not None and b"\\u0000" in raw:
            refuse_nul(item.record)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        found.rejected.append(reject(raw, str(error), None))
        return
    if item is not None:
        found.items.append(item)


def _read_remarks(pull: _Pull, answer: GraphQlData) -> _Found | None:
    """Return all comments on the diff of a pull request; None if a list of them continues on another page."""
    if pull.threads is None:
        raise PartialAnswer("a list of a pull request is null")
    found = _Found([], [], None, answer.server_at)
    is_whole = pull.threads.page_info.following is None
    for raw in present(pull.threads.nodes):
        try:
            thread = msgspec.json.decode(raw, type=_Remarks)
        except msgspec.DecodeError as error:
            found.rejected.append(reject(raw, str(error), None))
            continue
        if thread.comments is None:
            raise PartialAnswer("the comments of a review thread are null")
        is_whole &= thread.comments.page_info.following is None
        reader = partial(read_review_comment, number=pull.number or 0, side=thread.diff_side)
        for comment in present(thread.comments.nodes):
            _read_entry(comment, reader, found)
    return found if is_whole else None


def _route(kinds: Sequence[str]) -> str:
    if len(kinds) == 1:
        return kinds[0].replace("_", "-")
    return "conversations" if ISSUE_COMMENT in kinds else "pull-requests"
