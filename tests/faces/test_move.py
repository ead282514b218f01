"""`lore move`: what it prints, a killed process, and a moved copy with which work goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.faces.desk import Outcome
from tests.faces.following import failed
from tests.faces.test_documented_shapes import compare
from tests.faces.writing import TOKENS, Writer, writing
from tests.support.fork_server import fork_script

from tidelore.cli.main import main
from tidelore.engine.crashpoint import Seam
from tidelore.store.database.opening import open_database

DRIVER = Path(__file__).parents[1] / "crash" / "driver.py"
SETTLED = (
    "UPDATE outbox SET next_attempt_at = 1, attempted_at = attempted_at - 600000 WHERE status IN ('planned', 'posted')"
)


@pytest.fixture
def desk(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Writer]:
    for name, token in TOKENS.items():
        monkeypatch.setenv(name, token)
    with writing(tmp_path, capfd.readouterr, "gitlab") as made:
        yield made


def robot_at(desk: Writer, address: str, *argv: str) -> Outcome:
    """Run a command on another database."""
    desk.read()
    code = main(["--full", *argv, "--robot", "--config", str(desk.config), "--db", address])
    return Outcome(code, *desk.read())


def killed_at(desk: Writer, seam: Seam, visit: int, *argv: str) -> int:
    """Run a command in a process that dies at a seam; return its exit code."""
    words = [seam.value, str(visit), str(int(signal.SIGKILL)), "--", *argv]
    process = fork_script(DRIVER, [*words, "--config", str(desk.config), "--db", str(desk.db)], os.environ)
    process.communicate(timeout=60)
    return process.wait()


def test_a_reply_whose_answer_was_lost_before_the_move_is_not_posted_again_from_the_moved_copy(
    desk: Writer, postgres_address: str
) -> None:
    desk.lose_answers()
    failed(desk.robot("reply", desk.thread, "Done."), 7, "PARTIAL_SUCCESS")
    report = desk.robot("move", "--to", postgres_address).data
    compare("move", report)
    assert (report["complete"], report["copied"]) == (True, report["rows"])
    assert all(table["equal"] for table in report["tables"])
    with closing(open_database(postgres_address)) as database, database.transaction() as tx:
        assert tx.change(SETTLED) == 1
    (sent,) = robot_at(desk, postgres_address, "poll", "gitlab").data["sent"]
    assert (sent["source"], sent["status"]) == ("reply", "observed")
    writes = desk.writes()
    assert robot_at(desk, postgres_address, "reply", desk.thread, "Done.").data["reply"]["status"] == "observed"
    assert robot_at(desk, postgres_address, "sync", "--no-embed").code == 0
    assert (desk.writes(), desk.ours()) == (writes, ["Done."])
    assert [item["iid"] for item in robot_at(desk, postgres_address, "search", "rename crane").data["items"]] == [1]
    assert robot_at(desk, postgres_address, "show", "mr", desk.item).data["title"] == "Rename the crane"


def test_a_killed_move_is_refused_by_other_commands_and_completed_by_the_same_command(desk: Writer) -> None:
    target = str(desk.folder / "new.db")
    for seam, visit in ((Seam.INSIDE_COMMIT, 5), (Seam.AFTER_COMMIT, 3), (Seam.BEFORE_FINISH, 1)):
        assert killed_at(desk, seam, visit, "move", "--to", target) == -signal.SIGKILL
        error = failed(robot_at(desk, target, "list", "issues"), 8, "MOVE_INCOMPLETE")
        assert "lore move --db" in error["fix"]
    planned = desk.robot("move", "--to", target, "--dry-run").data
    compare("move", planned)
    assert (planned["dry_run"], planned["resumed"], planned["complete"]) == (True, True, False)
    shown = desk.terminal("move", "--to", target)
    assert shown.code == 0
    assert next(line.split() for line in shown.out.splitlines() if line.startswith("projects "))[1:3] == ["2", "2"]
    assert f"set storage.path (or LORE_DB) to {target}" in shown.out
    assert robot_at(desk, target, "show", "mr", desk.item).data["title"] == "Rename the crane"
    assert desk.robot("move", "--to", target).data["copied"] == 0


def test_a_difference_is_printed_with_the_tables_and_exit_code_8(desk: Writer) -> None:
    target = str(desk.folder / "new.db")
    assert killed_at(desk, Seam.BEFORE_FINISH, 1, "move", "--to", target) == -signal.SIGKILL
    with closing(open_database(target)) as database, database.transaction() as tx:
        assert tx.change("UPDATE projects SET name = 'other' WHERE id = 1") == 1
    told = desk.run("move", "--to", target)
    assert (told.code, "projects" in told.err) == (8, True)
    assert [line.split("\t")[0] for line in told.out.splitlines() if line.endswith("differs")] == ["projects"]
