"""Fusion counts places and weights, and nothing else."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelore.search.fuse import Ranking, fuse

LISTS = st.lists(st.lists(st.integers(1, 30), unique=True, max_size=20), min_size=1, max_size=4)


def test_what_two_rankings_agree_on_comes_before_what_one_prefers() -> None:
    fused = fuse([Ranking("lexical", (1, 2, 3)), Ranking("semantic", (4, 2, 5))])
    assert [entry.id for entry in fused][:3] == [2, 1, 4]
    assert fused[0].ranks == {"lexical": 2, "semantic": 2}
    assert fused[1].ranks == {"lexical": 1}


def test_a_score_is_the_weight_over_the_constant_and_the_place() -> None:
    fused = {entry.id: entry.score for entry in fuse([Ranking("a", (7, 8), 0.5), Ranking("b", (8,), 2.0)], k=10)}
    assert fused[7] == pytest.approx(0.5 / 11)
    assert fused[8] == pytest.approx(0.5 / 12 + 2.0 / 11)


def test_of_equals_the_earlier_ranking_goes_first() -> None:
    assert [entry.id for entry in fuse([Ranking("a", (9,)), Ranking("b", (1,))])] == [9, 1]


def test_a_ranking_without_weight_changes_no_order_among_the_others() -> None:
    assert [entry.id for entry in fuse([Ranking("a", (3, 1, 2)), Ranking("b", (2, 1, 3), 0.0)])] == [3, 1, 2]


def test_nothing_ranked_is_nothing_found() -> None:
    assert fuse([]) == []
    assert fuse([Ranking("a", ())]) == []


@given(LISTS)
def test_every_document_stands_once_in_falling_order(lists: list[list[int]]) -> None:
    rankings = [Ranking(str(number), tuple(ids)) for number, ids in enumerate(lists)]
    fused = fuse(rankings)
    assert sorted(entry.id for entry in fused) == sorted({row_id for ids in lists for row_id in ids})
    assert all(first.score >= second.score for first, second in pairwise(fused))
    for entry in fused:
        assert entry.ranks == {str(n): ids.index(entry.id) + 1 for n, ids in enumerate(lists) if entry.id in ids}


@given(st.lists(st.integers(), unique=True, max_size=50))
def test_one_ranking_alone_keeps_its_order(ids: list[int]) -> None:
    assert [entry.id for entry in fuse([Ranking("a", tuple(ids))])] == ids
