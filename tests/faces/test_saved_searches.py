"""Saved searches: what is new since the last time, the list, and what is refused."""

from __future__ import annotations

from contextlib import closing

import pytest
from tests.databases.migrated_file import lay_out
from tests.databases.review import HUB, LAB, lay_out_hub, lay_out_lab
from tests.databases.talk import DISCUSSIONS, attach, discussion, note
from tests.faces.desk import Desk
from tests.faces.test_documented_shapes import compare

from tidelore.store.mirror.projects import match_project


@pytest.fixture
def talk(desk: Desk) -> Desk:
    desk.config.write_text('[embedding]\nprovider = "none"\n')
    lay_out(desk.db)
    with closing(desk.store()) as database:
        lay_out_lab(database)
        lay_out_hub(database)
    assert desk.run("generate-docs").code == 0
    return desk


def say(desk: Desk, iid: int, body: str) -> None:
    """Somebody comments on an issue, and its document is made."""
    with closing(desk.store()) as database:
        attach(database, match_project(database, LAB), "issues", iid, DISCUSSIONS, discussion("z", note(900, body)))
    assert desk.run("generate-docs").code == 0


def test_a_saved_search_marks_what_was_not_found_the_last_time(talk: Desk) -> None:
    first = talk.robot("search", "rebase", "--save", "rebases").data
    assert [item["reference"] for item in first["items"]] == [f"{HUB}#5"]
    assert talk.robot("search", "--saved", "rebases", "--new").data["items"] == []
    say(talk, 3, "Please rebase this too.")
    found = talk.robot("search", "--saved", "rebases").data
    assert {item["reference"]: item["new"] for item in found["items"]} == {f"{LAB}#3": True, f"{HUB}#5": False}
    assert found["new"] == 1
    again = talk.robot("search", "--saved", "rebases").data
    assert (again["new"], again["total"]) == (0, 2)
    compare("search", again)


def test_filters_are_saved_with_the_query_and_a_second_save_replaces_the_first(talk: Desk) -> None:
    talk.run("search", "crane", "--save", "cranes")
    assert talk.run("search", "crane", "--type", "issue", "--label", "dock", "--save", "cranes").code == 0
    (saved,) = talk.robot("searches").data["items"]
    assert (saved["query"], saved["filters"]) == ("crane", {"type": "issue", "label": "dock"})
    assert talk.robot("search", "--saved", "cranes").data["items"] == []
    compare("searches", talk.robot("searches").data)


def test_people_see_what_is_new_and_the_list_of_saved_searches(talk: Desk) -> None:
    talk.run("search", "rebase", "--save", "rebases")
    say(talk, 3, "Please rebase this too.")
    assert "  new, opened" in talk.terminal("search", "--saved", "rebases", "--new").out
    assert "rebases" in talk.terminal("searches").out
    assert talk.run("searches", "remove", "rebases").out == "Removed rebases.\n"
    assert "No saved searches." in talk.terminal("searches").out


def test_unknown_names_and_contradictions_are_refused_with_the_remedy(talk: Desk) -> None:
    missing = talk.robot("search", "--saved", "nothing")
    assert (missing.code, "--save NAME" in missing.error["fix"]) == (6, True)
    assert talk.robot("searches", "remove", "nothing").code == 6
    for argv in (["x", "--saved", "a"], ["x", "--new"], ["x", "--save", "a b"]):
        assert talk.robot("search", *argv).code == 2
    assert talk.robot("searches").data["items"] == []
