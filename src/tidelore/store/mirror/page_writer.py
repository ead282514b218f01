"""Stores a page of a project's list, or the items of a surgical sync, in one transaction.

Invariant 1: payloads, rows, links, quarantine, gaps and the cursor commit together or not at all, and only under the
lease. A surgical sync stores all its items, with their projects, marks and due children, or none. No lock is held
while its items are fetched, so a row that became newer meanwhile is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from msgspec import Struct

from tidelore.core.model import (
    Item,
    ListedRecord,
    MergeRequestRecord,
    ParentRecord,
    ProjectRecord,
    RemoteId,
    Scope,
    Version,
)
from tidelore.core.references import Kind
from tidelore.engine.crashpoint import Crashpoint, Seam, no_seam
from tidelore.engine.lease import Lease
from tidelore.engine.ports import Parent
from tidelore.store.database.port import Database, Transaction
from tidelore.store.mirror.child_progress import make_due
from tidelore.store.mirror.child_writer import Read
from tidelore.store.mirror.documents import SOURCE_TYPES, DocumentSource
from tidelore.store.mirror.kinds import PARENTS
from tidelore.store.mirror.parents import (
    Family,
    LinkCounts,
    row_ids,
)
from tidelore.store.mirror.payloads import Pack, packer
from tidelore.store.mirror.projects import ProjectRow, save_project
from tidelore.store.mirror.quarantine import release
from tidelore.store.mirror.scope_writer import ScopeWriter
from tidelore.store.work.events import Consumer
from tidelore.store.work.leases import writing

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)


class ItemTable(Protocol[R_contra]):
    """The rows that the items of a list become."""

    def stored(self, database: Database, project_id: int, ids: Iterable[int]) -> Mapping[RemoteId, Version]:
        """Return the stored version of each of these ids that is stored."""
        ...

    def held(
        self, database: Database, project_id: int, created_from: int, created_before: int | None
    ) -> Mapping[RemoteId, str]:
        """Return the stored items that were created in a span, each with the locator to fetch it by."""
        ...

    def write(
        self, tx: Transaction, project_id: int, items: Sequence[Item[R_contra]], now_ms: int, pack: Pack
    ) -> LinkCounts:
        """Store new versions."""
        ...

    def bury(self, tx: Transaction, scope: Scope, ids: Iterable[int], now_ms: int) -> None:
        """Remove what no longer exists on the server."""
        ...


class PageWriter(ScopeWriter[R, LinkCounts]):
    """Implements the engine's `ScopeStore` for one list of a project."""

    def __init__(
        self,
        database: Database,
        scope: Scope,
        table: ItemTable[R],
        now_ms: Callable[[], int],
        *,
        lease: Lease | None = None,
        compress: bool = True,
        seam: Crashpoint = no_seam,
        consumer: Consumer | None = None,
    ) -> None:
        super().__init__(database, scope, now_ms, lease, seam)
        self._table = table
        self._consumer = consumer
        self._pack = packer(compress=compress)
        self.links = LinkCounts()

    def stored(self, ids: Iterable[RemoteId]) -> Mapping[RemoteId, Version]:
        return self._table.stored(self._database, self._scope.project, _numbers(ids))

    def held(self, created_from: int, created_before: int | None) -> Mapping[RemoteId, str]:
        return self._table.held(self._database, self._scope.project, created_from, created_before)

    def _write(self, tx: Transaction, items: Sequence[Item[R]], now_ms: int) -> LinkCounts:
        links = self._table.write(tx, self._scope.project, items, now_ms, self._pack)
        if self._consumer is not None:
            self._consumer.stored(tx, self._scope.project, [item.record for item in items], now_ms)
        return links

    def _bury(self, tx: Transaction, gone: Sequence[RemoteId], now_ms: int) -> None:
        self._table.bury(tx, self._scope, _numbers(gone), now_ms)

    def _count(self, links: LinkCounts) -> None:
        self.links.add(links)


class SelectedItems:
    """A table of merge requests of which only those are stored that `select` accepts, or that were stored before."""

    def __init__(self, family: Family, select: Callable[[MergeRequestRecord], bool]) -> None:
        self._family = family
        self._select = select

    def stored(self, database: Database, project_id: int, ids: Iterable[int]) -> dict[RemoteId, Version]:
        return self._family.stored(database, project_id, ids)

    def held(
        self, database: Database, project_id: int, created_from: int, created_before: int | None
    ) -> dict[RemoteId, str]:
        return self._family.held(database, project_id, created_from, created_before)

    def write(
        self, tx: Transaction, project_id: int, items: Sequence[Item[ListedRecord]], now_ms: int, pack: Pack
    ) -> LinkCounts:
        known = row_ids(tx, self._family.table, project_id, [item.record.remote_id for item in items])
        wanted = [item for item in items if item.record.remote_id in known or self._is_selected(item.record)]
        return self._family.write(tx, project_id, wanted, now_ms, pack) if wanted else LinkCounts()

    def _is_selected(self, record: ListedRecord) -> bool:
        return isinstance(record, MergeRequestRecord) and self._select(record)

    def bury(self, tx: Transaction, scope: Scope, ids: Iterable[int], now_ms: int) -> None:
        self._family.bury(tx, scope, ids, now_ms)


