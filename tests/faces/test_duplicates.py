"""`lore duplicates`: groups of open issues with their evidence."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from tests.databases.migrated_file import lay_out
from tests.databases.samples import add_project, issue
from tests.databases.talk import keep
from tests.faces.desk import Desk
from tests.faces.test_documented_shapes import compare

from tidelore.store.mirror.parents import ISSUES

TEXTS = (
    ("Crane halts at forty percent load", "The gantry crane halts when the spreader carries forty percent load."),
    ("Gantry crane stops at 40 % load", "With forty percent load on the spreader the gantry crane halts."),
    ("Invoice shows wrong currency", "Customers in Oslo see euros on the invoice."),
    ("Dark mode for the console", "Please add a dark theme to the berth table."),
    ("Wrong currency on Oslo invoice", "The invoice for customers in Oslo shows euros, see #3."),
    ("Retention job blocks inserts", "Deleting expired rows takes hours."),
)


@pytest.fixture
def reported(desk: Desk) -> Desk:
    desk.config.write_text("")
    lay_out(desk.db)
    with closing(desk.store()) as database:
        project = add_project(database)
        made = [issue(n, title=title, description=text) for n, (title, text) in enumerate(TEXTS, 1)]
        others: list[Any] = [
            issue(100 + n, title=f"Topic{n} alpha{n}", description=f"Beta{n} gamma{n} delta{n}") for n in range(30)
        ]
        closed = issue(90, title=TEXTS[0][0], description=TEXTS[0][1], state="closed")
        keep(database, project, ISSUES, [*made, *others, closed])
    return desk


def groups(data: dict[str, Any]) -> list[list[str]]:
    return [[entry["reference"].rpartition("#")[2] for entry in group["issues"]] for group in data["items"]]


def test_issues_that_share_rare_words_are_grouped_with_their_evidence_and_others_are_not(reported: Desk) -> None:
    found = reported.robot("duplicates").data
    assert sorted(groups(found)) == [["1", "2"], ["3", "5"]]
    assert (found["total"], found["compared"]) == (2, 36)
    money = next(group for group in found["items"] if groups({"items": [group]}) == [["3", "5"]])
    (pair,) = money["pairs"]
    assert pair["mentioned"] is True
    assert {"oslo", "euros"} <= set(pair["shared"])
    compare("duplicates", found)
    assert "one mentions the other" in reported.run("duplicates").out


def test_one_issue_is_compared_with_the_others(reported: Desk) -> None:
    assert groups(reported.robot("duplicates", "#2").data) == [["1", "2"]]
    assert reported.robot("duplicates", "#4").data["items"] == []
    assert "No duplicates among 36 open issues" in reported.run("duplicates", "#4").out


def test_what_cannot_be_compared_is_refused_with_a_fix(reported: Desk) -> None:
    assert reported.robot("duplicates", "#90").code == 2
    assert reported.robot("duplicates", "#404").code == 6
    assert reported.robot("duplicates", "--similarity", "2").code == 2
