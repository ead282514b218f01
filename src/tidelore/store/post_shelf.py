"""The durable side of one account's list, or of a stream of many. Owns the one transaction that makes a page durable.

Invariant 1: payloads, posts, links, marks, tombstones, quarantine, gaps and the cursor commit together or not at all,
and only while the lease is ours. Whose a post is stands in the post, so one shelf serves a list and a stream alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tidelore.core.model import PostRecord, RemoteId, Scope, Version
from tidelore.engine.crashpoint import Crashpoint, Seam, no_seam
from tidelore.engine.cursor import Cursor, Gap
from tidelore.engine.lease import Lease
from tidelore.engine.ports import Batch, Quarantined
from tidelore.store.cursors import load_cursor, load_gaps, save_cursor, save_gaps, set_aside
from tidelore.store.database import Database
from tidelore.store.leases import fence
from tidelore.store.payloads import Pack, packer
from tidelore.store.posts import bury_posts, held_between, stored_versions, write_posts
from tidelore.store.quarantine import admit, due_entries, release


class PostShelf:
    """Implements the engine's `Shelf` for posts. `links` counts the links of what was stored through it.

    A shelf for each of many accounts shares one `pack`, which is dear to make.
    """

    def __init__(
        self,
        database: Database,
        scope: Scope,
        now_ms: Callable[[], int],
        *,
        lease: Lease | None = None,
        pack: Pack | None = None,
        seam: Crashpoint = no_seam,
    ) -> None:
        self._database = database
        self._scope = scope
        self._now_ms = now_ms
        self._lease = lease
        self._pack = packer(compress=True) if pack is None else pack
        self._seam = seam
        self.links = 0

    def load(self) -> Cursor:
        return load_cursor(self._database, self._scope)

    def gaps(self) -> Sequence[Gap]:
        return load_gaps(self._database, self._scope)

    def stored(self, ids: Iterable[RemoteId]) -> Mapping[RemoteId, Version]:
        return stored_versions(self._database, map(str, ids), self._now_ms())

    def held(self, created_from: int, created_before: int | None) -> Mapping[RemoteId, str]:
        return held_between(self._database, self._scope.key, created_from, created_before)

    def due_quarantined(self, limit: int) -> Sequence[Quarantined]:
        return due_entries(self._database, self._scope, self._now_ms(), limit)

    def set_aside(self, reason: str) -> None:
        with self._database.transaction() as tx:
            if self._lease is not None:
                fence(tx, self._lease)
            set_aside(tx, self._scope, reason, self._now_ms())

    def commit(self, batch: Batch[PostRecord]) -> None:
        now = self._now_ms()
        links = 0
        with self._database.transaction() as tx:
            if self._lease is not None:
                fence(tx, self._lease)
            if batch.items:
                links = write_posts(tx, batch.items, pack=self._pack, now_ms=now)
            if batch.gone:
                bury_posts(tx, map(str, batch.gone), now)
            if batch.rejected:
                admit(tx, self._scope, batch.rejected, now)
            released = [*batch.released, *(item.record.uri for item in batch.items)]
            if released:
                release(tx, self._scope, released)
            if batch.gaps is not None:
                save_gaps(tx, self._scope, batch.gaps, now)
            save_cursor(tx, self._scope, batch.cursor, now)
            self._seam(Seam.INSIDE_COMMIT)
        self.links += links
