"""Which one is meant: whole names first, then unambiguous endings."""

from __future__ import annotations

import pytest

from tidelore.core.errors import NotFound, UserError
from tidelore.core.references import match_one

PATHS = ["port/harbour", "quay/harbour", "port/light/house", "harbour"]


def match(wanted: str, candidates: list[str] = PATHS) -> str:
    return match_one(wanted, candidates, lambda path: (path, path.upper()), "project")


@pytest.mark.parametrize(
    ("wanted", "meant"),
    [("house", "port/light/house"), ("light/house", "port/light/house"), ("PORT/HARBOUR", "port/harbour")],
)
def test_a_project_matches_by_full_path_or_by_its_last_path_parts(wanted: str, meant: str) -> None:
    assert match(wanted) == meant


def test_a_full_path_match_takes_precedence_over_suffix_matches() -> None:
    assert match("harbour") == "harbour"


def test_an_ambiguous_suffix_is_refused_with_the_candidates() -> None:
    with pytest.raises(UserError) as refused:
        match("harbour", PATHS[:3])
    assert refused.value.details["candidates"] == ["port/harbour", "quay/harbour"]
    assert refused.value.fix == "name one of: port/harbour, quay/harbour"


@pytest.mark.parametrize("wanted", ["arbour", "port", "", "HOUSE"])
def test_an_unknown_project_is_not_found_and_the_known_ones_are_listed(wanted: str) -> None:
    with pytest.raises(NotFound, match="no project matches") as missing:
        match(wanted)
    assert missing.value.fix == "known projects: " + ", ".join(PATHS)


def test_without_any_project_the_fix_is_to_sync_first() -> None:
    with pytest.raises(NotFound) as missing:
        match("anything", [])
    assert missing.value.fix == "run `lore sync` first"
