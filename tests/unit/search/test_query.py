"""The query language: what every sign means, and that no text is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelore.search import query as query_module
from tidelore.search.query import FIELDS, LONGEST_TERM, MOST_NAMES, MOST_TERMS, Query, is_identifier, parse_query
from tidelore.store.reading.fulltext import Term


def words(query: Query) -> list[str]:
    return [term.text for term in query.terms]


def test_words_are_alternatives_and_stop_words_are_dropped() -> None:
    query = parse_query("why is the crane stuck at the berth")
    assert words(query) == ["crane", "stuck", "berth"]
    assert not any(term.is_phrase for term in query.terms)


def test_a_query_of_only_stop_words_searches_for_them() -> None:
    assert words(parse_query("to be or not to be")) == ["to", "be", "or", "not"]


def test_a_quoted_phrase_keeps_all_its_words() -> None:
    query = parse_query('"state of the art" cranes')
    assert query.terms == (Term("state of the art", is_phrase=True), Term("cranes"))


def test_a_quoted_stop_word_is_not_dropped() -> None:
    assert parse_query('"the" crane').terms == (Term("the", is_phrase=True), Term("crane"))


def test_an_unclosed_quote_extends_to_the_end() -> None:
    assert parse_query('crane "stuck at berth').terms == (Term("crane"), Term("stuck at berth", is_phrase=True))


def test_a_minus_excludes_a_word_or_a_phrase() -> None:
    query = parse_query('crane -berth -"load test"')
    assert words(query) == ["crane"]
    assert query.excluded == (Term("berth"), Term("load test", is_phrase=True))


@pytest.mark.parametrize("text", ["--force", "a - b", "re-index"])
def test_a_lone_minus_excludes_nothing(text: str) -> None:
    assert parse_query(text).excluded == ()


def test_field_filters_are_removed_from_the_search_words() -> None:
    query = parse_query('crane author:mira label:"needs review" LABEL:bug since:7d')
    assert words(query) == ["crane"]
    assert query.fields == (("author", "mira"), ("label", "needs review"), ("label", "bug"), ("since", "7d"))
    assert query.text == "crane"


@pytest.mark.parametrize("text", ["colour:red", "author:", 'author:""', "-label:bug"])
def test_unknown_fields_and_fields_without_a_value_are_not_filters(text: str) -> None:
    query = parse_query(text)
    assert query.fields == ()
    assert query.terms or query.excluded


@pytest.mark.parametrize(
    "word", ["usage/derive.py", "derive.py", "ParkingLot", "parkLot", "park_lot", "crane::lift", "a.b:12"]
)
def test_code_identifiers_are_recognised_by_their_form(word: str) -> None:
    assert is_identifier(word)
    assert word in parse_query(f"why does ({word}), fail").names


@pytest.mark.parametrize("word", ["crane", "Crane", "CRANE", "1.5", "10:30", "e-mail", "end.", "what?", "..."])
def test_plain_words_and_numbers_are_not_identifiers(word: str) -> None:
    assert not parse_query(word).names


def test_an_identifier_is_searched_as_a_whole_and_by_its_parts() -> None:
    query = parse_query("usage/derive.py")
    assert query.terms == (Term("usage/derive.py", is_phrase=True), Term("usage"), Term("derive"), Term("py"))


def test_an_identifier_too_short_for_the_identifier_index_is_searched_as_a_word() -> None:
    assert parse_query("a_b").names == ()


def test_repeated_terms_are_searched_once_ignoring_case() -> None:
    assert words(parse_query("Crane crane CRANE")) == ["Crane"]


def test_operators_of_other_query_languages_are_plain_words() -> None:
    assert words(parse_query("NEAR(crane berth, 5) crane*^2 {title}:x")) == [
        "NEAR",
        "crane",
        "berth",
        "5",
        "2",
        "title",
        "x",
    ]


def test_a_long_query_is_cut_to_its_first_terms() -> None:
    query = parse_query(" ".join(f"word{number} mod{number}.py" for number in range(5_000)))
    assert len(query.terms) == MOST_TERMS
    assert len(query.names) == MOST_NAMES
    assert len(words(parse_query("x" * 50_000))[0]) == LONGEST_TERM


@pytest.mark.parametrize("text", ["", "   ", '""', "-", "...", "\x00", "\ud800"])
def test_text_without_any_search_term_is_an_empty_query(text: str) -> None:
    assert parse_query(text).is_empty


@given(st.text(alphabet=st.characters(), max_size=200) | st.text(alphabet="ab\"-:.*()^ \x00_%\\'", max_size=60))
def test_any_text_is_parsed_into_non_empty_encodable_terms(text: str) -> None:
    query = parse_query(text)
    for term in (*query.terms, *query.excluded):
        assert 0 < len(term.text) <= LONGEST_TERM
        assert any(mark.isalnum() for mark in term.text)
        assert '"' not in term.text
        assert "\x00" not in term.text
        term.text.encode()
    assert all(name in FIELDS and value for name, value in query.fields)


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("foo:bar crane", ("foo",)),
        ("crane Assignee:mira milestone:9 assignee:jonas", ("assignee", "milestone")),
        ('is:"needs review"', ("is",)),
        ("label:bug std::vector https://forge.test crane: a:/b src/usage.py:12 12:30 C:\\x TypeError:", ()),
        ('"foo:bar" -foo:bar', ()),
    ],
)
def test_an_unknown_query_field_is_reported(text: str, unknown: tuple[str, ...]) -> None:
    assert parse_query(text).unknown_fields == unknown


@given(st.text() | st.text('ab09_.:/-" \u00a0\u2003ü', max_size=40))
def test_pieces_of_a_query_are_split_as_the_pattern_splits_them(text: str) -> None:
    found = query_module._PIECE.finditer(text)
    split = [(piece.text, piece.word) for piece in query_module._pieces(text)]
    assert split == [(one[0], one["word"]) for one in found]


@given(st.text("abXY09_.:/- ü", max_size=12))
def test_a_word_that_is_ordinary_is_no_identifier_and_has_one_part(word: str) -> None:
    if query_module._is_ordinary(word):
        assert query_module._IDENTIFIER.match(word) is None
        assert query_module._PART.findall(word) == [word]
