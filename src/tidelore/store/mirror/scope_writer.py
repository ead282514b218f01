"""Commits what was read of one scope: the part of the engine's `ScopeStore` that is the same for every kind of row.

Invariant 1: rows, tombstones, quarantine, gaps and the cursor that covers them commit together or not at all, and only
under the lease. How rows are stored, and what they link to, is decided by the writers of posts, issues and merge
requests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Generic, TypeVar

from tidelore.core.model import Item, RemoteId, Scope, Version
from tidelore.engine.crashpoint import Crashpoint, Seam, no_seam
from tidelore.engine.cursor import Cursor, Gap
from tidelore.engine.lease import Lease
from tidelore.engine.ports import Batch, Quarantined
from tidelore.store.database.port import Database, Transaction
from tidelore.store.mirror.cursors import load_cursor, load_gaps, save_cursor, save_gaps, set_aside
from tidelore.store.mirror.quarantine import admit, due_entries, release
from tidelore.store.work.leases import writing

R = TypeVar("R")
L = TypeVar("L")


class ScopeWriter(ABC, Generic[R, L]):
    """Stores pages of records `R` and counts what they link to as `L`."""

    def __init__(
        self,
        database: Database,
        scope: Scope,
        now_ms: Callable[[], int],
        lease: Lease | None = None,
        seam: Crashpoint = no_seam,
    ) -> None:
        self._database = database
        self._scope = scope
        self._now_ms = now_ms
        self._lease = lease
        self._seam = seam

    @property
    def scope(self) -> Scope:
        """The scope whose rows are written."""
        return self._scope

    @abstractmethod
    def stored(self, ids: Iterable[RemoteId]) -> Mapping[RemoteId, Version]: ...

    @abstractmethod
    def held(self, created_from: int, created_before: int | None) -> Mapping[RemoteId, str]: ...

    @abstractmethod
    def _write(self, tx: Transaction, items: Sequence[Item[R]], now_ms: int) -> L:
        """Store rows and payloads; return what they link to."""

    @abstractmethod
    def _bury(self, tx: Transaction, gone: Sequence[RemoteId], now_ms: int) -> None:
        """Turn rows into tombstones."""

    @abstractmethod
    def _count(self, links: L) -> None:
        """Count links that were committed."""

    def load(self) -> Cursor:
        return load_cursor(self._database, self._scope)

    def gaps(self) -> Sequence[Gap]:
        return load_gaps(self._database, self._scope)

    def due_quarantined(self, limit: int) -> Sequence[Quarantined]:
        return due_entries(self._database, self._scope, self._now_ms(), limit)

    def set_aside(self, reason: str) -> None:
        with writing(self._database, self._lease) as tx:
            set_aside(tx, self._scope, reason, self._now_ms())

    def commit(self, batch: Batch[R]) -> None:
        now = self._now_ms()
        links: L | None = None
        with writing(self._database, self._lease) as tx:
            if batch.items:
                links = self._write(tx, batch.items, now)
            if batch.gone:
                self._bury(tx, batch.gone, now)
            if batch.rejected:
                admit(tx, self._scope, batch.rejected, now)
            if batch.released or batch.items:
                release(tx, self._scope, chain(batch.released, (str(item.version.id) for item in batch.items)))
            if batch.gaps is not None:
                save_gaps(tx, self._scope, batch.gaps, now)
            save_cursor(tx, self._scope, batch.cursor, now)
            self._seam(Seam.INSIDE_COMMIT)
        if links is not None:
            self._count(links)
