"""A document in pieces: nothing lost, nothing too long, cut between remarks where that is possible."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.effort import examples

from tidelore.embedding.chunks import BETWEEN_PARTS, chunk

texts = st.text(alphabet=st.sampled_from("ab.é漢字かな가 \n\t"), max_size=60) | st.from_regex(
    r"[a-z/]{30,90}", fullmatch=True
)
documents = st.lists(texts, max_size=8)
sizes = st.integers(1, 12).flatmap(lambda words: st.tuples(st.just(words), st.integers(0, words - 1)))


def letters(text: str) -> str:
    return "".join(text.split())


def numbered(*lengths: int) -> list[str]:
    """Parts of so many words, each word a number of its own."""
    numbers = iter(range(10_000))
    return [" ".join(f"w{next(numbers)}" for _ in range(length)) for length in lengths]


def count_words(text: str) -> int:
    """The length of a text in words: as many pieces of one word each."""
    return len(chunk([text], words=1, overlap=0))


def said(chunks: list[str]) -> list[list[str]]:
    return [piece.split() for piece in chunks]


@examples(few=25, many=300)
@given(documents, sizes)
def test_no_chunk_is_empty_or_longer_than_the_limit(parts: list[str], size: tuple[int, int]) -> None:
    words, overlap = size
    for piece in chunk(parts, words=words, overlap=overlap):
        assert piece.strip() == piece != ""
        assert 0 < count_words(piece) <= words


@examples(few=25, many=300)
@given(documents, st.integers(1, 12))
def test_chunks_without_overlap_join_to_the_document(parts: list[str], words: int) -> None:
    chunks = chunk(parts, words=words, overlap=0)
    assert "".join(letters(piece) for piece in chunks) == letters("".join(parts))


@examples(few=25, many=300)
@given(st.lists(st.integers(0, 30), max_size=8), sizes)
def test_every_word_is_covered_in_order_and_overlaps_stay_within_bounds(
    lengths: list[int], size: tuple[int, int]
) -> None:
    words, overlap = size
    parts = numbered(*lengths)
    everything = " ".join(parts).split()
    place = {word: number for number, word in enumerate(everything)}
    end = 0
    for group in said(chunk(parts, words=words, overlap=overlap)):
        numbers = [place[word] for word in group]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        assert end - overlap <= numbers[0] <= end
        assert numbers[0] < end or overlap == 0 or end == 0
        assert numbers[-1] >= end
        end = numbers[-1] + 1
    assert end == len(everything)


@examples(few=25, many=300)
@given(documents, sizes)
def test_each_chunk_is_a_verbatim_part_of_the_document(parts: list[str], size: tuple[int, int]) -> None:
    words, overlap = size
    whole = BETWEEN_PARTS.join(part.strip() for part in parts if part.strip())
    for piece in chunk(parts, words=words, overlap=overlap):
        assert piece in whole


@examples(few=25, many=300)
@given(documents, sizes)
def test_the_same_document_gives_the_same_chunks(parts: list[str], size: tuple[int, int]) -> None:
    words, overlap = size
    assert chunk(parts, words=words, overlap=overlap) == chunk(list(parts), words=words, overlap=overlap)


def test_a_document_that_fits_is_one_chunk_with_its_layout_kept() -> None:
    assert chunk(["Title", " ", "ana: one\n  two "], words=10, overlap=2) == ["Title\n\nana: one\n  two"]


def test_a_chunk_ends_between_two_remarks_when_that_leaves_it_half_full() -> None:
    chunks = chunk(numbered(6, 6, 6), words=10, overlap=0)
    assert chunks == numbered(6, 6, 6)


def test_the_overlap_repeats_whole_remarks_when_they_fit() -> None:
    chunks = chunk(numbered(6, 2, 7), words=10, overlap=4)
    assert said(chunks)[1][:2] == ["w6", "w7"]
    assert chunks[1] == BETWEEN_PARTS.join(numbered(6, 2, 7)[1:])


def test_a_long_remark_is_cut_inside_and_overlaps_in_full() -> None:
    assert [(group[0], group[-1]) for group in said(chunk(numbered(25), words=10, overlap=3))] == [
        ("w0", "w9"),
        ("w7", "w16"),
        ("w14", "w23"),
        ("w21", "w24"),
    ]


def test_a_blob_without_spaces_is_measured_by_its_length() -> None:
    chunks = chunk(["x" * 3200], words=10, overlap=0)
    assert [len(piece) for piece in chunks] == [320] * 10


def test_a_script_without_spaces_is_measured_by_its_length() -> None:
    assert count_words("漢字漢字漢") == 3


@pytest.mark.parametrize(("words", "overlap"), [(0, 0), (5, 5), (5, -1)])
def test_a_chunk_size_or_overlap_that_makes_no_progress_is_refused(words: int, overlap: int) -> None:
    with pytest.raises(ValueError, match="no chunks"):
        chunk(["a"], words=words, overlap=overlap)
