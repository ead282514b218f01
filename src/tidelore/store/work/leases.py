"""Stores the single-writer lease (table `leases`); every change is a compare-and-swap.

`writing` is the only way to open a transaction under a lease: it raises LeaseLost if the lease was taken over.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidelore.core.process import ProcessIdentity
from tidelore.engine.lease import Lease, LeaseRow, lost_error
from tidelore.store.database.port import Database, Transaction


class LeaseTable:
    """Implements `LeaseStore` of `engine.lease`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, name: str) -> LeaseRow | None:
        rows = self._database.read(
            "SELECT name, generation, holder_host, holder_pid, holder_started, command, acquired_at, heartbeat_at"
            " FROM leases WHERE name = :name",
            {"name": name},
        )
        if not rows:
            return None
        label, generation, host, pid, started, command, acquired_at, heartbeat_at = rows[0]
        holder = None if host is None else ProcessIdentity(host, pid, started)
        return LeaseRow(label, generation, holder, command, acquired_at, heartbeat_at)

    def swap(self, expected_generation: int | None, row: LeaseRow) -> bool:
        holder = row.holder
        params = {
            "name": row.name,
            "generation": row.generation,
            "host": holder.host if holder else None,
            "pid": holder.pid if holder else None,
            "started": holder.started if holder else None,
            "command": row.command,
            "acquired_at": row.acquired_at,
            "heartbeat_at": row.heartbeat_at,
            "expected": expected_generation,
        }
        with self._database.transaction() as tx:
            if expected_generation is None:
                return (
                    tx.change(
                        "INSERT INTO leases (name, generation, holder_host, holder_pid, holder_started, command,"
                        " acquired_at, heartbeat_at) VALUES (:name, :generation, :host, :pid, :started, :command,"
                        " :acquired_at, :heartbeat_at) ON CONFLICT (name) DO NOTHING",
                        params,
                    )
                    == 1
                )
            return (
                tx.change(
                    "UPDATE leases SET generation = :generation, holder_host = :host, holder_pid = :pid,"
                    " holder_started = :started, command = :command, acquired_at = :acquired_at,"
                    " heartbeat_at = :heartbeat_at WHERE name = :name AND generation = :expected",
                    params,
                )
                == 1
            )


def lease_names(database: Database) -> list[str]:
    """Return the names of all leases that were ever taken."""
    return [name for (name,) in database.read("SELECT name FROM leases ORDER BY name")]


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
