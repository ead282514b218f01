"""Stores the run ledger (table `sync_runs`) and removes old runs.

Only a running row can be changed. Failed runs are kept longer than successful ones. Always kept: running rows, the
newest row (so numbers are never reused), the last success of each command, and the last run that brought the mirror
up to date. Rows are removed in small batches, so that writers do not wait.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from tidelore.core.errors import NotFound, StorageFailed
from tidelore.core.process import ProcessIdentity
from tidelore.engine.ledger import Counters, RunRow, Surgery
from tidelore.store.database.port import Database
from tidelore.store.database.statements import insert
from tidelore.store.work.last_sync import WALKED
from tidelore.store.work.leases import Unended

_MUTABLE = frozenset(
    {"status", "phase", "error", "finished_at", "heartbeat_at", "cancelled_at", "warnings_count", "note"}
    | {"outcomes_json", "mirrored_at", "progress_done", "progress_total", "progress_note"}
) | frozenset(Counters.__struct_fields__)

UNFINISHED = ("failed", "cancelled", "crashed")
"""The final states of runs that were not completed."""


class RunView(Struct, frozen=True):
    """A run for display."""

    id: int
    command: str
    mode: str
    status: str
    phase: str
    started_at: int
    finished_at: int | None
    issues_fetched: int
    mrs_fetched: int
    issues_ingested: int
    mrs_ingested: int
    quarantined: int
    requests: int
    warnings_count: int
    progress_done: int | None
    progress_total: int | None
    progress_note: str | None
    note: str | None
    error: str | None


class RunRecord(RunView, frozen=True):
    """A run with every column of the ledger."""

    heartbeat_at: int
    cancelled_at: int | None
    mirrored_at: int | None
    skipped_stale: int
    docs_regenerated: int
    docs_embedded: int
    surgical_iids_json: str | None
    outcomes_json: str | None
    holder_host: str
    holder_pid: int
    holder_started: str


_RECORDS = f"SELECT {', '.join(RunRecord.__struct_fields__)} FROM sync_runs"


class RunTable:
    """Implements `RunStore` of `engine.ledger`. A run whose end cannot be stored is added to `unended`."""

    def __init__(self, database: Database, unended: Unended | None = None) -> None:
        self._database = database
        self._unended = {} if unended is None else unended

    def insert(
        self,
        command: str,
        mode: str,
        phase: str,
        identity: ProcessIdentity,
        now_ms: int,
        note: str | None,
        surgery: Surgery | None = None,
    ) -> int:
        values = {
            "started_at": now_ms,
            "heartbeat_at": now_ms,
            "status": "running",
            "command": command,
            "mode": mode,
            "phase": phase,
            "note": note,
            "surgical_iids_json": None if surgery is None else surgery.iids_json,
            "outcomes_json": None if surgery is None else surgery.outcomes_json,
            "holder_host": identity.host,
            "holder_pid": identity.pid,
            "holder_started": identity.started,
        }
        with self._database.transaction() as tx:
            rows = tx.execute(f"{insert('sync_runs', values)} RETURNING id", values)
        return int(rows[0][0])

    def update(self, run_id: int, **columns: Any) -> bool:
        unknown = columns.keys() - _MUTABLE
        if unknown:
            raise ValueError(f"sync_runs has no mutable columns {sorted(unknown)}")
        changes = ", ".join(f"{name} = :{name}" for name in columns)
        sql = f"UPDATE sync_runs SET {changes} WHERE id = :run_id AND status = 'running'"
        try:
            with self._database.transaction() as tx:
                return tx.change(sql, {**columns, "run_id": run_id}) == 1
        except StorageFailed:
            if "finished_at" in columns:
                self._unended["run", run_id] = lambda database: RunTable(database).update(run_id, **columns)
            raise

    def running(self) -> list[RunRow]:
        rows = self._database.read(
            "SELECT id, holder_host, holder_pid, holder_started, heartbeat_at FROM sync_runs"
            " WHERE status = 'running' ORDER BY id"
        )
        return [RunRow(run_id, ProcessIdentity(host, pid, mark), beat) for run_id, host, pid, mark, beat in rows]


def count_later_requests(database: Database, run_id: int, requests: int) -> None:
    """Add requests that were sent for a run after its row was closed."""
    if requests > 0:
        with database.transaction() as tx:
            tx.execute(
                "UPDATE sync_runs SET requests = requests + :requests WHERE id = :id",
                {"requests": requests, "id": run_id},
            )


def list_runs(database: Database, limit: int) -> list[RunView]:
    """Return the newest runs first."""
    rows = database.read(
        f"SELECT {', '.join(RunView.__struct_fields__)} FROM sync_runs ORDER BY id DESC LIMIT :limit",
        {"limit": limit},
    )
    return [RunView(*row) for row in rows]


def list_records(database: Database, limit: int, *, unfinished: bool = False) -> tuple[list[RunRecord], int]:
    """Return runs, newest first, and the total number; `unfinished` selects those that were not completed."""
    where = f" WHERE status IN ({', '.join(map(repr, UNFINISHED))})" if unfinished else ""
    rows = database.read(f"{_RECORDS}{where} ORDER BY id DESC LIMIT :limit", {"limit": limit})
    total = database.read(f"SELECT COUNT(*) FROM sync_runs{where}")
    return [RunRecord(*row) for row in rows], int(total[0][0])


def find_record(database: Database, run_id: int) -> RunRecord:
    """Return one run."""
    rows = database.read(f"{_RECORDS} WHERE id = :id", {"id": run_id})
    if not rows:
        raise NotFound(f"run {run_id} not found", fix="`lore sync-runs` lists the runs", run_id=run_id)
    return RunRecord(*rows[0])


def last_sync(database: Database) -> RunView | None:
    """Return the newest finished run that walked the lists; None before the first."""
    rows = database.read(
        f"SELECT {', '.join(RunView.__struct_fields__)} FROM sync_runs WHERE status <> 'running'"
        f" AND mode = 'standard' AND ({WALKED}) ORDER BY id DESC LIMIT 1"
    )
    return RunView(*rows[0]) if rows else None


FAILED_TIMES = 4
"""How many times longer to keep runs that did not succeed, because people look for them later."""
_DAY_MS = 86_400_000
_AT_ONCE = 1000

_OLD = (
    "finished_at < (CASE WHEN status = 'succeeded' THEN :well ELSE :unwell END) AND status <> 'running'"
    " AND id < (SELECT MAX(id) FROM sync_runs)"
    " AND id NOT IN (SELECT MAX(id) FROM sync_runs WHERE status IN ('succeeded', 'partial') GROUP BY command)"
    " AND id NOT IN (SELECT id FROM sync_runs WHERE mirrored_at IS NOT NULL ORDER BY mirrored_at DESC, id DESC LIMIT 1)"
)


def forget_runs(database: Database, now_ms: int, keep_days: float) -> int:
    """Delete runs that are old enough; return how many."""
    well = now_ms - round(keep_days * _DAY_MS)
    unwell = now_ms - round(keep_days * FAILED_TIMES * _DAY_MS)
    forgotten = 0
    while True:
        with database.transaction() as tx:
            gone = tx.change(
                f"DELETE FROM sync_runs WHERE id IN (SELECT id FROM sync_runs WHERE {_OLD} ORDER BY id LIMIT :some)",
                {"well": well, "unwell": unwell, "some": _AT_ONCE},
            )
        forgotten += gone
        if gone < _AT_ONCE:
            return forgotten
