"""Shell completion of references, labels, projects and users from the local copy."""

from __future__ import annotations

import os
import subprocess

import pytest
from tests.faces.desk import COMMAND, CONSOLE, LEDGER, Desk

from tidelore.app.reading.completion import suggest_names, suggest_references
from tidelore.app.wiring import App, load_settings


def test_a_shell_completes_a_label_of_the_copy(desk: Desk) -> None:
    with desk.world.lock:
        desk.world.gitlab.edit_issue(LEDGER, 2, labels=["bug", "breaking"])
    desk.ingested()
    words = ["lore", "--db", str(desk.db), "--config", str(desk.config), "list", "issues", "--label", "b"]
    environ = {"_LORE_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(COMMAND, capture_output=True, text=True, env=os.environ | environ, timeout=60, check=True)
    assert done.stdout.split() == ["plain,breaking", "plain,bug"]


@pytest.fixture
def app(desk: Desk) -> App:
    desk.ingested()
    desk.ingested("merge_requests")
    return App(load_settings(str(desk.config)), {}, db=str(desk.db))


def test_references_are_completed_by_number_and_by_project(app: App) -> None:
    assert {one.word for one in suggest_references(app, ("issue",), "")} == {
        *(f"{LEDGER}#{number}" for number in range(1, 6)),
        *(f"{CONSOLE}#{number}" for number in (1, 2)),
    }
    assert {one.word for one in suggest_references(app, ("issue",), f"{LEDGER}#4")} == {f"{LEDGER}#4"}
    assert {one.word for one in suggest_references(app, ("mr",), f"{CONSOLE}!")} == {
        f"{CONSOLE}!{n}" for n in (1, 2, 3)
    }
    assert {one.word for one in suggest_references(app, ("issue", "mr"), "3")} == {"3"}
    assert all(one.meaning for one in suggest_references(app, ("issue",), "3"))
    assert {one.word for one in suggest_references(app, ("issue",), "harbor/w")} == {f"{CONSOLE}#"}


def test_projects_are_completed_by_any_part_of_their_path(app: App) -> None:
    assert [one.word for one in suggest_names(app, "project", "led")] == [LEDGER]
    assert [one.word for one in suggest_names(app, "project", "harbor/")] == [LEDGER, CONSOLE]
    assert suggest_names(app, "label", "100%_") == []


def test_without_a_database_nothing_is_suggested_and_none_is_created(desk: Desk) -> None:
    app = App(load_settings(str(desk.config)), {}, db=str(desk.db))
    assert suggest_references(app, ("issue",), "1") == []
    assert suggest_names(app, "label", "") == []
    assert not desk.db.exists()
