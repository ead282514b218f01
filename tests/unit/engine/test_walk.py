"""The walk: pages become durable with their cursor, one by one."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.engine.lists import NOW, PlainScopeStore, Script, item

from tidelore.core.errors import RemoteError, RemotePermanent, RemoteTransient
from tidelore.core.model import Position, Rejected
from tidelore.engine.cursor import SKEW_MS, Cursor, Validator, Window
from tidelore.engine.intake import Intake, Tally
from tidelore.engine.ports import Page, Quarantined
from tidelore.engine.walk import Plan, Walk
from tidelore.engine.window import MAX_PASSES

ETAG = Validator("http://127.0.0.1/list", "an etag")


def walk(script: Script, store: PlainScopeStore, plan: Plan | None = None) -> Tally:
    intake = Intake(store, lambda: NOW)
    return asyncio.run(Walk(script, intake, plan or Plan()).run())


def test_each_page_commits_with_the_cursor_that_covers_it() -> None:
    store = PlainScopeStore()
    script = Script(Page([item(1, 100), item(2, 200)], next_token="2"), Page([item(2, 200), item(3, 300)]))
    tally = walk(script, store)
    assert [batch.cursor.watermark for batch in store.batches] == [Position(200, 2), Position(300, 3)]
    assert [[entry.version.id for entry in batch.items] for batch in store.batches] == [[1, 2], [3]]
    assert [request.since for request in script.asked] == [None, 199]
    assert (tally.created, tally.replayed, tally.pages) == (3, 1, 2)
    assert store.cursor.complete


def test_an_item_with_an_implausible_time_is_stored_but_does_not_move_the_watermark() -> None:
    store = PlainScopeStore()
    walk(Script(Page([item(1, NOW), item(2, NOW + SKEW_MS + 1)], server_at=NOW)), store)
    assert set(store.items) == {1, 2}
    assert store.cursor.watermark == Position(NOW, 1)


def test_a_list_of_only_implausible_times_is_read_to_its_end() -> None:
    store = PlainScopeStore()
    far = NOW + 10 * SKEW_MS
    pages = [Page([item(n, far + n)], next_token=token, server_at=NOW) for n, token in ((1, "2"), (2, None))]
    walk(Script(*pages, *pages), store)
    assert set(store.items) == {1, 2}
    assert store.cursor.watermark is None


def test_a_cursor_from_the_future_is_replaced_by_a_bounded_backfill() -> None:
    store = PlainScopeStore(Cursor(watermark=Position(NOW + SKEW_MS + 1, 9)))
    script = Script(Page())
    tally = walk(script, store, Plan(overlap_ms=2000, safe_backfill_ms=86_400_000))
    assert len(store.aside) == 1
    assert tally.cursor_reset
    assert script.asked[0].since == NOW - 86_400_000 - 2000


def test_no_validator_is_kept_after_a_two_page_walk_that_did_not_move_the_watermark() -> None:
    store = PlainScopeStore(Cursor(watermark=Position(300, 3)))
    pages = [Page([item(1, 299), item(2, 300)], next_token="2", validator=ETAG), Page([item(3, 300)], validator=ETAG)]
    walk(Script(*pages, *pages), store)
    assert store.cursor.watermark == Position(300, 3)
    assert store.cursor.validator is None


def test_a_validator_is_kept_only_when_the_next_walk_requests_the_same_url() -> None:
    store = PlainScopeStore()
    walk(Script(Page([item(1, 100)], validator=ETAG)), store)
    first = store.cursor
    assert first.validator is None
    walk(Script(Page([item(1, 100)], validator=ETAG)), store)
    before = store.cursor
    assert before.validator == ETAG
    script = Script(Page(not_modified=True))
    assert walk(script, store).not_modified
    assert script.asked[0].validator == ETAG
    assert store.cursor == before


def test_a_walk_resumes_inside_a_window_of_many_pages() -> None:
    store = PlainScopeStore(
        Cursor(Position(9000, 4), Window(9000, 8999, token="2", pages=1, seen="half", top=Position(9000, 4)))
    )
    script = Script(
        Page([item(2, 9000)]), Page([item(4, 9000), item(3, 9000)], next_token="2"), Page([item(2, 9000)]),
        Page([item(4, 9000), item(3, 9000)], next_token="2"), Page([item(2, 9000)]),
    )  # fmt: skip
    walk(script, store)
    assert [request.token for request in script.asked] == ["2", None, "2", None, "2"]
    assert set(store.items) == {2, 3, 4}


def test_an_interrupted_window_is_cleared_once_it_was_read() -> None:
    """Its pass shrank to one page; kept, it would send every later walk back to its instant."""
    store = PlainScopeStore(Cursor(Position(9000, 4), Window(9000, 8999, before="whole", passes=1)))
    walk(Script(Page([item(4, 9000)])), store)
    script = Script(Page([item(5, 90_000)]))
    walk(script, store)
    script = Script(Page())
    walk(script, store)
    assert script.asked[0].since == 88_000


def test_an_expired_page_token_restarts_its_window() -> None:
    store = PlainScopeStore(
        Cursor(Position(9000, 4), Window(9000, 8999, token="gone", pages=1, seen="half", top=Position(9000, 4)))
    )
    script = Script(RemotePermanent("no such page", status=400), Page([item(4, 9000)]))
    walk(script, store)
    assert [request.token for request in script.asked] == ["gone", None]


def test_a_server_that_always_rejects_its_own_next_page_ends_the_walk_with_an_error() -> None:
    page = Page([item(2, 9000), item(1, 9000)], next_token="refused")
    answers: list[Page[str] | RemoteError] = [page, RemotePermanent("no such page", status=400)]
    script = Script(*answers * (MAX_PASSES + 5))
    with pytest.raises(RemoteTransient) as raised:
        walk(script, PlainScopeStore())
    assert raised.value.reason == "unstable_list"
    assert len(script.asked) <= 2 * (MAX_PASSES + 1)


def test_a_list_that_changes_on_every_pass_ends_in_an_error_and_keeps_the_read_items() -> None:
    pages = [
        page
        for n in range(MAX_PASSES + 5)
        for page in (Page([item(1000 + n, 9000), item(1, 9000)], next_token="2"), Page([item(2, 9000)]))
    ]
    store = PlainScopeStore()
    with pytest.raises(RemoteTransient) as raised:
        walk(Script(*pages), store)
    assert raised.value.reason == "unstable_list"
    assert {1, 2, 1000} <= set(store.items)


@pytest.mark.parametrize("status", [401, 403, 500])
def test_other_errors_of_a_next_page_do_not_restart_the_window(status: int) -> None:
    kind = RemoteTransient if status == 500 else RemotePermanent
    script = Script(Page([item(1, 9000)], next_token="2"), kind("no", status=status))
    with pytest.raises(kind):
        walk(script, PlainScopeStore())


def test_a_quarantined_item_is_fetched_alone_and_released_when_readable() -> None:
    store = PlainScopeStore()
    store.quarantined = [Quarantined("7", "70", 1)]
    script = Script(Page(), singles={"70": Page([item(7, 500)])})
    assert walk(script, store).released == 1
    assert store.batches[-1].released == ("7",)
    assert 7 in store.items


def test_a_quarantined_item_that_was_deleted_leaves_quarantine() -> None:
    store = PlainScopeStore()
    store.quarantined = [Quarantined("7", "70", 1)]
    walk(Script(Page(), singles={"70": Page()}), store)
    assert store.batches[-1].released == ("7",)


def test_a_quarantined_item_that_still_fails_stays_and_does_not_stop_the_walk() -> None:
    store = PlainScopeStore()
    store.quarantined = [Quarantined("7", "70", 1), Quarantined("8", "80", 1), Quarantined("9", "90", 1)]
    rejected = Page[str](rejected=(Rejected("7", "70", b"x", "bad"),))
    singles: dict[str, Page[str] | RemoteError] = {
        "70": rejected,
        "80": RemoteTransient("down"),
        "90": Page([item(9, 500)]),
    }
    walk(Script(Page(), singles=singles), store)
    assert [batch.released for batch in store.batches[1:]] == [(), (), ("9",)]
    assert [entry.key for batch in store.batches for entry in batch.rejected] == ["7", "8"]


def test_a_quarantine_entry_keyed_by_content_is_released_once_its_id_is_known() -> None:
    """Kept, it would be due at every walk and stand before all others."""
    store = PlainScopeStore()
    store.quarantined = [Quarantined("content:abc", "70", 1)]
    walk(Script(Page(), singles={"70": Page(rejected=(Rejected("7", "70", b"x", "bad"),))}), store)
    assert store.batches[-1].released == ("content:abc",)
    assert store.batches[-1].rejected[0].key == "7"


def test_the_watermark_stays_behind_items_that_changed_during_the_walk() -> None:
    store = PlainScopeStore()
    script = Script(
        Page([item(1, NOW - 500), item(2, NOW)], next_token="2", server_at=NOW),
        Page([item(3, NOW + 60_000)], server_at=NOW + 60_000),
    )
    walk(script, store)
    assert 3 in store.items
    assert store.cursor.watermark is not None
    assert store.cursor.watermark.at == NOW
