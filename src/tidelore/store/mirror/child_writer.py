"""Stores the children of parents, and the statuses of issues, in transactions that hold each parent whole.

If fetching fails, only the parent's row in `child_sync` changes, and items that could not be parsed go to quarantine
(invariant 7). A status is stored together with the version of the issue it was read for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeGuard, TypeVar

from msgspec import Struct

from tidelore.core.model import ChildRecord, CommentRecord, Item, R_co, Rejected, Scope, StatusRecord
from tidelore.engine.crashpoint import Crashpoint, Seam, no_seam
from tidelore.engine.lease import Lease
from tidelore.engine.ports import Parent
from tidelore.engine.whole import ChildReading, in_chunks
from tidelore.store.database.port import Database, Lists, Params, Row, Transaction
from tidelore.store.mirror.child_progress import (
    IS_DUE,
    clear_refusals,
    count_due,
    due_parents,
    find_refusal,
    has_refusals,
    kind_params,
    last_failure,
    least_verified,
    make_all_due,
    record_failure,
    record_read,
    record_refusal,
)
from tidelore.store.mirror.documents import SOURCE_TYPES, mark
from tidelore.store.mirror.kinds import ISSUE, ParentKind
from tidelore.store.mirror.parents import buried_among, bury
from tidelore.store.mirror.payloads import Pack, packer
from tidelore.store.mirror.quarantine import admit, release_scopes
from tidelore.store.work.events import Consumer
from tidelore.store.work.leases import writing

C = TypeVar("C")
Read = Callable[[str, Params], list[Row]]


class Child(NamedTuple, Generic[C]):
    """A child, and the row id of its parent."""

    parent_id: int
    item: Item[C]

    @property
    def payload(self) -> bytes:
        return self.item.payload


class Renewal(Struct, Generic[R_co], frozen=True):
    """The new children of some parents, by the parent's row id; they replace the stored ones."""

    project_id: int
    kind: ParentKind
    children: Mapping[int, Collection[Item[R_co]]]
    now_ms: int
    pack: Pack

    def each(self) -> Iterator[Child[R_co]]:
        """Yield every child with its parent; large ones come from a file, so do this rarely."""
        for parent_id, items in self.children.items():
            for item in items:
                yield Child(parent_id, item)


Changes = Counter[int]
"""How many children of each parent changed."""
CommentsOf = Callable[[ChildRecord, Parent, ParentKind], Iterable[CommentRecord]]


class ChildFamily(Struct, frozen=True):
    """One kind of children: the prefix of its columns, and the operations on its tables.

    `write` makes the stored children of each parent exactly these and counts the changes; `held` returns the stored
    children of a parent, each with its content hash; `tell` counts children by their display names; `comments` returns
    the comments in a child, if it has any.
    """

    name: str
    write: Callable[[Transaction, Renewal[ChildRecord]], Changes]
    held: Callable[[Read, Lists, ParentKind, int], dict[str, bytes]]
    tell: Callable[[Collection[Item[ChildRecord]]], dict[str, int]]
    comments: CommentsOf | None = None


def child_family(
    name: str,
    record: type[C],
    write: Callable[[Transaction, Renewal[C]], Changes],
    held: Callable[[Read, Lists, ParentKind, int], dict[str, bytes]],
    tell: Callable[[Collection[Item[C]]], dict[str, int]],
    comments: CommentsOf | None = None,
) -> ChildFamily:
    """Describe a kind of children whose items all have the same record type; any other record raises TypeError."""

    def write_children(tx: Transaction, renewal: Renewal[ChildRecord]) -> Changes:
        children = {parent: _items_of(record, items) for parent, items in renewal.children.items()}
        return write(tx, Renewal(renewal.project_id, renewal.kind, children, renewal.now_ms, renewal.pack))

    return ChildFamily(name, write_children, held, lambda items: tell(_items_of(record, items)), comments)


def _items_of(record: type[C], items: Collection[Item[object]]) -> Collection[Item[C]]:
    if not _have_record(items, record):
        raise TypeError(f"expected items with a {record.__name__}")
    return items


def _have_record(items: Collection[Item[object]], record: type[C]) -> TypeGuard[Collection[Item[C]]]:
    return all(issubclass(found, record) for found in {type(item.record) for item in items})


