"""The status of issues over the whole program, real HTTP and both databases: true where the server has it, free of
cost where nothing changed, and never the reason why a run fails."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.deep import gate_cases

from tidelore.cli.main import main
from tidelore.store.database.opening import open_database
from tidelore_world.server import serve
from tidelore_world.world import World

CRANE, QUAY = "port/crane", "port/quay"
GRAPHQL = "GET /api/graphql"
UNSUPPORTED = "has no issue statuses; use --no-status to skip the request"
OFFERS_NONE = ({"statuses": False}, {"old_server": True})


@dataclass
class Copy:
    """A served world and its copy."""

    world: World
    address: str
    config: Path
    capsys: pytest.CaptureFixture[str]

    def configure(self, url: str, extra: str = "") -> None:
        self.config.write_text(
            f'[[gitlab]]\nname = "port"\nbase_url = "{url}"\nprojects = ["{CRANE}", "{QUAY}"]\n'
            f"[http]\nmax_retries = 0\n[sync]\nscrub_share = 0.0\n{extra}"
        )

    def lore(self, *argv: str) -> tuple[int, str, str]:
        """Run a command; its exit code, stdout and stderr."""
        self.capsys.readouterr()
        code = main([*argv, "--config", str(self.config), "--db", self.address])
        return code, *self.capsys.readouterr()

    def ingest(self, *argv: str) -> dict[str, Any]:
        """Ingest issues, which must succeed; its report."""
        code, out, _ = self.lore("--full", "ingest", "--type", "issues", "--robot", *argv)
        assert code == 0, out
        data: dict[str, Any] = json.loads(out)["data"]
        return data

    def asked(self, *argv: str) -> int:
        """How many queries an ingestion costs."""
        before = self.world.requests[GRAPHQL]
        self.ingest(*argv)
        return self.world.requests[GRAPHQL] - before

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        database = open_database(self.address, create=False)
        try:
            return database.read(sql)
        finally:
            database.close()

    def held(self, project: str) -> dict[int, dict[str, str] | None]:
        """The statuses of the copy, as the world tells the truth."""
        rows = self.query(
            "SELECT i.iid, i.status_name, i.status_category, i.status_color, i.status_icon_name FROM issues i"
            f" JOIN projects p ON p.id = i.project_id WHERE p.path = '{project}'"
        )
        names = ("name", "category", "color", "icon_name")
        return {
            iid: None if name is None else dict(zip(names, (name, *more), strict=True)) for iid, name, *more in rows
        }

    def due(self) -> int:
        return len(
            self.query(
                "SELECT 1 FROM child_sync WHERE kind = 'status' AND parent_updated_at > COALESCE(synced_for, -1)"
            )
        )

    def assert_true(self) -> None:
        for project in (CRANE, QUAY):
            assert self.held(project) == self.world.gitlab.truth_statuses(project)
        assert self.due() == 0


@pytest.fixture
def world() -> World:
    """Two projects: three issues in three statuses and an incident, which has none; two issues beside them."""
    world = World()
    forge = world.gitlab
    for project, issues in ((CRANE, 3), (QUAY, 2)):
        forge.create_project(project)
        for _ in range(issues):
            forge.create_issue(project)
            world.advance(60)
    forge.create_issue(CRANE, issue_type="incident")
    forge.set_status(CRANE, 1, "In progress")
    forge.set_status(CRANE, 2, "Won't do")
    world.advance(86_400)
    return world


@pytest.fixture
def copy(
    world: World,
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Copy]:
    for name in list(os.environ):
        if name.startswith(("LORE_", "XDG_", "GITLAB_", "NO_COLOR", "FORCE_COLOR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    logger = logging.getLogger("tidelore")
    before = logger.handlers, logger.propagate, logger.level
    with serve(world) as server:
        copy = Copy(world, address, tmp_path / "config.toml", capsys)
        copy.configure(server.url)
        yield copy
    logger.handlers, logger.propagate = before[:2]
    logger.setLevel(before[2])


def test_every_issue_gets_the_status_shown_by_the_server(copy: Copy) -> None:
    code, out, err = copy.lore("ingest", "--type", "issues")
    assert (code, err) == (0, "")
    copy.assert_true()
    assert {status["name"] for status in copy.held(CRANE).values() if status} == {"To do", "In progress", "Won't do"}
    assert copy.held(CRANE)[4] is None
    assert f"{CRANE}: 4 issues" in out
    assert "3 statuses" in out
    assert "2 statuses" in out


def test_a_changed_status_is_found_and_a_run_without_changes_requests_none(copy: Copy) -> None:
    assert copy.asked() == 2
    assert copy.asked() == 0
    copy.world.gitlab.set_status(CRANE, 3, "Duplicate")
    copy.world.advance(86_400)
    assert copy.asked() == 1
    copy.assert_true()
    assert copy.held(CRANE)[3] is not None
    assert copy.asked() == 0


@pytest.mark.deep
def test_statuses_are_read_a_hundred_at_once(copy: Copy) -> None:
    copy.world.gitlab.bulk(QUAY, issues=248)
    copy.world.advance(86_400)
    report = copy.ingest()
    assert copy.world.requests[GRAPHQL] == 1 + 3
    copy.assert_true()
    crane, quay = statuses(report)
    assert (crane["due"], crane["fetched"], crane["changed"], crane["seen"]) == (4, 4, 3, {"statuses": 3})
    assert (quay["due"], quay["fetched"], quay["changed"], quay["seen"]) == (250, 250, 250, {"statuses": 250})
    assert all(scope["warnings"] == [] for scope in report["scopes"])


def test_an_unchanged_status_is_not_a_change_of_the_issue(copy: Copy) -> None:
    copy.ingest()
    copy.world.gitlab.edit_issue(CRANE, 1, title="renamed")
    copy.world.advance(86_400)
    status, _ = statuses(copy.ingest())
    assert (status["due"], status["unchanged"], status["fetched"], status["changed"]) == (1, 3, 1, 0)


def test_a_full_sync_reads_every_status_again(copy: Copy) -> None:
    copy.ingest()
    copy.world.gitlab.issue(CRANE, 1).status = "To do"  # by a migration of the server, say: no `updated_at` tells of it
    assert copy.asked() == 0
    assert copy.asked("--full") == 2
    copy.assert_true()


@pytest.mark.parametrize("server", OFFERS_NONE, ids=["no type", "no field"])
@gate_cases(1)
def test_a_server_without_statuses_costs_one_query_and_one_log_line(copy: Copy, server: dict[str, bool]) -> None:
    copy.world.gitlab.bulk(QUAY, issues=150)
    copy.world.advance(86_400)
    for option, value in server.items():
        setattr(copy.world.gitlab, option, value)
    code, out, err = copy.lore("ingest", "--type", "issues")
    assert code == 0
    assert err == f"WARNING tidelore.sync.children: port {UNSUPPORTED}\n"
    assert "status" not in out
    assert copy.world.requests[GRAPHQL] == 1
    assert copy.query("SELECT status, warnings_count FROM sync_runs") == [("succeeded", 0)]
    code, _, err = copy.lore("ingest", "--type", "issues")
    assert (code, err) == (0, "")
    assert copy.world.requests[GRAPHQL] == 1
    assert f"{CRANE} issues" in copy.lore("doctor", "--offline")[1]


def test_statuses_that_a_server_offers_later_are_read_for_all_issues(copy: Copy) -> None:
    copy.world.gitlab.statuses = False
    crane, quay = copy.ingest()["scopes"]
    assert [*crane["warnings"], *quay["warnings"]] == [f"port {UNSUPPORTED}"]
    copy.world.gitlab.edit_issue(CRANE, 1, title="renamed")
    copy.world.advance(86_400)
    assert copy.asked() == 0, "the pause is not over"
    end_pauses(copy)
    assert copy.asked() == 1, "one query finds out that there are none still"
    assert copy.asked() == 0
    copy.world.gitlab.statuses = True
    end_pauses(copy)
    assert copy.asked() == 2
    copy.assert_true()
    assert copy.query("SELECT * FROM refused_children") == []
    assert copy.asked() == 0


def test_a_server_that_hides_its_statuses_for_a_while_erases_none(copy: Copy) -> None:
    copy.ingest()
    before = copy.held(CRANE)
    copy.world.gitlab.set_status(CRANE, 3, "Done")
    copy.world.advance(86_400)
    copy.world.faults.add("status", GRAPHQL, None, status=404)
    copy.ingest()
    copy.world.faults.clear()
    assert copy.held(CRANE) == before
    assert copy.due() == 1
    end_pauses(copy)
    copy.ingest()
    copy.assert_true()


def test_a_server_whose_licence_has_no_statuses_stores_none(copy: Copy) -> None:
    copy.ingest()
    copy.world.gitlab.statuses_licensed = False
    report = copy.ingest("--full")
    copy.assert_true()
    assert copy.held(CRANE)[1] is None
    assert all(scope["warnings"] == [] for scope in report["scopes"])


def test_with_statuses_disabled_nothing_is_requested_and_a_later_run_catches_up(copy: Copy) -> None:
    assert copy.asked("--no-status") == 0
    assert copy.due() == 6
    assert copy.asked() == 2
    copy.assert_true()
    assert copy.lore("ingest", "--type", "merge_requests", "--no-status")[0] == 0


def test_statuses_that_cannot_be_read_give_a_warning_and_stay_due(copy: Copy) -> None:
    fault = copy.world.faults.add("status", GRAPHQL, status=502)
    code, out, err = copy.lore("ingest", "--type", "issues")
    assert fault.fired
    assert code == 0
    assert err == (
        f"WARNING tidelore.sync.children: {CRANE}: failed to fetch issue statuses: the server failed (status 502)\n"
    )
    assert f"{CRANE}: 4 issues: failed to fetch status; will retry" in out
    assert copy.held(QUAY) == copy.world.gitlab.truth_statuses(QUAY)
    assert copy.due() == 4
    assert copy.query("SELECT status, warnings_count FROM sync_runs") == [("succeeded", 4)]
    report = copy.ingest()
    assert [status["due"] for status in statuses(report)] == [4, 0]
    copy.assert_true()


def test_a_refused_status_query_keeps_stored_statuses_and_leaves_issues_due(copy: Copy) -> None:
    copy.ingest()
    before = copy.held(CRANE)
    copy.world.gitlab.set_status(CRANE, 3, "Done")
    copy.world.advance(86_400)
    rename = "UPDATE projects SET path = '{}' WHERE path = '{}'"
    run(copy, rename.format("port/gone", CRANE))  # GraphQL knows projects by their path alone
    report = copy.ingest()
    run(copy, rename.format(CRANE, "port/gone"))
    (warning,) = report["scopes"][0]["warnings"]
    assert warning.startswith("failed to fetch issue statuses: project port/gone does not exist")
    assert statuses(report)[0]["failed"] == 1
    assert copy.held(CRANE) == before
    assert copy.due() == 1
    copy.ingest()
    copy.assert_true()


def test_a_source_that_rejects_the_token_is_queried_once_for_all_projects(copy: Copy) -> None:
    copy.world.faults.add("status", GRAPHQL, None, status=401)
    report = copy.ingest()
    assert copy.world.requests[GRAPHQL] == 1
    assert [status["failed"] for status in statuses(report)] == [4, 2]
    assert all(scope["error"] is None for scope in report["scopes"])
    copy.world.faults.clear()
    copy.ingest()
    copy.assert_true()


def test_a_failed_status_query_is_not_repeated_by_verification_in_the_same_run(copy: Copy) -> None:
    copy.config.write_text(copy.config.read_text().replace("scrub_share = 0.0", "scrub_share = 1.0"))
    copy.ingest()
    copy.world.gitlab.edit_issue(CRANE, 1, title="renamed")
    copy.world.advance(86_400)
    copy.world.faults.add("status", GRAPHQL, None, status=502)
    before = copy.world.requests[GRAPHQL]
    assert copy.ingest()["scrubbed"]
    assert copy.world.requests[GRAPHQL] == before + 1


def test_an_issue_that_verification_corrects_gets_its_status_in_the_same_run(copy: Copy) -> None:
    copy.ingest()
    run(copy, "UPDATE issues SET updated_at = updated_at - 1, status_name = 'Done' WHERE iid = 1")
    run(
        copy,
        "UPDATE child_sync SET parent_updated_at = parent_updated_at - 1, synced_for = parent_updated_at - 1"
        " WHERE kind = 'status' AND parent_id IN (SELECT id FROM issues WHERE iid = 1)",
    )
    code, out, _ = copy.lore("--full", "scrub", "--all", "--robot")
    assert code == 0, out
    copy.assert_true()


def end_pauses(copy: Copy) -> None:
    run(copy, "UPDATE refused_children SET next_attempt_at = 0")


def statuses(report: dict[str, Any]) -> list[dict[str, Any]]:
    """What a report says of the statuses, project by project."""
    return [child for scope in report["scopes"] for child in scope["children"] if child["kind"] == "status"]


def run(copy: Copy, sql: str) -> None:
    database = open_database(copy.address, create=False)
    try:
        with database.transaction() as tx:
            assert tx.change(sql)
    finally:
        database.close()
