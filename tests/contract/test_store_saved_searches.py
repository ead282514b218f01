"""Saved searches on both databases."""

from __future__ import annotations

from tidelore.store.database.port import Database
from tidelore.store.work.saved_searches import SavedRow, list_searches, note_seen, remove_search, save_search


def test_a_search_saved_again_keeps_its_first_date_and_is_gone_after_its_removal(database: Database) -> None:
    with database.transaction() as tx:
        save_search(tx, "locks", b'{"text":"lock"}', ["a#1"], 10)
        save_search(tx, "locks", b'{"text":"locks"}', ["a#1", "a#2"], 20)
        note_seen(tx, "locks", ["a#3"], 30)
    assert list_searches(database) == [SavedRow("locks", b'{"text":"locks"}', ("a#3",), 10, 30)]
    with database.transaction() as tx:
        remove_search(tx, "locks")
    assert list_searches(database) == []
