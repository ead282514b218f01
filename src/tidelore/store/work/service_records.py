"""Stores what the service records about itself: jobs, rate limits, poll costs and counters.

Tables `service_jobs`, `source_budgets`, `source_pauses`, `poll_costs`, `metric_counters`. Job rows are for display
and for the next start. A pause that a server asked for holds for every process on this database. A counter is
increased in the transaction that does what it counts, so a crash neither loses nor doubles a count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from tidelore.store.database.port import Database, Transaction
from tidelore.store.database.statements import insert

State = Literal["idle", "running", "backing_off", "stopped"]


class JobRow(Struct, frozen=True):
    """One job. Without a bound the job never makes anything stale; `requests` persist across restarts."""

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


def save_jobs(database: Database, rows: Iterable[JobRow]) -> None:
    """Write the state of jobs."""
    found = [{name: getattr(row, name) for name in _NAMES} for row in rows]
    if not found:
        return
    with database.transaction() as tx:
        tx.execute_many(insert("service_jobs", _NAMES, key=("name",)), found)


def keep_jobs(database: Database, names: Collection[str]) -> None:
    """Delete all jobs except these."""
    with database.transaction() as tx:
        tx.execute(
            f"DELETE FROM service_jobs WHERE NOT (name {tx.among('names')})",
            {"names": tx.texts(names)},
        )


def list_jobs(database: Database) -> list[JobRow]:
    """Return every job by name."""
    return [JobRow(*row) for row in sorted(database.read(f"SELECT {_COLUMNS} FROM service_jobs"))]


def due_jobs(database: Database, now_ms: int) -> list[JobRow]:
    """Return the jobs whose time has come, and those that run."""
    rows = database.read(
        f"SELECT {_COLUMNS} FROM service_jobs WHERE due_at <= :now OR state = 'running'", {"now": now_ms}
    )
    return [JobRow(*row) for row in sorted(rows)]


def add_missing_jobs(database: Database, rows: Iterable[JobRow]) -> None:
    """Add jobs that have no row yet."""
    found = [{name: getattr(row, name) for name in _NAMES} for row in rows]
    if found:
        with database.transaction() as tx:
            tx.execute_many(f"{insert('service_jobs', _NAMES)} ON CONFLICT (name) DO NOTHING", found)


def find_job(tx: Transaction, name: str) -> JobRow | None:
    """Return one job."""
    rows = tx.execute(f"SELECT {_COLUMNS} FROM service_jobs WHERE name = :name", {"name": name})
    return JobRow(*rows[0]) if rows else None


def write_job(tx: Transaction, row: JobRow) -> None:
    """Write the state of one job that has a row."""
    tx.execute(
        f"UPDATE service_jobs SET {', '.join(f'{name} = :{name}' for name in _NAMES)} WHERE name = :name",
        {name: getattr(row, name) for name in _NAMES},
    )


def wake_jobs(tx: Transaction, names: Collection[str], now_ms: int, rest_ms: int = 0) -> dict[str, int]:
    """Make jobs due that are not backing off, and return when each is due; a running one is due again when it ends.

    A job that started less than `rest_ms` ago is due when that time has passed.
    """
    # A start in the future is that of a machine whose clock is ahead; it must not delay the job.
    rested = "CASE WHEN started_at > :now - :rest AND started_at <= :now THEN started_at + :rest ELSE :now END"
    rows = tx.execute(
        f"UPDATE service_jobs SET due_at = {rested} WHERE name {tx.among('names')} AND state <> 'backing_off'"
        f" AND (due_at IS NULL OR due_at > {rested}) RETURNING name, due_at",
        {"names": tx.texts(names), "now": now_ms, "rest": rest_ms},
    )
    return dict(rows)


def forgive_jobs(tx: Transaction, names: Collection[str], now_ms: int) -> None:
    """Make jobs due that are backing off; their failures stay counted until they succeed."""
    tx.execute(
        f"UPDATE service_jobs SET state = 'idle', due_at = :now WHERE name {tx.among('names')}"
        " AND state = 'backing_off'",
        {"names": tx.texts(names), "now": now_ms},
    )


def postpone_jobs(tx: Transaction, names: Collection[str], until_ms: int) -> None:
    """Let jobs of a source that does not respond wait; those that run are left alone."""
    tx.execute(
        f"UPDATE service_jobs SET due_at = :until WHERE name {tx.among('names')} AND state <> 'running'"
        " AND due_at < :until",
        {"names": tx.texts(names), "until": until_ms},
    )


class BudgetRow(Struct, frozen=True):
    """How many requests a source still allows, its limit, and when the limit resets, by our own clock."""

    source: str
    remaining: int
    reset_at: int | None
    updated_at: int
    allowed: int | None = None

    @property
    def is_low(self) -> bool:
        """Return whether less than a tenth is left, or nothing if the limit is unknown."""
        return self.remaining == 0 if self.allowed is None else self.remaining * 10 < self.allowed

    def is_current(self, now_ms: int) -> bool:
        """Return whether the values are still valid: not after the limit was reset."""
        return self.reset_at is None or now_ms < self.reset_at


_POINTS = " (GraphQL points)"


def points_of(source: str) -> str:
    """Return the name under which the limit of a source's queries is stored, where it is counted apart."""
    return f"{source}{_POINTS}"


