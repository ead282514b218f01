"""`lore sync-runs`: the ledger as people and programs read it, and the way out of a run that did not end well."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.faces.desk import Desk
from tests.faces.test_documented_shapes import compare
from tests.support.manual_clock import ManualClock

from tidelore.core.clock import SystemClock
from tidelore.core.process import ProcessIdentity
from tidelore.engine.ledger import Counters, Run, close_crashed
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.work.runs import RunRecord, RunTable
from tidelore.sync.report import EntityOutcome, write_outcomes

ME = ProcessIdentity("here", 10, "100")
ERROR = "the server did not answer within 30 seconds, " * 4


@pytest.fixture
def filled(desk: Desk) -> Desk:
    """One run of each end, and one under way; a minute each."""
    database = open_database(str(desk.db))
    migrate(database, 1)
    table = RunTable(database)
    clock = ManualClock(SystemClock().now_ms() - 6 * 60_000 - 5_000)

    def start(command: str, mode: str = "standard") -> Run:
        run = Run.start(table, clock, command, ME, mode=mode, note="--full: cursors reset")
        clock.advance(60)
        return run

    done = start("lore ingest --type issues")
    done.set_counters(Counters(issues_fetched=1300, issues_ingested=1000, mrs_ingested=200, requests=34))
    done.finish_succeeded(2)
    start("lore ingest --type issues").finish_failed("\x1b[31m" + ERROR)
    start("lore scrub")
    close_crashed(table, clock, lambda _: True, 600_000)
    start("lore sync", "surgical").finish_failed("no such issue")
    start("lore cursors reset").finish_cancelled()
    Run.start(table, clock, "lore ingest --type issues", ME).set_phase("ingest")
    outcome = EntityOutcome("issue", 7, "group/project#7", "gitlab", "group/project")
    outcome.fail("fetch", "NOT_FOUND", "it is not there")
    with database.transaction() as tx:
        tx.execute(
            "UPDATE sync_runs SET surgical_iids_json = :iids, outcomes_json = :outcomes WHERE id = 4",
            {"iids": '{"issues":[7,8],"mrs":[101]}', "outcomes": write_outcomes([outcome])},
        )
    database.close()
    return desk


def test_runs_are_printed_newest_first_with_their_errors(filled: Desk) -> None:
    lines = filled.terminal("sync-runs", columns=110).out.splitlines()
    errors = [line for line in lines if line.startswith("     ")]
    assert errors[0] == "     no such issue"
    assert " ".join(" ".join(errors[2:]).split()) == ERROR.strip()
    assert all(len(line) <= 110 for line in lines)
    assert [line.split()[0] for line in lines if line not in errors] == ["Runs", "RUN", "6", "5", "4", "3", "2", "1"]
    assert " ".join(lines[-1].split()) == "1 ingest --type issues standard succeeded done 6 minutes 60.0 s 1,200 34 2"


def test_sync_runs_answers_with_the_documented_fields(filled: Desk) -> None:
    data = filled.robot("sync-runs").data
    compare("sync-runs", data)
    assert [item["id"] for item in data["items"]] == [6, 5, 4, 3, 2, 1]
    assert (data["total"], data["next"]) == (6, None)
    assert [item["seconds"] for item in data["items"]] == [None, 60, 60, 60, 60, 60]
    assert (data["items"][-1]["issues_ingested"], data["items"][-1]["warnings_count"]) == (1000, 2)


def test_runs_can_be_limited_to_unfinished_ones_and_to_a_number(filled: Desk) -> None:
    failed = filled.robot("sync-runs", "--failed", "-n", "2").data
    assert [item["status"] for item in failed["items"]] == ["cancelled", "failed"]
    assert failed["total"] == 4
    assert [item["id"] for item in filled.robot("sync-runs", "--limit", "1").data["items"]] == [6]


def test_an_empty_run_list_says_so(desk: Desk) -> None:
    database = open_database(str(desk.db))
    migrate(database, 1)
    database.close()
    assert desk.run("sync-runs").out == "No runs yet.\n"
    assert desk.run("sync-runs", "--failed").out == "No unsuccessful runs.\n"
    assert desk.robot("sync-runs").data == {"items": [], "total": 0, "next": None}


def test_a_run_is_shown_with_every_column(filled: Desk) -> None:
    columns = {name for (name,) in filled.query("SELECT name FROM pragma_table_info('sync_runs')")}
    assert set(RunRecord.__struct_fields__) == columns
    shown = [filled.robot("sync-runs", "show", str(run_id)).data for run_id in range(1, 7)]
    compare("sync-runs show", *shown)
    for data in shown:
        told = {"surgical_iids", "entity_outcomes", "seconds", "recovery_actions"}
        assert set(data) == columns - {"surgical_iids_json", "outcomes_json"} | told
    assert shown[3]["surgical_iids"] == {"issues": [7, 8], "mrs": [101]}
    (row,) = filled.query("SELECT holder_host, holder_pid, holder_started, note FROM sync_runs WHERE id = 1")
    assert (shown[0]["holder_host"], shown[0]["holder_pid"], shown[0]["holder_started"], shown[0]["note"]) == row


@pytest.mark.parametrize(
    ("run_id", "actions"),
    [
        (1, []),
        (2, ["lore doctor", "lore ingest --type issues"]),
        (3, ["lore check", "lore scrub"]),
        (4, ["lore doctor", "lore sync --retry-failed 4"]),
        (5, ["lore cursors list"]),
        (6, []),
    ],
)
def test_an_unfinished_run_is_shown_with_the_next_command(filled: Desk, run_id: int, actions: list[str]) -> None:
    assert filled.robot("sync-runs", "show", str(run_id)).data["recovery_actions"] == actions
    said = filled.run("sync-runs", "show", str(run_id)).out.partition("\nNext steps:\n")[2]
    assert said == "".join(f"  {action}\n" for action in actions)


def test_a_run_is_printed_one_column_per_line_without_terminal_escapes(filled: Desk) -> None:
    said = filled.run("sync-runs", "show", "2").out
    lines = dict(line.split(None, 1) for line in said.partition("\n\n")[0].splitlines())
    assert lines["status"] == "failed"
    assert lines["finished_at"].endswith("Z")
    assert lines["cancelled_at"] == "-"
    assert lines["error"] == ERROR.strip()
    assert "\x1b" not in said
    surgical = filled.run("sync-runs", "show", "4").out.splitlines()
    (targets,) = [line.split(None, 1)[1] for line in surgical if line.startswith("surgical_iids")]
    assert json.loads(targets) == {"issues": [7, 8], "mrs": [101]}


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["show", "99"], 6),
        (["show", str(2**63 - 1)], 6),
        (["show", str(2**63)], 2),
        (["show", "0"], 2),
        (["show", "last"], 2),
        (["show"], 2),
        (["hide"], 2),
        (["--limit", "0"], 2),
        (["--failed", "show", "1"], 2),
        (["--limit", "5", "show", "1"], 2),
    ],
)
def test_missing_runs_and_invalid_arguments_are_refused(filled: Desk, argv: list[str], code: int) -> None:
    done = filled.robot("sync-runs", *argv)
    assert done.code == code
    assert done.error["fix"]


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (["sync-runs"], "sync-runs"),
        (["sync-runs", "--limit", "5"], "sync-runs"),
        (["sync-runs", "--failed"], "sync-runs"),
        (["sync-runs", "show", "1"], "sync-runs show"),
    ],
)
def test_run_commands_name_themselves_in_the_answer(filled: Desk, argv: list[str], command: str) -> None:
    document: dict[str, Any] = filled.robot(*argv).document
    assert document["meta"]["command"] == command


def test_a_real_run_is_listed(desk: Desk) -> None:
    desk.ingested()
    (item,) = desk.robot("sync-runs").data["items"]
    assert (item["command"], item["status"], item["phase"]) == ("lore ingest --type issues", "succeeded", "done")
    assert item["issues_ingested"] == 7
    assert item["requests"] > 0
