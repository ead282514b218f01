"""Writes a snapshot: one SQLite file for reading only, copied from a SQLite database in one read transaction.

The file is built under another name in the target's folder, synced, and then renamed, so that its readers see a whole
file or none. Rows are copied table by table into a new file: what is left out (secrets, tokens, replies to post,
feedback, the state of the service) was never in it, not even in unused pages. `KEPT` names every table that is copied;
a test compares it with the schema. The file is not in WAL mode, so it can be read where nothing can be created beside
it, and it carries a mark by which `SqliteDatabase` refuses to write to it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any

import apsw
from msgspec import Struct

from tidelore.core.errors import IntegrityError, StorageFailed, UserError
from tidelore.core.words import plain_words
from tidelore.store.database.sqlite import SNAPSHOT_MARK, Translation, readable_address
from tidelore.store.mirror.kinds import EVENT_TABLES
from tidelore.store.mirror.payloads import LEFT_OUT_PAYLOAD

_OWN = "project_id = :project"
_OF_ISSUE = "issue_id IN (SELECT id FROM origin.issues WHERE project_id = :project)"
_OF_REQUEST = "merge_request_id IN (SELECT id FROM origin.merge_requests WHERE project_id = :project)"

KEPT: Mapping[str, str | None] = MappingProxyType(
    {
        "projects": "id = :project",
        "payload_dictionaries": _OWN,
        **dict.fromkeys(("raw_payloads", "labels", "issues", "merge_requests", "discussions", "notes", "topics"), _OWN),
        **dict.fromkeys(EVENT_TABLES.values(), _OWN),
        **dict.fromkeys(("cursors", "child_sync", "refused_children", "mr_file_changes", "changes", "documents"), _OWN),
        **dict.fromkeys(("issue_labels", "issue_assignees"), _OF_ISSUE),
        **dict.fromkeys(("mr_labels", "mr_assignees", "mr_reviewers", "mr_closes_issues"), _OF_REQUEST),
        "topic_comments": "topic_id IN (SELECT id FROM origin.topics WHERE project_id = :project)",
        **dict.fromkeys(("change_counter", "schema_version", "sync_runs"), "1 = 1"),
        # Not of a project. Vectors of several projects share a row, so a snapshot of one project has none.
        **dict.fromkeys(("gaps", "accounts", "posts", "links", "post_links", "dirty_sources", "document_words")),
        **dict.fromkeys(("embedding_models", "embeddings", "embedding_blocks", "embedding_holes")),
    }
)
"""Every copied table, with the condition for the rows of one project; None: a snapshot of one project has no rows."""
LEFT_OUT = frozenset(
    {
        *("local_secrets", "action_tokens", "outbox", "own_logins", "project_members", "leases", "quarantine"),
        *("tracked_prs", "tracked_pr_history", "feedback_events", "operator_commands"),
        *("issue_comment_cursors", "issue_followups"),
        *("service_jobs", "source_access", "source_budgets", "source_pauses", "rate_budgets", "poll_costs"),
        "metric_counters",
        *("saved_searches", "hook_deliveries", "hook_projects"),
    }
)
"""Every table that exists in a snapshot without rows."""
_REPLACED = {
    ("cursors", "etag"): "NULL",
    ("cursors", "url"): "NULL",
    ("projects", "base_url"): "NULL",
    ("projects", "tracking_rule"): "NULL",
    ("sync_runs", "holder_host"): "''",
    ("sync_runs", "holder_pid"): "0",
    ("sync_runs", "holder_started"): "''",
}
"""Columns that hold nothing a reader needs: validators of requests, settings, and the machine that ran a command."""
_WITHOUT_PAYLOAD = {
    ("raw_payloads", "payload"): "x''",
    ("raw_payloads", "encoding"): "'identity'",
    ("raw_payloads", "dictionary_id"): "NULL",
    ("raw_payloads", "resource_type"): f"CASE resource_type WHEN 'tombstone' THEN resource_type"
    f" ELSE '{LEFT_OUT_PAYLOAD}' END",
}
_COUNTED = ("issues", "merge_requests", "discussions", "notes", "topics", "posts", "documents", "raw_payloads")
_INDEXES = {
    "documents_fts": "documents",
    "documents_trigram": "documents",
    "document_words_trigram": "document_words",
}
"""Each full-text index and the table whose rows it indexes."""


class SnapshotPlan(Struct, frozen=True, kw_only=True):
    """What to write where: `project_id` selects one project."""

    source: str
    target: str
    project_id: int | None = None
    payloads: bool = True
    replace: bool = False


class WrittenSnapshot(Struct, frozen=True):
    """The size of the file in bytes, and the number of rows of the main tables."""

    size: int
    rows: dict[str, int]


def write_snapshot(plan: SnapshotPlan) -> WrittenSnapshot:
    """Write the snapshot; at any error the target is as it was."""
    _refuse_target(plan)
    with _temporary(plan.target) as path, Translation(plan.target, threading.RLock()):
        rows = _fill(path, plan)
        size = os.path.getsize(path)
        _sync(path)
        _put_in_place(path, plan)
    return WrittenSnapshot(size, rows)


def is_snapshot(path: str) -> bool:
    """Return whether a database file is a snapshot, by the mark in its header."""
    with open(path, "rb") as file:
        return file.read(72)[68:] == SNAPSHOT_MARK.to_bytes(4, "big")


def _refuse_target(plan: SnapshotPlan) -> None:
    target = plan.target
    if os.path.exists(target):
        if os.path.samefile(target, plan.source):
            raise UserError(f"{target} is the database itself", fix="choose another file", path=target)
        if not plan.replace:
            raise UserError(f"{target} exists", fix="choose another file, or overwrite it with --force", path=target)
        if not os.path.isfile(target):
            raise UserError(f"{target} is not a file", fix="choose another file", path=target)
    for ending in ("-wal", "-journal"):
        # SQLite would apply it to the new file.
        if os.path.exists(target + ending):
            raise UserError(
                f"{target} is a database in use: {target}{ending} exists", fix="choose another file", path=target
            )


@contextmanager
def _temporary(target: str) -> Iterator[str]:
    """Create an empty file in the target's folder; delete it at the end if it was not renamed."""
    from secrets import token_hex

    folder, name = os.path.split(os.path.abspath(target))
    path = os.path.join(folder, f".{name}.{token_hex(6)}.part")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        raise StorageFailed(
            f"cannot write {target}: {error.strerror}", fix="choose a file in a folder you can write to", path=target
        ) from None
    try:
        yield path
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _put_in_place(path: str, plan: SnapshotPlan) -> None:
    try:
        if plan.replace:
            os.replace(path, plan.target)
        else:
            # Unlike a rename, this fails if another program has created the target meanwhile.
            os.link(path, plan.target)
        _sync(os.path.dirname(os.path.abspath(plan.target)))
    except FileExistsError:
        raise UserError(f"{plan.target} exists", fix="overwrite it with --force", path=plan.target) from None
    except OSError as error:
        raise StorageFailed(
            f"cannot write {plan.target}: {error.strerror}", fix="write it with --force, or elsewhere", path=plan.target
        ) from None


