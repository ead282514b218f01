"""`lore why`: from a line of a real git checkout to the review that explains it."""

from __future__ import annotations

import os
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.databases.migrated_file import lay_out
from tests.databases.review import LAB, lay_out_lab, reviewed
from tests.databases.samples import merge_request
from tests.databases.talk import DISCUSSIONS, attach, discussion, keep
from tests.faces.desk import Desk
from tests.faces.test_documented_shapes import compare

from tidelore.core.text import estimate_tokens
from tidelore.store.mirror.parents import MERGE_REQUESTS


class Checkout:
    """A git repository made by the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main")
        self.git("remote", "add", "origin", f"https://forge.test/{LAB}.git")

    def git(self, *arguments: str) -> str:
        person = dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "ann")
        mail = dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "ann@forge.test")
        environ = {**os.environ, **person, **mail, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        done = subprocess.run(
            ["git", "-C", str(self.folder), *arguments], capture_output=True, text=True, env=environ, check=True
        )
        return done.stdout.strip()

    def commit(self, message: str, **files: str) -> str:
        for name, text in files.items():
            (self.folder / name.replace("__", ".")).write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def checkout(desk: Desk, tmp_path: Path) -> Checkout:
    """A file whose lines come from a squash, a merged branch, a head commit, and a commit without a review."""
    made = Checkout(tmp_path / "checkout")
    made.commit("Start", crane__py="speed = 100\n")
    made.commit("Slow the crane (!1)", crane__py="speed = 40\n")
    made.git("checkout", "-q", "-b", "paint")
    made.commit("wip", crane__py="speed = 40\ncolour = 'red'\n")
    made.git("checkout", "-q", "main")
    message = f"Merge branch 'paint' into 'main'\n\nPaint it\n\nSee merge request {LAB}!2"
    made.git("merge", "-q", "--no-ff", "paint", "-m", message)
    made.git("mv", "crane.py", "hoist.py")
    made.commit("Rename the crane")
    head = made.commit("Add brakes", hoist__py="speed = 40\ncolour = 'red'\nbrakes = True\n")
    made.commit("Typo", hoist__py="speed = 40\ncolour = 'red'\nbrakes = True\nlamp = 1\n")
    desk.config.write_text("")
    lay_out(desk.db)
    with closing(desk.store()) as database:
        project = lay_out_lab(database)
        attach(
            database, project, "merge_requests", 1, DISCUSSIONS,
            discussion("far", reviewed(501, "And here?", "noor", "crane.py", 90)),
            discussion("asked", reviewed(500, "We decided on 40 % after the fall.", "noor", "crane.py", 1)),
            discussion("other", reviewed(502, "Elsewhere", "noor", "winch.py", 1)),
        )  # fmt: skip
        own: dict[str, Any] = {"title": "Brakes", "references_full": f"{LAB}!6", "head_sha": head, "state": "merged"}
        keep(database, project, MERGE_REQUESTS, [merge_request(6, **own)])
    return made


def test_each_line_leads_to_the_merge_request_that_brought_it(desk: Desk, checkout: Checkout) -> None:
    file = checkout.folder / "hoist.py"
    found = [desk.robot("why", f"{file}:{line}").data for line in (1, 2, 3)]
    assert [(one["item"]["reference"], one["found_by"]) for one in found] == [
        (f"{LAB}!1", "message"),
        (f"{LAB}!2", "message"),
        (f"{LAB}!6", "commit"),
    ]
    first = found[0]
    assert (first["commit"]["summary"], first["commit"]["path"]) == ("Slow the crane (!1)", "crane.py")
    assert [thread["id"] for thread in first["threads"]] == ["asked", "far"]
    assert first["names"] == ["hoist.py", "crane.py"]
    assert first["notes"][0]["body"] == "We decided on 40 % after the fall."
    compare("why", first)
    assert "We decided on 40 %" in desk.run("why", f"{file}:1").out


def test_without_a_line_the_newest_reviewed_commit_of_the_file_counts(desk: Desk, checkout: Checkout) -> None:
    found = desk.run("why", str(checkout.folder / "hoist.py"), "--robot", "--max-tokens", "500")
    assert found.data["item"]["reference"] == f"{LAB}!6"
    assert estimate_tokens(found.out) <= 500


def test_what_git_or_the_copy_does_not_know_is_refused_with_a_fix(
    desk: Desk, checkout: Checkout, tmp_path: Path
) -> None:
    file = checkout.folder / "hoist.py"
    unknown = desk.robot("why", f"{file}:4")
    assert (unknown.code, unknown.error["code"]) == (6, "NOT_FOUND")
    assert "Typo" in unknown.error["message"]
    assert desk.robot("why", f"{file}:99").code == 2
    assert desk.robot("why", f"{file}:0").code == 2
    outside = tmp_path / "plain.txt"
    outside.write_text("x\n")
    refused = desk.robot("why", f"{outside}:1")
    assert refused.code == 2
    assert "checkout" in refused.error["fix"]
    file.write_text(file.read_text() + "new = 1\n")
    assert "not committed" in desk.robot("why", f"{file}:5").error["message"]
