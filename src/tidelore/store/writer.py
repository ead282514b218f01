"""The durable side of one scope of parents. Owns the one transaction that makes a page durable.

Invariant 1: payloads, rows, links, quarantine, gaps and the cursor commit together or not at all, and
only while the lease is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tidelore.core.model import Item, ParentRecord, RemoteId, Scope, Version
from tidelore.engine.crashpoint import Crashpoint, Seam, no_seam
from tidelore.engine.cursor import Cursor, Gap
from tidelore.engine.lease import Lease
from tidelore.engine.ports import Batch, Quarantined
from tidelore.store.cursors import load_cursor, load_gaps, save_cursor, save_gaps, set_aside
from tidelore.store.database import Database, Transaction
from tidelore.store.family import Family, write_parents
from tidelore.store.leases import fence
from tidelore.store.parents import LinkCounts, held_between, row_ids, stored_versions
from tidelore.store.payloads import packer, store_payloads
from tidelore.store.quarantine import admit, due_entries, release
from tidelore.store.tombstones import bury


class ParentShelf:
    """Implements the engine's `Shelf` for issues and merge requests."""

    def __init__(
        self,
        database: Database,
        scope: Scope,
        family: Family,
        now_ms: Callable[[], int],
        *,
        lease: Lease | None = None,
        compress: bool = True,
        seam: Crashpoint = no_seam,
    ) -> None:
        self._database = database
        self._scope = scope
        self._family = family
        self._now_ms = now_ms
        self._lease = lease
        self._pack = packer(compress=compress)
        self._seam = seam
        self.links = LinkCounts()

    def load(self) -> Cursor:
        return load_cursor(self._database, self._scope)

    def gaps(self) -> Sequence[Gap]:
        return load_gaps(self._database, self._scope)

    def stored(self, ids: Iterable[RemoteId]) -> Mapping[RemoteId, Version]:
        return stored_versions(self._database, self._family.table, self._scope.project, _numbers(ids))

    def held(self, created_from: int, created_before: int | None) -> Mapping[RemoteId, str]:
        return held_between(self._database, self._family.table, self._scope.project, created_from, created_before)

    def due_quarantined(self, limit: int) -> Sequence[Quarantined]:
        return due_entries(self._database, self._scope, self._now_ms(), limit)

    def set_aside(self, reason: str) -> None:
        with self._database.transaction() as tx:
            if self._lease is not None:
                fence(tx, self._lease)
            set_aside(tx, self._scope, reason, self._now_ms())

    def commit(self, batch: Batch[ParentRecord]) -> None:
        now = self._now_ms()
        links = LinkCounts()
        with self._database.transaction() as tx:
            if self._lease is not None:
                fence(tx, self._lease)
            if batch.items:
                links = self._write(tx, batch.items, now)
            if batch.gone:
                gone = row_ids(tx, self._family.table, self._scope.project, _numbers(batch.gone))
                bury(tx, self._scope, self._family.kind, gone.values(), now)
            if batch.rejected:
                admit(tx, self._scope, batch.rejected, now)
            released = [*batch.released, *(str(item.version.id) for item in batch.items)]
            if released:
                release(tx, self._scope, released)
            if batch.gaps is not None:
                save_gaps(tx, self._scope, batch.gaps, now)
            save_cursor(tx, self._scope, batch.cursor, now)
            self._seam(Seam.INSIDE_COMMIT)
        self.links.add(links)

    def _write(self, tx: Transaction, items: Sequence[Item[ParentRecord]], now_ms: int) -> LinkCounts:
        project_id = self._scope.project
        store_payloads(tx, project_id, self._family.resource_type, items, pack=self._pack, now_ms=now_ms)
        known = tx.execute(
            f"SELECT remote_id FROM {self._family.table} WHERE project_id = :project_id"
            f" AND remote_id {tx.among('ids')}",
            {"project_id": project_id, "ids": tx.integers(_numbers(item.version.id for item in items))},
        )
        return write_parents(tx, self._family, project_id, items, {row[0] for row in known}, now_ms)


def _numbers(ids: Iterable[RemoteId]) -> list[int]:
    return [key for key in ids if isinstance(key, int)]
