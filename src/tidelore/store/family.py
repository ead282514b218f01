"""One family of parents as data: its table, its own columns, what is linked to its rows; and the way to write it.

Issues and merge requests differ in these facts only, so one function writes both. Links are made anew on every
upsert: what vanished remotely vanishes here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

from tidelore.core.model import Item, ParentRecord
from tidelore.store.child_progress import make_due, note_parents
from tidelore.store.database import Row, Transaction
from tidelore.store.dirty import mark_parents
from tidelore.store.kinds import ParentKind
from tidelore.store.labels import relink_labels, relink_people
from tidelore.store.parents import IDENTITY, LinkCounts, row_ids, silent_changes, telling_rows, upsert_sql


class Family:
    """The facts about one table of parents. `people` maps a field of the record to its junction table."""

    def __init__(
        self,
        kind: ParentKind,
        resource_type: str,
        *,
        columns: Sequence[str],
        flags: Sequence[str],
        label_table: str,
        people: Mapping[str, str],
    ) -> None:
        self.kind = kind
        self.table = kind.table
        self.resource_type = resource_type
        self.parent_column = kind.column
        self.label_table = label_table
        self.people = people
        self.names = (*columns, *flags, *IDENTITY)
        self.upsert = upsert_sql(kind, (*columns, *flags))
        self._values = attrgetter(*columns)
        self._flags = tuple(flags)

    def row(self, project_id: int, item: Item[ParentRecord], now_ms: int) -> Row:
        """Return the values of `names`; flags are integers because both databases store them so."""
        record = item.record
        return (
            *self._values(record),
            *[int(getattr(record, flag)) for flag in self._flags],
            record.remote_id,
            project_id,
            now_ms,
            item.version.digest,
        )


def write_parents(
    tx: Transaction, family: Family, project_id: int, items: Sequence[Item[ParentRecord]], known: set[int], now_ms: int
) -> LinkCounts:
    """Upsert parents whose payloads are stored, and link their labels and people anew.

    Children of a new version become due, and those that a change without a new `updated_at` may concern.
    """
    before = telling_rows(tx, family.kind, project_id, known) if known else {}
    tx.execute_rows(family.upsert, family.names, [family.row(project_id, item, now_ms) for item in items])
    ids = row_ids(tx, family.table, project_id, [item.record.remote_id for item in items])
    versions = {ids[item.record.remote_id]: item.record.updated_at for item in items}
    note_parents(tx, family.kind, project_id, versions)
    for name, changed in silent_changes(tx, family.kind, project_id, before, ids).items() if before else ():
        make_due(tx, family.kind, name, project_id, changed)
    mark_parents(tx, family.kind, ids.values(), now_ms)
    counts = LinkCounts()
    for fresh in (True, False):
        group = [item.record for item in items if (item.record.remote_id not in known) is fresh]
        if not group:
            continue
        labels = {ids[record.remote_id]: record.labels for record in group}
        counts.labels_created += relink_labels(tx, project_id, family.label_table, family.parent_column, labels, fresh)
        for field, table in family.people.items():
            names = {ids[record.remote_id]: getattr(record, field) for record in group}
            linked = relink_people(tx, table, family.parent_column, names, fresh)
            setattr(counts, field, getattr(counts, field) + linked)
    return counts
