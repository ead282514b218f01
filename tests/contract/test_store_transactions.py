"""A transaction is all or nothing, on both databases."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

import pytest

from tidelore.core.errors import IntegrityError, StorageFailed
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database, Transaction

INSERT = (
    "INSERT INTO projects (source, remote_id, path, name, configured, created_at, updated_at)"
    " VALUES (:source, :remote_id, :path, 'Harbour', 'x', 1, 1)"
)


def add(tx: Transaction, remote_id: int, path: str = "port/harbour") -> None:
    tx.execute(INSERT, {"source": "gitlab", "remote_id": remote_id, "path": path})


def add_and_raise(database: Database, error: BaseException) -> None:
    with database.transaction() as tx:
        add(tx, 1)
        add(tx, 2)
        raise error


def stored(database: Database) -> list[int]:
    return [row[0] for row in database.read("SELECT remote_id FROM projects ORDER BY remote_id")]


def test_writes_of_a_transaction_are_visible_to_others_after_the_commit(
    database: Database, connect: Callable[[], Database]
) -> None:
    other = connect()
    with database.transaction() as tx:
        add(tx, 1)
        assert stored(other) == []
    assert stored(other) == [1]


def test_an_exception_rolls_back_the_transaction(database: Database) -> None:
    with pytest.raises(KeyError):
        add_and_raise(database, KeyError("anything"))
    assert stored(database) == []


def test_what_waits_for_the_commit_is_done_after_it_and_never_after_a_rollback(
    database: Database, connect: Callable[[], Database]
) -> None:
    other, seen = connect(), list[list[int]]()
    with suppress(KeyError), database.transaction() as tx:
        add(tx, 1)
        tx.after_commit(lambda: seen.append(stored(other)))
        raise KeyError("anything")
    with database.transaction() as tx:
        add(tx, 2)
        tx.after_commit(lambda: seen.append(stored(other)))
        assert seen == []
    assert seen == [[2]]
    with database.transaction() as tx:
        add(tx, 3)
    assert seen == [[2]]


def test_a_keyboard_interrupt_rolls_back_the_transaction(database: Database) -> None:
    with pytest.raises(KeyboardInterrupt):
        add_and_raise(database, KeyboardInterrupt())
    assert stored(database) == []


def test_a_refused_statement_rolls_back_the_statements_before_it(database: Database) -> None:
    with database.transaction() as tx:
        add(tx, 7)
    rows = [{"source": "gitlab", "remote_id": number, "path": "p"} for number in (1, 7)]

    def write() -> None:
        with database.transaction() as tx:
            for row in rows:
                tx.execute(INSERT, row)

    with pytest.raises(IntegrityError):
        write()
    assert stored(database) == [7]


def test_the_connection_is_usable_after_a_rollback(database: Database) -> None:
    with pytest.raises(KeyError):
        add_and_raise(database, KeyError("anything"))
    with database.transaction() as tx:
        add(tx, 2)
    assert stored(database) == [2]


def test_a_batch_is_written_completely_or_not_at_all(database: Database) -> None:
    rows = [{"source": "gitlab", "remote_id": number, "path": "p"} for number in (1, 2, 3, 2)]
    with pytest.raises(IntegrityError), database.transaction() as tx:
        tx.execute_many(INSERT, rows)
    assert stored(database) == []


def test_a_missing_parent_row_is_refused_because_foreign_keys_are_on(database: Database) -> None:
    with pytest.raises(IntegrityError), database.transaction() as tx:
        tx.execute("INSERT INTO labels (project_id, name) VALUES (999, 'orphan')")
    assert database.read("SELECT COUNT(*) FROM labels") == [(0,)]


def test_a_change_returns_the_number_of_changed_rows(database: Database) -> None:
    with database.transaction() as tx:
        for number in (1, 2, 3):
            add(tx, number)
        assert tx.change("UPDATE projects SET name = 'Quay' WHERE remote_id > :floor", {"floor": 1}) == 2
        assert tx.change("UPDATE projects SET name = 'Quay' WHERE remote_id > :floor", {"floor": 9}) == 0
        assert tx.change(INSERT + " ON CONFLICT DO NOTHING", {"source": "gitlab", "remote_id": 1, "path": "p"}) == 0


@pytest.mark.parametrize("ids", [[], [2], [1, 3], list(range(2, 5000)), [2**62]])
def test_a_query_accepts_an_integer_list_of_any_length(database: Database, ids: list[int]) -> None:
    with database.transaction() as tx:
        for number in (1, 2, 3, 2**62):
            add(tx, number)
    rows = database.read(
        f"SELECT remote_id FROM projects WHERE remote_id {database.among('ids')} ORDER BY remote_id",
        {"ids": database.integers(ids)},
    )
    assert [row[0] for row in rows] == [number for number in (1, 2, 3, 2**62) if number in ids]


@pytest.mark.parametrize("paths", [[], ["p"], ["it's", '"quoted" \\ {path}', "日本 🚢\n"]])
def test_two_columns_of_all_rows_are_returned_as_one_object(database: Database, paths: list[str]) -> None:
    with database.transaction() as tx:
        for number, path in enumerate(paths, 2**53 + 1):
            add(tx, number, path)
    ((by_path,),) = database.read(f"SELECT {database.object_of('path', 'remote_id')} FROM projects")
    assert json.loads(by_path) == {path: number for number, path in enumerate(paths, 2**53 + 1)}
    ((by_number,),) = database.read(f"SELECT {database.object_of('remote_id', 'path')} FROM projects")
    assert json.loads(by_number) == {str(number): path for number, path in enumerate(paths, 2**53 + 1)}


@pytest.mark.parametrize("text", ["100 % of :name", "it's", "a::b", "'; DROP TABLE projects; --", "日本 🚢", "%(x)s"])
def test_text_is_bound_and_never_interpreted_as_sql(database: Database, text: str) -> None:
    with database.transaction() as tx:
        add(tx, 1, text)
    assert database.read("SELECT path FROM projects WHERE path = :path", {"path": text}) == [(text,)]
    assert database.read("SELECT '50%' || :path", {"path": text}) == [(f"50%{text}",)]


def test_a_script_runs_every_statement_even_after_one_that_returns_rows(database: Database) -> None:
    with database.transaction():
        database.script("CREATE TABLE one (x INTEGER); SELECT 1 UNION SELECT 2; CREATE TABLE two (x INTEGER);")
    assert database.read("SELECT COUNT(*) FROM one") == database.read("SELECT COUNT(*) FROM two") == [(0,)]


def test_a_script_that_fails_leaves_none_of_its_statements(database: Database) -> None:
    with pytest.raises(Exception, match="absent"), database.transaction():
        database.script("CREATE TABLE one (x INTEGER); INSERT INTO absent VALUES (1);")
    with pytest.raises(Exception, match="one"):
        database.read("SELECT * FROM one")


def test_an_unreachable_server_is_a_retryable_storage_error() -> None:
    with pytest.raises(StorageFailed) as caught:
        open_database("postgresql://nobody@127.0.0.1:1/lore")
    assert caught.value.retryable
    assert "lore" in caught.value.message


@pytest.mark.parametrize("count", [1, 3, 16, 45, 50])
def test_a_bulk_insert_stores_every_row(database: Database, count: int) -> None:
    with database.transaction() as tx:
        tx.execute_rows(INSERT, ("source", "remote_id", "path"), (("gitlab", n, f"path {n}") for n in range(count)))
    rows = database.read("SELECT remote_id, path FROM projects ORDER BY remote_id")
    assert rows == [(number, f"path {number}") for number in range(count)]


def test_a_bulk_upsert_keeps_the_last_row_of_each_key(database: Database) -> None:
    again = f"{INSERT} ON CONFLICT (source, remote_id) DO UPDATE SET path = excluded.path"
    with database.transaction() as tx:
        tx.execute_rows(again, ("source", "remote_id", "path"), [("gitlab", n % 7, f"path {n}") for n in range(40)])
    rows = database.read("SELECT remote_id, path FROM projects ORDER BY remote_id")
    assert rows == [(number, f"path {35 + number if number < 5 else 28 + number}") for number in range(7)]


def test_a_refused_row_rolls_back_the_whole_bulk_insert(database: Database) -> None:
    rows = [("gitlab", n, f"path {n}") for n in range(20)]
    with pytest.raises(IntegrityError), database.transaction() as tx:
        tx.execute_rows(INSERT, ("source", "remote_id", "path"), [*rows, ("gitlab", 19, None)])
    assert stored(database) == []
