"""Copies the rows of one database into another, and remembers in the target how far it has come.

While a move is not complete, the target has a row with the number `MOVING` in `schema_version`, for which every other
command refuses it, and the table `move_progress`. A batch and the position behind it are committed together, so a move
that was killed continues after its last batch. Both are removed when every table was found equal. The source is only
read. A target whose rows were refused or differ is marked: the next move empties it and starts again. Each run claims
the target with a higher number than the run before, which every commit checks: of two runs at once, the newer goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec
from msgspec import Struct

from tidelore.core.errors import IntegrityError, LeaseLost, UserError
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


class Claim(Struct, frozen=True):
    """The right of one run to write to a target: its number, and for each table the last key and the rows copied."""

    number: int
    positions: Mapping[str, tuple[Row, int]]

    @property
    def rows(self) -> int:
        """How many rows earlier runs have copied."""
        return sum(copied for _, copied in self.positions.values())


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
    if versions.keys() != own_versions():
        raise UserError(
            "the target is not empty: it was made by another version of this program",
            fix="name an empty database, or a file that does not exist yet",
        )
    return Target(empty=not any(target.read(f"SELECT 1 FROM {table.name} LIMIT 1") for table in tables()))


def begin(target: Database, source: str, now_ms: int) -> None:
    """Create the schema in an empty target, and mark it as unusable until the move is complete."""
    migrate(target, now_ms)
    with target.transaction() as tx:
        tx.execute(
            "INSERT INTO schema_version (version, description, checksum, applied_at)"
            " VALUES (:number, :source, :state, 0)",
            {"number": MOVING, "source": source, "state": _COPYING},
        )
        target.script(translate(_PROGRESS, target.dialect))


def claim(target: Database, now_ms: int) -> Claim:
    """Claim the target for this run, so that an earlier one that still runs stops."""
    with target.transaction() as tx:
        taken = tx.execute(
            "UPDATE schema_version SET applied_at = CASE WHEN applied_at < :now THEN :now ELSE applied_at + 1 END"
            " WHERE version = :number RETURNING applied_at",
            {"number": MOVING, "now": now_ms},
        )
        if not taken:
            raise _claim_lost()
        rows = tx.execute("SELECT table_name, position, copied FROM move_progress")
    positions = {name: (tuple(msgspec.msgpack.decode(position)), copied) for name, position, copied in rows}
    return Claim(taken[0][0], positions)


@contextmanager
def claimed(target: Database, held: Claim, *, durable: bool = False) -> Iterator[Transaction]:
    """Begin a transaction on the target; raise LeaseLost if another run has claimed or completed it."""
    with target.transaction(durable=durable) as tx:
        # An update and not a select: a newer run waits for this transaction, then starts after its rows.
        changed = tx.change(
            "UPDATE schema_version SET applied_at = applied_at WHERE version = :number AND applied_at = :taken",
            {"number": MOVING, "taken": held.number},
        )
        if changed != 1:
            raise _claim_lost()
        yield tx


def mark_for_restart(target: Database, held: Claim) -> None:
    """Note that the next move must empty the target first."""
    with claimed(target, held) as tx:
        _set_state(tx, _RESTART)


def empty_again(target: Database, held: Claim) -> Claim:
    """Delete everything that was copied, in one transaction; return the claim on the empty target."""
    names = [table.name for table in reversed(tables())]
    with claimed(target, held) as tx:
        if target.dialect == "postgres":
            tx.execute(f"TRUNCATE {', '.join(names)}")
        else:
            # Twice: deleting vectors adds rows to a table that may have been emptied before.
            for name in names * 2:
                tx.execute(f"DELETE FROM {name}")
        tx.execute("DELETE FROM move_progress")
        _set_state(tx, _COPYING)
    return Claim(held.number, {})


def copy_table(
    source: Database, target: Database, table: Table, held: Claim, seam: Crashpoint, on_rows: Callable[[int], None]
) -> int:
    """Copy the rows that the target does not have yet; return how many. Call it inside `one_state` of the source."""
    position, before = held.positions.get(table.name, (None, 0))
    names = ", ".join(f'"{name}"' for name in table.columns)
    insert = f"INSERT INTO {table.name} ({names}) VALUES ({', '.join(f':{name}' for name in table.columns)})"
    copied = before
    for rows in read_rows(source, table, position):
        batch = _fitting(target, table, rows)
        seam(Seam.BEFORE_COMMIT)
        copied += len(batch)
        with claimed(target, held) as tx:
            tx.execute_rows(insert, table.columns, batch)
            _advance(tx, table, copied, table.key_of(batch[-1]))
            seam(Seam.INSIDE_COMMIT)
        seam(Seam.AFTER_COMMIT)
        on_rows(len(batch))
    return copied - before


def compare_table(source: Database, target: Database, table: Table, *, layout: bool) -> Comparison | None:
    """Compare the rows of a table, inside `one_state` of both; None if it holds nothing but the layout of vectors."""
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
    target.read("SELECT gin_clean_pending_list('idx_documents_search')")
    target.read("ANALYZE")


def finish(target: Database, held: Claim) -> None:
    """Make the target usable, in one durable transaction."""
    with claimed(target, held, durable=True) as tx:
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


def _advance(tx: Transaction, table: Table, copied: int, key: Row) -> None:
    """Store the position behind the rows of this transaction."""
    tx.execute(
        "INSERT INTO move_progress (table_name, position, copied) VALUES (:name, :position, :copied)"
        " ON CONFLICT (table_name) DO UPDATE SET position = excluded.position, copied = excluded.copied",
        {"name": table.name, "position": msgspec.msgpack.encode(key), "copied": copied},
    )


def _claim_lost() -> LeaseLost:
    return LeaseLost(
        "another `lore move` into this target was started; this one wrote nothing more",
        fix="wait for the other one to finish",
    )


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
