"""One stride of verification: what differs is taken, what is missing is asked for, what is gone is buried."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.engine.lists import NOW, PlainScopeStore, Script, item

from tidelore.core.errors import RemotePermanent, RemoteTransient
from tidelore.core.model import Rejected
from tidelore.engine.cursor import Census, Cursor
from tidelore.engine.intake import Intake
from tidelore.engine.ports import Page
from tidelore.engine.scrub import MAX_QUESTIONS, Scrub


def stride(script: Script, store: PlainScopeStore) -> bool:
    return asyncio.run(Scrub(script, Intake(store, lambda: NOW)).stride())


def holding(*created: int, after: int = 0) -> PlainScopeStore:
    store = PlainScopeStore(Cursor(census=Census(after=after, started_at=5 if after else None)))
    store.created = {made: (made, str(made)) for made in created}
    return store


def test_a_list_that_fits_on_one_page_completes_a_scrub_cycle() -> None:
    store = holding(10, 20)
    assert stride(Script(Page([item(10, 10), item(20, 20)], server_at=NOW)), store)
    assert store.cursor.census == Census(after=0, started_at=None, verified_at=NOW)


def test_a_refused_first_page_is_not_requested_again() -> None:
    script = Script(RemotePermanent("forbidden", status=403), Page(server_at=NOW))
    with pytest.raises(RemotePermanent):
        stride(script, holding(10))
    assert len(script.asked) == 1


def test_a_stride_ends_at_the_last_creation_on_its_page_and_the_next_begins_there() -> None:
    store = holding(10, 20, 30)
    assert not stride(Script(Page([item(10, 10), item(20, 20)], next_token="2", server_at=NOW)), store)
    assert store.cursor.census == Census(after=20, started_at=NOW)
    script = Script(Page([item(20, 20), item(30, 30)], server_at=NOW + 9))
    assert stride(script, store)
    assert script.asked[0].since == 20
    assert store.cursor.census.verified_at == NOW


def test_items_created_at_the_same_instant_are_read_one_page_per_stride() -> None:
    store = holding(after=20)
    script = Script(
        Page([item(1, 20)], next_token="2"), Page([item(2, 20)], next_token="3"), Page([item(3, 25)], next_token="4")
    )
    assert not stride(script, store)
    assert store.cursor.census == Census(after=20, started_at=5, token="2", met=(1,))
    assert not stride(script, store)
    assert not stride(script, store)
    assert [request.token for request in script.asked] == [None, "2", "3"]
    assert store.cursor.census == Census(after=25, started_at=5)


def test_a_page_the_server_forgot_is_read_from_the_start_of_its_instant() -> None:
    store = holding(after=20)
    script = Script(Page([item(1, 20)], next_token="2"), RemotePermanent("gone", status=400), Page([item(1, 20)]))
    assert not stride(script, store)
    assert stride(script, store)
    assert [request.token for request in script.asked] == [None, "2", None]


def test_only_a_not_found_answer_creates_a_tombstone() -> None:
    store = holding(10, 20, 25)
    script = Script(
        Page([item(30, 30)], next_token="2"),
        singles={
            "10": Page(),
            "20": Page([item(20, 20, "hidden")]),
            "25": Page(rejected=(Rejected("25", "25", b"", "bad"),)),
        },
    )
    stride(script, store)
    assert list(store.batches[0].gone) == [10]
    assert 20 in store.items
    assert store.batches[0].rejected[0].key == "25"


def test_a_failed_lookup_creates_no_tombstone_and_moves_no_cursor() -> None:
    store = holding(10, 20)
    with pytest.raises(RemoteTransient):
        stride(Script(Page(), singles={"10": Page(), "20": RemoteTransient("down")}), store)
    assert store.batches == []


def test_an_item_that_cannot_be_parsed_is_not_treated_as_missing() -> None:
    store = holding(10)
    script = Script(Page(rejected=(Rejected("10", "10", b"", "bad"),)))
    assert stride(script, store)
    assert script.asked_alone == []


def test_items_created_at_the_last_instant_of_a_page_are_left_to_the_next_stride() -> None:
    store = holding(10, 30)
    script = Script(Page([item(10, 10), item(31, 30)], next_token="2"))
    stride(script, store)
    assert script.asked_alone == []


def test_a_stride_looks_up_a_limited_number_of_items_and_continues_later() -> None:
    made = range(100, 100 + MAX_QUESTIONS + 5)
    store = holding(*made)
    singles = {str(key): Page[str]() for key in made}
    script = Script(Page(), singles=singles)
    assert not stride(script, store)
    assert len(script.asked_alone) == MAX_QUESTIONS
    assert store.cursor.census == Census()
    for key in store.batches[0].gone:
        del store.created[key]
    assert stride(Script(Page(), singles=singles), store)