def _fill(path: str, plan: SnapshotPlan) -> dict[str, int]:
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(path, flags=flags)
    try:
        # A crash leaves a file that is thrown away, so it needs no journal.
        connection.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA application_id = {SNAPSHOT_MARK}")
        connection.execute("ATTACH :address AS origin", {"address": readable_address(plan.source)})
        with connection:
            # All reads of one transaction see the database as it was at the first of them.
            _create(connection, ("table",))
            _copy_rows(connection, plan)
            _index_text(connection, whole=plan.project_id is None)
            _create(connection, ("index", "view", "trigger"))
        broken = connection.execute("PRAGMA main.foreign_key_check").fetchall()
        if broken:
            table, _, parent, _ = broken[0]
            raise IntegrityError(
                f"{plan.source}: a row of {table} refers to a missing row of {parent}", fix="run `lore check`"
            )
        columns = ", ".join(f"(SELECT COUNT(*) FROM main.{table})" for table in _COUNTED)
        counts: list[Any] = list(connection.execute(f"SELECT {columns}").fetchall()[0])
        return dict(zip(_COUNTED, counts, strict=True))
    finally:
        connection.close()


def _create(connection: apsw.Connection, kinds: tuple[str, ...]) -> None:
    """Create what the database has, in the order in which it was created there. Shadow tables create themselves."""
    shadows = {name for (name,) in connection.execute("SELECT name FROM pragma_table_list WHERE type = 'shadow'")}
    made = connection.execute("SELECT type, name, sql FROM origin.sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid")
    for kind, name, sql in [tuple(map(str, row)) for row in made]:
        if kind in kinds and name not in shadows and not name.startswith("sqlite_"):
            connection.execute(sql)


def _copy_rows(connection: apsw.Connection, plan: SnapshotPlan) -> None:
    replaced = _REPLACED | ({} if plan.payloads else _WITHOUT_PAYLOAD)
    for table, of_project in KEPT.items():
        condition = "1 = 1" if plan.project_id is None else of_project
        if condition is None or (table == "payload_dictionaries" and not plan.payloads):
            continue
        if table == "sync_runs":
            condition = "status <> 'running'"
        found = connection.execute("SELECT name FROM pragma_table_info(:table, 'main')", {"table": table})
        columns = [name for (name,) in found]
        values = ", ".join(replaced.get((table, name), name) for name in columns)
        connection.execute(
            f"INSERT INTO main.{table} ({', '.join(columns)}) SELECT {values} FROM origin.{table} WHERE {condition}",
            {"project": plan.project_id},
        )


def _index_text(connection: apsw.Connection, *, whole: bool) -> None:
    """Copy the full-text indexes; of one project, build them anew, so that they hold no word of another."""
    if not whole:
        words: set[str] = set()
        for row in connection.execute("SELECT title, content FROM main.documents"):
            words |= plain_words(row)
        connection.executemany("INSERT INTO main.document_words (word) VALUES (?)", ((word,) for word in sorted(words)))
        for index in _INDEXES:
            connection.execute(f"INSERT INTO main.{index} ({index}) VALUES ('rebuild')")
        return
    for index in _INDEXES:
        for part in ("data", "idx", "docsize", "config"):
            connection.execute(f"DELETE FROM main.{index}_{part}")
            connection.execute(f"INSERT INTO main.{index}_{part} SELECT * FROM origin.{index}_{part}")
