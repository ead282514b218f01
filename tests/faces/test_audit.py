"""`lore audit`: every difference is listed, nothing is changed, and `--repair` mends."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.faces.desk import CONSOLE, LEDGER, Desk, Outcome
from tests.faces.test_documented_shapes import compare
from tests.support.deep import gate_cases

from tidelore_world.gitlab.state import Issue, MergeRequest, Note

VERDICTS = ("missing", "extra", "different", "unreadable")


@pytest.fixture
def mirrored(desk: Desk) -> Desk:
    """A world with conversations, mirrored whole, long settled."""
    forge = desk.world.gitlab
    note(desk, forge.issue(LEDGER, 2), "The crane stops.")
    note(desk, forge.issue(LEDGER, 2), "It does not.")
    note(desk, request(desk), "Why not earlier?", thread=True)
    forge.edit_issue(LEDGER, 3, labels=["crane"])
    desk.world.advance(3600)
    desk.ingested()
    desk.ingested("merge_requests")
    return desk


def note(desk: Desk, parent: Issue | MergeRequest, body: str, **options: Any) -> Note:
    return desk.world.gitlab.add_note(parent, body, **options)


def request(desk: Desk) -> MergeRequest:
    return desk.world.gitlab.merge_request(CONSOLE, 1)


def first_note(parent: Issue | MergeRequest) -> Note:
    return next(found for home in parent.discussions for found in home.notes if not found.system)


def tables(desk: Desk) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table there is."""
    names = [name for (name,) in desk.query("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return {name: sorted(desk.query(f"SELECT * FROM {name}"), key=repr) for name in names}


def found(done: Outcome) -> set[tuple[str, str, str]]:
    """What an audit that found something says, and that all its counts say the same."""
    assert done.code == 8
    assert done.error["code"] == "INTEGRITY"
    data = done.document["data"]
    listed = data["differences"]
    for verdict in VERDICTS:
        count = sum(1 for entry in listed if entry["verdict"] == verdict)
        assert count == sum(scope[verdict] for scope in data["scopes"]) == done.error["details"][verdict]
    return {(entry["verdict"], entry["kind"], entry["reference"]) for entry in listed}


def test_an_exact_copy_has_no_difference_and_every_item_is_compared(mirrored: Desk) -> None:
    done = mirrored.robot("audit", "gitlab")
    data = done.data
    assert data["differences"] == data["unread"] == []
    assert data["repair"] is None
    counted = {(scope["project"], scope["surface"]): scope["items"] for scope in data["scopes"]}
    assert counted == {
        (LEDGER, "gitlab.issues"): 5,
        (LEDGER, "gitlab.merge_requests"): 1,
        (CONSOLE, "gitlab.issues"): 2,
        (CONSOLE, "gitlab.merge_requests"): 3,
    }
    stored = sum(
        mirrored.query(f"SELECT COUNT(*) FROM {table}")[0][0]
        for table in (
            "discussions", "resource_state_events", "resource_label_events", "resource_milestone_events",
            "mr_closes_issues", "mr_file_changes",
        )
    )  # fmt: skip
    assert sum(scope["children"] for scope in data["scopes"]) == stored > 0


def test_an_audit_reports_when_the_copy_was_last_synced(mirrored: Desk) -> None:
    done = mirrored.robot("audit", "gitlab")
    newest = mirrored.robot("sync-runs").data["items"][0]["id"]
    last = mirrored.robot("sync-runs", "show", str(newest)).data["mirrored_at"]
    assert done.data["synced_at"] == done.document["meta"]["synced_at"] == last
    assert all(scope["synced_at"] for scope in done.data["scopes"])
    assert f"last synced {last}" in mirrored.run("audit", "gitlab").out


def test_a_new_remote_item_is_missing_and_its_children_are_not_listed(mirrored: Desk) -> None:
    made = mirrored.world.gitlab.create_issue(LEDGER)
    note(mirrored, made, "first")
    assert found(mirrored.robot("audit", "gitlab")) == {("missing", "issues", f"{LEDGER}#{made.iid}")}


def test_a_remotely_deleted_item_is_extra(mirrored: Desk) -> None:
    mirrored.world.gitlab.delete_merge_request(CONSOLE, 2)
    done = mirrored.robot("audit", "gitlab")
    assert found(done) == {("extra", "merge_requests", f"{CONSOLE}!2")}
    (entry,) = done.document["data"]["differences"]
    assert mirrored.query(f"SELECT iid FROM merge_requests WHERE remote_id = {entry['key']}") == [(2,)]


def test_an_item_missing_only_from_the_list_is_looked_up_and_not_extra(mirrored: Desk) -> None:
    fault = mirrored.world.faults.add("malformed_item", re.compile(r"/projects/\d+/issues$"), shape="null")
    done = mirrored.robot("audit", "gitlab", "ledger")
    assert fault.fired
    assert found(done) == {("unreadable", "issues", LEDGER)}
    assert done.document["data"]["scopes"][0]["items"] == 6


def test_a_list_of_many_pages_is_compared_completely(mirrored: Desk) -> None:
    mirrored.configure(LEDGER, extra="per_page = 2\n")
    fault = mirrored.world.faults.add("duplicate", re.compile(r"/projects/\d+/issues$"), None)
    done = mirrored.robot("audit", "gitlab")
    assert fault.fired
    assert done.data["differences"] == []
    assert done.data["scopes"][0]["items"] == 5


def test_a_deletion_between_two_pages_hides_no_item(mirrored: Desk) -> None:
    mirrored.configure(LEDGER, extra="per_page = 2\n")
    mirrored.world.gitlab.create_issue(LEDGER)
    fault = mirrored.world.faults.add("delete_between", re.compile(r"/projects/\d+/issues$"))
    done = mirrored.robot("audit", "gitlab")
    assert fault.fired == 1
    assert found(done) == {("missing", "issues", f"{LEDGER}#6")}
    assert done.document["data"]["scopes"][0]["items"] == 6


def test_a_child_changed_without_a_parent_update_is_different(mirrored: Desk) -> None:
    first_note(request(mirrored)).body = "Rewritten, and the merge request does not tell."
    assert found(mirrored.robot("audit", "gitlab")) == {("different", "discussions", f"{CONSOLE}!1")}


def test_a_silently_deleted_note_is_an_extra_discussion_of_a_changed_item(mirrored: Desk) -> None:
    forge = mirrored.world.gitlab
    parent = forge.issue(LEDGER, 2)
    gone = parent.discussions[0]
    forge.delete_note(parent, first_note(parent))
    done = mirrored.robot("audit", "gitlab")
    assert found(done) == {("different", "issues", f"{LEDGER}#2"), ("extra", "discussions", f"{LEDGER}#2")}
    assert [entry["key"] for entry in done.document["data"]["differences"] if entry["verdict"] == "extra"] == [gone.id]


@pytest.mark.parametrize(
    ("table", "column", "kind", "sign"),
    [
        ("resource_label_events", "issue_id", "resource_events", "#"),
        ("mr_file_changes", "merge_request_id", "diffs", "!"),
        ("discussions", "issue_id", "discussions", "#"),
        ("discussions", "merge_request_id", "discussions", "!"),
    ],
)
@gate_cases(2)
def test_a_child_lost_from_the_copy_is_missing(mirrored: Desk, table: str, column: str, kind: str, sign: str) -> None:
    chosen = f"SELECT MIN({column}) FROM {table} WHERE {column} IS NOT NULL"
    lost = mirrored.query(f"SELECT COUNT(*) FROM {table} WHERE {column} = ({chosen})")[0][0]
    mirrored.query(f"DELETE FROM {table} WHERE {column} = ({chosen})")
    done = mirrored.robot("audit", "gitlab")
    ((verdict, told, reference),) = found(done)
    assert (verdict, told) == ("missing", kind)
    assert sign in reference
    assert len(done.document["data"]["differences"]) == lost > 0


def test_an_item_that_cannot_be_parsed_is_unreadable_and_reports_nothing_else(mirrored: Desk) -> None:
    fault = mirrored.world.faults.add("malformed_item", re.compile(r"/issues/2/discussions$"))
    done = mirrored.robot("audit", "gitlab", "ledger")
    assert fault.fired
    assert found(done) == {("unreadable", "discussions", f"{LEDGER}#2")}


def test_an_audit_changes_nothing(mirrored: Desk) -> None:
    mirrored.world.gitlab.delete_issue(LEDGER, 1)
    mirrored.world.gitlab.create_issue(CONSOLE)
    mirrored.query("DELETE FROM discussions")
    before = tables(mirrored)
    assert len(found(mirrored.robot("audit", "gitlab"))) > 2
    assert tables(mirrored) == before


def test_an_audit_needs_no_lease(mirrored: Desk) -> None:
    mirrored.query(
        "UPDATE leases SET holder_host = 'elsewhere', holder_pid = 1, holder_started = 'x',"
        " heartbeat_at = 9000000000000"
    )
    assert mirrored.run("audit", "gitlab").code == 0
    mirrored.world.gitlab.create_issue(CONSOLE)
    assert mirrored.run("audit", "gitlab", "--repair").code == 3
    assert mirrored.run("audit", "gitlab", "--repair", "--force").code == 0


def test_one_project_can_be_audited_by_a_path_suffix(mirrored: Desk) -> None:
    mirrored.world.gitlab.create_issue(LEDGER)
    done = mirrored.robot("audit", "gitlab", "console")
    assert {scope["project"] for scope in done.data["scopes"]} == {CONSOLE}
    assert mirrored.robot("audit", "gitlab", "nowhere").code == 6


def test_a_project_absent_from_the_copy_is_missing_as_a_whole(mirrored: Desk) -> None:
    mirrored.world.gitlab.create_project("harbor/new")
    mirrored.world.gitlab.create_issue("harbor/new")
    mirrored.configure(LEDGER, CONSOLE, "harbor/new")
    before = tables(mirrored)
    assert found(mirrored.robot("audit", "gitlab")) == {("missing", "issues", "harbor/new#1")}
    assert tables(mirrored) == before


def test_an_audit_prints_differences_up_to_the_limit(mirrored: Desk) -> None:
    for _ in range(3):
        mirrored.world.gitlab.create_issue(LEDGER)
    done = mirrored.run("audit", "gitlab", "--limit", "2")
    assert done.code == 8
    shown = [line for line in done.out.splitlines() if line.startswith("missing\t")]
    assert len(shown) == 2
    assert all("issues" in line and f"{LEDGER}#" in line for line in shown)
    assert "... and 1 more" in done.out
    assert "3 differences" in done.out
    assert "3 missing" in done.err
    assert len(mirrored.robot("audit", "gitlab", "--limit", "0").document["data"]["differences"]) == 3


def test_repair_fixes_changes_that_no_cursor_shows(mirrored: Desk) -> None:
    forge = mirrored.world.gitlab
    forge.delete_issue(LEDGER, 1)
    forge.create_issue(CONSOLE)
    forge.resolve(request(mirrored), next(h for h in request(mirrored).discussions if not h.notes[0].system))
    mirrored.query("DELETE FROM resource_label_events")
    mirrored.world.advance(3600)
    wrong = len(mirrored.robot("audit", "gitlab").document["data"]["differences"])
    assert wrong >= 4
    done = mirrored.robot("audit", "gitlab", "--repair")
    assert done.data["differences"] == []
    repair = done.data["repair"]
    assert (repair["found"], repair["mended"]) == (wrong, wrong)
    run = mirrored.robot("sync-status", "--runs", "1").data["runs"][0]
    assert (run["id"], run["command"]) == (repair["run_id"], "lore audit --repair")
    assert mirrored.robot("audit", "gitlab").code == 0
    assert mirrored.query("SELECT COUNT(*) FROM issues WHERE deleted_at IS NOT NULL")[0][0] == 1


def test_repair_of_an_exact_copy_changes_nothing(mirrored: Desk) -> None:
    before = tables(mirrored)
    assert mirrored.robot("audit", "gitlab", "--repair").data["repair"] is None
    assert tables(mirrored) == before


def test_repair_reports_the_remaining_differences(mirrored: Desk) -> None:
    made = mirrored.world.gitlab.create_issue(CONSOLE)
    mirrored.world.faults.add("malformed_item", re.compile(r"/issues/2/discussions$"), None, shape="null")
    done = mirrored.robot("audit", "gitlab", "--repair")
    assert found(done) == {("unreadable", "discussions", f"{LEDGER}#2")}
    repair = done.document["data"]["repair"]
    assert (repair["found"], repair["mended"]) == (2, 1)
    assert mirrored.query("SELECT COUNT(*) FROM issues WHERE deleted_at IS NULL")[0][0] == 8
    assert made.iid == 3


def test_an_unreadable_list_gives_no_differences(mirrored: Desk) -> None:
    mirrored.world.gitlab.forbid_project(CONSOLE)
    done = mirrored.robot("audit", "gitlab")
    assert done.code == 7
    failed = [scope for scope in done.document["data"]["scopes"] if scope["error"]]
    assert {scope["project"] for scope in failed} == {CONSOLE}
    assert done.document["data"]["differences"] == []
    assert mirrored.robot("audit", "gitlab", "console").error["code"] == "REMOTE_REFUSED"


def test_children_that_cannot_be_read_are_reported(mirrored: Desk) -> None:
    route = re.compile(r"/projects/\d+/issues/2/discussions$")
    mirrored.world.faults.add("status", route, None, status=500)
    done = mirrored.robot("audit", "gitlab", "ledger")
    assert done.code == 7
    (unread,) = done.document["data"]["unread"]
    assert (unread["kind"], unread["reference"]) == ("discussions", f"{LEDGER}#2")
    assert f"{LEDGER}#2: discussions could not be read: " in mirrored.run("audit", "gitlab", "ledger").out


def test_rejected_credentials_stop_the_source_with_one_error(mirrored: Desk) -> None:
    mirrored.world.faults.add("status", None, None, status=401)
    assert mirrored.robot("audit", "gitlab").code == 4


def test_an_unknown_audit_source_is_refused_with_the_valid_ones(mirrored: Desk) -> None:
    done = mirrored.robot("audit", "jira")
    assert done.code == 2
    assert "gitlab, github, bluesky" in done.error["fix"]


def test_an_audit_does_not_create_a_missing_database(desk: Desk) -> None:
    assert desk.robot("audit", "gitlab").code == 6
    assert desk.robot("audit", "gitlab", "--repair").code == 6
    assert not desk.db.exists()


def test_an_audit_answers_with_exactly_the_documented_fields(mirrored: Desk) -> None:
    mirrored.world.faults.add("malformed_item", re.compile(r"/issues/2/discussions$"), None, shape="null")
    mirrored.world.faults.add("status", re.compile(r"/issues/3/discussions$"), None, status=500)
    mirrored.world.gitlab.forbid_project(CONSOLE)
    data = mirrored.robot("audit", "gitlab", "--repair").document["data"]
    assert data["scopes"]
    assert data["differences"]
    assert data["unread"]
    assert data["repair"]
    compare("audit", data)
