"""The least a mirror on SQLite can do with a page: its payloads packed, one row each, one commit.

Three tables with one index each, no links, no cursor, no ledger. Measured beside the floor, it tells how much of
the way from the floor to the mirror is SQLite itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec
import zstandard

from tidelore.core.model import Item


class BareStore:
    """A database that only keeps what was read."""

    def __init__(self, path: Path) -> None:
        self._pack = zstandard.ZstdCompressor(level=1).compress
        self._connection = apsw.Connection(str(path))
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute(
            "CREATE TABLE payloads (id INTEGER PRIMARY KEY, name TEXT, hash BLOB, body BLOB,"
            " UNIQUE (name, hash)) STRICT"
        )
        self._connection.execute(
            "CREATE TABLE parents (id INTEGER PRIMARY KEY, kind TEXT, remote INTEGER, title TEXT, description TEXT,"
            " state TEXT, updated_at INTEGER, UNIQUE (kind, remote)) STRICT"
        )

        self._connection.execute(
            "CREATE TABLE children (id INTEGER PRIMARY KEY, kind TEXT, remote TEXT, record BLOB,"
            " UNIQUE (kind, remote)) STRICT"
        )

    def keep(self, kind: str, items: Sequence[Item[Any]]) -> None:
        """Keep one page of a list, or one list of children."""
        self._connection.execute("BEGIN IMMEDIATE")
        if kind in {"issues", "merge_requests"}:
            self._keep_parents(kind, items)
        else:
            self._keep_children(kind, items)
        self._connection.execute("COMMIT")

    def _keep_children(self, kind: str, items: Sequence[Item[Any]]) -> None:
        """Discussions with their payloads, as the product keeps them; each note and other child as a row."""
        records = [(str(item.version.id), item.record) for item in items]
        if kind == "discussions":
            self._connection.executemany(
                "INSERT INTO payloads (name, hash, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                [(str(item.version.id), item.version.digest, self._pack(item.payload)) for item in items],
            )
            records = [(str(note.remote_id), note) for item in items for note in item.record.notes]
        self._connection.executemany(
            "INSERT INTO children (kind, remote, record) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            [(kind, remote, msgspec.json.encode(record)) for remote, record in records],
        )

    def _keep_parents(self, kind: str, items: Sequence[Item[Any]]) -> None:
        self._connection.executemany(
            "INSERT INTO payloads (name, hash, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            [(str(item.version.id), item.version.digest, self._pack(item.payload)) for item in items],
        )
        self._connection.executemany(
            "INSERT INTO parents (kind, remote, title, description, state, updated_at) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (kind, remote) DO UPDATE SET title = excluded.title",
            [
                (kind, item.record.remote_id, item.record.title, item.record.description, item.record.state, item.at)
                for item in items
            ],
        )

    def close(self) -> None:
        self._connection.close()
