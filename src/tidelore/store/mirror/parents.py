"""Stores issues and merge requests: their rows, labels, people and tombstones.

A `Family` describes one table as data, and one function writes both tables. Labels and people are replaced on every
upsert, so what was removed remotely is removed here. A tombstone (`bury`) keeps identity and times only: title, text,
people, labels, children, payloads, documents and vectors are removed in the same transaction. The row then refers to
one empty payload, because its columns require one. An item that is seen again is written like a new one, and all its
children become due (`upsert_sql`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeGuard

import msgspec
from msgspec import Struct

from tidelore.core.content import digest
from tidelore.core.model import Item, ListedRecord, ParentRecord, PullIssueRecord, RemoteId, Scope, Version
from tidelore.store.database.port import Database, Row, Transaction
from tidelore.store.mirror.child_progress import (
    carry_over,
    forget_parents,
    make_due,
    note_parents,
    synced_parents,
)
from tidelore.store.mirror.documents import SOURCE_TYPES, mark_parents, remove_documents_of_threads
from tidelore.store.mirror.kinds import EVENT_TABLES, ISSUE, MERGE_REQUEST, ParentKind
from tidelore.store.mirror.payloads import Content, Pack, PayloadReader, forget_payloads, store_contents
from tidelore.store.mirror.quarantine import release, release_children


def relink_labels(
    tx: Transaction,
    project_id: int,
    table: str,
    column: str,
    names_by_parent: Mapping[int, Sequence[str]],
    fresh: bool,  # noqa: FBT001 - newly created rows have no links to clear
) -> int:
    """Set the labels of each parent to exactly these; return how many labels are new to the project."""
    if not fresh:
        _unlink(tx, table, column, names_by_parent)
    wanted = {name for names in names_by_parent.values() for name in names}
    if not wanted:
        return 0
    known = _label_ids(tx, project_id)
    created = sorted(wanted - known.keys())
    if created:
        tx.execute_many(
            "INSERT INTO labels (project_id, name) VALUES (:project_id, :name)"
            " ON CONFLICT (project_id, name) DO NOTHING",
            [{"project_id": project_id, "name": name} for name in created],
        )
        known = _label_ids(tx, project_id)
    tx.execute_rows(
        f"INSERT INTO {table} ({column}, label_id) VALUES (:parent, :label) ON CONFLICT DO NOTHING",
        ("parent", "label"),
        [(parent, known[name]) for parent, names in names_by_parent.items() for name in names],
    )
    return len(created)


def relink_people(
    tx: Transaction,
    table: str,
    column: str,
    names_by_parent: Mapping[int, Sequence[str]],
    fresh: bool,  # noqa: FBT001 - see above
) -> int:
    """Set the people of each parent to exactly these; return the number of links."""
    if not fresh:
        _unlink(tx, table, column, names_by_parent)
    rows = [(parent, name) for parent, names in names_by_parent.items() if names for name in dict.fromkeys(names)]
    if rows:
        tx.execute_rows(
            f"INSERT INTO {table} ({column}, username) VALUES (:parent, :username)", ("parent", "username"), rows
        )
    return len(rows)


def _unlink(tx: Transaction, table: str, column: str, parents: Mapping[int, Sequence[str]]) -> None:
    tx.execute(f"DELETE FROM {table} WHERE {column} {tx.among('ids')}", {"ids": tx.integers(parents)})


def _label_ids(tx: Transaction, project_id: int) -> dict[str, int]:
    rows = tx.execute("SELECT name, id FROM labels WHERE project_id = :project_id", {"project_id": project_id})
    return dict(rows)


class LinkCounts(Struct):
    """Counts of the labels and people on a page."""

    labels_created: int = 0
    assignees: int = 0
    reviewers: int = 0

    def add(self, other: LinkCounts) -> None:
        self.labels_created += other.labels_created
        self.assignees += other.assignees
        self.reviewers += other.reviewers


IDENTITY = ("remote_id", "project_id", "last_seen_at", "content_hash")
"""The last columns of every parent table, after its specific ones."""


def upsert_sql(kind: ParentKind, columns: Sequence[str], keeps: Sequence[str] = ()) -> str:
    """Return the upsert statement of a parent table; a row seen again is no longer a tombstone.

    Columns in `keeps` are only set when the row is new.
    """
    table = kind.table
    names = (*columns, *IDENTITY)
    values = ", ".join(f":{name}" for name in names)
    renewed = (*(name for name in columns if name not in keeps), "last_seen_at", "content_hash")
    updates = ", ".join(f"{name} = excluded.{name}" for name in renewed)
    address = "remote_id = CAST(:remote_id AS TEXT) AND content_hash = :payload_hash"
    payload = f"(SELECT id FROM raw_payloads WHERE {address})"
    return (
        f"INSERT INTO {table} ({', '.join(names)}, raw_payload_id) VALUES ({values}, {payload})"
        f" ON CONFLICT (project_id, remote_id) DO UPDATE SET {updates},"
        " raw_payload_id = excluded.raw_payload_id, deleted_at = NULL"
    )


def row_ids(tx: Transaction, table: str, project_id: int, remote_ids: Iterable[int]) -> dict[int, int]:
    """Return the row id of each remote id."""
    ((found,),) = tx.execute(
        f"SELECT {tx.object_of('remote_id', 'id')} FROM {table}"
        f" WHERE project_id = :project_id AND remote_id {tx.among('ids')}",
        {"project_id": project_id, "ids": tx.integers(remote_ids)},
    )
    return msgspec.json.decode(found, type=dict[int, int])


def silent_changes(
    tx: Transaction, kind: ParentKind, project_id: int, before: Mapping[int, Row], ids: Mapping[int, int]
) -> dict[str, list[int]]:
    """Return, for each kind of children, the parents whose children changed although `updated_at` did not.

    A change shows in the parent's `telling_columns`. `before` are the rows as `telling_rows` returned them before the
    parents were written.
    """
    after = telling_rows(tx, kind, project_id, before)
    columns = telling_columns(kind)
    return {
        name: [
            ids[remote_id]
            for remote_id, row in after.items()
            if row[0] == before[remote_id][0] and any(row[i] != before[remote_id][i] for i in places)
        ]
        for name, tells in kind.children.items()
        if (places := [columns.index(column) for column in tells])
    }


def unaffected(
    tx: Transaction, kind: ParentKind, name: str, project_id: int, before: Mapping[int, Row], ids: Mapping[int, int]
) -> list[int]:
    """Return the parents that were written without a change in the columns that show a change in these children."""
    places = [telling_columns(kind).index(column) for column in kind.children[name]]
    return [
        ids[remote_id]
        for remote_id, row in telling_rows(tx, kind, project_id, before).items()
        if all(row[place] == before[remote_id][place] for place in places)
    ]


def telling_columns(kind: ParentKind) -> tuple[str, ...]:
    """Return `updated_at` and the columns that show a change in children."""
    return ("updated_at", *dict.fromkeys(column for tells in kind.children.values() for column in tells))


def telling_rows(tx: Transaction, kind: ParentKind, project_id: int, remote_ids: Iterable[int]) -> dict[int, Row]:
    """Return the values of `telling_columns` for each live parent."""
    rows = tx.execute(
        f"SELECT remote_id, {', '.join(telling_columns(kind))} FROM {kind.table}"
        f" WHERE project_id = :project_id AND deleted_at IS NULL AND remote_id {tx.among('ids')}",
        {"project_id": project_id, "ids": tx.integers(remote_ids)},
    )
    return {remote_id: tuple(values) for remote_id, *values in rows}


def stored_versions(
    database: Database, table: str, project_id: int, remote_ids: Iterable[int]
) -> dict[RemoteId, Version]:
    """Return the stored version of each remote id, without tombstones."""
    rows = database.read(
        f"SELECT remote_id, updated_at, content_hash FROM {table}"
        f" WHERE project_id = :project_id AND deleted_at IS NULL AND remote_id {database.among('ids')}",
        {"project_id": project_id, "ids": database.integers(remote_ids)},
    )
    return {remote_id: Version(remote_id, updated_at, bytes(digest)) for remote_id, updated_at, digest in rows}


def held_between(
    database: Database,
    table: str,
    project_id: int,
    created_from: int,
    created_before: int | None,
    key: str = "remote_id",
) -> dict[RemoteId, str]:
    """Return the stored items that were created in a span: remote id (or another column) and iid."""
    rows = database.read(
        f"SELECT {key}, iid FROM {table} WHERE project_id = :project_id AND deleted_at IS NULL AND {key} IS NOT NULL"
        " AND created_at >= :created_from AND created_at < :created_before",
        {
            "project_id": project_id,
            "created_from": created_from,
            "created_before": 2**62 if created_before is None else created_before,
        },
    )
    return {remote_id: str(iid) for remote_id, iid in rows}


def live_payloads(database: Database, table: str, path: str) -> dict[int, bytes]:
    """Return the stored payload of every live row of a project. For comparisons; not for large projects."""
    rows = database.read(
        f"SELECT t.remote_id, r.encoding, r.payload, r.dictionary_id FROM {table} t"
        " JOIN raw_payloads r ON r.id = t.raw_payload_id JOIN projects p ON p.id = t.project_id"
        " WHERE p.path = :path AND t.deleted_at IS NULL",
        {"path": path},
    )
    reader = PayloadReader(database.read)
    return {remote_id: reader.unpack(*packed) for remote_id, *packed in rows}


class Family:
    """Writes one table of parents. `keeps` are columns that the source's list does not contain."""

    def __init__(
        self,
        kind: ParentKind,
        resource_type: str,
        *,
        columns: Sequence[str],
        flags: Sequence[str],
        keeps: Sequence[str] = (),
    ) -> None:
        self.kind = kind
        self.table = kind.table
        self.resource_type = resource_type
        self.names = (*columns, *flags, *IDENTITY, "payload_hash")
        self.upsert = upsert_sql(kind, (*columns, *flags), keeps)
        self._columns = tuple(columns)
        self._values = attrgetter(*columns)
        self._flags = tuple(flags)
        self._flag_values = [attrgetter(flag) for flag in flags]

    def of_source(
        self,
        children: Collection[str],
        asides: tuple[str, ...],
        by_columns: tuple[str, ...],
        keeps: Sequence[str],
    ) -> Family:
        """Return this family as one source has it: with its kinds of children, and without columns it does not list."""
        return Family(
            self.kind.having(children, asides, by_columns),
            self.resource_type,
            columns=self._columns,
            flags=self._flags,
            keeps=keeps,
        )

    def stored(self, database: Database, project_id: int, ids: Iterable[int]) -> dict[RemoteId, Version]:
        """Return the stored version of each remote id, without tombstones."""
        return stored_versions(database, self.table, project_id, ids)

    def held(
        self, database: Database, project_id: int, created_from: int, created_before: int | None
    ) -> dict[RemoteId, str]:
        """Return the stored items that were created in a span: remote id and iid."""
        return held_between(database, self.table, project_id, created_from, created_before)

    def write(
        self, tx: Transaction, project_id: int, items: Sequence[Item[ListedRecord]], now_ms: int, pack: Pack
    ) -> LinkCounts:
        """Store new versions with their payloads, labels and people."""
        parents = only_parents(items)
        contents = [Content(str(item.version.id), payload_digest(item), item.payload) for item in parents]
        store_contents(tx, project_id, self.resource_type, contents, pack=pack, now_ms=now_ms)
        known = row_ids(tx, self.table, project_id, [item.record.remote_id for item in parents])
        return write_parents(tx, self, project_id, parents, set(known), now_ms)

    def bury(self, tx: Transaction, scope: Scope, ids: Iterable[int], now_ms: int) -> None:
        """Turn items into tombstones, by their remote ids."""
        bury(tx, scope, self.kind, row_ids(tx, self.table, scope.project, ids).values(), now_ms)

    def row(self, project_id: int, item: Item[ParentRecord], now_ms: int) -> Row:
        """Return the values of `names`; flags are stored as integers in both databases."""
        record = item.record
        return (
            *self._values(record),
            *[int(value(record)) for value in self._flag_values],
            record.remote_id,
            project_id,
            now_ms,
            item.version.digest,
            # A version may be that of the record, which is not the same as that of the payload.
            payload_digest(item),
        )


