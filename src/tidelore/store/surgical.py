"""The items of a surgical run as rows. Owns the one transaction that stores all of them, and the rule of staleness.

Nothing was locked while they were fetched: a row that became newer meanwhile is left as it is. Invariant: all items of
a run are stored, with their projects, their marks and their children made due, or none is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from tidelore.core.model import Item, ParentRecord, ProjectRecord, Scope
from tidelore.core.references import Kind
from tidelore.engine.crashpoint import Crashpoint, Seam, no_seam
from tidelore.engine.lease import Lease
from tidelore.engine.ports import Parent
from tidelore.store.child_progress import make_due
from tidelore.store.child_sync import Read
from tidelore.store.database import Database, Transaction
from tidelore.store.dirty import SOURCE_TYPES, Source
from tidelore.store.family import Family, write_parents
from tidelore.store.issues import ISSUES
from tidelore.store.leases import fence
from tidelore.store.merge_requests import MERGE_REQUESTS
from tidelore.store.parents import row_ids
from tidelore.store.payloads import Pack, store_payloads
from tidelore.store.projects import ProjectRow, save_project
from tidelore.store.quarantine import release

FAMILIES: dict[Kind, Family] = {"issue": ISSUES, "mr": MERGE_REQUESTS}


class Primary(Struct, frozen=True):
    """An item about to be stored. Without a `row` its project is stored first, from the `record`."""

    kind: Kind
    source: str
    surface: str
    configured: str
    row: ProjectRow | None
    record: ProjectRecord | None
    item: Item[ParentRecord]


class Landed(Struct, frozen=True):
    """An item that is stored, and whose documents it changes; a stale one has no `parent`: its row is newer."""

    project: ProjectRow
    parent: Parent | None = None
    sources: tuple[Source, ...] = ()


class LocalRow(Struct, frozen=True):
    """What decides whether a row is newer than what was fetched."""

    updated_at: int
    last_seen_at: int
    deleted_at: int | None


def is_stale(local: LocalRow | None, updated_at: int, fetched_since: int) -> bool:
    """Return whether our row is fresher than a payload: newer, or of the same instant and seen, or found to be gone,
    since the fetching began."""
    if local is None:
        return False
    if local.updated_at != updated_at:
        return local.updated_at > updated_at
    return local.last_seen_at > fetched_since or (local.deleted_at or 0) > fetched_since


def store_primaries(
    database: Database,
    lease: Lease,
    primaries: Sequence[Primary],
    *,
    fetched_since: int,
    now_ms: Callable[[], int],
    pack: Pack,
    seam: Crashpoint = no_seam,
) -> list[Landed]:
    """Store all items in one transaction, each unless our row is newer; the answers come in the items' order."""
    seam(Seam.BEFORE_COMMIT)
    with database.transaction() as tx:
        fence(tx, lease)
        now = now_ms()
        projects: dict[tuple[str, str], ProjectRow] = {}
        landed = []
        for primary in primaries:
            home = (primary.source, primary.configured)
            if home not in projects:
                projects[home] = _project(tx, primary, now)
            landed.append(_store(tx, primary, projects[home], fetched_since, now, pack))
        seam(Seam.INSIDE_COMMIT)
    seam(Seam.AFTER_COMMIT)
    return landed


def sources_of(read: Read, kind: Kind, parent_id: int) -> tuple[Source, ...]:
    """Return what the documents of an item are made of: itself, and its discussions."""
    family = FAMILIES[kind]
    rows = read(f"SELECT id FROM discussions WHERE {family.parent_column} = :id ORDER BY id", {"id": parent_id})
    return Source(SOURCE_TYPES[family.table], parent_id), *(Source("discussion", row[0]) for row in rows)


def holds(database: Database, kind: Kind, project_id: int, iid: int) -> bool:
    """Return whether the copy has an item that is not known to be gone."""
    return bool(
        database.read(
            f"SELECT 1 FROM {FAMILIES[kind].table} WHERE project_id = :project_id AND iid = :iid"
            " AND deleted_at IS NULL LIMIT 1",
            {"project_id": project_id, "iid": iid},
        )
    )


def _project(tx: Transaction, primary: Primary, now_ms: int) -> ProjectRow:
    if primary.row is not None:
        return primary.row
    assert primary.record is not None, "an item comes with its project"
    return save_project(tx, primary.source, primary.configured, primary.record, now_ms)


def _store(
    tx: Transaction, primary: Primary, project: ProjectRow, fetched_since: int, now_ms: int, pack: Pack
) -> Landed:
    family, item = FAMILIES[primary.kind], primary.item
    remote_id, updated_at = item.record.remote_id, item.version.updated_at
    local = _local(tx, family.table, project.id, remote_id)
    if is_stale(local, updated_at, fetched_since):
        return Landed(project)
    store_payloads(tx, project.id, family.resource_type, [item], pack=pack, now_ms=now_ms)
    write_parents(tx, family, project.id, [item], set() if local is None else {remote_id}, now_ms)
    row_id = row_ids(tx, family.table, project.id, [remote_id])[remote_id]
    for name in family.kind.children:
        make_due(tx, family.kind, name, project.id, [row_id])
    scope = Scope(primary.source, primary.surface, str(project.remote_id), project.id, project.path)
    release(tx, scope, [str(remote_id)])
    parent = Parent(row_id, item.record.iid, updated_at, None, None)
    return Landed(project, parent, sources_of(tx.execute, primary.kind, row_id))


def _local(tx: Transaction, table: str, project_id: int, remote_id: int) -> LocalRow | None:
    rows = tx.execute(
        f"SELECT updated_at, last_seen_at, deleted_at FROM {table}"
        " WHERE project_id = :project_id AND remote_id = :remote_id",
        {"project_id": project_id, "remote_id": remote_id},
    )
    return LocalRow(*rows[0]) if rows else None
