"""The ordered shelf of the simulated GitHub agrees with a plain sorted list, whatever happened to it."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from tidelore_world.github.shelf import Order, Shelf


@dataclass(frozen=True)
class Row:
    id: int
    created_s: int
    updated_s: int


def expected(model: dict[int, Row], order: Order, floor_s: int | None, *, descending: bool) -> list[Row]:
    rows = [row for row in model.values() if floor_s is None or row.updated_s >= floor_s]
    keys = {
        "id": lambda row: (0, row.id),
        "created": lambda row: (row.created_s, row.id),
        "updated": lambda row: (row.updated_s, row.id),
    }
    return sorted(rows, key=keys[order], reverse=descending)


@pytest.mark.parametrize("seed", range(8))
def test_every_page_of_every_order_agrees_with_a_sorted_list(seed: int) -> None:
    rng = random.Random(seed)
    shelf: Shelf[Row] = Shelf()
    model: dict[int, Row] = {}
    for step in range(120):
        draw = rng.random()
        if model and draw < 0.2:
            gone = rng.choice(list(model))
            shelf.remove(gone)
            del model[gone]
        elif model and draw < 0.5:
            old = rng.choice(list(model.values()))
            model[old.id] = Row(old.id, old.created_s, rng.randrange(20))
            shelf.put(model[old.id])
        else:
            model[step] = Row(step, rng.randrange(20), rng.randrange(20))
            shelf.put(model[step])
    size = rng.choice((1, 3, 7))
    orders: tuple[Order, ...] = ("id", "created", "updated")
    for order in orders:
        for floor_s in (None, 0, 11, 30):
            for descending in (False, True):
                wanted = expected(model, order, floor_s, descending=descending)
                for offset in range(0, len(wanted) + size, size):
                    found = shelf.page(order, offset, size, descending=descending, floor_s=floor_s)
                    assert found == (wanted[offset : offset + size], len(wanted)), f"seed {seed}"


@pytest.mark.parametrize("descending", [False, True])
def test_a_row_filter_applies_to_pages_and_total(descending: bool) -> None:
    shelf: Shelf[Row] = Shelf()
    for number in range(10):
        shelf.put(Row(number, number, number))
    rows, total = shelf.page("created", 1, 2, descending=descending, keep=lambda row: row.id % 2 == 0)
    assert ([row.id for row in rows], total) == ([6, 4] if descending else [2, 4], 5)
