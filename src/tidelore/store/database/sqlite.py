"""Implements the database port on SQLite with apsw.

Responsible for the file (mode 0600, WAL, foreign keys, busy timeout), for SQLite's error names, and for turning an
INSERT of one row into one of several: the driver looks a statement up again for every row, so this costs a third less.
An UPDATE, or an INSERT that names a value outside its row, is run row by row.

`synchronous=NORMAL`: after a power cut the newest rows and the cursor that covers them are lost together and fetched
again; a killed process loses nothing. What is written before an outbound request is synced first.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from itertools import chain, islice
from typing import Any

import apsw
import msgspec

from tidelore.core.errors import DatabaseUnusable, IntegrityError, NotFound, StorageFailed, TideloreError
from tidelore.core.patterns import late_pattern
from tidelore.store.database.port import SCHEMA_RECORD, Flush, Params, Patience, Row, foreign_database

SIZES = (256, 128, 100, 99, 64, 32, 16, 8, 4, 2, 1)
"""The numbers of rows one statement may insert. Only a few sizes, so that prepared statements are reused; 100 is a full
page. Few statements are also better beside a busy thread: after each one the interpreter's lock is waited for."""
LONGEST_CACHED = 16_384
"""The driver does not cache a statement with a longer text (in bytes): it would be prepared again for each page."""

_VALUES = " VALUES "
_PIECE = late_pattern(r"'(?:[^']|'')*'|(?<!:):(\w+)|[()]|, ")


class Repeated:
    """An INSERT of one row as a statement for several: its texts with positional parameters, by the number of rows.

    Texts are short, so that a page of a wide table fits into one that is cached: a parameter has a number only if it
    is not the next one, and the values are not separated by blanks.
    """

    def __init__(self, head: str, row: Sequence[str | int], tail: str, width: int) -> None:
        self._head = head
        self._row = row
        self._tail = tail
        self._width = width
        self._texts: dict[int, str] = {}
        most = LONGEST_CACHED - len(f"{head}{tail}".encode())
        self.sizes = tuple(size for size in SIZES if size == 1 or size * len(f"{self._values(size)},".encode()) <= most)
        """The numbers of rows that a statement may have so that the driver caches it."""

    def text(self, size: int) -> str:
        if size not in self._texts:
            self._texts[size] = f"{self._head}{','.join(map(self._values, range(size)))}{self._tail}"
        return self._texts[size]

    def _values(self, number: int) -> str:
        first = number * self._width
        return "".join([piece if isinstance(piece, str) else f"?{first + piece}" for piece in self._row])


@lru_cache(maxsize=256)
def repeated(sql: str, names: tuple[str, ...]) -> Repeated | None:
    """Return an INSERT as a statement for several rows; None if it cannot be repeated, or does not use every name."""
    head, _, rest = sql.partition(_VALUES)
    end = _closing(rest)
    if end is None or _has_parameters(head) or _has_parameters(rest[end:]):
        return None
    places = {name: place for place, name in enumerate(names, 1)}
    row: list[str | int] = []
    begin = highest = 0
    for piece in _PIECE.finditer(rest[:end]):
        row.append(rest[begin : piece.start()])
        begin = piece.end()
        if piece[1] is None:
            row.append("," if piece[0] == ", " else piece[0])
            continue
        place = places[piece[1]]
        row.append("?" if place == highest + 1 else place)
        highest = max(highest, place)
    if highest < len(names):
        return None
    return Repeated(f"{head}{_VALUES}", row, rest[end:], len(names))


def grouped(rows: Iterable[Sequence[Any]], sizes: Collection[int] = SIZES) -> Iterator[tuple[int, list[Any]]]:
    """Yield rows in groups of these sizes (largest first, the last is 1): the size, and the values in one flat list."""
    left = iter(rows)
    while batch := list(islice(left, next(iter(sizes)))):
        begin = 0
        for size in sizes:
            while len(batch) - begin >= size:
                yield size, list(chain.from_iterable(batch[begin : begin + size]))
                begin += size


