"""A file that is not ours, or not whole, is refused and stays as it is to the last byte."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tidelore.core.errors import DatabaseUnusable
from tidelore.store.database.migrate import migrate
from tidelore.store.database.sqlite import SqliteDatabase


def refused(path: Path) -> DatabaseUnusable:
    """Try to use a file; return the refusal after making sure that nothing of the file changed."""
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    with pytest.raises(DatabaseUnusable) as caught, closing(SqliteDatabase(str(path))) as database:
        migrate(database, 5)
    after = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    assert {name: after.get(name) for name in before} == before
    # What SQLite lays beside a file to read it holds no data: an index of the log, and a log that is empty.
    assert [name for name in after.keys() - before.keys() if after[name] and not name.endswith("-shm")] == []
    assert (caught.value.code, caught.value.exit_code) == ("DATABASE_UNUSABLE", 8)
    return caught.value


def foreign(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


@pytest.mark.parametrize(
    "table",
    [
        "CREATE TABLE bookmarks (url TEXT)",
        "CREATE TABLE schema_version (version INTEGER)",
        "CREATE TABLE schema_version (installed_rank INTEGER, version TEXT, description TEXT, checksum INTEGER)",
        "CREATE VIEW only_a_view AS SELECT 1",
    ],
    ids=["plain", "own-schema-version", "like-ours", "view"],
)
def test_another_programs_file_is_refused_and_left_byte_identical(tmp_path: Path, table: str) -> None:
    path = tmp_path / "bookmarks.db"
    foreign(path, table)
    assert "bookmarks.db belongs to another program" in refused(path).message


def test_another_programs_wal_file_is_left_byte_identical(tmp_path: Path) -> None:
    busy, path = tmp_path / "busy" / "b.db", tmp_path / "left" / "b.db"
    busy.parent.mkdir()
    path.parent.mkdir()
    with closing(sqlite3.connect(busy)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
        connection.commit()
        for name in ("b.db", "b.db-wal"):
            (path.parent / name).write_bytes((busy.parent / name).read_bytes())
    assert (path.parent / "b.db-wal").stat().st_size > 0
    refused(path)


@pytest.mark.parametrize("content", [b"not a database at all\n" * 300, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_not_a_database_is_refused_and_left_byte_identical(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "lore.db"
    path.write_bytes(content)
    assert refused(path).fix


@pytest.mark.parametrize("damage", ["first-page", "cut-off"])
def test_a_damaged_database_is_refused_and_left_byte_identical(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "lore.db"
    with closing(SqliteDatabase(str(path))) as database:
        migrate(database, 5)
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xee" * 3000 + whole[3100:] if damage == "first-page" else whole[:5000])
    refused(path)


def test_an_empty_file_becomes_a_new_database(tmp_path: Path) -> None:
    path = tmp_path / "lore.db"
    path.touch()
    with closing(SqliteDatabase(str(path))) as database:
        assert migrate(database, 5)
        assert database.problems() == []


def test_a_database_that_lost_wal_mode_gets_it_back(tmp_path: Path) -> None:
    path, copy = tmp_path / "lore.db", tmp_path / "backup.db"
    with closing(SqliteDatabase(str(path))) as database:
        migrate(database, 5)
        database.execute("VACUUM INTO :copy", {"copy": str(copy)})
    with closing(SqliteDatabase(str(copy))) as database:
        assert database.read("PRAGMA journal_mode") == [("wal",)]
        assert migrate(database, 6) == []
