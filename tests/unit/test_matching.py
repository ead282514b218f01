"""Which one is meant: whole names first, then unambiguous endings."""

from __future__ import annotations

import pytest

from tidelore.errors import NotFound, UserError
from tidelore.name_matching import match_one

PATHS = ["port/harbour", "quay/harbour", "port/light/house", "harbour"]


def match(wanted: str, candidates: list[str] = PATHS) -> str:
    return match_one(wanted, candidates, lambda path: (path, path.upper()), "project")


@pytest.mark.parametrize(
    ("wanted", "meant"),
    [("house", "port/light/house"), ("light/house", "port/light/house"), ("PORT/HARBOUR", "port/harbour")],
)
def test_a_whole_name_or_an_ending_of_whole_words_is_enough(wanted: str, meant: str) -> None:
    assert match(wanted) == meant


def test_a_whole_name_wins_over_endings() -> None:
    assert match("harbour") == "harbour"


def test_an_ending_of_several_is_refused_with_the_candidates() -> None:
    with pytest.raises(UserError) as refused:
        match("harbour", PATHS[:3])
    assert refused.value.details["candidates"] == ["port/harbour", "quay/harbour"]
    assert refused.value.fix == "name one of: port/harbour, quay/harbour"


@pytest.mark.parametrize("wanted", ["arbour", "port", "", "HOUSE"])
def test_what_names_nothing_is_not_found_and_the_known_names_are_told(wanted: str) -> None:
    with pytest.raises(NotFound, match="no project matches") as missing:
        match(wanted)
    assert missing.value.fix == "known projects: " + ", ".join(PATHS)


def test_with_nothing_to_choose_from_the_remedy_says_so() -> None:
    with pytest.raises(NotFound) as missing:
        match("anything", [])
    assert missing.value.fix == "known projects: none yet"
