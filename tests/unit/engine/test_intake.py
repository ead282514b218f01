"""What a page means to us: new by identity, durable in one commit."""

from __future__ import annotations

import pytest
from tests.unit.engine.lists import NOW, PlainScopeStore, item

from tidelore.core.model import Position, Rejected, RemoteId, Version
from tidelore.engine.crashpoint import Seam
from tidelore.engine.cursor import Cursor
from tidelore.engine.intake import Intake, sort_out
from tidelore.engine.ports import Batch, Page


def test_an_item_is_new_when_its_version_is_not_stored_whatever_its_position() -> None:
    stored: dict[RemoteId, Version] = {
        1: item(1, 500, "a").version,
        2: item(2, 500, "a").version,
        3: item(3, 500, "a").version,
    }
    found = sort_out([item(1, 500, "a"), item(2, 500, "b"), item(3, 600, "a"), item(4, 1, "a")], stored)
    assert [entry.version.id for entry in found.changed] == [2, 3]
    assert [entry.version.id for entry in found.created] == [4]
    assert (found.replayed, found.stale) == (1, 0)


def test_an_older_version_never_replaces_a_newer_one() -> None:
    found = sort_out([item(1, 400, "old")], {1: item(1, 500, "new").version})
    assert (found.created, found.changed, found.stale) == ([], [], 1)


@pytest.mark.parametrize("order", [1, -1])
def test_an_item_listed_twice_on_a_page_is_stored_in_its_newer_version(order: int) -> None:
    shown = [item(1, 400, "old"), item(1, 500, "new")][::order]
    found = sort_out(shown, {})
    assert [entry.record for entry in found.created] == ["new"]
    assert found.replayed == 1


def test_a_replayed_page_writes_no_row_and_still_moves_the_cursor() -> None:
    store = PlainScopeStore()
    intake = Intake(store, lambda: NOW)
    cursor = Cursor(watermark=Position(100, 1))
    for _ in range(2):
        intake.take(Page([item(1, 100)]), cursor)
    assert [len(batch.items) for batch in store.batches] == [1, 0]
    assert store.cursor == cursor
    assert (intake.tally.created, intake.tally.replayed, intake.tally.pages) == (1, 1, 2)


def test_a_page_is_committed_in_one_batch() -> None:
    store = PlainScopeStore()
    rejected = (Rejected("9", "90", b"", "bad"),)
    Intake(store, lambda: NOW).take(Page([item(1, 100)], rejected), Cursor(), [], ("8",), (7,))
    assert store.batches == [Batch([item(1, 100)], Cursor(), rejected, [], ("8",), (7,))]


def test_a_failed_commit_changes_no_counter() -> None:
    store = PlainScopeStore()

    def fail(_batch: object) -> None:
        raise OSError

    store.on_commit = fail
    intake = Intake(store, lambda: NOW)
    with pytest.raises(OSError):
        intake.take(Page([item(1, 100)]), Cursor())
    assert intake.tally.created == 0


def test_the_crash_seams_are_called_before_and_after_the_commit() -> None:
    seen: list[object] = []
    store = PlainScopeStore()
    store.on_commit = lambda _batch: seen.append("commit")
    Intake(store, lambda: NOW, seen.append).take(Page(), Cursor())
    assert seen == [Seam.BEFORE_COMMIT, "commit", Seam.AFTER_COMMIT]


def test_progress_is_reported_after_the_page_was_committed() -> None:
    store, told = PlainScopeStore(), []
    intake = Intake(store, lambda: NOW, on_page=lambda tally: told.append((tally.pages, len(store.batches))))
    intake.take(Page([item(1, 100)]), Cursor())
    assert told == [(1, 1)]


def test_a_committed_page_counts_although_the_run_fails_right_after_the_commit() -> None:
    store = PlainScopeStore()

    def fail(seam: Seam) -> None:
        if seam is Seam.AFTER_COMMIT:
            raise OSError

    intake = Intake(store, lambda: NOW, fail)
    with pytest.raises(OSError):
        intake.take(Page([item(1, 100)]), Cursor())
    assert (intake.tally.created, len(store.batches)) == (1, 1)