class ChildWriter:
    """Implements the engine's `ChildStore` for one project and one kind of children.

    Use one object per run: it returns each parent at most once.
    """

    def __init__(
        self,
        database: Database,
        scope: Scope,
        kind: ParentKind,
        family: ChildFamily,
        now_ms: Callable[[], int],
        *,
        lease: Lease | None = None,
        compress: bool = True,
        seam: Crashpoint = no_seam,
        seen: Counter[str] | None = None,
        failed_since: int | None = None,
        consumer: Consumer | None = None,
    ) -> None:
        self._database = database
        self._scope = scope
        self._kind = kind
        self._family = family
        self._now_ms = now_ms
        self._lease = lease
        self._pack = packer(compress=compress)
        self._seam = seam
        self._consumer = consumer
        # Parents that failed since then are left for the next run; None excludes none.
        self._failed_since = 2**62 if failed_since is None else failed_since
        self._after = (-1, -1)
        self.seen: Counter[str] = Counter() if seen is None else seen

    def due(self, limit: int) -> Sequence[Parent]:
        parents = due_parents(
            self._database,
            self._kind,
            self._family.name,
            self._scope.project,
            after=self._after,
            now_ms=self._now_ms(),
            failed_before=self._failed_since,
            limit=limit,
        )
        if parents:
            self._after = (parents[-1].updated_at, parents[-1].id)
        return parents

    def replace(self, readings: Sequence[ChildReading[ChildRecord]]) -> int:
        now = self._now_ms()
        with self._writing() as tx:
            # A parent may have been deleted while its children were being fetched.
            gone = buried_among(tx, self._kind, [reading.parent.id for reading in readings])
            stored = [reading for reading in readings if reading.parent.id not in gone]
            changed = self._replace(tx, stored, now) if stored else 0
            for _ in readings:
                self._seam(Seam.INSIDE_COMMIT)
        for reading in stored:
            self.seen.update(self._family.tell(reading.children.items))
        return changed

    def _replace(self, tx: Transaction, readings: Sequence[ChildReading[ChildRecord]], now_ms: int) -> int:
        """Make the stored children of these parents those that were read; return how many changed.

        All parents share each statement: on PostgreSQL a statement costs more than a row.
        """
        name, project = self._family.name, self._scope.project
        children = {reading.parent.id: reading.children.items for reading in readings}
        changes = self._family.write(tx, Renewal(project, self._kind, children, now_ms, self._pack))
        changed = [reading for reading in readings if changes[reading.parent.id]]
        if changed:
            mark(tx, SOURCE_TYPES[self._kind.table], [reading.parent.id for reading in changed], now_ms)
            self._consume(tx, changed, now_ms)
        for settled in (True, False):
            parents = [reading.parent for reading in readings if reading.settled is settled]
            record_read(tx, self._kind, name, project, parents, settled=settled, now_ms=now_ms)
        homes = [self._home(reading.parent) for reading in readings]
        release_scopes(tx, homes[0].source, homes[0].surface, [home.key for home in homes])
        return changes.total()

    def _consume(self, tx: Transaction, readings: Sequence[ChildReading[ChildRecord]], now_ms: int) -> None:
        comments_of = self._family.comments
        if self._consumer is None or comments_of is None:
            return
        project, consumer = self._scope.project, self._consumer
        # Making a comment of every note costs time, so parents that are not followed are left out: usually all of them.
        chosen = [reading for reading in readings if consumer.concerns(project, reading.parent.iid)]
        parents = {reading.parent.id: reading.parent for reading in chosen}
        children = (Child(reading.parent.id, item) for reading in chosen for item in reading.children.items)
        for chunk in in_chunks(children):
            records = [
                record
                for child in chunk
                for record in comments_of(child.item.record, parents[child.parent_id], self._kind)
            ]
            consumer.stored(tx, project, records, now_ms)

    def record_failure(self, parent: Parent, error: str, rejected: Sequence[Rejected] = ()) -> None:
        now = self._now_ms()
        with self._writing() as tx:
            if buried_among(tx, self._kind, [parent.id]):
                return
            record_failure(tx, self._kind, self._family.name, self._scope.project, parent.id, error, now)
            admit(tx, self._home(parent), rejected, now)

    def last_failure(self, parent: Parent) -> str | None:
        """Return the error of the last read of a parent's children, if it failed."""
        return last_failure(self._database, self._kind, self._family.name, self._scope.project, parent.id)

    def held(self, parent: Parent) -> dict[str, bytes]:
        """Return the stored children of a parent, each with its content hash."""
        return self._family.held(self._database.read, self._database, self._kind, parent.id)

    def bury(self, parents: Sequence[int]) -> None:
        """Tombstone parents that no longer exist on the forge."""
        with self._writing() as tx:
            bury(tx, self._scope, self._kind, parents, self._now_ms())

    def is_unavailable(self) -> bool:
        return find_refusal(self._database, self._kind, self._family.name, self._scope.project) is not None

    def record_refusal(self, parents: Sequence[Parent], error: str) -> bool:
        ids = [parent.id for parent in parents]
        with self._writing() as tx:
            return record_refusal(tx, self._kind, self._family.name, self._scope.project, ids, error, self._now_ms())

    def clear_refusals(self) -> None:
        if has_refusals(self._database, self._kind, self._family.name, self._scope.project):
            with self._writing() as tx:
                clear_refusals(tx, self._kind, self._scope.project, self._family.name)

    def least_verified(self, limit: int, before: int) -> list[tuple[int, Parent]]:
        """Return synced parents and when their children were last read, least recent first."""
        return least_verified(
            self._database, self._kind, self._family.name, self._scope.project, before=before, limit=limit
        )

    def _home(self, parent: Parent) -> Scope:
        """Return the quarantine scope for the children of one parent."""
        scope = self._scope
        surface = f"{scope.surface}.{self._family.name}"
        return Scope(scope.source, surface, f"{scope.key}/{parent.iid}", scope.project_id, scope.title)

    @contextmanager
    def _writing(self) -> Iterator[Transaction]:
        with writing(self._database, self._lease) as tx:
            yield tx


