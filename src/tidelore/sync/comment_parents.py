"""Fetch the issues and pull requests that a page refers to and that are not stored yet.

The lists of a repository are read one after another, so an item may appear in a later list before the list of its
parents was read again. The parent is fetched by its number and stored before the page; without it the page could not be
stored, and its cursor must not move past it. What belongs to a parent that does not exist is left out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Generic, TypeVar

from msgspec.structs import replace

from tidelore.core.model import CommentRecord, Item, ListedRecord, ParentRecord, ProjectRecord, PullIssueRecord
from tidelore.core.references import Kind
from tidelore.engine.ports import Lister, ListRequest, Page
from tidelore.store.mirror.comments import find_parents
from tidelore.store.mirror.page_writer import FetchedItem, StoredItem, store_fetched_items
from tidelore.store.mirror.payloads import packer
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.session import Session
from tidelore.sync.projects import ListTarget

R = TypeVar("R")


class NeedsParents(Generic[R]):
    """A list whose items need a stored parent. `find` returns the items that have one, fetching missing parents.

    It is not asked about items from before the horizon: those that are not stored are left out anyway.
    """

    def __init__(
        self, lister: Lister[R], find: Callable[[Sequence[Item[R]]], Awaitable[Sequence[Item[R]]]], horizon: int
    ) -> None:
        self._lister = lister
        self._find = find
        self._horizon = horizon

    async def fetch(self, request: ListRequest) -> Page[R]:
        return await self._complete(await self._lister.fetch(request))

    async def fetch_one(self, locator: str) -> Page[R]:
        return await self._complete(await self._lister.fetch_one(locator))

    async def _complete(self, page: Page[R]) -> Page[R]:
        recent = [item for item in page.items if item.version.updated_at >= self._horizon]
        if not recent:
            return page
        older = [item for item in page.items if item.version.updated_at < self._horizon]
        return replace(page, items=[*older, *await self._find(recent)])


class ParentFetcher:
    """Fetches and stores missing parents of one project."""

    def __init__(self, session: Session, target: ListTarget, project: ProjectRow) -> None:
        self._session = session
        self._target = target
        self._project = project

    async def of_comments(self, items: Sequence[Item[CommentRecord]]) -> list[Item[CommentRecord]]:
        """Return the comments whose parent is stored."""
        there = await self._require({item.record.number for item in items})
        return [item for item in items if item.record.number in there]

    async def of_sides(self, items: Sequence[Item[ListedRecord]]) -> list[Item[ListedRecord]]:
        """Return the issues, and the issue sides whose pull request is stored."""
        numbers = {item.record.iid for item in items if isinstance(item.record, PullIssueRecord)}
        there = await self._require(numbers, pulls_only=True) if numbers else set()
        return [item for item in items if not isinstance(item.record, PullIssueRecord) or item.record.iid in there]

    async def _require(self, numbers: Collection[int], *, pulls_only: bool = False) -> set[int]:
        for number in sorted(set(numbers) - self.stored(numbers)):
            await self.fetch(number, pulls_only=pulls_only)
        return self.stored(numbers)

    def stored(self, numbers: Iterable[int]) -> set[int]:
        """Return the numbers whose issue or pull request is stored."""
        database = self._session.shop.database
        return set(find_parents(database.read, database.among("numbers"), self._project.id, database.integers(numbers)))

    async def fetch(self, number: int, *, pulls_only: bool = False) -> bool:
        """Fetch one issue or pull request and store it; return whether it exists. One that does not is passed over."""
        resource = "merge_requests" if pulls_only else "issues"
        fetched_since = self._session.shop.clock.now_ms()
        target = replace(self._target, resource=resource)
        page = await target.source.listing(resource, self._project.remote_id).fetch_one(str(number))
        for item in page.items:
            if isinstance(item.record, PullIssueRecord):
                await self.fetch(number, pulls_only=True)
            else:
                found = Item(item.version, item.at, item.payload, item.record)
                fetched = fetched_item("mr" if pulls_only else "issue", target, found, self._project)
                store_items(self._session, [fetched], fetched_since)
        return bool(page.items or page.rejected)


def fetched_item(
    kind: Kind,
    target: ListTarget,
    item: Item[ParentRecord],
    project: ProjectRow | None,
    record: ProjectRecord | None = None,
) -> FetchedItem:
    """Return an item of a list that was fetched by its number, with its project or the record of that."""
    source = target.source.name
    return FetchedItem(kind, target.family, source, target.surface, target.configured, project, record, item)


def store_items(session: Session, items: Sequence[FetchedItem], fetched_since: int) -> list[StoredItem]:
    """Store items that were fetched by their numbers, all in one transaction."""
    shop = session.shop
    return store_fetched_items(
        shop.database,
        session.lease,
        items,
        fetched_since=fetched_since,
        now_ms=shop.clock.now_ms,
        pack=packer(compress=shop.config.storage.compress_raw_payloads),
        seam=shop.seam,
        consumer=session.consumer,
    )