def _closing(text: str) -> int | None:
    """Return the position after the bracket that a text starts with, or None."""
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
"""The size of the WAL (16 MB) at which it is copied into the file; each checkpoint costs a sync of both."""
STATEMENTS = 256
"""The number of prepared statements to cache. Each execution takes a new slot and evicts the one in it."""
TOKENIZER = ("porter", ["unicode61", "remove_diacritics", "2"])
"""That of the word index (`documents_fts`)."""
SNAPSHOT_MARK = 0x4C6F7265
"""The `application_id` of a snapshot ("Lore"): a file for reading only (`store/database/snapshot.py`)."""
KEPT_AFTER = 12
"""After this many questions to the word index, a connection counts as one that is kept; a search asks two to five."""
MAPPED_BYTES = 1 << 30
"""How much of the file a connection that is kept for searches maps into memory. A search reads thousands of pages, and
mapped ones are neither requested one by one nor copied. For a single search, mapping takes longer than it saves."""
_WAL_ATTEMPTS = 20
_PAUSES_MS = (1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50, 100)
"""Pauses between two attempts to get a lock; the last one is repeated."""


class SqliteDatabase:
    """One connection to one file."""

    dialect = "sqlite"
    session: str | None = None
    _asked = 0

    def __init__(self, path: str, *, create: bool = True, patience: Patience | None = None) -> None:
        self.path = path
        self._patience = patience or Patience()
        # Transactions of the writer thread and statements of the event loop's thread use one connection in turn.
        self._lock = threading.RLock()
        self._translated = Translation(path, self._lock)
        self._gathered: dict[Flush, set[Row]] = {}
        self._after_commit: list[Callable[[], None]] = []
        self._tokenizer: apsw.FTS5Tokenizer | None = None
        try:
            if not os.path.exists(path):
                if not create:
                    raise NotFound(
                        f"no database at {path}",
                        fix="run `lore sync` first, or point --db at an existing database",
                        has_no_copy=True,
                        path=path,
                    )
                os.makedirs(os.path.dirname(os.path.abspath(path)), mode=0o700, exist_ok=True)
                # Created before SQLite opens it, so that other users can never read it.
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            elif os.path.isdir(path):
                raise StorageFailed(f"{path} is a folder", fix="name a file in it with --db or storage.path", path=path)
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
                # Otherwise a statement whose plan depends on a bound value is prepared again for each new value.
                self._connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
                self._refuse_foreign()
                self._is_snapshot = self._connection.execute("PRAGMA application_id").get == SNAPSHOT_MARK
                if not read_only and not self._is_snapshot:
                    self._choose_wal()
                    self._connection.wal_autocheckpoint(CHECKPOINT_PAGES)
                self._connection.execute("PRAGMA synchronous = NORMAL")
                self._connection.execute("PRAGMA foreign_keys = ON")
                self._connection.execute("PRAGMA temp_store = MEMORY")
            except BaseException:
                # Leave a refused file unchanged, including a WAL that another program left beside it.
                self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                self._connection.close()
                raise

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[SqliteDatabase]:
        if self._is_snapshot:
            raise StorageFailed(
                f"{self.path} is a snapshot, which is read-only",
                fix="use the database it was made from, or make a new one with `lore snapshot --force`",
                path=self.path,
            )
        with self._lock, self._synced() if durable else nullcontext(), self._transaction():
            yield self

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._translated:
            self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            for flush, rows in self._gathered.items():
                flush(self, rows)
            with self._translated:
                self._connection.execute("COMMIT")
        except BaseException:
            # A full disk rolls back automatically; a second ROLLBACK would hide the reason.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        else:
            for act in self._after_commit:
                act()
        finally:
            self._gathered.clear()
            self._after_commit.clear()

    def server_time(self) -> int | None:
        return None

    def end_session(self, session: str) -> None:
        """Do nothing: there is no server."""

    def gathered(self, flush: Flush) -> set[Row]:
        return self._gathered.setdefault(flush, set())

    def after_commit(self, act: Callable[[], None]) -> None:
        self._after_commit.append(act)

    def execute(self, sql: str, params: Params | None = None) -> list[Row]:
        with self._translated:
            return self._connection.execute(sql, params).fetchall()

    read = execute

    @contextmanager
    def one_state(self) -> Iterator[None]:
        with self._translated:
            # The first read decides which state is seen.
            self._connection.execute("BEGIN")
            self._connection.execute("SELECT 1 FROM sqlite_schema").fetchall()
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def rows(self, sql: str, params: Params, size: int) -> Iterator[list[Row]]:
        with self._translated:
            cursor = self._connection.cursor().execute(sql, params)
            while batch := list(islice(cursor, size)):
                yield batch

    def execute_many(self, sql: str, rows: Iterable[Params]) -> None:
        with self._translated:
            self._connection.executemany(sql, rows)

    def execute_rows(self, sql: str, names: Sequence[str], rows: Iterable[Row]) -> None:
        insert = repeated(sql, tuple(names))
        with self._translated:
            if insert is None:
                # SQLite numbers named parameters in order of appearance, and binding by number takes half the time.
                self._connection.executemany(sql, rows)
            else:
                for size, values in grouped(rows, insert.sizes):
                    self._connection.execute(insert.text(size), values)

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

    def object_of(self, key: str, value: str) -> str:
        return f"json_group_object({key}, {value})"

    def by_index(self, name: str) -> str:
        return f"INDEXED BY {name}"

    def passing_locked(self) -> str:
        # Only one writer can be active.
        return ""

    def indexable(self, text: str) -> str:
        return text

    def note_question(self) -> None:
        """Count a question to the word index; map the file into memory if the connection is kept for many.

        SQLite still writes to the file, not to the mapped memory.
        """
        self._asked += 1
        if self._asked == KEPT_AFTER:
            self.execute(f"PRAGMA mmap_size = {MAPPED_BYTES}")

    def word_tokens(self, text: str) -> list[tuple[int, int, str]]:
        """Return the words of a text as the word index has them: the first byte, the byte after the last, the token."""
        with self._translated:
            if self._tokenizer is None:
                self._tokenizer = self._connection.fts5_tokenizer(*TOKENIZER)
            found: Any = self._tokenizer(text.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False)
        return list(found)

    def script(self, sql: str) -> None:
        with self._translated:
            # Fetch all rows: otherwise the statements after one that returns rows would not run.
            for _ in self._connection.execute(sql):
                pass

    def another(self) -> SqliteDatabase:
        return SqliteDatabase(self.path, create=False, patience=self._patience)

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
        """Busy handler: pause before the next attempt to get a lock; return False to give up.

        Replaces SQLite's own timeout, which cannot be interrupted when the program is asked to stop.
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
        """Make commits wait for the disk. Must be called outside a transaction: inside one SQLite ignores it."""
        with self._translated:
            self._connection.execute("PRAGMA synchronous = FULL")
        try:
            yield
        finally:
            self._connection.execute("PRAGMA synchronous = NORMAL")

    def _refuse_foreign(self) -> None:
        """Refuse another program's database before the first write: enabling WAL already changes the file."""
        columns = self._connection.execute("SELECT name FROM pragma_table_info('schema_version')").fetchall()
        used = self._connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
        if used and tuple(name for (name,) in columns) != SCHEMA_RECORD:
            raise foreign_database(self.path)

    def _choose_wal(self) -> None:
        """Enable WAL. If two programs open a new file at once, SQLite does not let the second one wait for this."""
        for _ in range(_WAL_ATTEMPTS):
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
            except apsw.BusyError:
                # A write transaction does wait for the other program.
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.execute("COMMIT")
            else:
                return
        self._connection.execute("PRAGMA journal_mode = WAL")


def _connect(path: str) -> apsw.Connection:
    return apsw.Connection(path, statementcachesize=STATEMENTS)


def _connect_read_only(path: str) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return apsw.Connection(readable_address(path), flags=flags, statementcachesize=STATEMENTS)


def readable_address(path: str) -> str:
    """Return the URI of a file to read, also on a read-only file system, where SQLite cannot create its WAL beside it.

    If a WAL was left there, it is read too; without one the file cannot change.
    """
    from urllib.parse import quote

    address = f"file:{quote(os.path.abspath(path))}"
    if _is_writable(path):
        return address
    has_log = os.path.exists(f"{path}-wal") and os.path.getsize(f"{path}-wal") > 0
    return f"{address}?mode=ro" if has_log else f"{address}?mode=ro&immutable=1"


def _is_writable(path: str) -> bool:
    return os.access(path, os.W_OK) and os.access(os.path.dirname(os.path.abspath(path)), os.W_OK)


class Translation:
    """Holds the connection's lock in a block and converts SQLite errors to ours.

    A class, because a generator is too slow around every statement.
    """

    __slots__ = ("_lock", "_path")

    def __init__(self, path: str, lock: threading.RLock) -> None:
        self._path = path
        self._lock = lock

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._lock.release()
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
