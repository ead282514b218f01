"""The jobs of the service as rows. Owns the table `service_jobs`; written by the one service, read by everybody.

Nothing rests on these rows: they tell others how the service stands, and a new one what the last one had done.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

from msgspec import Struct

from tidelore.store.database import Database

State = Literal["idle", "running", "backing_off", "stopped"]


class JobRow(Struct, frozen=True):
    """One job. Without a bound nothing becomes stale by it; `requests` outlive the process."""

    name: str
    source: str
    kind: str
    scope: str
    state: State
    due_at: int | None = None
    started_at: int | None = None
    finished_at: int | None = None
    succeeded_at: int | None = None
    failures: int = 0
    last_error: str | None = None
    staleness_bound_seconds: float | None = None
    requests: int = 0
    updated_at: int = 0


_NAMES = JobRow.__struct_fields__
_COLUMNS = ", ".join(_NAMES)
_VALUES = ", ".join(f":{name}" for name in _NAMES)
_CHANGES = ", ".join(f"{name} = excluded.{name}" for name in _NAMES if name != "name")


def save_jobs(database: Database, rows: Iterable[JobRow]) -> None:
    """Write how jobs stand."""
    found = [{name: getattr(row, name) for name in _NAMES} for row in rows]
    if not found:
        return
    with database.transaction() as tx:
        tx.execute_many(
            f"INSERT INTO service_jobs ({_COLUMNS}) VALUES ({_VALUES}) ON CONFLICT (name) DO UPDATE SET {_CHANGES}",
            found,
        )


def keep_jobs(database: Database, names: Collection[str]) -> None:
    """Forget the jobs that are not among these."""
    with database.transaction() as tx:
        tx.execute(
            f"DELETE FROM service_jobs WHERE NOT (name {tx.among('names')})",
            {"names": tx.texts(names)},
        )


def list_jobs(database: Database) -> list[JobRow]:
    """Return every job by name."""
    return [JobRow(*row) for row in sorted(database.read(f"SELECT {_COLUMNS} FROM service_jobs"))]
