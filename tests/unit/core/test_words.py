"""What is indexed beside ordinary words: bigrams, plain words, and the distance between words."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelore.core.words import bigrams_of, distance, fold, parts_to_ask, plain_words, split_scripts


def test_an_unspaced_run_is_indexed_by_pairs_and_its_last_character() -> None:
    assert bigrams_of(["see 東京都, GitLab設定", "plain"]) == "東京 京都 都 GitLab 設定 定"
    assert bigrams_of(["plain", "naïve"]) == ""


def test_half_width_characters_equal_the_usual_ones() -> None:
    assert bigrams_of(["ｸﾚｰﾝ"]) == bigrams_of(["クレーン"]) == "クレ レー ーン ン"


def test_a_very_long_text_is_indexed_up_to_a_limit() -> None:
    assert len(bigrams_of(["東京" * 100_000]).split()) <= 60_001


def test_a_long_run_is_asked_for_as_a_whole_and_by_pairs_without_grammar() -> None:
    assert parts_to_ask("東京都") == ["東京都"]
    assert parts_to_ask("東京都に行く人") == ["東京都に行く人", "東京", "京都"]
    assert parts_to_ask("크레인이") == ["크레인이", "크레", "레인", "인이"]
    assert split_scripts("GitLab東京-v2") == ["GitLab", "東京", "v2"]


def test_words_are_folded_and_short_numbered_or_endless_ones_left_out() -> None:
    assert plain_words(["Die Größe von Café_42 x86flag 東京 abc", "y" * 41]) == {"große", "cafe", "flag"}
    assert fold("ÀÉÎ 한글 が") == "aei 한글 が"


def test_a_swapped_pair_of_letters_counts_as_one_step() -> None:
    assert distance("crane", "crnae", 2) == 1
    assert distance("crane", "krahn", 2) == 3
    assert distance("crane", "cranes", 2) == 1
    assert distance("", "abc", 2) == 3


@settings(max_examples=60, deadline=None)
@given(st.text("abc", max_size=6), st.text("abc", max_size=6), st.integers(0, 3))
def test_distance_is_symmetric_and_zero_only_for_equal_words(one: str, other: str, most: int) -> None:
    assert distance(one, other, most) == distance(other, one, most)
    assert (distance(one, other, most) == 0) == (one == other)
