"""The lists of a GitHub repository, as the engine reads them.

Responsible for how a list is requested (order, filter, page size), how its next page is found, and which responses may
be validated by their ETag: of an ascending list only a complete one-page response, because the ETag of a full page does
not cover the page after it; of the newest-first list of pull requests page 1, because every change moves to its top.
The token inside a window is the server's next link, also in its `/repositories/<number>/` form.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from msgspec import Raw

from tidelore.core.clock import format_instant
from tidelore.core.errors import RemoteNotFound, RemoteTransient
from tidelore.core.model import ISSUE_COMMENT, REVIEW_COMMENT, CommentRecord
from tidelore.engine.cursor import Validator
from tidelore.engine.ports import ListRequest, Page
from tidelore.http.response import Response
from tidelore.sources.github.client import GitHubClient, Params, Repo, repo_path
from tidelore.sources.github.payloads import Comment, Review, ReviewComment
from tidelore.sources.github.transform import (
    transform_comment,
    transform_review,
    transform_review_comment,
)
from tidelore.sources.items import DatedRecord, ItemReader, next_address

_LOG = logging.getLogger(__name__)

R = TypeVar("R", bound=DatedRecord)

COMMENTS = ItemReader(Comment, transform_comment, locator="id", by_record=True)
_PLACE = ("line", "start_line", "commit_sha")
"""A push moves a review comment in the diff without touching it: that is not a new version of it."""
REVIEW_COMMENTS = ItemReader(ReviewComment, transform_review_comment, locator="id", by_record=True, unversioned=_PLACE)
REVIEWS = ItemReader(Review, transform_review, locator=None, by_record=True)

_SIZES = (100, 50, 25, 10)
"""Smaller page sizes to use if the server cannot build a page in time."""
_OVERBURDENED = frozenset({502, 504})


class PagedList(Generic[R]):
    """One list. `newest_first`: every change of the list appears on page 1."""

    def __init__(
        self,
        client: GitHubClient,
        address: str,
        reader: ItemReader[Any, R],
        route: str,
        *,
        per_page: int,
        order: Params | None = None,
        takes_since: bool = False,
        newest_first: bool = False,
        at: Callable[[R], int] | None = None,
    ) -> None:
        self._client = client
        self._address = address
        self._reader: ItemReader[Any, R] = reader
        self._route = route
        self._per_page = per_page
        self._order = dict(order or {})
        self._takes_since = takes_since
        self._newest_first = newest_first
        self._at: Callable[[R], int] = at or _updated_at

    async def fetch(self, request: ListRequest) -> Page[R]:
        if request.token is not None:
            raws, response, asked = await self._continued(request.token)
        else:
            raws, response, asked = await self._first(request)
        if raws is None:
            return Page(server_at=response.server_at, not_modified=True)
        found = self._reader.read(raws, self._at)
        is_first = request.token is None
        whole = is_first and (self._newest_first or len(raws) < self._per_page)
        return Page(
            items=found.items,
            rejected=found.rejected,
            next_token=self._next(response, len(raws)),
            server_at=response.server_at,
            # Stored under the requested URL: a renamed repository responds from another one.
            validator=Validator(asked, response.etag) if whole and response.etag else None,
            anchored=self._takes_since,
        )

    def _next(self, response: Response, count: int) -> str | None:
        """Return the token of the next page; None at the end."""
        return next_address(response, count, self._per_page, self._route)

    async def _first(self, request: ListRequest) -> tuple[list[Raw] | None, Response, str]:
        while True:
            params: dict[str, str | int] = {**self._order, "per_page": self._per_page}
            if request.since and self._takes_since:
                params["since"] = _second(request.since)
            address = self._client.address(self._address, params)
            validator = request.validator
            etag = validator.etag if validator is not None and validator.url == address else None
            try:
                raws, response = await self._client.list_page(address, None, etag=etag, route=self._route)
            except RemoteTransient as error:
                self._ask_for_less(error)
                continue
            return raws, response, address

    async def _continued(self, token: str) -> tuple[list[Raw] | None, Response, str]:
        while True:
            try:
                raws, response = await self._client.list_page(token, None, etag=None, route=self._route)
            except RemoteTransient as error:
                self._ask_for_less(error)
                token = resized(token, self._per_page)
                continue
            return raws, response, token

    def _ask_for_less(self, error: RemoteTransient) -> None:
        """Reduce the page size of this list, or raise the error if that cannot help."""
        smaller = next((size for size in _SIZES if size < self._per_page), None)
        if error.status not in _OVERBURDENED or smaller is None:
            raise error
        _LOG.info("%s: the server failed with %d items a page; retrying with %d", self._route, self._per_page, smaller)
        self._per_page = smaller


class CommentList(PagedList[CommentRecord]):
    """A list of comments of one kind, each of which can also be requested alone."""

    def __init__(self, client: GitHubClient, repo: Repo, kind: str, address: str, **options: Any) -> None:
        reader: ItemReader[Any, CommentRecord] = COMMENTS if kind == ISSUE_COMMENT else REVIEW_COMMENTS
        super().__init__(client, address, reader, **options, takes_since=True)
        self._repo = repo
        self._single = f"{repo_path(repo)}/{_resource(kind)}/comments"

    async def fetch_one(self, locator: str) -> Page[CommentRecord]:
        """Request one comment. It is gone if it is not found and the repository is."""
        try:
            raw, response = await self._client.raw(f"{self._single}/{locator}", etag=None, route=f"{self._route}/one")
        except RemoteNotFound:
            await self._client.repository(self._repo)
            return Page()
        found = self._reader.read([] if raw is None else [raw], lambda record: record.updated_at)
        return Page(items=found.items, rejected=found.rejected, server_at=response.server_at)


def comment_feed(client: GitHubClient, repo: Repo, kind: str, per_page: int) -> CommentList:
    """Return the comments of a whole repository, ordered by update time."""
    resource = _resource(kind)
    return CommentList(
        client,
        repo,
        kind,
        f"{repo_path(repo)}/{resource}/comments",
        route=f"{resource}/comments",
        per_page=per_page,
        order={"sort": "updated", "direction": "asc"},
    )


def thread(client: GitHubClient, repo: Repo, kind: str, number: int, per_page: int) -> CommentList:
    """Return the comments of one thread, ordered by id."""
    resource = _resource(kind)
    return CommentList(
        client,
        repo,
        kind,
        f"{repo_path(repo)}/{resource}/{number}/comments",
        route=f"{resource}/thread/comments",
        per_page=per_page,
    )


def reviews(client: GitHubClient, repo: Repo, number: int, per_page: int) -> PagedList[CommentRecord]:
    """Return the reviews of one pull request, ordered by id."""
    address = f"{repo_path(repo)}/pulls/{number}/reviews"
    return PagedList(client, address, REVIEWS, "pulls/reviews", per_page=per_page)


def resized(address: str, per_page: int) -> str:
    """Return the URL of the smaller page that contains the first item of a page; a few items may be repeated."""
    parts = urlsplit(address)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if "after" in query:
        # A cursor does not depend on the page size, and the page number beside it is not used.
        query |= {"per_page": str(per_page)}
        return urlunsplit(parts._replace(query=urlencode(query)))
    page, size = (int(text) if text.isdecimal() else 0 for text in (query.get("page", ""), query.get("per_page", "")))
    if page and size:
        query |= {"per_page": str(per_page), "page": str((page - 1) * size // per_page + 1)}
    return urlunsplit(parts._replace(query=urlencode(query)))


def _updated_at(record: DatedRecord) -> int:
    return record.updated_at


def _resource(kind: str) -> str:
    return {ISSUE_COMMENT: "issues", REVIEW_COMMENT: "pulls"}[kind]


def _second(instant_ms: int) -> str:
    """Return an instant in whole seconds, as GitHub expects; rounded down, so that nothing of the second is missed."""
    return f"{format_instant(instant_ms)[:19]}Z"