def payload_digest(item: Item[object]) -> bytes:
    """Return the digest of an item's payload."""
    return item.payload_digest or digest(item.payload)


def only_parents(items: Sequence[Item[ListedRecord]]) -> Sequence[Item[ParentRecord]]:
    """Return the same items; raises TypeError if one of them is not an issue or merge request by itself."""
    if not _are_parents(items):
        raise TypeError("expected issues or merge requests")
    return items


def _are_parents(items: Sequence[Item[ListedRecord]]) -> TypeGuard[Sequence[Item[ParentRecord]]]:
    return PullIssueRecord not in {type(item.record) for item in items}


def write_parents(
    tx: Transaction, family: Family, project_id: int, items: Sequence[Item[ParentRecord]], known: set[int], now_ms: int
) -> LinkCounts:
    """Upsert parents whose payloads are stored, and replace their labels and people.

    Children of a new version become due, and so do those that may have changed without a new `updated_at`.
    """
    before = telling_rows(tx, family.kind, project_id, known) if known else {}
    tx.execute_rows(family.upsert, family.names, [family.row(project_id, item, now_ms) for item in items])
    ids = row_ids(tx, family.table, project_id, [item.record.remote_id for item in items])
    kind = family.kind
    unchanged = {
        name: synced_parents(tx, kind, name, project_id, unaffected(tx, kind, name, project_id, before, ids))
        for name in (kind.by_columns if before else ())
    }
    note_parents(tx, kind, ids.values())
    for name, parents in unchanged.items():
        carry_over(tx, kind, name, project_id, parents)
    for name, changed in silent_changes(tx, kind, project_id, before, ids).items() if before else ():
        make_due(tx, kind, name, project_id, changed)
    mark_parents(tx, family.kind, ids.values(), now_ms, [ids[remote_id] for remote_id in known])
    counts = LinkCounts()
    for fresh in (True, False):
        group = [item.record for item in items if (item.record.remote_id not in known) is fresh]
        if not group:
            continue
        labels = {ids[record.remote_id]: record.labels for record in group}
        counts.labels_created += relink_labels(tx, project_id, kind.label_table, kind.column, labels, fresh)
        for field, table in kind.people.items():
            names = {ids[record.remote_id]: getattr(record, field) for record in group}
            linked = relink_people(tx, table, kind.column, names, fresh)
            setattr(counts, field, getattr(counts, field) + linked)
    return counts


