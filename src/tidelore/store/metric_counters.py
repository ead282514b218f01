"""Counters that outlive the process. Owns the table `metric_counters`; refuses to know what is counted.

Added to in the transaction that does what is counted, so that a crash neither loses nor doubles a count.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from tidelore.store.database import Database, Transaction


class Counter(Struct, frozen=True):
    """One counter and what it has come to."""

    name: str
    labels: Mapping[str, str]
    value: int


def add(tx: Transaction, name: str, labels: Mapping[str, str], amount: int) -> None:
    """Count further; nothing to count leaves no row."""
    if not amount:
        return
    tx.execute(
        "INSERT INTO metric_counters (name, labels, value) VALUES (:name, :labels, :amount)"
        " ON CONFLICT (name, labels) DO UPDATE SET value = metric_counters.value + excluded.value",
        {"name": name, "labels": canonical(labels), "amount": amount},
    )


def read_all(database: Database) -> list[Counter]:
    """Return every counter by name and labels."""
    rows = sorted(database.read("SELECT name, labels, value FROM metric_counters"))
    return [Counter(name, msgspec.json.decode(labels, type=dict[str, str]), value) for name, labels, value in rows]


def canonical(labels: Mapping[str, str]) -> str:
    """Return the one spelling of a set of labels."""
    return msgspec.json.encode(labels, order="sorted").decode()
