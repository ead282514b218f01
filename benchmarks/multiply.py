"""A long history made from a short one: every merge request of a copy, with all that hangs on it, many times over.

Owns the generated SQL. It works on a copy made by the product, so rows have the sizes a mirror gives them; ids,
numbers and remote ids are shifted, so every reference holds and every unique index does.
"""

from __future__ import annotations

from pathlib import Path

import apsw

TABLES = (
    "raw_payloads",
    "merge_requests",
    "mr_labels",
    "mr_assignees",
    "mr_reviewers",
    "discussions",
    "notes",
    "resource_state_events",
    "resource_label_events",
    "resource_milestone_events",
    "mr_closes_issues",
    "mr_file_changes",
)
REFERENCES = {"merge_request_id": "merge_requests", "discussion_id": "discussions", "raw_payload_id": "raw_payloads"}
REMOTE_SPAN = 1_000_000_000


def multiply(database: Path, times: int) -> None:
    """Make the copy hold each merge request this many times."""
    connection = apsw.Connection(str(database))
    # Nobody else has this file, and a machine that fails half way begins again.
    connection.execute("PRAGMA synchronous = OFF; PRAGMA cache_size = -200000; PRAGMA wal_autocheckpoint = 20000")
    spans = {table: connection.execute(f"SELECT MAX(id) FROM {table}").get for table in REFERENCES.values()}
    for table in TABLES:
        described = connection.execute(f"SELECT name, type FROM pragma_table_info('{table}')")
        columns = {str(name): str(kind) for name, kind in described}
        own = {"id": connection.execute(f"SELECT MAX(id) FROM {table}").get} if "id" in columns else {}
        values = ", ".join(_value(name, kind, spans, own) for name, kind in columns.items())
        names = ", ".join(columns)
        # Of the events and discussions of issues there is one set: what belongs to no merge request stays single.
        owned = " WHERE b.merge_request_id IS NOT NULL" if "merge_request_id" in columns else ""
        if table == "notes":
            owned = " WHERE b.discussion_id IN (SELECT id FROM discussions WHERE merge_request_id IS NOT NULL)"
        with connection:
            connection.execute(f"CREATE TEMP TABLE base AS SELECT * FROM {table} b{owned}")
            connection.execute(
                "WITH RECURSIVE copies (k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM copies WHERE k + 1 < ?)"
                f" INSERT INTO {table} ({names}) SELECT {values} FROM copies CROSS JOIN base b",
                (times,),
            )
            connection.execute("DROP TABLE temp.base")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _value(name: str, kind: str, spans: dict[str, int], own: dict[str, int]) -> str:
    if name in own:
        return f"b.{name} + k * {own[name] or 0}"
    if name in REFERENCES:
        return f"b.{name} + k * {spans[REFERENCES[name]]}"
    if name == "iid":
        return f"b.{name} + k * {spans['merge_requests']}"
    if name == "remote_id":
        return f"b.{name} || '~' || k" if kind == "TEXT" else f"b.{name} + k * {REMOTE_SPAN}"
    if name == "updated_at":
        return f"b.{name} + k"
    return f"b.{name}"