def source_of(name: str) -> str:
    """Return the source that a stored limit belongs to."""
    return name.removesuffix(_POINTS)


def is_of_points(name: str) -> bool:
    """Return whether a limit is stored under the name of a source's queries."""
    return name.endswith(_POINTS)


_BUDGET_NAMES = BudgetRow.__struct_fields__


def save_budgets(database: Database, rows: Iterable[BudgetRow]) -> None:
    """Store the rate limits that sources reported."""
    found = [{name: getattr(row, name) for name in _BUDGET_NAMES} for row in rows]
    if found:
        with database.transaction() as tx:
            tx.execute_many(insert("source_budgets", _BUDGET_NAMES, key=("source",)), found)


def list_budgets(database: Database) -> list[BudgetRow]:
    """Return the last reported rate limit of every source, by name."""
    return [BudgetRow(*row) for row in sorted(database.read(f"SELECT {', '.join(_BUDGET_NAMES)} FROM source_budgets"))]


def save_pause(database: Database, source: str, until_ms: int, now_ms: int) -> None:
    """Record a pause that a source requested; a longer known one is kept."""
    with database.transaction() as tx:
        values = {"source": source, "until_at": until_ms, "updated_at": now_ms}
        longer = "WHERE excluded.until_at > source_pauses.until_at"
        tx.execute(f"{insert('source_pauses', values, key=('source',))} {longer}", values)


def paused_until(database: Database, source: str, now_ms: int) -> int | None:
    """Return until when a source requested a pause, or None if there is none or it is over."""
    rows = database.read(
        "SELECT until_at FROM source_pauses WHERE source = :source AND until_at > :now",
        {"source": source, "now": now_ms},
    )
    return int(rows[0][0]) if rows else None


class PollCost(Struct, frozen=True):
    """How a repository was last read (`repo` or `thread`), and the expected requests of a poll by feeds."""

    mode: str
    feed_requests: float


def load_cost(database: Database, project_id: int) -> PollCost | None:
    """Return the known poll cost of a repository."""
    rows = database.read(
        "SELECT mode, feed_requests FROM poll_costs WHERE project_id = :project_id", {"project_id": project_id}
    )
    return PollCost(*rows[0]) if rows else None


def save_cost(tx: Transaction, project_id: int, cost: PollCost, now_ms: int) -> None:
    """Store the cost of a poll."""
    values = {"project_id": project_id, **asdict(cost), "updated_at": now_ms}
    tx.execute(insert("poll_costs", values, key=("project_id",)), values)


def forget_cost(tx: Transaction, project_id: int) -> None:
    """Delete the cost of polls: the repository is mirrored as a whole."""
    tx.execute("DELETE FROM poll_costs WHERE project_id = :project_id", {"project_id": project_id})


class MetricCounter(Struct, frozen=True):
    """One counter and its value."""

    name: str
    labels: Mapping[str, str]
    value: int


def add_to_counter(tx: Transaction, name: str, labels: Mapping[str, str], amount: int) -> None:
    """Increase a counter; an amount of 0 creates no row."""
    if not amount:
        return
    tx.execute(
        "INSERT INTO metric_counters (name, labels, value) VALUES (:name, :labels, :amount)"
        " ON CONFLICT (name, labels) DO UPDATE SET value = metric_counters.value + excluded.value",
        {"name": name, "labels": canonical_labels(labels), "amount": amount},
    )


def read_counters(database: Database) -> list[MetricCounter]:
    """Return every counter by name and labels."""
    rows = sorted(database.read("SELECT name, labels, value FROM metric_counters"))
    return [
        MetricCounter(name, msgspec.json.decode(labels, type=dict[str, str]), value) for name, labels, value in rows
    ]


def canonical_labels(labels: Mapping[str, str]) -> str:
    """Return a set of labels in canonical form."""
    return msgspec.json.encode(labels, order="sorted").decode()
