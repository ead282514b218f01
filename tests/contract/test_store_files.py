"""What only SQLite has: a file that nobody else may read, in WAL mode, with strict tables."""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from tests.databases.samples import add_project

from tidelore.core.errors import IntegrityError, NotFound, StorageFailed
from tidelore.store.database.migrate import migrate
from tidelore.store.database.sqlite import SqliteDatabase


@pytest.fixture
def file(sqlite_address: str) -> Iterator[SqliteDatabase]:
    before = os.umask(0)
    try:
        database = SqliteDatabase(sqlite_address)
    finally:
        os.umask(before)
    migrate(database, 1)
    yield database
    database.close()


def test_the_database_file_wal_and_shm_are_readable_by_the_owner_only(file: SqliteDatabase) -> None:
    add_project(file)
    for suffix in ("", "-wal", "-shm"):
        assert stat.S_IMODE(Path(file.path + suffix).stat().st_mode) == 0o600, suffix


def test_folders_created_for_the_database_are_accessible_by_the_owner_only(tmp_path: Path) -> None:
    SqliteDatabase(str(tmp_path / "tidelore" / "lore.db")).close()
    assert stat.S_IMODE((tmp_path / "tidelore").stat().st_mode) == 0o700


def test_every_table_is_strict(file: SqliteDatabase) -> None:
    tables = file.read("SELECT name, strict FROM pragma_table_list WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    assert len(tables) >= 16
    assert [name for name, strict in tables if not strict] == []


def test_a_value_of_the_wrong_type_is_refused(file: SqliteDatabase) -> None:
    project = add_project(file)
    with pytest.raises(IntegrityError), file.transaction() as tx:
        tx.execute("UPDATE projects SET archived = 'yes' WHERE id = :id", {"id": project.id})


def test_the_connection_has_wal_and_foreign_keys(file: SqliteDatabase) -> None:
    assert file.read("PRAGMA journal_mode") == [("wal",)]
    assert file.read("PRAGMA foreign_keys") == [(1,)]
    assert file.read("PRAGMA synchronous") == [(1,)]


def test_a_writer_does_not_block_readers(file: SqliteDatabase) -> None:
    reader = SqliteDatabase(file.path)
    try:
        with file.transaction() as tx:
            tx.execute(
                "INSERT INTO leases (name, generation, command, acquired_at, heartbeat_at) VALUES ('x',1,'',1,1)"
            )
            assert reader.read("SELECT COUNT(*) FROM leases") == [(0,)]
    finally:
        reader.close()


def test_opening_for_reading_does_not_create_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=re.escape("none.db")):
        SqliteDatabase(str(tmp_path / "none.db"), create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_at_the_database_path_is_a_storage_error_whose_remedy_is_to_name_a_file(tmp_path: Path) -> None:
    with pytest.raises(StorageFailed, match="is a folder") as caught:
        SqliteDatabase(str(tmp_path))
    assert caught.value.fix == "name a file in it with --db or storage.path"


def test_a_folder_that_cannot_be_created_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageFailed):
        SqliteDatabase(str(tmp_path / "file" / "lore.db"))


def test_committed_data_is_there_when_the_file_is_reopened(file: SqliteDatabase) -> None:
    add_project(file, 3)
    again = SqliteDatabase(file.path)
    try:
        assert again.read("SELECT remote_id FROM projects") == [(3,)]
    finally:
        again.close()


def test_opening_waits_for_another_program_that_writes_to_a_new_file(tmp_path: Path) -> None:
    """SQLite refuses the change to WAL at once while another holds the write lock, whatever the busy timeout."""
    path = tmp_path / "lore.db"
    path.touch()
    # By the same library: two copies of SQLite in one process do not see each other's locks.
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.3, other.execute, ["ROLLBACK"])
    release.start()
    try:
        with closing(SqliteDatabase(str(path))) as database:
            assert database.read("PRAGMA journal_mode") == [("wal",)]
    finally:
        release.join()
        other.close()
