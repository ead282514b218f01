"""Fusion counts places, weights, and how far each document falls behind the best of its own ranking."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelore.search.fuse import Ranking, fuse, stand_in

LISTS = st.lists(st.lists(st.integers(1, 30), unique=True, max_size=20), min_size=1, max_size=4)


def test_a_document_in_two_rankings_comes_before_the_favourite_of_one() -> None:
    fused = fuse([Ranking("lexical", (1, 2, 3)), Ranking("semantic", (4, 2, 5))])
    assert [entry.id for entry in fused][:3] == [2, 1, 4]
    assert fused[0].ranks == {"lexical": 2, "semantic": 2}
    assert fused[1].ranks == {"lexical": 1}


def test_the_score_is_weight_divided_by_k_plus_rank() -> None:
    fused = {entry.id: entry.score for entry in fuse([Ranking("a", (7, 8), 0.5), Ranking("b", (8,), 2.0)], k=10)}
    assert fused[7] == pytest.approx(0.5 / 11)
    assert fused[8] == pytest.approx(0.5 / 12 + 2.0 / 11)


def test_a_strength_scales_the_score_of_its_rank() -> None:
    words = Ranking("words", (7, 8), 0.5, strengths=(1.0, 0.25))
    fused = {entry.id: entry.score for entry in fuse([words, Ranking("b", (8,))], k=10)}
    assert fused[7] == pytest.approx(0.5 / 11)
    assert fused[8] == pytest.approx(0.5 * 0.25 / 12 + 1 / 11)


def test_a_much_stronger_word_match_is_not_overtaken_by_a_semantic_match() -> None:
    meaning = Ranking("meaning", (2, 3, 4, 1), 0.7)
    even, alone = (1.0, 0.98), (1.0, 0.2)
    assert [fuse([Ranking("words", (1, 2), 1.0, ways), meaning])[0].id for ways in (even, alone)] == [2, 1]


def test_documents_are_replaced_by_their_representative_at_the_first_rank() -> None:
    ranking = Ranking("words", (1, 2, 3, 4, 5), 0.7, strengths=(1.0, 0.8, 0.6, 0.4, 0.2))
    led = stand_in(ranking, {1: 1, 2: 4, 3: 1, 4: 4})
    assert led == Ranking("words", (1, 4), 0.7, strengths=(1.0, 0.8))
    assert stand_in(Ranking("meaning", (3, 1)), {1: 1, 3: 1}) == Ranking("meaning", (1,))


def test_equal_scores_keep_the_order_of_the_earlier_ranking() -> None:
    assert [entry.id for entry in fuse([Ranking("a", (9,)), Ranking("b", (1,))])] == [9, 1]


def test_a_ranking_with_weight_zero_does_not_change_the_order() -> None:
    assert [entry.id for entry in fuse([Ranking("a", (3, 1, 2)), Ranking("b", (2, 1, 3), 0.0)])] == [3, 1, 2]


def test_fusing_empty_rankings_gives_no_results() -> None:
    assert fuse([]) == []
    assert fuse([Ranking("a", ())]) == []


@given(LISTS)
def test_every_document_appears_once_in_descending_score_order(lists: list[list[int]]) -> None:
    rankings = [Ranking(str(number), tuple(ids)) for number, ids in enumerate(lists)]
    fused = fuse(rankings)
    assert sorted(entry.id for entry in fused) == sorted({row_id for ids in lists for row_id in ids})
    assert all(first.score >= second.score for first, second in pairwise(fused))
    for entry in fused:
        assert entry.ranks == {str(n): ids.index(entry.id) + 1 for n, ids in enumerate(lists) if entry.id in ids}


@given(st.lists(st.integers(), unique=True, max_size=50))
def test_one_ranking_alone_keeps_its_order(ids: list[int]) -> None:
    assert [entry.id for entry in fuse([Ranking("a", tuple(ids))])] == ids
