"""`lore coverage` and `lore open`: how complete the copy is, and the page of any item."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.faces.desk import CONSOLE, LEDGER, Desk
from tests.faces.test_documented_shapes import compare

from tidelore.core.text import width


def test_coverage_counts_what_is_current_outdated_never_read_failing_and_unavailable(desk: Desk) -> None:
    desk.ingested()
    desk.ingested("merge_requests")
    found = desk.robot("coverage").data
    compare("coverage", found)
    stored = {(one["project"], one["list"]): one["stored"] for one in found["lists"]}
    assert stored[LEDGER, "gitlab.issues"] == 5
    assert stored[CONSOLE, "gitlab.merge_requests"] == 3
    kinds = {(one["project"], one["of"], one["kind"]): one for one in found["children"]}
    talk = kinds[LEDGER, "issues", "discussions"]
    assert (talk["parents"], talk["current"], talk["requests"]) == (5, 5, 0)
    desk.query(
        "UPDATE child_sync SET fetched_for = NULL WHERE kind = 'discussions' AND parent_id ="
        f" (SELECT i.id FROM issues i JOIN projects p ON p.id = i.project_id WHERE p.path = '{LEDGER}' AND i.iid = 1)"
        " AND parent_kind = 'issues'"
    )
    desk.query(
        "UPDATE child_sync SET fetched_for = parent_updated_at - 1, attempts = 2, last_error = 'no' WHERE kind ="
        " 'discussions' AND parent_kind = 'issues' AND parent_id ="
        f" (SELECT i.id FROM issues i JOIN projects p ON p.id = i.project_id WHERE p.path = '{LEDGER}' AND i.iid = 2)"
    )
    changed = desk.robot("coverage", "-p", "ledger").data
    assert {one["project"] for one in (*changed["lists"], *changed["children"])} == {LEDGER}
    talk = next(one for one in changed["children"] if (one["of"], one["kind"]) == ("issues", "discussions"))
    assert (talk["current"], talk["outdated"], talk["never_read"], talk["failing"]) == (3, 1, 1, 1)
    assert changed["requests"] == talk["requests"] == 2
    desk.query(
        "INSERT INTO refused_children (project_id, parent_kind, kind, parents, attempts, error, first_refused_at,"
        " next_attempt_at) SELECT id, 'issues', 'discussions', '[]', 1, '403 forbidden', 1, 2 FROM projects"
        f" WHERE path = '{LEDGER}'"
    )
    refused = desk.robot("coverage", "-p", "ledger").data
    assert refused["requests"] == 0
    assert "403 forbidden" in {one["unavailable"] for one in refused["children"]}
    said = desk.run("coverage").out
    assert said.endswith("\nThe rest is unavailable.\n")


def test_coverage_names_a_kind_of_children_as_switched_off_only_where_it_is(desk: Desk) -> None:
    override = f'[[gitlab.overrides]]\nproject = "{CONSOLE}"\nfetch_mr_diffs = false\n'
    desk.config.write_text(f"{desk.config.read_text()}{override}[sync]\nfetch_resource_events = false\n")
    desk.ingested("merge_requests")
    found = desk.robot("coverage").data["children"]
    reasons = {
        (one["project"], one["kind"]): one.get("unavailable")
        for one in found
        if one["of"] == "merge_requests" and one["kind"] in ("diffs", "resource_events")
    }
    assert reasons == {
        (CONSOLE, "diffs"): "sync.fetch_mr_diffs is false",
        (LEDGER, "diffs"): None,
        (CONSOLE, "resource_events"): "sync.fetch_resource_events is false",
        (LEDGER, "resource_events"): "sync.fetch_resource_events is false",
    }


def test_open_starts_the_browser_with_the_page_of_any_item(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.ingested()
    desk.ingested("merge_requests")
    opened = put_browser(desk, monkeypatch, "echo told; echo complained >&2")
    assert desk.run("open", f"{CONSOLE}!2").code == 0
    assert opened.read_text().endswith(f"/{CONSOLE}/-/merge_requests/2\n")
    opened.unlink()
    printed = desk.run("open", f"{LEDGER}#2", "--print")
    assert printed.out.rstrip().endswith(f"/{LEDGER}/-/issues/2")
    assert not opened.exists()
    compare("open", desk.robot("open", f"{LEDGER}#2", "--print").data)
    assert desk.robot("open", "!999").code == 6
    assert desk.robot("open", "2", "-p", LEDGER, "--print").code == 0


def put_browser(desk: Desk, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """Put an `xdg-open` on the path that notes the address and runs a script; return the file with the addresses."""
    folder = desk.folder / "bin"
    folder.mkdir()
    program, opened = folder / "xdg-open", desk.folder / "opened.txt"
    program.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n{script}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return opened


def test_open_names_the_address_where_no_browser_starts_and_hides_what_xdg_open_says(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.ingested()
    put_browser(desk, monkeypatch, "echo 'xdg-open: no method available' >&2; exit 3")
    done = desk.spawn("open", f"{LEDGER}#2", PATH=os.environ["PATH"])
    assert done.code == 2
    assert "no browser could be started" in done.err
    assert f"/{LEDGER}/-/issues/2" in done.err
    assert "no method available" not in done.err + done.out


def test_coverage_on_a_terminal_has_a_table_for_each_project_with_whole_names(desk: Desk) -> None:
    desk.ingested()
    desk.ingested("merge_requests")
    shown = desk.terminal("coverage", columns=80).out
    assert max(map(width, shown.splitlines())) <= 80
    for name in ("merge requests changed files", "merge requests closing issues", "issues discussions"):
        assert f"\n  {name} " in shown
    assert "  merge requests reviewers: unavailable (sync.verify_reviewers is false)\n" in shown
    piped = desk.run("coverage").out
    assert f"{LEDGER}\tmerge_requests\tdiffs\t" in piped
    assert "PROJECT\tOF\tKIND\tPARENTS\tCURRENT\tOUTDATED\tNEVER READ\tFAILING\tUNAVAILABLE\n" in piped


def test_coverage_without_projects_names_the_command_for_accounts(desk: Desk) -> None:
    desk.config.write_text("[bluesky]\nposts_per_page = 10\n")
    assert desk.run("init-db").code == 0
    for done in (desk.run("coverage"), desk.terminal("coverage", columns=120)):
        assert done.out == "No project is configured. `lore sync-status` shows how far accounts have been read.\n"


def test_coverage_of_an_empty_copy_says_what_to_do(desk: Desk) -> None:
    assert desk.run("init-db").code == 0
    assert desk.terminal("coverage").out == "Nothing synced yet. Run `lore sync`.\n"
    assert desk.robot("show", "issue", "harbour/quay#1").error["fix"] == "run `lore sync` first"
    assert desk.robot("cursors", "show", "gitlab.issues", "harbour/quay").error["fix"] == "run `lore sync` first"


def test_payload_prints_an_item_as_the_server_sent_it(desk: Desk) -> None:
    desk.ingested()
    desk.ingested("merge_requests")
    with desk.world.lock:
        sent = next(item for item in desk.world.gitlab.truth_merge_requests(CONSOLE) if item["iid"] == 2)
        threads = desk.world.gitlab.truth_all_discussions("merge_requests", CONSOLE)[2]
    assert json.loads(desk.run("payload", f"{CONSOLE}!2").out) == sent
    found = desk.robot("payload", f"{CONSOLE}!2", "--discussions").data
    assert found["item"]["payload"] == sent
    # What is inside a payload is documented by its forge.
    shapes = [one | {"payload": "..."} for one in (found["item"], *found["below"])]
    compare("payload", found | {"item": shapes[0], "below": shapes[1:]})
    shown = [one["payload"] for one in found["below"] if one["type"] == "discussion"]
    assert sorted(one["id"] for one in shown) == sorted(thread["id"] for thread in threads)
    assert all(one in threads for one in shown)
    assert desk.robot("payload", "!999").code == 6
    desk.config.write_text(f"lockdown = true\n{desk.config.read_text()}")
    assert desk.robot("payload", f"{CONSOLE}!2").code == 2


def test_coverage_status_and_doctor_say_from_when_on_a_project_is_mirrored(desk: Desk) -> None:
    whole = desk.config.read_text()
    desk.config.write_text(whole.replace("[[gitlab]]", '[[gitlab]]\nmirror_since = "2025-12-31"'))
    assert desk.run("ingest", "--type", "issues").code == 0
    found = desk.robot("coverage").data
    compare("coverage", found)
    since = {(one["project"], one["list"]): one.get("since") for one in found["lists"]}
    assert since[LEDGER, "gitlab.issues"] == "2025-12-31T00:00:00.000Z"
    assert "yes since 2025-12-31" in desk.run("coverage").out
    assert ", since 2025-12-31" in desk.run("sync-status").out
    assert "complete, since 2025-12-31" in desk.run("cursors", "list").out
    assert "items updated since 2025-12-31" in desk.run("doctor").out
    desk.config.write_text(whole.replace("[[gitlab]]", '[[gitlab]]\nmirror_since = "soon"'))
    refused = desk.robot("sync")
    assert refused.code == 2
    assert "gitlab[0].mirror_since: could not parse 'soon'" in refused.document["error"]["message"]
    assert '"365d"' in refused.document["error"]["fix"]
