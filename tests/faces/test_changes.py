"""`lore changes` and `lore digest`: what is new since a cursor or a time, within a budget, and as people read it."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from tests.databases.migrated_file import lay_out
from tests.databases.review import LAB, lay_out_hub, lay_out_lab
from tests.databases.samples import issue, merge_request
from tests.databases.talk import DISCUSSIONS, attach, discussion, keep, note
from tests.faces.desk import CONSOLE, LEDGER, Desk
from tests.faces.test_documented_shapes import compare

from tidelore.core.clock import SystemClock
from tidelore.core.text import estimate_tokens
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS
from tidelore.store.mirror.projects import match_project

ALL = "2023-01-01"


@pytest.fixture
def talk(desk: Desk) -> Desk:
    desk.config.write_text('[[gitlab]]\nlogin = "ann"\n[[github]]\nlogin = "ann"\n')
    lay_out(desk.db)
    with closing(desk.store()) as database:
        lay_out_lab(database)
        lay_out_hub(database)
    return desk


def test_a_cursor_lists_what_a_sync_brought_after_it_and_then_nothing(desk: Desk) -> None:
    desk.ingested()
    first = desk.robot("changes", "--since", "2020-01-01").data
    assert first["total"] == 7
    assert {item["change"] for item in first["items"]} == {"new"}
    assert desk.robot("changes", "--since", first["cursor"]).data["items"] == []
    forge = desk.world.gitlab
    with desk.world.lock:
        desk.world.advance(3600)
        forge.add_note(forge.issue(LEDGER, 2), body="The crane stops at 40 %.")
        forge.close_issue(CONSOLE, 1)
        forge.create_issue(CONSOLE)
        desk.world.advance(3600)
    assert desk.run("ingest", "--type", "issues").code == 0
    second = desk.robot("changes", "--since", first["cursor"]).data
    assert {(item["reference"], item["change"], item["state"]) for item in second["items"]} == {
        (f"{LEDGER}#2", "updated", "opened"),
        (f"{CONSOLE}#1", "updated", "closed"),
        (f"{CONSOLE}#3", "new", "opened"),
    }
    told = next(item for item in second["items"] if item["reference"] == f"{LEDGER}#2")
    assert [said["text"] for said in told["notes"]] == ["The crane stops at 40 %."]
    assert desk.robot("changes", "--since", second["cursor"]).data["total"] == 0
    # A sync that finds nothing new changes nothing.
    assert desk.run("ingest", "--type", "issues").code == 0
    assert desk.robot("changes", "--since", second["cursor"]).data["total"] == 0


def test_pages_within_a_budget_list_every_change_once(talk: Desk) -> None:
    whole = talk.robot("changes", "--since", ALL).data
    assert whole["total"] == len(whole["items"]) == 5
    seen: list[str] = []
    token = ["--since", ALL]
    for _ in range(10):
        done = talk.run("changes", *token, "--robot", "--max-tokens", "400")
        assert estimate_tokens(done.out) <= 400
        assert done.data["cursor"] == whole["cursor"]
        seen += [item["reference"] for item in done.data["items"]]
        if done.data["next"] is None:
            break
        assert done.data["truncated"] is True
        token = ["--after", done.data["next"]]
    assert seen == [item["reference"] for item in whole["items"]]


def test_changes_can_be_limited_to_a_project_and_have_the_documented_fields(talk: Desk) -> None:
    only = talk.robot("changes", "--since", ALL, "-p", "octo/tide").data
    assert [item["reference"] for item in only["items"]] == ["octo/tide#5"]
    compare("changes", talk.robot("changes", "--since", ALL).data)
    meta = talk.robot("changes", "--since", ALL).document["meta"]
    assert "items[].notes[].text" in meta["untrusted"]


def test_invalid_cursors_and_times_are_refused_with_a_fix(talk: Desk) -> None:
    for argv, word in (
        (["--since", "cnonsense"], "data.cursor"),
        (["--since", "c999999-1"], "this database"),
        (["--since", "whenever"], "7d"),
        (["--since", "whenever"], "`yesterday` or `data.cursor`"),
        (["--after", "1.2.3"], "data.next"),
        (["--after", "1.2.3.4.5.sql.6"], "data.next"),
    ):
        done = talk.robot("changes", *argv)
        assert (done.code, done.error["code"]) == (2, "USAGE")
        assert word in done.error["fix"], argv


def freshly(talk: Desk) -> None:
    """Let things happen today: a merge, a new issue and a remark."""
    now = SystemClock().now_ms()
    with closing(talk.store()) as database:
        project = match_project(database, LAB)
        merged: dict[str, Any] = {"state": "merged", "merged_at": now, "references_full": f"{LAB}!2"}
        keep(database, project, MERGE_REQUESTS, [merge_request(2, now, title="Paint it", **merged)])
        keep(database, project, ISSUES, [issue(8, now, created_at=now, title="Rust", references_full=f"{LAB}#8")])
        said = note(900, "Seen at \x1b[31mberth 4", created_at=now, updated_at=now, author_username="noor")
        attach(database, project, "issues", 8, DISCUSSIONS, discussion("r", said))


def test_a_digest_says_what_happened_since_yesterday_and_what_waits(talk: Desk) -> None:
    quiet = talk.run("digest").out
    assert "nothing happened" in quiet
    freshly(talk)
    found = talk.robot("digest", "--since", "yesterday").data
    assert [(item["reference"], item["change"]) for item in found["items"]] == [
        (f"{LAB}#8", "new"),
        (f"{LAB}!2", "merged"),
    ]
    assert (found["counts"]["new"], found["counts"]["merged"], found["counts"]["notes"]) == (1, 1, 1)
    # !2 is merged now, so its threads wait no longer.
    assert found["waiting_total"] == 4
    compare("digest", found)
    page = talk.terminal("digest", columns=60).out
    assert "1 new, 1 merged, 1 new note" in page
    assert "port/harbour\n  new      #8 Rust\n           @noor: Seen at berth 4\n  merged   !2 Paint it\n" in page
    assert page.startswith("Waiting for your answer (4)\n  octo/tide#5 tide.c:3 Tide table\n    review thread, @mira")
    assert all(len(line) <= 60 for line in page.splitlines() if "lore changes" not in line)


def test_without_a_login_a_digest_has_no_waiting_threads(desk: Desk) -> None:
    desk.ingested()
    found = desk.robot("digest", "--since", "2020-01-01").data
    assert (found["waiting"], found["waiting_total"], found["total"]) == ([], None, 7)
