"""Reads the children of many issues or pull requests with few queries, although each of them asks for its own.

A query for one of them also asks for the next ones that were announced, and for the other kinds of children that are
usually asked for afterwards. Comments are only compared with the stored ones this way (`glance`): REST reads those that
differ, so a deletion is never taken from a query alone, and all stored payloads have one shape.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from tidelore.core.errors import (
    AccessRefused,
    CredentialsRejected,
    QueryLimited,
    RateLimited,
    RemoteError,
    RemoteNotFound,
    RemotePermanent,
)
from tidelore.core.model import ISSUE_COMMENT, ChildRecord, comment_key
from tidelore.engine.ports import ListRequest, Page
from tidelore.engine.ports import Pages as PagesOf
from tidelore.sources.github.graphql import GraphQlClient
from tidelore.sources.github.threads import AT_ONCE, READERS, TALK, Pages, read_children

_LOG = logging.getLogger(__name__)

LEFT_OVER = 1500
"""How many pages of each other kind to keep for later, at most."""
FEWEST = 2
"""The comments of a parent alone are read by REST at once: it would be asked in any case if they differ."""
MOST_FAILURES = 3
"""After this many queries in a row that failed, comments are verified by REST."""
_COMMENTS = "comments"
_PULLS = "merge_requests"
_Answers = Mapping[str, Pages | None]


class PullBatches:
    """Answers the questions for single parents from queries for many."""

    def __init__(self, graphql: Callable[[], GraphQlClient]) -> None:
        self._graphql = graphql
        self._announced: dict[tuple[str, str], dict[str, None]] = {}
        self._asked: dict[tuple[str, str], asyncio.Task[_Answers]] = {}
        self._left: dict[tuple[str, str], Page[ChildRecord] | None] = {}
        self._kept: Counter[str] = Counter()
        self._refusal: RemoteError | None = None
        self._failures = 0

    @property
    def parents_per_request(self) -> int:
        """How many parents a query reads when all goes well; 1 if queries are refused, or their points are short."""
        try:
            self._graphql().refuse()
        except RemoteError:
            return 1
        return 1 if self._refusal is not None or self._graphql().is_short else AT_ONCE.outer

    def announce(self, kind: str, resource: str, node_ids: Iterable[str]) -> None:
        """Remember whose children of a kind will be asked for next, instead of those announced before."""
        coming = self._announced[kind, resource] = dict.fromkeys(node_ids)
        for node_id in coming if kind == _COMMENTS else ():
            # Read before, and not asked for: by now they may have changed.
            for each in TALK:
                self._asked.pop((each, node_id), None)
                self._take((each, node_id))

    async def page(self, kind: str, node_id: str) -> Page[ChildRecord]:
        """Return one kind of children of one pull request; raises RemoteNotFound if it is not there."""
        page = await self._answer(kind, node_id, self._announced.setdefault((kind, _PULLS), {}), self._others(kind))
        if page is None:
            raise RemoteNotFound("the pull request does not exist for this token", status=404, reason="not_found")
        return page

    async def glance(self, kind: str, resource: str, node_id: str) -> Page[ChildRecord] | None:
        """Return the comments of one kind of an issue or pull request; None if they must be read by REST."""
        key, coming = (kind, node_id), self._announced.get((_COMMENTS, resource), {})
        if key not in self._left and key not in self._asked:
            alone = node_id not in coming or len(coming) < FEWEST
            if alone or self._refusal is not None or self._graphql().is_short:
                coming.pop(node_id, None)
                return None
        kinds = (ISSUE_COMMENT,) if resource != _PULLS else (*TALK, *self._others(""))
        page = await self._answer(kind, node_id, coming, kinds)
        return None if page is None or page.rejected else page

    async def _answer(
        self, kind: str, node_id: str, coming: dict[str, None], kinds: Sequence[str]
    ) -> Page[ChildRecord] | None:
        key = (kind, node_id)
        if key in self._left:
            return self._take(key)
        if key not in self._asked:
            self._ask(kind, node_id, coming, kinds)
        # Shielded, because others wait for the same answer.
        answer = (await asyncio.shield(self._asked.pop(key)))[node_id]
        return None if answer is None else answer[kind]

    def _others(self, kind: str) -> tuple[str, ...]:
        """Return a kind, and those that are asked for with it: not more of one kind than its pages are asked for."""
        return tuple(other for other in READERS if other == kind or self._kept[other] < LEFT_OVER)

    def _ask(self, kind: str, node_id: str, coming: dict[str, None], kinds: Sequence[str]) -> None:
        others = (
            other
            for other in coming
            if other != node_id and (kind, other) not in self._asked and (kind, other) not in self._left
        )
        batch = [node_id, *islice(others, AT_ONCE.outer - 1)]
        task = asyncio.ensure_future(self._read(kind, batch, kinds))
        for each in batch:
            coming.pop(each, None)
            self._asked[kind, each] = task

    async def _read(self, kind: str, batch: Sequence[str], kinds: Sequence[str]) -> _Answers:
        if kind in TALK:
            try:
                found = await read_children(self._graphql(), batch, kinds, leaves_out=True)
                self._failures = 0
            except (CredentialsRejected, RateLimited):
                raise
            except RemoteError as error:
                self._note_failure(error)
                return dict.fromkeys(batch)
        else:
            found = await read_children(self._graphql(), batch, kinds)
        for node_id, pages in found.items():
            for other in kinds:
                page = None if pages is None else pages[other]
                if other == kind or (page is None and pages is not None and other not in TALK):
                    # A list that is not complete here is asked for by itself.
                    continue
                self._kept[other] += (other, node_id) not in self._left
                self._left[other, node_id] = page
        return found

    def _note_failure(self, error: RemoteError) -> None:
        """Compare comments by REST from now on, if queries are refused or fail again and again."""
        self._failures += 1
        if isinstance(error, AccessRefused | QueryLimited) or self._failures >= MOST_FAILURES:
            _LOG.info("comments are verified by REST: %s", error.message)
            self._refusal = error

    def _take(self, key: tuple[str, str]) -> Page[ChildRecord] | None:
        if key not in self._left:
            return None
        self._kept[key[0]] -= 1
        return self._left.pop(key)


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

    def __init__(self, batches: PullBatches, node_id: str | None, by_rest: PagesOf[ChildRecord]) -> None:
        super().__init__(batches, "reviews", node_id)
        self._by_rest = by_rest

    async def fetch(self, request: ListRequest) -> Page[ChildRecord]:
        if request.token is not None:
            return await self._by_rest.fetch(request)
        try:
            return await super().fetch(request)
        except AccessRefused:
            return await self._by_rest.fetch(request)


class GlancedComments:
    """The comments of one kind of an issue or pull request: read by REST, compared by GraphQL with those of others."""

    def __init__(
        self, batches: PullBatches, kind: str, resource: str, node_id: str | None, by_rest: PagesOf[ChildRecord]
    ) -> None:
        self._batches = batches
        self._kind = kind
        self._resource = resource
        self._node_id = node_id
        self._by_rest = by_rest

    async def fetch(self, request: ListRequest) -> Page[ChildRecord]:
        return await self._by_rest.fetch(request)

    async def glance(self) -> Page[ChildRecord] | None:
        """Return the whole list as a shared query shows it; None if only `fetch` can tell."""
        if self._node_id is None:
            return None
        return await self._batches.glance(self._kind, self._resource, self._node_id)

    def covers(self, key: str) -> bool:
        """Return whether a comment with this key belongs to the list."""
        return key.startswith(_PREFIXES[self._kind])


_PREFIXES = {kind: comment_key(kind, 0)[:-1] for kind in TALK}
