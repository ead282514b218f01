"""A list that is read to its end takes little memory, however long it is."""

from __future__ import annotations

import asyncio
import tracemalloc
from itertools import count

import pytest
from tests.unit.engine.lists import NOW, item

from tidelore.engine import whole
from tidelore.engine.ports import ListRequest, Page
from tidelore.engine.whole import CHUNK_BYTES, Spool, in_chunks, read_all, read_lists

MEGABYTE = 1024 * 1024


class Long:
    """A list of some pages of one megabyte each, the same in every pass."""

    def __init__(self, pages: int) -> None:
        self._pages = pages

    async def fetch(self, request: ListRequest) -> Page[str]:
        number = int(request.token or 0)
        rows = [item(f"{number}-{place}", NOW - 10, chr(97 + place) * (MEGABYTE // 10)) for place in range(10)]
        after = str(number + 1) if number + 1 < self._pages else None
        return Page(rows, next_token=after, server_at=NOW)


def peak_of(pages: int) -> int:
    """How many bytes are held at most while a list is read, counted and cut into chunks."""
    tracemalloc.start()
    try:
        children = asyncio.run(read_all(Long(pages)))
        read = sum(len(one.payload) for one in children.items)
        chunks = sum(1 for _ in in_chunks(children.items))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert read > (pages - 1) * MEGABYTE
    assert chunks >= read // CHUNK_BYTES
    return peak


@pytest.mark.deep
def test_three_times_as_many_children_take_no_more_memory() -> None:
    assert peak_of(60) < 1.1 * peak_of(20)


@pytest.fixture
def tiny_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "CHUNK_BYTES", 10)


@pytest.mark.usefixtures("tiny_chunks")
def test_items_that_waited_in_a_file_come_back_in_order_each_once_in_its_last_version() -> None:
    spool: Spool[str] = Spool()
    for number in range(20):
        spool.add([item(number, NOW, f"text {number}")])
    spool.add([item(3, NOW, "new text of 3"), item(20, NOW, "x")])
    spool.add([item(20, NOW, "y")])
    expected = [number for number in range(20) if number != 3] + [3, 20]
    assert [one.version.id for one in spool] == expected
    assert len(spool) == 21
    assert {one.version.id: one.record for one in spool}[3] == "new text of 3"
    assert {one.version.id: one.record for one in spool}[20] == "y"
    first, second = iter(spool), iter(spool)
    assert [(next(first).version.id, next(second).version.id) for _ in expected] == [(key, key) for key in expected]


@pytest.mark.usefixtures("tiny_chunks")
def test_several_lists_are_one_collection_and_a_second_pass_replaces_only_its_own_list() -> None:
    class Counting:
        def __init__(self, name: str, pages: int) -> None:
            self.name, self.pages, self.asked = name, pages, count()

        async def fetch(self, request: ListRequest) -> Page[str]:
            next(self.asked)
            number = int(request.token or 0)
            row = item(f"{self.name}{number}", NOW, f"{self.name} {number} {'.' * 20}")
            return Page([row], next_token=str(number + 1) if number + 1 < self.pages else None, server_at=NOW)

    found = asyncio.run(read_lists([Counting("a", 1), Counting("b", 3), Counting("c", 2)]))
    assert [one.version.id for one in found.items] == ["a0", "b0", "b1", "b2", "c0", "c1"]
    assert len(found.items) == 6
    assert found.pages == 1 + 6 + 4


def test_chunks_hold_no_more_than_their_bound_unless_a_single_item_is_larger() -> None:
    sizes = [CHUNK_BYTES // 2, CHUNK_BYTES // 2, 1, CHUNK_BYTES * 2, 5, 5]
    items = [item(number, NOW, "x" * size) for number, size in enumerate(sizes)]
    assert [[one.version.id for one in chunk] for chunk in in_chunks(items)] == [[0, 1], [2], [3], [4, 5]]
    assert list(in_chunks([])) == []
