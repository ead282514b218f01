"""Reads over GraphQL what REST does not show of pull requests: the state of review threads, and closing issues.

Many pull requests are read with one query, by their global ids. Each of them gets a `Page` of its own, or None if it
does not exist for this token. A pull request with more than one page is read to its end before anything is returned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from tidelore.core.content import digest
from tidelore.core.errors import RemoteNotFound, RemotePermanent
from tidelore.core.model import ClosedIssueRecord, Item, Rejected, ReviewThreadRecord, Version
from tidelore.engine.ports import ListRequest, Page
from tidelore.sources.github.graphql import (
    Actor,
    Connection,
    GraphQlClient,
    GraphQlData,
    PageSize,
    PartialAnswer,
    actor_login,
    decode,
    present,
)
from tidelore.sources.github.payloads import Number
from tidelore.sources.items import refuse_nul, reject

C = TypeVar("C", bound=Struct)

REVIEW_THREADS = """query($ids: [ID!]!, $first: Int!, $after: String) {
  rateLimit { cost remaining resetAt }
  nodes(ids: $ids) { id ... on PullRequest { children: reviewThreads(first: $first, after: $after) {
    pageInfo { hasNextPage endCursor }
    nodes { id isResolved isOutdated path line subjectType resolvedBy { __typename login }
      comments(first: 1) { nodes { fullDatabaseId } } }
  } } }
}"""
CLOSING_ISSUES = """query($ids: [ID!]!, $first: Int!, $after: String) {
  rateLimit { cost remaining resetAt }
  nodes(ids: $ids) { id ... on PullRequest { children: closingIssuesReferences(first: $first, after: $after) {
    pageInfo { hasNextPage endCursor }
    nodes { id fullDatabaseId number title url repository { databaseId nameWithOwner } }
  } } }
}"""
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


class _Pull(Struct, frozen=True):
    id: str
    children: Connection | None = None


class _Nodes(Struct, frozen=True):
    nodes: tuple[Raw, ...]


class _Found(Struct, Generic[C]):
    """The children of one pull request, as far as they have been read."""

    items: list[Item[C]]
    rejected: list[Rejected]
    after: str | None
    server_at: int | None


class BatchedLists(Generic[C]):
    """Reads the children of many pull requests with few queries, although each of them asks for its own.

    A query for one pull request also asks for the next ones that were announced.
    """

    def __init__(self, read: Callable[[Sequence[str]], Awaitable[Mapping[str, Page[C] | None]]]) -> None:
        self._read = read
        self._announced: dict[str, None] = {}
        self._answers: dict[str, asyncio.Task[Mapping[str, Page[C] | None]]] = {}

    def announce(self, node_ids: Iterable[str]) -> None:
        """Remember which pull requests will be asked for next, instead of those announced before."""
        self._announced = dict.fromkeys(node_ids)

    async def page(self, node_id: str) -> Page[C]:
        """Return the children of one pull request; raises RemoteNotFound if it is not there."""
        if node_id not in self._answers:
            others = (other for other in self._announced if other != node_id and other not in self._answers)
            batch = [node_id, *islice(others, AT_ONCE.outer - 1)]
            answer = asyncio.ensure_future(self._read(batch))
            self._answers |= dict.fromkeys(batch, answer)
            for each in batch:
                self._announced.pop(each, None)
        # Shielded, because others wait for the same answer.
        pages = await asyncio.shield(self._answers.pop(node_id))
        page = pages[node_id]
        if page is None:
            raise RemoteNotFound("the pull request does not exist for this token", status=404, reason="not_found")
        return page


class BatchedList(Generic[C]):
    """The children of one pull request, read together with those of others."""

    def __init__(self, lists: BatchedLists[C], node_id: str | None) -> None:
        self._lists = lists
        self._node_id = node_id

    async def fetch(self, _request: ListRequest) -> Page[C]:
        if self._node_id is None:
            raise RemotePermanent("the server sent no global id for this pull request", reason="no_node_id")
        return await self._lists.page(self._node_id)


async def review_threads(
    graphql: GraphQlClient, node_ids: Sequence[str]
) -> Mapping[str, Page[ReviewThreadRecord] | None]:
    """Return the review threads of pull requests by their global ids; None for one that is not there.

    Raises AccessRefused if the token may not read them: then it is unknown which threads are resolved.
    """
    return await _read_all(graphql, node_ids, REVIEW_THREADS, read_review_thread, "review-threads")


async def closing_issues(
    graphql: GraphQlClient, node_ids: Sequence[str]
) -> Mapping[str, Page[ClosedIssueRecord] | None]:
    """Return the issues that pull requests close by their global ids; None for a pull request that is not there."""
    return await _read_all(graphql, node_ids, CLOSING_ISSUES, read_closing_issue, "closing-issues")


_thread = msgspec.json.Decoder(_Thread)
_closing = msgspec.json.Decoder(_ClosingIssue)


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


_NO_ROOT = _Root()
_NOWHERE = _IssueRepository()


def _whole(text: int | str | None) -> int | None:
    """Return a BigInt, which is written as a text."""
    if text is None or isinstance(text, int):
        return text
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise ValueError(f"fullDatabaseId: not a number: {text[:40]!r}")
    return int(text)


async def _read_all(
    graphql: GraphQlClient,
    node_ids: Sequence[str],
    document: str,
    understand: Callable[[bytes], Item[C]],
    route: str,
) -> dict[str, Page[C] | None]:
    found: dict[str, _Found[C] | None] = {}
    waiting = list(dict.fromkeys(node_ids))
    while waiting:
        # The batch may become smaller while it is asked for, so the answer says which ids it covers.
        batch = await _ask(graphql, waiting, None, document, understand, route, AT_ONCE)
        found |= batch
        waiting = waiting[len(batch) :]
    for node_id, page in found.items():
        seen: set[str] = set()
        while page is not None and page.after is not None:
            if page.after in seen:
                raise RemotePermanent("the pages of a query repeat", reason="graphql")
            seen.add(page.after)
            more = await _ask(graphql, [node_id], page.after, document, understand, f"{route}/more", _ALONE)
            page = found[node_id] = _joined(page, more[node_id])
    return {
        node_id: None if page is None else Page(items=page.items, rejected=page.rejected, server_at=page.server_at)
        for node_id, page in found.items()
    }


def _joined(page: _Found[C], more: _Found[C] | None) -> _Found[C] | None:
    """Return two pages of a pull request as one; None if it is gone since."""
    if more is None:
        return None
    return _Found(page.items + more.items, page.rejected + more.rejected, more.after, more.server_at)


async def _ask(
    graphql: GraphQlClient,
    node_ids: Sequence[str],
    after: str | None,
    document: str,
    understand: Callable[[bytes], Item[C]],
    route: str,
    size: PageSize,
) -> dict[str, _Found[C] | None]:
    asked: list[str] = []

    def variables(fitting: PageSize) -> dict[str, object]:
        asked[:] = node_ids[: fitting.outer]
        return {"ids": list(asked), "first": fitting.inner, "after": after}

    def read(answer: GraphQlData) -> dict[str, _Found[C] | None]:
        nodes = decode(answer, _Nodes).nodes
        if len(nodes) != len(asked):
            raise PartialAnswer("another number of objects than asked for")
        return {
            node_id: _read_pull(bytes(raw), answer, place, understand)
            for place, (node_id, raw) in enumerate(zip(asked, nodes, strict=True))
        }

    # A closing issue may be in a repository that the token cannot see; a review thread is never hidden by itself.
    skips_hidden = document is CLOSING_ISSUES
    return await graphql.ask(document, variables, read, route=route, size=size, skips_hidden=skips_hidden)


def _read_pull(
    payload: bytes, answer: GraphQlData, place: int, understand: Callable[[bytes], Item[C]]
) -> _Found[C] | None:
    if payload == b"null":
        if ("nodes", place) in answer.hidden:
            return None
        raise PartialAnswer("a pull request is null")
    try:
        pull = msgspec.json.decode(payload, type=_Pull)
    except msgspec.DecodeError as error:
        raise RemotePermanent(f"unexpected answer to a query: {error}", reason="bad_shape") from None
    if pull.children is None:
        raise PartialAnswer("a list of a pull request is null")
    items: list[Item[C]] = []
    rejected: list[Rejected] = []
    for raw in present(pull.children.nodes, answer.hidden, ("nodes", place, "children", "nodes")):
        try:
            item = understand(raw)
            if b"\\u0000" in raw:
                refuse_nul(item.record)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            rejected.append(reject(raw, str(error), None))
            continue
        items.append(item)
    return _Found(items, rejected, pull.children.page_info.following, answer.server_at)
