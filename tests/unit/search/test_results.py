"""Results: threads once, snippets plain with the places of their hits, and the mode that is possible."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelore.core.errors import UserError
from tidelore.search.find import ModeChoice, choose_mode, describe_missing
from tidelore.search.fuse import Fused, Ranking
from tidelore.search.results import ThreadGroup, fuse_by_thread, group_by_thread, read_snippet
from tidelore.store.reading.found_documents import Readiness, ThreadKey
from tidelore.store.reading.fulltext import CLOSING, OPENING


def marked(text: str) -> str:
    return text.replace("[", OPENING).replace("]", CLOSING)


def hits(text: str) -> list[str]:
    snippet = read_snippet(marked(text))
    return [snippet.text[start:end] for start, end in snippet.highlights]


def test_snippet_hit_positions_point_at_the_matched_words() -> None:
    assert read_snippet(marked("the [crane] stops")).text == "the crane stops"
    assert hits("the [crane] stops at [berth]") == ["crane", "berth"]


def test_a_snippet_is_one_line_whatever_parts_it_crosses() -> None:
    snippet = read_snippet(marked("…one\n\f\n  [two]\r\n\tthree "))
    assert snippet.text == "…one two three"
    assert snippet.highlights == ((5, 8),)


@pytest.mark.parametrize("text", ["[open", "closed]", "[]", "[ ]x", "[a[b]"])
def test_highlight_marks_in_the_text_itself_do_not_shift_hits(text: str) -> None:
    snippet = read_snippet(marked(text))
    assert OPENING not in snippet.text
    assert CLOSING not in snippet.text


def test_a_snippet_of_an_endless_word_is_cut_around_its_first_hit() -> None:
    snippet = read_snippet(marked(f"{'x' * 100_000} [crane] {'y' * 100_000} [berth]"))
    assert len(snippet.text) == 602
    assert (snippet.text[0], snippet.text[-1]) == ("…", "…")
    assert [snippet.text[start:end] for start, end in snippet.highlights] == ["crane"]
    assert len(read_snippet(marked(f"[{'x' * 100_000}]")).text) == 601


@given(st.text(alphabet=f"ab \n\f{OPENING}{CLOSING}", max_size=40))
def test_hit_positions_are_ordered_and_inside_the_text(text: str) -> None:
    snippet = read_snippet(text)
    edges = [edge for pair in snippet.highlights for edge in pair]
    assert edges == sorted(edges)
    assert all(start < end <= len(snippet.text) for start, end in snippet.highlights)
    assert snippet.text == " ".join(snippet.text.split())


def test_a_thread_is_ranked_by_its_best_document_and_counts_the_others() -> None:
    fused = [Fused(number, 1 / number, {}) for number in (1, 2, 3, 4)]
    here, there = ThreadKey("issue", 1), ThreadKey("merge_request", 1)
    groups = group_by_thread(fused, {1: here, 2: there, 4: here})
    assert groups == [ThreadGroup(fused[0], 1, (4,)), ThreadGroup(fused[1], 0)]


def test_matches_in_two_documents_of_a_thread_add_up_for_that_thread() -> None:
    both, words, gone = ThreadKey("issue", 1), ThreadKey("issue", 2), 9
    threads = {1: both, 2: both, 3: words, 4: words, 5: words}
    groups = fuse_by_thread([Ranking("words", (3, 4, 5, 1)), Ranking("meaning", (gone, 2))], threads, 10)
    assert [(threads[group.best.id], group.further) for group in groups] == [(both, 1), (words, 2)]
    # The place is that of the thread among the threads; the document shown is the one that fits best.
    assert groups[0].best.ranks == {"words": 2, "meaning": 1}
    assert groups[0].best.id == 2
    assert groups[0].best.score == pytest.approx(1 / 12 + 1 / 11)


@pytest.mark.parametrize("mode", ["hybrid", "lexical", "semantic"])
def test_with_vectors_and_words_every_mode_is_possible(mode: str) -> None:
    assert choose_mode(mode, has_vectors=True, has_words=True) == ModeChoice(mode)  # type: ignore[arg-type]


def test_hybrid_without_vectors_is_lexical_with_one_notice() -> None:
    chosen = choose_mode("hybrid", has_vectors=False, has_words=True)
    assert chosen.mode == "lexical"
    assert chosen.notice is not None
    assert "lore embed" in chosen.notice
    assert choose_mode("lexical", has_vectors=False, has_words=True) == ModeChoice("lexical")


def test_semantic_without_vectors_is_refused_with_the_remedy() -> None:
    with pytest.raises(UserError) as refused:
        choose_mode("semantic", has_vectors=False, has_words=True)
    assert "lore embed" in str(refused.value.fix)


def test_filters_alone_need_no_vectors() -> None:
    assert choose_mode("semantic", has_vectors=False, has_words=False) == ModeChoice("lexical")


def test_documents_not_yet_searchable_are_reported_with_the_fix() -> None:
    assert describe_missing(Readiness(True, 0)) is None
    assert "generate-docs" in str(describe_missing(Readiness(True, 1)))
    assert "generate-docs" in str(describe_missing(Readiness(False, 1_200)))
    assert "lore sync" in str(describe_missing(Readiness(False, 0)))
