"""The lists of a GitLab project, as the engine reads them.

Owns how a list is asked for (order, filter, page size) and how its next page is recognised. The token
inside a window is the server's own next address; one that leads to another origin is never asked for:
the header chain goes on as if it were not there, so neither the token nor the data is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from msgspec import Raw

from tidelore.core.clock import format_instant
from tidelore.core.errors import RemotePermanent, RemoteTransient
from tidelore.core.model import IssueRecord, MergeRequestRecord
from tidelore.engine.cursor import Validator
from tidelore.engine.ports import ListRequest, Page
from tidelore.sources.gitlab.client import API, ISSUES, MERGE_REQUESTS, GitLabClient
from tidelore.sources.http import Reply
from tidelore.sources.pagination import next_page
from tidelore.sources.reading import Reader, next_address, warn_foreign

_LOG = logging.getLogger(__name__)

R = TypeVar("R", IssueRecord, MergeRequestRecord)


class ProjectList(Generic[R]):
    """One list of one project. Ordered by update time for the walk, by creation for the census."""

    def __init__(
        self,
        client: GitLabClient,
        project_id: int,
        resource: str,
        reader: Reader[Any, R],
        *,
        per_page: int,
        by_creation: bool = False,
        keyset: bool = False,
    ) -> None:
        self._client = client
        self._address = f"{API}/projects/{project_id}/{resource}"
        self._resource = resource
        self._reader: Reader[Any, R] = reader
        self._per_page = per_page
        self._order = "created_at" if by_creation else "updated_at"
        self._filter = "created_after" if by_creation else "updated_after"
        self._at: Callable[[R], int] = (lambda r: r.created_at) if by_creation else (lambda r: r.updated_at)
        self._keyset = keyset

    async def fetch(self, request: ListRequest) -> Page[R]:
        if request.token is not None:
            raws, reply = await self._client.list_page(request.token, None, etag=None, route=self._resource)
        else:
            raws, reply = await self._first(request)
        if raws is None:
            return Page(server_at=reply.server_at, not_modified=True)
        found = self._reader.read(raws, self._at)
        return Page(
            items=found.items,
            rejected=found.rejected,
            next_token=self._next(reply, len(raws)),
            server_at=reply.server_at,
            validator=self._validator(reply, len(raws)),
        )

    async def fetch_one(self, locator: str) -> Page[R]:
        """Ask for one object: it is gone when the list does not hold it and its own address is not found.

        One answer of 'not found' proves little, a server in trouble gives many. It is read through the list, because
        the single form carries other fields: the same version must have the same bytes wherever it is met.
        """
        route = f"{self._resource}/one"
        params = {"scope": "all", "state": "all", "iids[]": locator}
        raws, reply = await self._client.list_page(self._address, params, etag=None, route=route)
        found = self._reader.read(raws or [], self._at)
        items = [item for item in found.items if str(item.record.iid) == locator]
        rejected = [entry for entry in found.rejected if entry.locator in {locator, None}]
        if not items and not rejected and await self._client.exists(f"{self._address}/{locator}", route=route):
            raise RemoteTransient(f"{self._resource} {locator} exists but the list does not show it")
        return Page(items=items, rejected=rejected, server_at=reply.server_at)

    async def _first(self, request: ListRequest) -> tuple[list[Raw] | None, Reply]:
        params: dict[str, str | int] = {
            "scope": "all",
            "state": "all",
            "order_by": self._order,
            "sort": "asc",
            "per_page": self._per_page,
        }
        if request.since:
            params[self._filter] = format_instant(request.since)
        if self._keyset:
            try:
                return await self._ask({**params, "pagination": "keyset"}, request.validator)
            except RemotePermanent as refused:
                if refused.status != 405:
                    raise
                # Few lists offer keyset pagination; a server that does not says so, once.
                self._keyset = False
                _LOG.info("%s has no keyset pagination; reading it by offset", self._resource)
        return await self._ask(params, request.validator)

    async def _ask(self, params: dict[str, str | int], validator: Validator | None) -> tuple[list[Raw] | None, Reply]:
        same = validator is not None and validator.url == self._client.address(self._address, params)
        etag = validator.etag if validator is not None and same else None
        return await self._client.list_page(self._address, params, etag=etag, route=self._resource)

    def _validator(self, reply: Reply, count: int) -> Validator | None:
        """Return what proves an unchanged answer: never for a full page, whose ETag is blind to the page after it."""
        told = reply.headers.get("x-per-page", "")
        size = min(self._per_page, int(told)) if told.isdecimal() else self._per_page
        return Validator(reply.url, reply.etag) if reply.etag and count < size else None

    def _next(self, reply: Reply, count: int) -> str | None:
        if "pagination=keyset" not in reply.url:
            return next_address(reply, count, self._per_page, self._resource)
        # A keyset list heeds no page number: only its link leads on, and without one it has ended.
        following = next_page(reply.headers, reply.url, 0, self._per_page)
        if following is not None and following.foreign:
            warn_foreign(self._resource)
            self._keyset = False
            return reply.url.replace("pagination=keyset", "page=2")
        return None if following is None else following.url


def issue_list(
    client: GitLabClient, project_id: int, *, per_page: int, by_creation: bool = False, keyset: bool = False
) -> ProjectList[IssueRecord]:
    """Return the issues of a project."""
    return ProjectList(client, project_id, "issues", ISSUES, per_page=per_page, by_creation=by_creation, keyset=keyset)


def merge_request_list(
    client: GitLabClient, project_id: int, *, per_page: int, by_creation: bool = False, keyset: bool = False
) -> ProjectList[MergeRequestRecord]:
    """Return the merge requests of a project."""
    return ProjectList(
        client, project_id, "merge_requests", MERGE_REQUESTS, per_page=per_page, by_creation=by_creation, keyset=keyset
    )
