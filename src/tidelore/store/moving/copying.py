"""Copies the rows of one database into another, and remembers in the target how far it has come.

While a move is not complete, the target has a row with the number `MOVING` in `schema_version`, for which every other
command refuses it, and the table `move_progress`. A batch and the position behind it are committed together, so a move
that was killed continues after its last batch. Both are removed when every table was found equal. The source is only
read. A target whose rows were refused or differ is marked: the next move empties it and starts again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Struct

from tidelore.core.errors import IntegrityError, LockHeld, UserError
from tidelore.engine.crashpoint import Crashpoint, Seam
from tidelore.store.database.migrate import MOVING, migrate, own_versions, recorded_versions, translate
from tidelore.store.database.port import Database, Row, Transaction
from tidelore.store.moving.tables import RowHash, Table, TableState, count_rows, read_rows, tables

_PROGRESS = """CREATE TABLE move_progress (
    table_name TEXT PRIMARY KEY,
    position   BLOB,
    copied     INTEGER NOT NULL
) STRICT;"""
_COPYING, _RESTART = "copying", "restart"
_OTHER_TABLES = {
    "sqlite": "SELECT name FROM sqlite_schema WHERE type = 'table' LIMIT 1",
    "postgres": "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p')"
    " AND relnamespace = current_schema()::regnamespace ORDER BY relname LIMIT 1",
}
_LAYOUT = {
    "embedding_blocks": frozenset({"*"}),
    "embedding_holes": frozenset({"*"}),
    "embedding_models": frozenset({"slots"}),
    "embeddings": frozenset({"block", "slot"}),
}
"""Where vectors stand. Not compared if the target keeps vectors in blocks that the source has in its rows."""


class Target(Struct, frozen=True):
    """What a target holds: nothing, the rows of a move from `source` that is not complete, or other rows."""

    empty: bool = False
    source: str | None = None
    restart: bool = False


class Comparison(Struct, frozen=True):
    """The rows of one table in both databases."""

    table: str
    source: TableState
    target: TableState

    @property
    def equal(self) -> bool:
        return self.source == self.target


def look_at(target: Database) -> Target:
    """Return what a target holds; raise UserError for the tables of another program."""
    versions = recorded_versions(target)
    if versions is None:
        others = target.read(_OTHER_TABLES[target.dialect])
        if others:
            raise UserError(
                f"the target holds tables of another program, such as {others[0][0]}",
                fix="name an empty database, or a file that does not exist yet",
            )
        return Target(empty=True)
    if MOVING in versions:
        ((state,),) = target.read("SELECT checksum FROM schema_version WHERE version = :number", {"number": MOVING})
        return Target(source=versions[MOVING], restart=state == _RESTART)
    known = versions.keys() == own_versions()
    return Target(empty=known and not any(target.read(f"SELECT 1 FROM {table.name} LIMIT 1") for table in tables()))


def begin(target: Database, source: str, now_ms: int) -> None:
    """Create the schema in an empty target, and mark it as unusable until the move is complete."""
    migrate(target, now_ms)
    with target.transaction() as tx:
        tx.execute(
            "INSERT INTO schema_version (version, description, checksum, applied_at)"
            " VALUES (:number, :source, :state, :now)",
            {"number": MOVING, "source": source, "state": _COPYING, "now": now_ms},
        )
        target.script(translate(_PROGRESS, target.dialect))


def mark_for_restart(target: Database) -> None:
    """Note that the next move must empty the target first."""
    with target.transaction() as tx:
        _set_state(tx, _RESTART)


def empty_again(target: Database) -> None:
    """Delete everything that was copied, in one transaction."""
    names = [table.name for table in reversed(tables())]
    with target.transaction() as tx:
        if target.dialect == "postgres":
            tx.execute(f"TRUNCATE {', '.join(names)}")
        else:
            # Twice: deleting vectors adds rows to a table that may have been emptied before.
            for name in names * 2:
                tx.execute(f"DELETE FROM {name}")
        tx.execute("DELETE FROM move_progress")
        _set_state(tx, _COPYING)


def copied_rows(target: Database) -> int:
    """Return how many rows earlier runs of this move have copied."""
    return int(target.read("SELECT COALESCE(SUM(copied), 0) FROM move_progress")[0][0])


def copy_table(
    source: Database, target: Database, table: Table, seam: Crashpoint, on_rows: Callable[[int], None]
) -> int:
    """Copy the rows that the target does not have yet; return how many. Call it inside a snapshot of the source."""
    position, before = _progress(target, table)
    names = ", ".join(f'"{name}"' for name in table.columns)
    insert = f"INSERT INTO {table.name} ({names}) VALUES ({', '.join(f':{name}' for name in table.columns)})"
    copied = before
    for rows in read_rows(source, table, position):
        batch = _fitting(target, table, rows)
        seam(Seam.BEFORE_COMMIT)
        with target.transaction() as tx:
            _advance(tx, table, copied, len(batch), table.key_of(batch[-1]))
            tx.execute_rows(insert, table.columns, batch)
            seam(Seam.INSIDE_COMMIT)
        seam(Seam.AFTER_COMMIT)
        copied += len(batch)
        on_rows(len(batch))
    return copied - before


def compare_table(source: Database, target: Database, table: Table, *, layout: bool) -> Comparison | None:
    """Compare the rows of a table, inside a snapshot of both; None if it holds nothing but the layout of vectors."""
    left_out = frozenset() if layout else _LAYOUT.get(table.name, frozenset())
    if "*" in left_out:
        return None
    columns = [name for name in table.columns if name not in left_out]
    ours = _hashed(_fitting(target, table, rows, columns) for rows in read_rows(source, table, columns=columns))
    return Comparison(table.name, ours, _hashed(read_rows(target, table, columns=columns)))


def continue_numbers(source: Database, target: Database) -> None:
    """Let new rows of the target get the numbers that they would get in the source."""
    if target.dialect != "postgres":
        # SQLite continues after the highest number of a table.
        return
    for table in tables():
        if not table.numbered:
            continue
        last = target.read(f"SELECT COALESCE(MAX(id), 0) FROM {table.name}")[0][0]
        if source.dialect == "postgres":
            given = source.read(
                "SELECT pg_sequence_last_value(CAST(pg_get_serial_sequence(:name, 'id') AS regclass))",
                {"name": table.name},
            )
            last = max(last, given[0][0] or 0)
        if last:
            target.read(
                "SELECT setval(CAST(pg_get_serial_sequence(:name, 'id') AS regclass), :last)",
                {"name": table.name, "last": last},
            )
    target.read("ANALYZE")


def finish(target: Database) -> None:
    """Make the target usable, in one durable transaction."""
    with target.transaction(durable=True) as tx:
        tx.execute("DELETE FROM schema_version WHERE version = :number", {"number": MOVING})
        target.script("DROP TABLE move_progress")


def count_all(database: Database) -> dict[str, int]:
    """Return how many rows each table has, in the order in which they are copied."""
    return {table.name: count_rows(database, table) for table in tables()}


def _hashed(batches: Iterator[list[Row]]) -> TableState:
    found = RowHash()
    for rows in batches:
        found.add(rows)
    return found.state()


def _fitting(target: Database, table: Table, rows: Sequence[Row], columns: Sequence[str] | None = None) -> list[Row]:
    """Return rows as the target can store them: its full-text index may take only the beginning of a long text."""
    named = columns or table.columns
    if table.name != "documents":
        return list(rows)
    place = named.index("content")
    return [(*row[:place], target.indexable(row[place]), *row[place + 1 :]) for row in rows]


def _progress(target: Database, table: Table) -> tuple[Row | None, int]:
    found = target.read("SELECT position, copied FROM move_progress WHERE table_name = :name", {"name": table.name})
    return (tuple(msgspec.msgpack.decode(found[0][0])), int(found[0][1])) if found else (None, 0)


def _advance(tx: Transaction, table: Table, before: int, more: int, key: Row) -> None:
    """Move the position of a table on; raise LockHeld if another process did meanwhile."""
    params = {
        "name": table.name,
        "position": msgspec.msgpack.encode(key),
        "copied": before + more,
        "before": before,
    }
    changed = tx.change(
        "INSERT INTO move_progress (table_name, position, copied) VALUES (:name, :position, :copied)"
        " ON CONFLICT (table_name) DO UPDATE SET position = excluded.position, copied = excluded.copied"
        " WHERE move_progress.copied = :before",
        params,
    )
    if changed != 1:
        raise LockHeld("another process moves rows into this target", fix="wait for it to finish, then run this again")


def _set_state(tx: Transaction, state: str) -> None:
    tx.execute(
        "UPDATE schema_version SET checksum = :state WHERE version = :number", {"state": state, "number": MOVING}
    )


def difference(names: Sequence[str]) -> IntegrityError:
    """Return the error for tables that differ after the move."""
    return IntegrityError(
        f"the target differs from the source in {', '.join(names)}: one of them was changed during the move",
        fix="stop every program that writes to them and run the command again; it empties the target and starts again",
        tables=list(names),
    )
