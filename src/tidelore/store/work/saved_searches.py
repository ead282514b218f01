"""Stores searches under a name, with what they last found: table `saved_searches`."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tidelore.store.database.port import Database, Transaction


class SavedRow(NamedTuple):
    """A saved search. `question` is JSON; `seen` are the references of the results of the last time."""

    name: str
    question: bytes
    seen: tuple[str, ...]
    created_at: int
    seen_at: int


def save_search(tx: Transaction, name: str, question: bytes, seen: list[str], now_ms: int) -> None:
    """Store a search, in place of an earlier one of this name."""
    tx.execute(
        "INSERT INTO saved_searches (name, question, seen, created_at, seen_at)"
        " VALUES (:name, :question, :seen, :now, :now) ON CONFLICT (name) DO UPDATE SET"
        " question = excluded.question, seen = excluded.seen, seen_at = excluded.seen_at",
        {"name": name, "question": question.decode(), "seen": msgspec.json.encode(seen).decode(), "now": now_ms},
    )


def note_seen(tx: Transaction, name: str, seen: list[str], now_ms: int) -> None:
    """Store what a search found, and when."""
    tx.execute(
        "UPDATE saved_searches SET seen = :seen, seen_at = :now WHERE name = :name",
        {"name": name, "seen": msgspec.json.encode(seen).decode(), "now": now_ms},
    )


def remove_search(tx: Transaction, name: str) -> None:
    """Delete a search."""
    tx.execute("DELETE FROM saved_searches WHERE name = :name", {"name": name})


def list_searches(database: Database) -> list[SavedRow]:
    """Return all saved searches by name."""
    rows = database.read("SELECT name, question, seen, created_at, seen_at FROM saved_searches ORDER BY name")
    return [
        SavedRow(name, question.encode(), tuple(msgspec.json.decode(seen)), created_at, seen_at)
        for name, question, seen, created_at, seen_at in rows
    ]
