"""The lists of GitLab, as the engine reads them: of a project, of an issue or merge request, of a group.

Responsible for how a list is requested (order, filter, page size), which lists make up a kind of children, and how the
next page is found. The token inside a window is the server's next link. A link to another origin is never requested:
the list continues as if it were missing, so no token is leaked and no item is skipped. An item that cannot be parsed
becomes a `Rejected`, and the other items are still read; the engine decides what follows from that. A list that is
switched off raises `FeatureDisabled`, so that hidden items never look deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct

from tidelore.core.clock import format_instant
from tidelore.core.errors import FeatureDisabled, RemoteNotFound, RemotePermanent, RemoteTransient
from tidelore.core.model import (
    ChildRecord,
    DiscussionRecord,
    IssueRecord,
    Item,
    MergeRequestRecord,
    ProjectRecord,
)
from tidelore.engine.cursor import Validator
from tidelore.engine.ports import ListRequest, Page, Pages
from tidelore.http.pagination import next_page
from tidelore.http.response import Response
from tidelore.sources.gitlab.client import API, GitLabClient
from tidelore.sources.gitlab.payloads import Issue, MergeRequest, Project
from tidelore.sources.gitlab.transform import (
    read_closed_issue,
    read_diff,
    read_discussion,
    read_label_event,
    read_milestone_event,
    read_reviewer,
    read_state_event,
    transform_issue,
    transform_merge_request,
    transform_project,
)
from tidelore.sources.items import ItemReader, next_address, refuse_nul, warn_foreign
from tidelore.sources.rest_lists import ChildList, not_visible, read_whole

_LOG = logging.getLogger(__name__)

R = TypeVar("R", IssueRecord, MergeRequestRecord)

_EVERYTHING = {"scope": "all", "state": "all"}


class ProjectList(Generic[R]):
    """One list of one project, ordered by update time for the walk and by creation for the census."""

    def __init__(
        self,
        client: GitLabClient,
        project_id: int,
        resource: str,
        reader: ItemReader[Any, R],
        *,
        per_page: int,
        by_creation: bool = False,
        keyset: bool = False,
    ) -> None:
        self._client = client
        self._project_id = project_id
        self._address = f"{API}/projects/{project_id}/{resource}"
        self._resource = resource
        self._reader: ItemReader[Any, R] = reader
        self._per_page = per_page
        self._order = "created_at" if by_creation else "updated_at"
        self._filter = "created_after" if by_creation else "updated_after"
        self._at: Callable[[R], int] = (lambda r: r.created_at) if by_creation else (lambda r: r.updated_at)
        self._keyset = keyset

    async def fetch(self, request: ListRequest) -> Page[R]:
        if request.token is not None:
            raws, response = await self._page(request.token, None, route=self._resource)
        else:
            raws, response = await self._first(request)
        if raws is None:
            return Page(server_at=response.server_at, not_modified=True)
        found = self._reader.read(raws, self._at)
        return Page(
            items=found.items,
            rejected=found.rejected,
            next_token=self._next(response, len(raws)),
            server_at=response.server_at,
            validator=self._validator(response, len(raws)),
        )

    async def fetch_one(self, locator: str) -> Page[R]:
        """Request one object. It is gone if the list does not contain it and its own URL is not found.

        One 'not found' is not enough, because a failing server may send it for existing objects. Issues that are
        switched off are not found either, and their list is empty: they are hidden, unless the project says that they
        are not, which it does not without a token. The object is read through the list, because its own URL returns
        other fields, and the same version must always have the same bytes.
        """
        route = f"{self._resource}/one"
        params = {**_EVERYTHING, "iids[]": locator}
        raws, response = await self._page(self._address, params, route=route)
        found = self._reader.read(raws or [], self._at)
        items = [item for item in found.items if str(item.record.iid) == locator]
        rejected = [entry for entry in found.rejected if entry.locator in {locator, None}]
        if not items and not rejected:
            if await self._client.exists(f"{self._address}/{locator}", route=route):
                raise RemoteTransient(f"{self._resource} {locator} exists but the list does not show it")
            anything, _ = await self._page(self._address, {**_EVERYTHING, "per_page": 1}, route=self._resource)
            if not anything and await self._is_hidden() is not False:
                raise self._feature_disabled()
        return Page(items=items, rejected=rejected, server_at=response.server_at)

    async def _first(self, request: ListRequest) -> tuple[list[Raw] | None, Response]:
        params: dict[str, str | int] = {
            **_EVERYTHING,
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
                # Few lists support keyset pagination. Remember it, so that it is tried only once.
                self._keyset = False
                _LOG.info("%s has no keyset pagination; reading it by offset", self._resource)
        return await self._ask(params, request.validator)

    async def _ask(
        self, params: dict[str, str | int], validator: Validator | None
    ) -> tuple[list[Raw] | None, Response]:
        same = validator is not None and validator.url == self._client.address(self._address, params)
        etag = validator.etag if validator is not None and same else None
        return await self._page(self._address, params, etag=etag, route=self._resource)

    async def _page(
        self, address: str, params: Mapping[str, str | int] | None, *, etag: str | None = None, route: str
    ) -> tuple[list[Raw] | None, Response]:
        try:
            return await self._client.list_page(address, params, etag=etag, route=route)
        except RemotePermanent as error:
            if error.status == 403 and await self._is_hidden():
                raise self._feature_disabled() from None
            raise

    async def _is_hidden(self) -> bool | None:
        """Return whether the project hides this kind of items from us; None if it does not say so."""
        return (await self._client.features(self._project_id)).hides(self._resource)

    def _feature_disabled(self) -> FeatureDisabled:
        what = self._resource.replace("_", " ")
        return FeatureDisabled(
            f"the {what} of project {self._project_id} are switched off, or hidden from this token",
            reason="feature_disabled",
            fix="see the visibility in the settings of the project; stored items are kept",
        )

    def _validator(self, response: Response, count: int) -> Validator | None:
        """Return the validator of a response; none for a full page, whose ETag does not cover the page after it."""
        told = response.headers.get("x-per-page", "")
        size = min(self._per_page, int(told)) if told.isdecimal() else self._per_page
        return Validator(response.url, response.etag) if response.etag and count < size else None

    def _next(self, response: Response, count: int) -> str | None:
        if "pagination=keyset" not in response.url:
            return next_address(response, count, self._per_page, self._resource)
        # A keyset list ignores page numbers: the next page is found only by its link, and without one the list ends.
        following = next_page(response.headers, response.url, 0, self._per_page)
        if following is not None and following.foreign:
            warn_foreign(self._resource)
            self._keyset = False
            return response.url.replace("pagination=keyset", "page=2")
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


ISSUES = ItemReader(Issue, transform_issue)

MERGE_REQUESTS = ItemReader(MergeRequest, transform_merge_request)


Understand = Callable[[bytes], Item[ChildRecord]]

LISTS: Mapping[str, Mapping[str, Understand]] = MappingProxyType(
    {
        "discussions": {"discussions": read_discussion},
        "resource_events": {
            "resource_state_events": read_state_event,
            "resource_label_events": read_label_event,
            "resource_milestone_events": read_milestone_event,
        },
        "closes_issues": {"closes_issues": read_closed_issue},
        "diffs": {"diffs": read_diff},
        "reviewers": {"reviewers": read_reviewer},
        "positions": {"discussions": read_discussion},
    }
)
"""The lists of each kind of children, by the last part of their URL. Positions are a part of the discussions."""


class FileList(ChildList[ChildRecord], frozen=True):
    """The changed files of a merge request: `diffs`, and `changes` on servers from before GitLab 15.7."""

    async def fetch(self, request: ListRequest) -> Page[ChildRecord]:
        client = cast("GitLabClient", self.client)
        if client.lacks_diffs:
            return await self._changes(client)
        try:
            return await super().fetch(request)
        except RemoteNotFound as missing:
            if request.token is not None:
                raise
            try:
                page = await self._changes(client)
            except RemoteNotFound:
                # Neither endpoint exists: the merge request is gone, or its files are not visible to us.
                raise missing from None
        client.lacks_diffs = True
        return page

    async def _changes(self, client: GitLabClient) -> Page[ChildRecord]:
        address, route = (f"{text.removesuffix('diffs')}changes" for text in (self.address, self.route))
        raws, response = await client.changes(address, route=route)
        return self.page(raws, response)


def child_lists(
    client: GitLabClient, kind: str, resource: str, remote_id: int, iid: int, *, per_page: int
) -> Sequence[Pages[ChildRecord]]:
    """Return the lists that make up one kind of children of one parent."""
    above = f"{API}/projects/{remote_id}/{resource}/{iid}"
    lists = LISTS[kind]
    return [
        (FileList if name == "diffs" else ChildList)(
            client,
            f"{above}/{name}",
            f"{resource}/{name}",
            understand,
            per_page,
            f"{name}:" if len(lists) > 1 else "",
            "iid",
            _refuse_nul,
        )
        for name, understand in lists.items()
    ]


def _refuse_nul(record: Struct) -> None:
    refuse_nul(record)
    if isinstance(record, DiscussionRecord):
        for place, note in enumerate(record.notes):
            try:
                refuse_nul(note)
            except ValueError as error:
                raise ValueError(f"notes[{place}]: {error}") from None


async def group_projects(client: GitLabClient, group: str, *, per_page: int) -> list[ProjectRecord]:
    """Return every project of a group without duplicates, in the order of their ids."""
    start = f"{API}/groups/{quote(group, safe='')}/projects"
    order: dict[str, str | int] = {"include_subgroups": "true", "order_by": "id", "sort": "asc", "per_page": per_page}
    every = read_whole(client, start, order, _read_project, route="group", what="a project of a group")
    try:
        found = {record.remote_id: record async for record in every}
    except RemoteNotFound as error:
        raise not_visible(error, f"group {group}", "path under `groups`", group=group) from None
    return list(found.values())


def _read_project(raw: Raw) -> ProjectRecord:
    record = transform_project(msgspec.json.decode(raw, type=Project))
    refuse_nul(record)
    return record
