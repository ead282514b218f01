"""The REST lists that mirror a GitHub repository: issues, pull requests, their events and files, and repositories.

Responsible for when an item counts as gone: only if its own URL says so while its list can be read. A list that cannot
be read because its feature is switched off raises `FeatureDisabled`, so that hidden items never look deleted.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qs, quote, urlsplit

import msgspec
from msgspec import Raw, Struct

from tidelore.core.errors import FeatureDisabled, ForeignOrigin, RemoteNotFound
from tidelore.core.model import (
    EventRecord,
    FileChangeRecord,
    IssueRecord,
    Item,
    ListedRecord,
    MergeRequestRecord,
    PullIssueRecord,
    RepositoryRecord,
)
from tidelore.engine.cursor import Validator
from tidelore.engine.ports import ListRequest, Page
from tidelore.http.pagination import next_page
from tidelore.http.response import Response
from tidelore.sources.github.client import GitHubClient, Params, repo_path
from tidelore.sources.github.payloads import Issue, PullPage, Repository
from tidelore.sources.github.surfaces import PagedList
from tidelore.sources.github.transform import (
    read_changed_file,
    read_timeline_entry,
    transform_issue,
    transform_merge_request,
    transform_repository,
)
from tidelore.sources.items import DatedRecord, ItemReader, refuse_nul
from tidelore.sources.rest_lists import ChildList, not_visible, read_whole

_LOG = logging.getLogger(__name__)

R = TypeVar("R", bound=DatedRecord)
C = TypeVar("C", bound=Struct)

IssueEntry = IssueRecord | PullIssueRecord
"""An entry of the list of issues."""

ISSUES: ItemReader[Issue, IssueEntry] = ItemReader(Issue, transform_issue, locator="number", by_record=True)
MERGE_REQUESTS = ItemReader(
    PullPage, transform_merge_request, locator="number", by_record=True, unversioned=("merge_user_username",)
)

_PULLS_PER_PAGE = 30
"""A pull request is large, and the list is mostly read for the few that changed."""


class ItemList(PagedList[R]):
    """A list of a repository whose items can also be requested alone, by their number."""

    def __init__(
        self, client: GitHubClient, repo_id: int, resource: str, reader: ItemReader[Any, R], **options: Any
    ) -> None:
        address = f"{repo_path(repo_id)}/{resource}"
        super().__init__(client, address, reader, resource, **options)
        self._repo_id = repo_id

    async def fetch(self, request: ListRequest) -> Page[R]:
        try:
            return await super().fetch(request)
        except RemoteNotFound as error:
            raise self._unreadable(error) from None

    async def fetch_one(self, locator: str) -> Page[R]:
        """Request one item. It is gone if it is not found, or moved, while the list can be read."""
        address, route = f"{self._address}/{locator}", f"{self._route}/one"
        try:
            raw, response = await self._client.raw(address, etag=None, route=route)
        except RemoteNotFound:
            await self._require_list(route)
            return Page()
        if raw is None or not urlsplit(response.url).path.endswith(f"/{address}"):
            # The server redirected: the issue was transferred to another repository.
            return Page(server_at=response.server_at)
        found = self._reader.read([raw], self._at)
        return Page(items=found.items, rejected=found.rejected, server_at=response.server_at)

    async def _require_list(self, route: str) -> None:
        """Raise an error unless the list can be read; a 'not found' means nothing while it cannot."""
        try:
            await self._client.list_page(self._address, {"per_page": 1}, etag=None, route=route)
        except RemoteNotFound as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: RemoteNotFound) -> FeatureDisabled | RemoteNotFound:
        if error.status != 410:
            return error
        return FeatureDisabled(
            f"{self._route} are switched off in repository {self._repo_id}",
            status=error.status,
            url=error.url,
            reason="feature_disabled",
            fix="switch them on in the settings of the repository; stored items are kept",
        )

    def _next(self, response: Response, count: int) -> str | None:
        if "after" not in parse_qs(urlsplit(response.url).query):
            return super()._next(response, count)
        # A page found by a cursor has no page number to continue with: only its link leads on.
        following = next_page(response.headers, response.url, 0, self._per_page)
        if following is not None and following.foreign:
            raise ForeignOrigin(
                f"the next link of {self._route} points to another origin", url=following.url, reason="foreign_origin"
            )
        return None if following is None else following.url


def issue_list(client: GitHubClient, repo_id: int, per_page: int, *, by_creation: bool = False) -> ItemList[IssueEntry]:
    """Return the issues of a repository with the issue sides of its pull requests: by update time, or by creation.

    By creation the list has no `since` and is resumed by its token.
    """
    order: Params = {"state": "all", "sort": "created" if by_creation else "updated", "direction": "asc"}
    return ItemList(
        client,
        repo_id,
        "issues",
        ISSUES,
        per_page=per_page,
        order=order,
        takes_since=not by_creation,
        at=_created_at if by_creation else None,
    )


def pull_list(
    client: GitHubClient, repo_id: int, per_page: int, *, by_creation: bool = False, backfill: bool = False
) -> ItemList[MergeRequestRecord]:
    """Return the pull requests of a repository in any state: the newest update first, or by creation.

    With `backfill` pages are as large as possible, because all of them will be read.
    """
    order = {"sort": "created", "direction": "asc"} if by_creation else {"sort": "updated", "direction": "desc"}
    return ItemList(
        client,
        repo_id,
        "pulls",
        MERGE_REQUESTS,
        per_page=per_page if by_creation or backfill else min(per_page, _PULLS_PER_PAGE),
        order={"state": "all", **order},
        newest_first=not by_creation,
        at=_created_at if by_creation else None,
    )


def _created_at(record: ListedRecord) -> int:
    return record.created_at


class PullSnapshot:
    """One pull request as a list of one, so that it can be requested conditionally."""

    def __init__(self, client: GitHubClient, repo_id: int, number: int) -> None:
        self._client = client
        self._address = client.address(f"{repo_path(repo_id)}/pulls/{number}")

    async def fetch(self, request: ListRequest) -> Page[ListedRecord]:
        validator = request.validator
        etag = validator.etag if validator is not None and validator.url == self._address else None
        raw, response = await self._client.raw(self._address, etag=etag, route="pulls/one")
        if raw is None:
            return Page(server_at=response.server_at, not_modified=True)
        found = MERGE_REQUESTS.read([raw], lambda record: record.updated_at)
        return Page(
            items=[Item(item.version, item.at, item.payload, item.record) for item in found.items],
            rejected=found.rejected,
            server_at=response.server_at,
            validator=Validator(self._address, response.etag) if response.etag else None,
        )

    async def fetch_one(self, _locator: str) -> Page[ListedRecord]:
        return await self.fetch(ListRequest())


def timeline(client: GitHubClient, repo_id: int, number: int, per_page: int) -> ChildList[EventRecord]:
    """Return the events of one issue or pull request, oldest first."""
    address = f"{repo_path(repo_id)}/issues/{number}/timeline"
    return ChildList(client, address, "issues/timeline", partial(read_timeline_entry, number), per_page)


def files(client: GitHubClient, repo_id: int, number: int, per_page: int) -> ChildList[FileChangeRecord]:
    """Return the files that a pull request changes; the server lists at most 3,000."""
    address = f"{repo_path(repo_id)}/pulls/{number}/files"
    return ChildList(client, address, "pulls/files", read_changed_file, per_page)


async def repositories(client: GitHubClient, org: str, per_page: int) -> list[RepositoryRecord]:
    """Return every repository of an organisation without duplicates, the oldest first, forks and archived ones too."""
    start = f"orgs/{quote(org, safe='')}/repos"
    order: Params = {"type": "all", "sort": "created", "direction": "asc", "per_page": per_page}
    what = "a repository of an organisation"
    every = read_whole(client, start, order, _read_repository, route="orgs/repos", what=what)
    try:
        found = {record.project.remote_id: record async for record in every}
    except RemoteNotFound as error:
        raise not_visible(error, f"organisation {org}", "name under `orgs`", org=org) from None
    return list(found.values())


def _read_repository(raw: Raw) -> RepositoryRecord:
    record = transform_repository(msgspec.json.decode(raw, type=Repository))
    refuse_nul(record.project)
    return record
