"""Stores leases (table `leases`); every change is a compare-and-swap.

`writing` is the only way to open a transaction under a lease: it raises LeaseLost if the lease was taken over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tidelore.core.errors import StorageFailed
from tidelore.core.process import ProcessIdentity
from tidelore.engine.lease import Lease, LeaseRow, lost_error, parts_above
from tidelore.store.database.port import Database, Row, Transaction

Unended = dict[tuple[str, str | int], Callable[[Database], object]]
"""How to end the leases and runs that this process could not end, such as on a full disk. Other processes do not end
them while this one lives, so it does that itself once the database accepts writes again."""

_ROWS = (
    "SELECT name, generation, holder_host, holder_pid, holder_started, command, acquired_at, heartbeat_at,"
    " holder_session FROM leases WHERE "
)
# Two queries and not one condition with OR, so that each finds its rows by an index.
_RELATED = (
    f"{_ROWS}name = :name UNION ALL {_ROWS}holder_host IS NOT NULL AND name <> :name"
    " AND (name {above} OR substr(name, 1, :length) = :below) ORDER BY name"
)
# The widest lease of a tree has a row for every acquisition below it to lock, even if it was never held.
_LOCK_TREE = (
    "INSERT INTO leases (name, generation, command, acquired_at, heartbeat_at) VALUES (:name, 0, '', 0, 0)"
    " ON CONFLICT (name) DO UPDATE SET generation = leases.generation"
)
_VALUES = (
    "generation = :generation, holder_host = :host, holder_pid = :pid, holder_started = :started,"
    " holder_session = :session, command = :command, acquired_at = :acquired_at, heartbeat_at = :heartbeat_at"
)


class LeaseTable:
    """Implements `LeaseStore` of `engine.lease`. A lease that cannot be released is added to `unended`."""

    def __init__(self, database: Database, unended: Unended | None = None) -> None:
        self._database = database
        self._unended = {} if unended is None else unended

    @property
    def session(self) -> str | None:
        return self._database.session

    def read(self, name: str) -> LeaseRow | None:
        """Return the row, or None if there never was one."""
        rows = self._database.read(f"{_ROWS}name = :name", {"name": name})
        return _lease(rows[0]) if rows else None

    def related(self, name: str) -> list[LeaseRow]:
        sql, params = self._relations(name)
        return [_lease(row) for row in self._database.read(sql, params)]

    def _relations(self, name: str) -> tuple[str, dict[str, object]]:
        below, above = f"{name} ", self._database.texts(parts_above(name))
        sql = _RELATED.format(above=self._database.among("above"))
        return sql, {"name": name, "below": below, "length": len(below), "above": above}

    def take(self, row: LeaseRow, seen: Sequence[LeaseRow]) -> bool:
        above = parts_above(row.name)
        sql, params = self._relations(row.name)
        with self._database.transaction() as tx:
            # Else one process could take a part while another takes the whole, and neither would see the other.
            tx.execute(_LOCK_TREE, {"name": above[0] if above else row.name})
            if _versions(map(_lease, tx.execute(sql, params))) != _versions(seen):
                return False
            for other in seen:
                if other.name != row.name and other.holder is not None:
                    freed = LeaseRow(other.name, other.generation + 1, None, other.command, 0, other.heartbeat_at)
                    _write(tx, freed, other.generation)
            if not _write(tx, row, row.generation - 1):
                return _add(tx, row)
            return True

    def swap(self, expected_generation: int | None, row: LeaseRow) -> bool:
        try:
            with self._database.transaction() as tx:
                return _add(tx, row) if expected_generation is None else _write(tx, row, expected_generation)
        except StorageFailed:
            if row.holder is None:
                # Has no effect later if the lease is taken meanwhile, because that changes its generation.
                self._unended["lease", row.name] = lambda database: LeaseTable(database).swap(expected_generation, row)
            raise

    def end_session(self, session: str) -> None:
        try:
            self._database.end_session(session)
        except StorageFailed as error:
            # Imported here: commands that only read need no log. The takeover waits for the locks of that transaction.
            import logging

            logging.getLogger(__name__).warning("%s", error.message, extra={"event": "session_not_ended"})


def _lease(row: Row) -> LeaseRow:
    name, generation, host, pid, started, command, acquired_at, heartbeat_at, session = row
    holder = None if host is None else ProcessIdentity(host, pid, started)
    return LeaseRow(name, generation, holder, command, acquired_at, heartbeat_at, session)


def _versions(rows: Iterator[LeaseRow] | Sequence[LeaseRow]) -> set[tuple[str, int, bool]]:
    """Return what must not have changed since the rows were read; a row without a generation was never held."""
    return {(row.name, row.generation, row.holder is None) for row in rows if row.generation}


def _params(row: LeaseRow) -> dict[str, object]:
    holder = row.holder
    return {
        "name": row.name,
        "generation": row.generation,
        "host": holder.host if holder else None,
        "pid": holder.pid if holder else None,
        "started": holder.started if holder else None,
        "session": row.session,
        "command": row.command,
        "acquired_at": row.acquired_at,
        "heartbeat_at": row.heartbeat_at,
    }


def _add(tx: Transaction, row: LeaseRow) -> bool:
    added = tx.change(
        "INSERT INTO leases (name, generation, holder_host, holder_pid, holder_started, holder_session, command,"
        " acquired_at, heartbeat_at) VALUES (:name, :generation, :host, :pid, :started, :session, :command,"
        " :acquired_at, :heartbeat_at) ON CONFLICT (name) DO NOTHING",
        _params(row),
    )
    return added == 1


def _write(tx: Transaction, row: LeaseRow, expected_generation: int) -> bool:
    changed = tx.change(
        f"UPDATE leases SET {_VALUES} WHERE name = :name AND generation = :expected",
        {**_params(row), "expected": expected_generation},
    )
    return changed == 1


def lease_names(database: Database) -> list[str]:
    """Return the names of all leases that were ever taken."""
    return [name for (name,) in database.read("SELECT name FROM leases ORDER BY name")]


def held_leases(database: Database) -> list[LeaseRow]:
    """Return every lease that has a holder, by name."""
    return [_lease(row) for row in database.read(f"{_ROWS}holder_host IS NOT NULL ORDER BY name")]


@contextmanager
def writing(database: Database, lease: Lease | None, *, durable: bool = False) -> Iterator[Transaction]:
    """Begin a transaction that commits only while we hold the lease; without a lease, a plain transaction."""
    with database.transaction(durable=durable) as tx:
        if lease is not None:
            _fence(tx, lease)
        yield tx


def _fence(tx: Transaction, lease: Lease) -> None:
    """Raise LeaseLost unless we hold the lease, and prevent a takeover before the commit."""
    # An update and not a select: it locks the row, so that a takeover waits until this transaction ends.
    held = tx.change(
        "UPDATE leases SET generation = generation WHERE name = :name AND generation = :generation"
        " AND holder_host IS NOT NULL",
        {"name": lease.name, "generation": lease.generation},
    )
    if held != 1:
        raise lost_error(lease.name)
