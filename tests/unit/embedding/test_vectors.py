"""Unit length for whatever a model answers, and no NaN."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelore.embedding.vectors import encodable, in_their_places, is_blank, unit_rows

numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=1, max_size=5))
def test_every_row_has_unit_length_or_is_zero(rows: list[list[float]]) -> None:
    units = unit_rows(np.array(rows))
    assert units.dtype == np.float32
    for row, unit in zip(rows, units, strict=True):
        length = float(np.linalg.norm(unit.astype(np.float64)))
        assert length == (pytest.approx(1, abs=1e-6) if any(row) else 0)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_vectors_with_nan_or_infinity_are_refused(number: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        unit_rows(np.array([[1.0, number]]))


def test_blank_texts_get_a_zero_vector_in_their_position() -> None:
    found = in_their_places(np.array([[1.0, 0.0], [0.0, 1.0]], dtype=np.float32), [1, 3], 4)
    assert [vector.tolist() for vector in found] == [[0, 0], [1, 0], [0, 0], [0, 1]]


def test_lone_surrogates_are_replaced_so_that_text_can_be_encoded() -> None:
    assert encodable("a\ud800b") == "a\ufffdb"
    assert encodable("gr\u00fc\u00dfe \U0001f600") == "gr\u00fc\u00dfe \U0001f600"


@pytest.mark.parametrize(("text", "blank"), [("", True), (" \n\t\u00a0", True), (" a ", False)])
def test_a_text_is_blank_when_it_holds_only_white_space(text: str, blank: bool) -> None:
    assert is_blank(text) is blank