ISSUES = Family(
    ISSUE,
    "issue",
    columns=(
        "iid", "title", "description", "state", "author_username", "milestone_title", "due_date",
        "issue_type", "user_notes_count", "time_estimate_seconds", "time_spent_seconds",
        "references_short", "references_full", "state_reason", "author_association", "reactions", "node_id",
        "created_at", "updated_at", "closed_at", "web_url",
    ),
    flags=("confidential", "discussion_locked"),
)  # fmt: skip


MERGE_REQUESTS = Family(
    MERGE_REQUEST,
    "merge_request",
    columns=(
        "iid", "title", "description", "state", "author_username", "source_branch", "target_branch",
        "head_sha", "references_short", "references_full", "detailed_merge_status", "merge_user_username",
        "milestone_title", "user_notes_count", "author_association", "merge_commit_sha", "node_id", "created_at",
        "updated_at", "merged_at", "closed_at", "web_url",
    ),
    flags=("draft",),
)  # fmt: skip


EMPTY = digest(b"")
_FAMILIES: Mapping[str, Family] = MappingProxyType({family.table: family for family in (ISSUES, MERGE_REQUESTS)})
_CHILD_TABLES = {
    "issues": (*EVENT_TABLES.values(),),
    "merge_requests": (*EVENT_TABLES.values(), "mr_closes_issues", "mr_file_changes"),
}
_CLEARED = {
    "issues": (
        "title = '', description = NULL, author_username = NULL, milestone_title = NULL, due_date = NULL,"
        " discussion_locked = 0, issue_type = NULL, user_notes_count = 0, time_estimate_seconds = 0,"
        " time_spent_seconds = 0, status_name = NULL, status_category = NULL, status_color = NULL,"
        " status_icon_name = NULL, state_reason = NULL, author_association = NULL, reactions = 0"
    ),
    "merge_requests": (
        "title = '', description = NULL, author_username = NULL, milestone_title = NULL, draft = 0,"
        " source_branch = NULL, target_branch = NULL, head_sha = NULL, detailed_merge_status = NULL,"
        " merge_user_username = NULL, user_notes_count = 0, author_association = NULL, reactions = 0,"
        " merge_commit_sha = NULL"
    ),
}