def reset_watermarks(tx: Transaction, kind: ParentKind, project_id: int) -> None:
    """Make every parent of a project due again, at an operator's request."""
    make_all_due(tx, kind, project_id)
    clear_refusals(tx, kind, project_id)


_COLUMNS = ("status_name", "status_category", "status_color", "status_icon_name")
_WRITE = (
    f"UPDATE issues SET {', '.join(f'{column} = :{column}' for column in _COLUMNS)}"
    " WHERE id = :id AND deleted_at IS NULL"
)
_KIND = "status"


class DueIssue(Struct, frozen=True):
    """An issue whose status must be read, and its stored status."""

    id: int
    iid: int
    updated_at: int
    held: StatusRecord | None


class StatusWriter:
    """Stores the statuses of one project's issues. Use one object per run: it returns each issue at most once."""

    def __init__(
        self,
        database: Database,
        project_id: int,
        now_ms: Callable[[], int],
        lease: Lease,
        seam: Crashpoint = no_seam,
    ) -> None:
        self._database = database
        self._now_ms = now_ms
        self._project_id = project_id
        self._lease = lease
        self._seam = seam
        self._after = (-1, -1)

    def count(self) -> tuple[int, int]:
        """Return how many issues are due, and how many there are."""
        return count_due(self._database, ISSUE, _KIND, self._project_id)

    def due(self, limit: int) -> Sequence[DueIssue]:
        """Return the next issues that are due, the oldest change first."""
        rows = self._database.read(
            f"SELECT c.parent_id, p.iid, c.parent_updated_at, {', '.join(f'p.{name}' for name in _COLUMNS)}"
            f" FROM child_sync c {self._database.by_index('idx_child_sync_due')} JOIN issues p ON p.id = c.parent_id"
            " WHERE c.project_id = :project_id AND c.parent_kind = :parent_kind AND c.kind = :kind"
            f" AND {IS_DUE} AND (c.parent_updated_at, c.parent_id) > (:at, :id)"
            " ORDER BY c.parent_updated_at, c.parent_id LIMIT :limit",
            {
                **kind_params(ISSUE, _KIND, self._project_id),
                "at": self._after[0],
                "id": self._after[1],
                "limit": limit,
            },
        )
        issues = [
            DueIssue(key, iid, at, None if name is None else StatusRecord(name, *rest))
            for key, iid, at, name, *rest in rows
        ]
        if issues:
            self._after = (issues[-1].updated_at, issues[-1].id)
        return issues

    def is_paused(self) -> bool:
        """Return whether the server had no statuses at the last attempt, and the pause after it is not over."""
        refused = find_refusal(self._database, ISSUE, _KIND, self._project_id)
        return refused is not None and self._now_ms() < refused.next_attempt_at

    def record_refusal(self, error: str) -> None:
        """Record that the server has no statuses; the issues stay due, with the statuses that are stored."""
        with writing(self._database, self._lease) as tx:
            record_refusal(tx, ISSUE, _KIND, self._project_id, (), error, self._now_ms(), of_all=True)

    def write(self, issues: Sequence[DueIssue], statuses: Mapping[int, StatusRecord | None]) -> int:
        """Store the statuses of these issues; return the number of changes."""
        shown = [statuses[issue.iid] for issue in issues]
        rows = [
            (*((s.name, s.category, s.color, s.icon_name) if s else (None,) * len(_COLUMNS)), issue.id)
            for issue, s in zip(issues, shown, strict=True)
        ]
        with writing(self._database, self._lease) as tx:
            tx.execute_rows(_WRITE, (*_COLUMNS, "id"), rows)
            clear_refusals(tx, ISSUE, self._project_id, _KIND)
            parents = [Parent(issue.id, issue.iid, issue.updated_at, None, None) for issue in issues]
            record_read(tx, ISSUE, _KIND, self._project_id, parents, settled=True, now_ms=self._now_ms())
            self._seam(Seam.INSIDE_COMMIT)
        return sum(issue.held != status for issue, status in zip(issues, shown, strict=True))