def _numbers(ids: Iterable[RemoteId]) -> list[int]:
    return [key for key in ids if isinstance(key, int)]


class FetchedItem(Struct, frozen=True):
    """An item to store. Without a `row` its project is stored first, from the `record`."""

    kind: Kind
    family: Family
    source: str
    surface: str
    configured: str
    row: ProjectRow | None
    record: ProjectRecord | None
    item: Item[ParentRecord]


class StoredItem(Struct, frozen=True):
    """A stored item and the sources of its documents. A stale one has no `parent`, because its row is newer."""

    project: ProjectRow
    parent: Parent | None = None
    sources: tuple[DocumentSource, ...] = ()


class LocalRow(Struct, frozen=True):
    """The columns that decide whether a row is newer than what was fetched."""

    updated_at: int
    last_seen_at: int
    deleted_at: int | None


def is_stale(local: LocalRow | None, updated_at: int, fetched_since: int) -> bool:
    """Return whether the stored row is fresher than a payload.

    It is if it is newer, or if it has the same update time and was seen, or found to be deleted, after fetching began.
    """
    if local is None:
        return False
    if local.updated_at != updated_at:
        return local.updated_at > updated_at
    return local.last_seen_at > fetched_since or (local.deleted_at or 0) > fetched_since


def store_fetched_items(
    database: Database,
    lease: Lease,
    primaries: Sequence[FetchedItem],
    *,
    fetched_since: int,
    now_ms: Callable[[], int],
    pack: Pack,
    seam: Crashpoint = no_seam,
    consumer: Consumer | None = None,
) -> list[StoredItem]:
    """Store all items in one transaction, except those whose row is newer; return the results in the same order."""
    seam(Seam.BEFORE_COMMIT)
    with writing(database, lease) as tx:
        now = now_ms()
        projects: dict[tuple[str, str], ProjectRow] = {}
        landed = []
        for primary in primaries:
            home = (primary.source, primary.configured)
            if home not in projects:
                projects[home] = _project(tx, primary, now)
            landed.append(_store(tx, primary, projects[home], fetched_since, now, pack))
            if consumer is not None and landed[-1].parent is not None:
                consumer.stored(tx, landed[-1].project.id, [primary.item.record], now)
        seam(Seam.INSIDE_COMMIT)
    seam(Seam.AFTER_COMMIT)
    return landed


def sources_of(read: Read, kind: Kind, parent_id: int) -> tuple[DocumentSource, ...]:
    """Return the sources of an item's documents: the item and its discussions."""
    parents = PARENTS[kind]
    rows = read(f"SELECT id FROM discussions WHERE {parents.column} = :id ORDER BY id", {"id": parent_id})
    return DocumentSource(SOURCE_TYPES[parents.table], parent_id), *(
        DocumentSource("discussion", row[0]) for row in rows
    )


def holds(database: Database, kind: Kind, project_id: int, iid: int) -> bool:
    """Return whether the copy has this item and it is not a tombstone."""
    return bool(
        database.read(
            f"SELECT 1 FROM {PARENTS[kind].table} WHERE project_id = :project_id AND iid = :iid"
            " AND deleted_at IS NULL LIMIT 1",
            {"project_id": project_id, "iid": iid},
        )
    )


def _project(tx: Transaction, primary: FetchedItem, now_ms: int) -> ProjectRow:
    if primary.row is not None:
        return primary.row
    assert primary.record is not None, "an item comes with its project"
    return save_project(tx, primary.source, primary.configured, primary.record, now_ms)


def _store(
    tx: Transaction, primary: FetchedItem, project: ProjectRow, fetched_since: int, now_ms: int, pack: Pack
) -> StoredItem:
    family, item = primary.family, primary.item
    remote_id, updated_at = item.record.remote_id, item.version.updated_at
    local = _local(tx, family.table, project.id, remote_id)
    if is_stale(local, updated_at, fetched_since):
        return StoredItem(project)
    family.write(tx, project.id, [item], now_ms, pack)
    row_id = row_ids(tx, family.table, project.id, [remote_id])[remote_id]
    for name in family.kind.children:
        make_due(tx, family.kind, name, project.id, [row_id])
    scope = Scope(primary.source, primary.surface, str(project.remote_id), project.id, project.path)
    release(tx, scope, [str(remote_id)])
    parent = Parent(row_id, item.record.iid, updated_at, None, None, item.record.node_id)
    return StoredItem(project, parent, sources_of(tx.execute, primary.kind, row_id))


def _local(tx: Transaction, table: str, project_id: int, remote_id: int) -> LocalRow | None:
    rows = tx.execute(
        f"SELECT updated_at, last_seen_at, deleted_at FROM {table}"
        " WHERE project_id = :project_id AND remote_id = :remote_id",
        {"project_id": project_id, "remote_id": remote_id},
    )
    return LocalRow(*rows[0]) if rows else None