def bury(tx: Transaction, scope: Scope, kind: ParentKind, ids: Iterable[int], now_ms: int) -> None:
    """Turn rows that no longer exist on the forge into tombstones, and remove everything below them."""
    rows = tx.execute(
        f"SELECT id, iid, remote_id FROM {kind.table} WHERE deleted_at IS NULL AND id {tx.among('ids')}",
        {"ids": tx.integers(ids)},
    )
    if not rows:
        return
    buried = [row_id for row_id, _, _ in rows]
    remote_ids = [remote_id for _, _, remote_id in rows]
    # Before the discussions are deleted, so that a document being generated from one of them is removed too.
    mark_parents(tx, kind, buried, now_ms)
    _remove_discussions(tx, scope.project, kind, buried)
    _remove_links(tx, scope, kind, buried, remote_ids)
    forget_parents(tx, kind, scope.project, buried)
    clear_rows(tx, kind.table, _CLEARED[kind.table], buried, now_ms)
    family = _FAMILIES[kind.table]
    forget_payloads(tx, scope.project, family.resource_type, kind.table, [str(key) for key in remote_ids])
    remove_documents_of_threads(tx, SOURCE_TYPES[kind.table], buried)
    release_children(tx, scope, [iid for _, iid, _ in rows])
    release(tx, scope, [str(key) for key in remote_ids])


