"""Statements that are run for many rows do the same on both databases, in one statement or row by row."""

from __future__ import annotations

import pytest

from tidelore.core.errors import IntegrityError
from tidelore.store.database.port import Database
from tidelore.store.mirror.payloads import Content, packer, store_contents

MARK = (
    "INSERT INTO dirty_sources (source_type, source_id, queued_at, last_error) VALUES (:type, :id, :now, :error)"
    " ON CONFLICT (source_type, source_id) DO UPDATE SET queued_at = excluded.queued_at"
)
NAMES = ("type", "id", "now", "error")
TEXT = 'quote " backslash \\ percent % brace { tab \t newline \n umlaut ü emoji 🐚 colon :name'


def marks(database: Database) -> list[tuple[object, ...]]:
    return database.read("SELECT source_type, source_id, queued_at, last_error FROM dirty_sources ORDER BY 1, 2")


@pytest.mark.parametrize("count", [2, 20])
def test_rows_with_nulls_large_numbers_and_any_text_are_stored_as_they_are(database: Database, count: int) -> None:
    rows = [("issue", 2**53 + number, -number, None if number % 2 else TEXT) for number in range(count)]
    with database.transaction() as tx:
        tx.execute_rows(MARK, NAMES, rows)
    assert marks(database) == rows


def test_the_last_of_several_rows_with_one_key_remains(database: Database) -> None:
    rows = [("issue", number % 3, number, "first" if number < 3 else "later") for number in range(10)]
    with database.transaction() as tx:
        tx.execute_rows(MARK, NAMES, rows)
    assert marks(database) == [("issue", 0, 9, "first"), ("issue", 1, 7, "first"), ("issue", 2, 8, "first")]


def test_updates_and_deletions_of_many_rows_touch_only_theirs(database: Database) -> None:
    with database.transaction() as tx:
        tx.execute_rows(MARK, NAMES, [("issue", number, 0, None) for number in range(12)])
        tx.execute_rows(
            "UPDATE dirty_sources SET queued_at = :now, attempts = attempts + 1 WHERE source_type = :type"
            " AND source_id = :id",
            ("now", "type", "id"),
            [(number * 10, "issue", number) for number in (*range(6), 5)],
        )
        tx.execute_rows(
            "DELETE FROM dirty_sources WHERE source_type = :type AND source_id = :id",
            ("type", "id"),
            [("issue", number) for number in range(6, 12)],
        )
    found = database.read("SELECT source_id, queued_at, attempts FROM dirty_sources ORDER BY 1")
    assert found == [(number, number * 10, 2 if number == 5 else 1) for number in range(6)]


def test_bytes_are_stored_as_they_are_and_numbered_in_their_order(database: Database) -> None:
    contents = [Content(str(number), bytes([number]) * 32, bytes(range(256)) * number) for number in range(1, 9)]
    with database.transaction() as tx:
        store_contents(tx, None, "note", contents, pack=packer(compress=False), now_ms=1)
    found = database.read("SELECT remote_id, content_hash, payload FROM raw_payloads ORDER BY id")
    assert [Content(key, bytes(address), bytes(payload)) for key, address, payload in found] == contents


def test_one_refused_row_of_many_refuses_all(database: Database) -> None:
    rows = [("issue", number, number if number != 7 else None, None) for number in range(10)]
    with pytest.raises(IntegrityError), database.transaction() as tx:
        tx.execute_rows(MARK, NAMES, rows)
    assert marks(database) == []
