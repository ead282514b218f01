"""`lore show`: the page people read, the document programs get, and what is refused with which remedy."""

from __future__ import annotations

from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from tests.architecture.test_offline_read import HEAVY, loaded_by
from tests.databases.samples import CREATED, add_project, issue, merge_request
from tests.databases.talk import (
    CLOSES_ISSUES,
    DIFFS,
    DISCUSSIONS,
    RESOURCE_EVENTS,
    attach,
    closed_issue,
    discussion,
    file_change,
    keep,
    note,
    placed,
    state_event,
)
from tests.faces.desk import LEDGER, Desk
from tests.faces.test_documented_shapes import compare

from tidelore.core.clock import parse_instant
from tidelore.core.model import Scope
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.mirror.kinds import MERGE_REQUEST
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS, bury

ADDRESS = "https://forge.test/port/harbour/-/merge_requests/847"
WORDS = "Moving away from session cookies to JWT-based authentication for better mobile client support."


def day(text: str) -> int:
    return parse_instant(f"{text}T14:30:00Z")


REQUEST = merge_request(
    847, day("2024-03-20"), iid=847, title="Refactor auth to use JWT tokens", description=WORDS, state="merged",
    author_username="johndoe", assignees=("janedoe", "bobsmith"), reviewers=("alice", "charlie"),
    source_branch="feature/jwt", created_at=day("2024-03-15"), merge_user_username="alice",
    merged_at=day("2024-03-20"), labels=("enhancement", "auth", "reviewed"), web_url=ADDRESS,
)  # fmt: skip
ASKED = discussion(
    "a",
    placed(
        1, "Should we use a separate key?", "src/jwt.ts", 45, author_username="janedoe", created_at=day("2024-03-16")
    ),
    placed(2, "Good point.", "src/jwt.ts", 45, author_username="johndoe", created_at=day("2024-03-16")),
)
NIT = discussion(
    "b",
    note(3, "Looks good!", author_username="alice", created_at=day("2024-03-18"), resolvable=True, resolved=True,
         resolved_by="johndoe", resolved_at=day("2024-03-19")),
)  # fmt: skip
WRITTEN_BY_THE_FORGE = discussion("c", note(4, "approved this", is_system=True, created_at=day("2024-03-19")))
PAGE = """\
Merge Request !847: Refactor auth to use JWT tokens
================================================================================
Project:      port/harbour
State:        merged
Draft:        No
Author:       @johndoe
Assignees:    @bobsmith, @janedoe
Reviewers:    @alice, @charlie
Source:       feature/jwt
Target:       main
Merge Status: mergeable (detailed_merge_status)
Merged By:    @alice
Merged At:    2024-03-20 14:30:00
Created:      2024-03-15
Updated:      2024-03-20
Labels:       auth, enhancement, reviewed
URL:          https://forge.test/port/harbour/-/merge_requests/847
Closes:       #12, port/quay#3
Files:        2 changed
Events:       1 state

Description:
  Moving away from session cookies to JWT-based authentication for better mobile
  client support.

Discussions (2):

  @janedoe (2024-03-16) [src/jwt.ts:45]:
    Should we use a separate key?

    @johndoe (2024-03-16):
      Good point.

  @alice (2024-03-18) [RESOLVED]:
    Looks good!
"""
ISSUE = """\
Issue #12: Issue 12
================================================================================
Project:      port/harbour
State:        opened
Status:       In progress
Confidential: Yes
Author:       @mira
Milestone:    Q2
Due Date:     2026-04-01
Estimate:     8h
Time Spent:   1h 30m
Created:      2023-11-14
Updated:      2023-11-14
Closed By:    !847 (merged)

Description:
  The crane stops at 40 %.

Discussions (0):
  (not fetched yet; run `lore sync`)
"""