def buried_among(tx: Transaction, kind: ParentKind, ids: Iterable[int]) -> set[int]:
    """Return which rows are tombstones, below which nothing may be stored."""
    rows = tx.execute(
        f"SELECT id FROM {kind.table} WHERE deleted_at IS NOT NULL AND id {tx.among('ids')}", {"ids": tx.integers(ids)}
    )
    return {row_id for (row_id,) in rows}


def _remove_discussions(tx: Transaction, project_id: int, kind: ParentKind, ids: Sequence[int]) -> None:
    params: dict[str, Any] = {"ids": tx.integers(ids)}
    ours = f"{kind.column} {tx.among('ids')}"
    threads = tx.execute(f"SELECT remote_id FROM discussions WHERE {ours}", params)
    notes = tx.execute(
        f"SELECT n.remote_id FROM notes n JOIN discussions d ON d.id = n.discussion_id WHERE d.{ours}", params
    )
    tx.execute(f"DELETE FROM discussions WHERE {ours}", params)
    forget_payloads(tx, project_id, "note", "notes", [str(key) for (key,) in notes])
    forget_payloads(tx, project_id, "discussion", "discussions", [key for (key,) in threads])


def _remove_links(
    tx: Transaction, scope: Scope, kind: ParentKind, ids: Sequence[int], remote_ids: Sequence[int]
) -> None:
    for table in (*_CHILD_TABLES[kind.table], kind.label_table, *kind.people.values()):
        tx.execute(f"DELETE FROM {table} WHERE {kind.column} {tx.among('ids')}", {"ids": tx.integers(ids)})
    if kind.table == ISSUE.table:
        # Merge requests that close the issue contain its title.
        tx.execute(
            f"DELETE FROM mr_closes_issues WHERE issue_remote_id {tx.among('ids')} AND merge_request_id IN"
            " (SELECT m.id FROM merge_requests m JOIN projects p ON p.id = m.project_id WHERE p.source = :source)",
            {"ids": tx.integers(remote_ids), "source": scope.source},
        )


def clear_rows(tx: Transaction, table: str, cleared: str, ids: Sequence[int], now_ms: int) -> None:
    """Turn rows into tombstones, setting the `cleared` columns; they refer to one empty payload."""
    tx.execute(
        "INSERT INTO raw_payloads (content_hash, project_id, resource_type, remote_id, encoding, payload, fetched_at)"
        " VALUES (:empty, NULL, 'tombstone', '', 'identity', :payload, :now)"
        " ON CONFLICT (remote_id, content_hash) DO NOTHING",
        {"empty": EMPTY, "payload": b"", "now": now_ms},
    )
    tx.execute(
        f"UPDATE {table} SET deleted_at = :now, {cleared}, content_hash = :empty,"
        " raw_payload_id = (SELECT id FROM raw_payloads WHERE remote_id = '' AND content_hash = :empty)"
        f" WHERE id {tx.among('ids')}",
        {"now": now_ms, "empty": EMPTY, "ids": tx.integers(ids)},
    )
