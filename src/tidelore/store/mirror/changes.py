"""Numbers the changes of items in the order of commits: tables `changes` and `change_counter`.

A change is noted in the transaction that makes it, and numbered by its last statements. The counter's row stays locked
until the commit, so a transaction that commits later has a higher number: who has read up to a number never misses one
below it. Because no other lock is taken after the counter's, transactions cannot wait for each other in a circle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tidelore.store.database.port import Row, Transaction

_TABLES = {"issue": "issues", "merge_request": "merge_requests", "topic": "topics", "post": "posts"}


def note_changes(tx: Transaction, source_type: str, ids: Iterable[int], now_ms: int) -> None:
    """Note that sources change in this transaction; a discussion counts as a change of its item."""
    if source_type != "discussion":
        tx.gathered(number_changes).add((source_type, tuple(ids), now_ms))
        return
    rows = tx.execute(
        f"SELECT DISTINCT issue_id, merge_request_id FROM discussions WHERE id {tx.among('ids')}",
        {"ids": tx.integers(ids)},
    )
    noted = tx.gathered(number_changes)
    noted.add(("issue", tuple([issue for issue, _ in rows if issue is not None]), now_ms))
    noted.add(("merge_request", tuple([request for _, request in rows if request is not None]), now_ms))


def number_changes(tx: Transaction, noted: Collection[Row]) -> None:
    """Give the noted changes the next number."""
    changed: dict[str, set[int]] = {}
    for source_type, ids, _ in noted:
        changed.setdefault(source_type, set()).update(ids)
    if not any(changed.values()):
        return
    now = max(row[2] for row in noted)
    ((seq,),) = tx.execute(
        "INSERT INTO change_counter (id, seq, changed_at) VALUES (1, 1, :now)"
        " ON CONFLICT (id) DO UPDATE SET seq = change_counter.seq + 1, changed_at = excluded.changed_at RETURNING seq",
        {"now": now},
    )
    for source_type, table in _TABLES.items():
        if ids := sorted(changed.get(source_type, ())):
            project = "NULL" if source_type == "post" else "project_id"
            tx.execute(
                "INSERT INTO changes (thread_type, thread_id, project_id, first_seq, seq, changed_at)"
                f" SELECT :type, id, {project}, :seq, :seq, :now FROM {table} WHERE id {tx.among('ids')}"
                " ON CONFLICT (thread_type, thread_id) DO UPDATE SET seq = excluded.seq,"
                " changed_at = excluded.changed_at, project_id = excluded.project_id",
                {"type": source_type, "seq": seq, "now": now, "ids": tx.integers(ids)},
            )