@pytest.fixture
def filled(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.delenv("COLUMNS", raising=False)
    database = open_database(str(desk.db))
    migrate(database, 1)
    harbour, quay = add_project(database), add_project(database, 2, "port/quay")
    keep(
        database,
        harbour,
        MERGE_REQUESTS,
        [REQUEST, merge_request(1), merge_request(5, title="Draft: \x1b[31mred", draft=True)],
    )
    keep(database, quay, MERGE_REQUESTS, [merge_request(1, title="At the quay")])
    planned = issue(
        12, iid=12, references_full="port/harbour#12", confidential=True, milestone_title="Q2", due_date="2026-04-01",
        time_estimate_seconds=28_800, time_spent_seconds=5_400,
    )  # fmt: skip
    keep(database, harbour, ISSUES, [planned, issue(30)])
    attach(database, harbour, "merge_requests", 847, DISCUSSIONS, ASKED, NIT, WRITTEN_BY_THE_FORGE)
    attach(database, harbour, "merge_requests", 847, RESOURCE_EVENTS, state_event(1, "merged"))
    closed = [closed_issue(12, 12, "port/harbour#12"), closed_issue(99, 3, "port/quay#3")]
    attach(database, harbour, "merge_requests", 847, CLOSES_ISSUES, *closed)
    files = [file_change("src/jwt.ts", "src/jwt.ts"), file_change("old.ts", "new.ts", renamed_file=True)]
    attach(database, harbour, "merge_requests", 847, DIFFS, *files)
    attach(database, harbour, "issues", 30, DISCUSSIONS, ASKED_ON_AN_ISSUE)
    with database.transaction() as tx:
        tx.execute("UPDATE issues SET status_name = 'In progress' WHERE iid = 12")
    database.close()
    return desk


ASKED_ON_AN_ISSUE = discussion("d", note(40, "Since when?"), note(41, "Monday."))


# The page


def test_a_merge_request_is_shown_with_its_fields_and_threads(filled: Desk) -> None:
    done = filled.run("show", "mr", "847")
    assert (done.code, done.err) == (0, "")
    assert done.out == PAGE


@pytest.mark.parametrize(
    ("word", "calls"),
    [
        ("group/project!12", "`lore show mr 'group/project!12'`"),
        ("https://github.com/o/r/issues/4", "`lore show issue 'https://github.com/o/r/issues/4'`"),
        ("12", "`lore show issue '12'` or `lore show mr '12'`"),
    ],
)
def test_a_reference_without_a_kind_is_answered_with_the_command_that_shows_it(
    desk: Desk, word: str, calls: str
) -> None:
    done = desk.run("show", word)
    assert done.code == 2
    assert done.err == f"error: {word} is a reference, not a kind of item\nfix:   use {calls}\n"


def test_an_issue_is_shown_with_milestone_due_date_and_closing_merge_requests(filled: Desk) -> None:
    assert filled.run("show", "issue", "12").out == ISSUE
    said = filled.run("show", "issue", "30").out
    assert "  @mira (2023-11-14):\n    Since when?\n\n    @mira (2023-11-14):\n      Monday.\n" in said


def test_options_select_system_notes_files_and_the_number_of_discussions(filled: Desk) -> None:
    everything = filled.run("show", "mr", "847", "--system", "--files").out
    assert "Discussions (3):" in everything
    assert "  @mira (2024-03-19) [SYSTEM]:\n    approved this\n" in everything
    assert "Files (2):\n  R old.ts -> new.ts\n  M src/jwt.ts\n" in everything
    last = filled.run("show", "mr", "847", "--notes", "1").out
    assert "Discussions (2):\n  (1 earlier discussion not shown)\n\n  @alice" in last
    assert "janedoe (2024" not in last
    assert "(2 earlier discussions not shown)" in filled.run("show", "mr", "847", "--notes", "0").out


def test_a_deleted_item_is_shown_as_deleted_without_its_text(filled: Desk) -> None:
    database = filled.store()
    with closing(database), database.transaction() as tx:
        ((row_id, project_id),) = tx.execute("SELECT id, project_id FROM merge_requests WHERE iid = 847")
        scope = Scope("gitlab", "gitlab.merge_requests", "1", project_id, "")
        bury(tx, scope, MERGE_REQUEST, [row_id], CREATED)
    said = filled.run("show", "mr", "847").out
    assert said.startswith("Merge Request !847 [DELETED]\n")
    assert "found deleted on 2023-11-14" in said
    assert "Looks good!" not in said
    assert filled.robot("show", "mr", "847").data["deleted_at"] == "2023-11-14T22:13:20.000Z"


def test_discussions_older_than_their_item_are_marked_as_possibly_incomplete(filled: Desk) -> None:
    filled.query("UPDATE merge_requests SET updated_at = updated_at + 1 WHERE iid = 847")
    assert "Discussions (2):\n  (may be incomplete" in filled.run("show", "mr", "847").out
    assert filled.robot("show", "mr", "847").data["discussions_fresh"] is False


def test_show_removes_terminal_escapes_from_remote_text(filled: Desk) -> None:
    for argv in (["show", "mr", "5"], ["list", "mrs"]):
        done = filled.spawn(*argv)
        assert done.code == 0
        assert "\x1b" not in done.out
        assert "red" in done.out
    assert "Draft:        Yes" in filled.run("show", "mr", "5").out


def test_show_respects_the_requested_width(filled: Desk) -> None:
    narrow = filled.spawn("show", "mr", "847", COLUMNS="50").out
    assert max(len(line) for line in narrow.splitlines() if set(line) == {"="}) == 50
    prose = narrow[narrow.index("Description:") : narrow.index("Discussions")]
    assert max(map(len, prose.splitlines())) <= 50
    wide = filled.spawn("show", "mr", "847", COLUMNS="500").out
    assert f"  {WORDS}\n" in wide


def test_show_uses_colours_only_on_terminals_that_allow_them(filled: Desk) -> None:
    coloured = on_a_terminal(filled, {})
    assert "\x1b[1m" in coloured
    assert "\x1b[" not in on_a_terminal(filled, {"NO_COLOR": "1"})


def on_a_terminal(desk: Desk, environ: dict[str, str]) -> str:
    """What `lore show` writes to a real pseudo-terminal."""
    import os
    import pty
    import subprocess

    master, slave = pty.openpty()
    argv = desk.arguments("show", "mr", "847")
    process = subprocess.Popen(argv, stdout=slave, stderr=slave, env=os.environ | environ)
    os.close(slave)
    written = b""
    try:
        while chunk := os.read(master, 65_536):
            written += chunk
    except OSError:
        pass  # how a terminal says that nobody writes any more
    finally:
        os.close(master)
    assert process.wait(timeout=60) == 0
    return written.decode()


def test_show_opens_the_web_page_in_the_browser(filled: Desk, tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "bin" / "xdg-open"
    browser.parent.mkdir()
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.part && mv {opened}.part {opened}\n')
    browser.chmod(0o755)
    path = f"{browser.parent}:/usr/bin:/bin"
    assert filled.spawn("show", "mr", "847", "--open", PATH=path).code == 0
    wait_for(opened)
    assert opened.read_text() == f"{ADDRESS}\n"
    filled.query("UPDATE merge_requests SET web_url = 'file:///etc/passwd' WHERE iid = 847")
    refused = filled.spawn("show", "mr", "847", "--open", PATH=path)
    assert (refused.code, refused.out) == (2, "")
    assert filled.run("show", "mr", "5", "--open").code == 6


def wait_for(path: Path) -> None:
    import time

    for _ in range(500):
        if path.exists():
            return
        time.sleep(0.02)
    raise AssertionError(f"{path.name} did not come to be")


# The document


def test_show_answers_with_the_documented_fields(filled: Desk) -> None:
    compare("show mr", filled.robot("show", "mr", "847").data, filled.robot("show", "mr", "5").data)
    compare("show issue", filled.robot("show", "issue", "12").data, filled.robot("show", "issue", "30").data)


def test_robot_show_includes_every_note_with_its_position(filled: Desk) -> None:
    data = filled.run("show", "mr", "847", "--json").data
    first, second = data["discussions"]
    assert [note["body"] for note in first["notes"]] == ["Should we use a separate key?", "Good point."]
    assert first["notes"][0]["position"]["new_line"] == 45
    assert (second["resolved"], second["notes"][0]["resolved_by"]) == (True, "johndoe")
    assert "position" not in second["notes"][0]
    assert data["discussions_total"] == 2
    assert data["closes_issues"][0]["reference"] == "port/harbour#12"
    assert {file["new_path"] for file in data["files"]} == {"new.ts", "src/jwt.ts"}
    fewer = filled.robot("show", "mr", "847", "--notes", "1", "--system").data
    assert [thread["id"] for thread in fewer["discussions"]] == ["c"]
    assert fewer["discussions_total"] == 3


def test_internal_notes_are_marked_in_text_robot_output_and_search(desk: Desk) -> None:
    desk.ingested()
    issue = next(iter(desk.world.gitlab.project(LEDGER).issues))
    desk.world.gitlab.add_note(issue, "The customer is Harborline", internal=True)
    desk.world.gitlab.add_note(issue, "We look into it")
    desk.world.advance(120)
    assert desk.run("sync", "--no-embed").code == 0
    page = desk.run("show", "issue", f"{LEDGER}#{issue.iid}").out.splitlines()
    heads = {following.strip(): line for line, following in pairwise(page)}
    assert "[INTERNAL]" in heads["The customer is Harborline"]
    assert "[INTERNAL]" not in heads["We look into it"]
    shown = desk.robot("show", "issue", f"{LEDGER}#{issue.iid}").data["discussions"]
    told = {note["body"]: note["internal"] for thread in shown for note in thread["notes"]}
    assert (told["The customer is Harborline"], told["We look into it"]) == (True, False)
    documents = desk.query("SELECT content FROM documents WHERE content LIKE '%[internal]%'")
    assert len(documents) == 1


def test_show_prints_only_the_requested_fields(filled: Desk) -> None:
    assert filled.robot("show", "mr", "847", "--fields", "title, iid").data == {
        "iid": 847,
        "title": "Refactor auth to use JWT tokens",
    }
    refused = filled.robot("show", "mr", "847", "--fields", "colour")
    assert refused.code == 2
    assert "colour" in refused.error["message"]
    assert "closes_issues" in refused.error["fix"]


@pytest.mark.parametrize("mode", [[], ["--robot"]])
def test_show_imports_no_client_event_loop_or_console(filled: Desk, tmp_path: Path, mode: list[str]) -> None:
    modules = loaded_by(tmp_path, "show", "mr", "847", *mode, "--db", str(filled.db))
    assert sorted((HEAVY | {"shutil"}) & modules) == []


# Which one is meant


@pytest.mark.parametrize(
    "reference", ["!847", "port/harbour!847", "harbour!847", ADDRESS, f"{ADDRESS}/diffs?w=1#note_5"]
)
def test_every_form_of_a_reference_shows_the_same_item(filled: Desk, reference: str) -> None:
    assert filled.robot("show", "mr", reference).data["iid"] == 847


def test_a_number_in_two_projects_is_refused_unless_a_default_project_is_set(filled: Desk) -> None:
    done = filled.robot("show", "mr", "1")
    assert (done.code, done.error["code"]) == (2, "USAGE")
    assert done.error["details"]["candidates"] == ["port/harbour", "port/quay"]
    assert "--project" in done.error["fix"]
    assert filled.robot("show", "mr", "1", "-p", "quay").data["title"] == "At the quay"
    filled.config.write_text(f'default_project = "port/quay"\n{filled.config.read_text()}')
    assert filled.robot("show", "mr", "1").data["title"] == "At the quay"
    assert filled.robot("show", "mr", "847").data["project"] == "port/harbour"


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["mr", "4711"], 6, "lore sync"),
        (["issue", "847"], 6, "`lore show mr 847`"),
        (["mr", "12", "-p", "harbour"], 6, "`lore show issue 12 -p port/harbour`"),
        (["mr", "#12"], 2, "`lore show issue 12`"),
        (["issue", ADDRESS], 2, f"`lore show mr '{ADDRESS}'`"),
        (["mr", "no/where!1"], 6, "port/harbour"),
        (["mr", "quay!1", "-p", "harbour"], 2, "remove one"),
        (["mr", "twelve"], 2, "group/project!12"),
        (["mr"], 2, "lore show mr --help"),
        (["mr", "1", "--notes", "-1"], 2, "lore show mr --help"),
    ],
)
def test_missing_items_and_invalid_references_are_refused_with_a_fix(
    filled: Desk, argv: list[str], code: int, said: str
) -> None:
    done = filled.robot("show", *argv)
    assert done.code == code
    assert said in done.error["fix"]
    assert done.document["meta"]["command"] == f"show {argv[0]}"
