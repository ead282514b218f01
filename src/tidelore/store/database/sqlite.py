"""Implements the database port on SQLite with apsw.

Responsible for the file (mode 0600, WAL, foreign keys, busy timeout), for SQLite's error names, and for turning an
INSERT of one row into one of several: the driver looks a statement up again for every row, so this costs a third
less. An UPDATE, or an INSERT that names a value outside its row, is run row by row.

`synchronous=NORMAL`: after a power cut the newest rows and the cursor that covers them are lost together and fetched
again; a killed process loses nothing. What is written before an outbound effect is synced first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain, islice
from typing import Any

import apsw
import msgspec

from tidelore.core.errors import DatabaseUnusable, IntegrityError, NotFound, StorageFailed, TideloreError
from tidelore.store.database.port import SCHEMA_RECORD, Params, Patience, Row, foreign_database

SIZES = (16, 4, 1)
"""How many rows one statement may take. Few sizes, so that what is prepared is used again."""

_VALUES = " VALUES "
_PIECE = re.compile(r"'(?:[^']|'')*'|(?<!:):(\w+)|[()]")


@lru_cache(maxsize=256)
def repeated(sql: str, names: tuple[str, ...]) -> Mapping[int, str]:
    """Return an INSERT for each size of a group, its parameters numbered; none when it cannot be repeated."""
    head, _, rest = sql.partition(_VALUES)
    end = _closing(rest)
    if end is None or _has_parameters(head) or _has_parameters(rest[end:]):
        return {}
    places = {name: place for place, name in enumerate(names, 1)}

    def row(number: int) -> str:
        def numbered(piece: re.Match[str]) -> str:
            return piece[0] if piece[1] is None else f"?{places[piece[1]] + number * len(names)}"

        return _PIECE.sub(numbered, rest[:end])

    return {size: f"{head}{_VALUES}{', '.join(map(row, range(size)))}{rest[end:]}" for size in SIZES}


def grouped(rows: Iterable[Sequence[Any]]) -> Iterator[tuple[int, list[Any]]]:
    """Yield rows in groups of the allowed sizes: how many they are, and their values one after the other."""
    left = iter(rows)
    while batch := list(islice(left, SIZES[0])):
        begin = 0
        for size in SIZES:
            while len(batch) - begin >= size:
                yield size, list(chain.from_iterable(batch[begin : begin + size]))
                begin += size


def _closing(text: str) -> int | None:
    """Return where the bracket ends that a text begins with."""
    depth = 0
    for piece in _PIECE.finditer(text if text.startswith("(") else ""):
        depth += (piece[0] == "(") - (piece[0] == ")")
        if depth == 0:
            return piece.end()
    return None


def _has_parameters(sql: str) -> bool:
    return any(piece[1] is not None for piece in _PIECE.finditer(sql))


BUSY_TIMEOUT_MS = 15_000
CHECKPOINT_PAGES = 4_000
"""How far the log grows (16 MB) before it is copied into the file; each time costs a sync of both."""
STATEMENTS = 256
"""How many prepared statements are kept. Each run of one takes a new place, and whatever stands there falls out."""
_WAL_ATTEMPTS = 20
_PAUSES_MS = (1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50, 100)
"""Pauses between two looks at a lock; the last one is repeated."""


class SqliteDatabase:
    """One connection to one file."""

    dialect = "sqlite"

    def __init__(self, path: str, *, create: bool = True, patience: Patience | None = None) -> None:
        self.path = path
        self._patience = patience or Patience()
        self._translated = Translation(path)
        try:
            if not os.path.exists(path):
                if not create:
                    raise NotFound(
                        f"no database at {path}",
                        fix="run `lore sync` first, or point --db at an existing database",
                        path=path,
                    )
                os.makedirs(os.path.dirname(os.path.abspath(path)), mode=0o700, exist_ok=True)
                # Made before SQLite opens it, so that no other user can read it even for an instant.
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise StorageFailed(
                f"cannot create {path}: {error.strerror}",
                fix="choose a writable path with --db or storage.path",
                path=path,
            ) from None
        with self._translated:
            read_only = not create and not _is_writable(path)
            self._connection = _connect_read_only(path) if read_only else _connect(path)
            try:
                self._connection.set_busy_handler(self._go_on_waiting)
                # Else a statement whose plan looked at a value is prepared again for each new one.
                self._connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
                self._refuse_foreign()
                if not read_only:
                    self._choose_wal()
                    self._connection.wal_autocheckpoint(CHECKPOINT_PAGES)
                self._connection.execute("PRAGMA synchronous = NORMAL")
                self._connection.execute("PRAGMA foreign_keys = ON")
                self._connection.execute("PRAGMA temp_store = MEMORY")
            except BaseException:
                # What is refused stays as it is, down to the log another program left beside it.
                self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                self._connection.close()
                raise

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[SqliteDatabase]:
        if durable:
            with self._synced(), self.transaction():
                yield self
            return
        with self._translated:
            self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self
            with self._translated:
                self._connection.execute("COMMIT")
        except BaseException:
            # A full disk rolls back by itself; asking again would hide the reason.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def execute(self, sql: str, params: Params | None = None) -> list[Row]:
        with self._translated:
            return self._connection.execute(sql, params).fetchall()

    read = execute

    def execute_many(self, sql: str, rows: Iterable[Params]) -> None:
        with self._translated:
            self._connection.executemany(sql, rows)

    def execute_rows(self, sql: str, names: Sequence[str], rows: Iterable[Row]) -> None:
        texts = repeated(sql, tuple(names))
        with self._translated:
            if not texts:
                # SQLite numbers named parameters as they appear, and values bind by number in half the time.
                self._connection.executemany(sql, rows)
            else:
                for size, values in grouped(rows):
                    self._connection.execute(texts[size], values)

    def change(self, sql: str, params: Params | None = None) -> int:
        with self._translated:
            self._connection.execute(sql, params)
            return self._connection.changes()

    def among(self, parameter: str) -> str:
        return f"IN (SELECT value FROM json_each(:{parameter}))"

    def integers(self, values: Iterable[int]) -> Any:
        return msgspec.json.encode(list(values)).decode()

    def texts(self, values: Iterable[str]) -> Any:
        return msgspec.json.encode(list(values)).decode()

    def by_index(self, name: str) -> str:
        return f"INDEXED BY {name}"

    def passing_locked(self) -> str:
        # One writer excludes the others.
        return ""

    def indexable(self, text: str) -> str:
        return text

    def script(self, sql: str) -> None:
        with self._translated:
            # Rows must be drawn: the statements after one that returns some would not run.
            for _ in self._connection.execute(sql):
                pass

    def problems(self) -> list[str]:
        found = [str(row[0]) for row in self.read("PRAGMA integrity_check(10)") if row[0] != "ok"]
        found += [
            f"{table} row {rowid} refers to a missing row of {parent}"
            for table, rowid, parent, _ in self.read("PRAGMA foreign_key_check")
        ]
        return found

    def close(self) -> None:
        self._connection.close()

    def _go_on_waiting(self, looks: int) -> bool:
        """Pause before the next look at a lock that another program holds; return False to give up.

        Not SQLite's own timeout: it cannot be told that the program was asked to stop.
        """
        limits = self._patience.limits
        most_ms = BUSY_TIMEOUT_MS if limits is None else limits.lock * 1000
        waited_ms = sum(_PAUSES_MS[:looks]) + max(looks - len(_PAUSES_MS), 0) * _PAUSES_MS[-1]
        if waited_ms >= most_ms:
            return False
        pause_ms = _PAUSES_MS[min(looks, len(_PAUSES_MS) - 1)]
        return self._patience.pause(min(pause_ms, most_ms - waited_ms) / 1000)

    @contextmanager
    def _synced(self) -> Iterator[None]:
        """Let commits wait for the disk. Outside a transaction only: inside one SQLite does not change it."""
        with self._translated:
            self._connection.execute("PRAGMA synchronous = FULL")
        try:
            yield
        finally:
            self._connection.execute("PRAGMA synchronous = NORMAL")

    def _refuse_foreign(self) -> None:
        """Look before the first write: choosing WAL already changes the file."""
        columns = self._connection.execute("SELECT name FROM pragma_table_info('schema_version')").fetchall()
        used = self._connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
        if used and tuple(name for (name,) in columns) != SCHEMA_RECORD:
            raise foreign_database(self.path)

    def _choose_wal(self) -> None:
        """Two programs that open a new file at once both want this; SQLite does not let the second wait."""
        for _ in range(_WAL_ATTEMPTS):
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
            except apsw.BusyError:
                # A writing transaction does wait for the other's end.
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.execute("COMMIT")
            else:
                return
        self._connection.execute("PRAGMA journal_mode = WAL")


def _connect(path: str) -> apsw.Connection:
    return apsw.Connection(path, statementcachesize=STATEMENTS)


def _connect_read_only(path: str) -> apsw.Connection:
    """Open a file on a read-only file system, where SQLite cannot keep its log beside the file.

    With a log left there, what it holds is read too; without one nothing can change the file.
    """
    from urllib.parse import quote

    has_log = os.path.exists(f"{path}-wal") and os.path.getsize(f"{path}-wal") > 0
    mode = "mode=ro" if has_log else "mode=ro&immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    address = f"file:{quote(os.path.abspath(path))}?{mode}"
    return apsw.Connection(address, flags=flags, statementcachesize=STATEMENTS)


def _is_writable(path: str) -> bool:
    return os.access(path, os.W_OK) and os.access(os.path.dirname(os.path.abspath(path)), os.W_OK)


class Translation:
    """Gives the errors of a block our names. A class and no generator: it stands around every single statement."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, apsw.Error):
            named = _named(self._path, error)
            if named is not None:
                raise named from error


def _named(path: str, error: apsw.Error) -> TideloreError | None:
    match error:
        case apsw.NotADBError() | apsw.CorruptError():
            return DatabaseUnusable(
                f"{path} is not a usable database: {error}",
                fix="restore it from a backup, or move it away and mirror again",
                path=path,
            )
        case apsw.ConstraintError():
            return IntegrityError(f"{path} refused a row: {error}", path=path)
        case apsw.BusyError() | apsw.LockedError():
            return StorageFailed(
                f"{path} is locked by another program",
                fix="close the program that holds it, then try again",
                path=path,
            )
        case apsw.FullError() | apsw.IOError() | apsw.CantOpenError() | apsw.ReadOnlyError():
            return _storage_failed(path, error)
    return None


def _storage_failed(path: str, error: Exception) -> TideloreError:
    reason = {
        "FullError": "the disk is full",
        "ReadOnlyError": "it cannot be written",
        "CantOpenError": "it cannot be opened",
    }.get(type(error).__name__, str(error))
    return StorageFailed(
        f"{path}: {reason}; the last step was not stored",
        fix="free disk space or correct the permissions, then run the command again",
        path=path,
    )
