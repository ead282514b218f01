"""Groups, and projects that move, are archived or closed to us."""

from __future__ import annotations

import pytest
from tests.faces.desk import CONSOLE, LEDGER, Desk
from tests.faces.hosts import DAY, GROUP, PROJECT, SteadyClock, configure, host, paths, scopes, sync

from tidelore.sync.report import run_verdict

# Groups


def test_a_group_includes_the_projects_of_its_subgroups(desk: Desk) -> None:
    desk.world.gitlab.create_project("elsewhere/tool")
    configure(desk, host(desk, 'groups = ["harbor"]'))
    found = scopes(sync(desk))
    assert {path: scope.tally.created for path, scope in found.items()} == {LEDGER: 5, CONSOLE: 2}
    assert desk.world.requests[GROUP] == 1
    assert desk.world.requests[PROJECT] == 0


def test_a_nested_group_is_requested_by_its_full_path(desk: Desk) -> None:
    configure(desk, host(desk, 'groups = ["harbor/platform"]'))
    assert set(scopes(sync(desk))) == {LEDGER}


def test_a_project_added_to_a_group_is_synced_by_the_next_run(desk: Desk) -> None:
    configure(desk, host(desk, 'groups = ["harbor"]'))
    sync(desk)
    with desk.world.lock:
        desk.world.gitlab.create_project("harbor/new")
        desk.world.gitlab.create_issue("harbor/new")
    found = scopes(sync(desk))
    assert {path: scope.tally.created for path, scope in found.items()} == {LEDGER: 0, CONSOLE: 0, "harbor/new": 1}


def test_a_long_group_is_read_page_by_page(desk: Desk) -> None:
    for number in range(5):
        desk.world.gitlab.create_project(f"harbor/many/p{number}")
    configure(desk, host(desk, 'groups = ["harbor"]'), per_page=3)
    assert len(sync(desk).scopes) == 7
    assert desk.world.requests[GROUP] == 3


def test_a_project_configured_directly_and_by_group_is_synced_once(desk: Desk) -> None:
    configure(desk, host(desk, f'projects = ["{LEDGER}"]', 'groups = ["harbor", "harbor/platform"]'))
    assert [scope.project for scope in sync(desk).scopes] == [LEDGER, CONSOLE]
    assert [scope.project for scope in sync(desk).scopes] == [LEDGER, CONSOLE]
    assert desk.world.requests[PROJECT] == 0


def test_a_project_configured_by_an_old_name_is_recognised_in_its_group(desk: Desk) -> None:
    desk.world.gitlab.rename_project(LEDGER, "harbor/books")
    configure(desk, host(desk, f'projects = ["{LEDGER}"]', 'groups = ["harbor"]'))
    for _ in range(2):
        report = sync(desk)
        assert sorted(scope.configured for scope in report.scopes) == [LEDGER, CONSOLE]
        assert set(scopes(report)) == {"harbor/books", CONSOLE}
    assert set(paths(desk).values()) == {"harbor/books", CONSOLE}


@pytest.mark.parametrize("name", [CONSOLE, "console", "web/console"])
def test_a_project_of_a_group_can_be_selected(desk: Desk, name: str) -> None:
    configure(desk, host(desk, 'groups = ["harbor"]'))
    for _ in range(2):
        assert set(scopes(sync(desk, project=name))) == {CONSOLE}


def test_a_stored_project_can_be_selected_by_full_path_without_listing_its_group(desk: Desk) -> None:
    configure(desk, host(desk, 'groups = ["harbor"]'))
    sync(desk)
    before = desk.world.requests[GROUP]
    assert set(scopes(sync(desk, project=CONSOLE))) == {CONSOLE}
    assert desk.world.requests[GROUP] == before


def test_a_suffix_shared_by_two_projects_of_a_group_is_refused(desk: Desk) -> None:
    desk.world.gitlab.create_project("harbor/other/ledger")
    configure(desk, host(desk, 'groups = ["harbor"]'))
    done = desk.robot("ingest", "--type", "issues", "-p", "ledger")
    assert done.code == 2
    assert done.error["details"]["candidates"] == [LEDGER, "harbor/other/ledger"]


def test_a_project_in_no_configured_group_is_not_found_and_creates_no_database(desk: Desk) -> None:
    configure(desk, host(desk, 'groups = ["harbor"]'))
    done = desk.robot("ingest", "--type", "issues", "-p", "nothing")
    assert done.code == 6
    assert done.error["code"] == "NOT_FOUND"
    assert not desk.db.exists()


def test_a_missing_group_is_one_failure_and_the_others_are_synced(desk: Desk) -> None:
    configure(desk, host(desk, 'groups = ["nowhere", "harbor/web"]', f'projects = ["{LEDGER}"]'))
    report = sync(desk, resources=("issues", "merge_requests"))
    failed = [scope for scope in report.scopes if scope.error is not None]
    assert [scope.project for scope in failed] == ["nowhere/*"]
    assert failed[0].error is not None
    assert failed[0].error.code == "REMOTE_NOT_FOUND"
    assert {scope.project for scope in report.scopes if scope.error is None} == {LEDGER, CONSOLE}
    error = run_verdict(report.scopes)
    assert error is not None
    assert error.code == "PARTIAL_SUCCESS"


def test_a_forbidden_group_fails_alone(desk: Desk) -> None:
    configure(desk, host(desk, 'groups = ["harbor"]', f'projects = ["{LEDGER}"]'))
    desk.world.faults.add("status", "/groups/:id/projects", None, status=403)
    report = sync(desk)
    assert {scope.project: scope.error is None for scope in report.scopes} == {LEDGER: True, "harbor/*": False}


def test_a_project_of_an_unlistable_group_is_not_found_with_that_reason(desk: Desk) -> None:
    configure(desk, host(desk, 'groups = ["nowhere"]', f'projects = ["{LEDGER}"]'))
    done = desk.robot("ingest", "--type", "issues", "-p", "tool")
    assert done.code == 6
    assert done.error["code"] == "REMOTE_NOT_FOUND"
    assert done.error["details"]["group"] == "nowhere"


def test_verification_reports_a_missing_group_too(desk: Desk) -> None:
    configure(desk, host(desk, 'groups = ["nowhere"]', f'projects = ["{LEDGER}"]'))
    sync(desk)
    done = desk.robot("scrub", "--all")
    assert done.code == 7
    assert {scope["project"] for scope in done.document["data"]["scrubbed"]} == {"nowhere/*", LEDGER}


# Archived, forbidden and missing projects


def test_an_archived_project_is_reported_and_skipped_and_its_rows_are_kept(desk: Desk) -> None:
    configure(desk, host(desk, 'groups = ["harbor"]'))
    sync(desk)
    with desk.world.lock:
        desk.world.gitlab.archive_project(LEDGER)
    before = desk.world.requests["GET /projects/:id/issues"]
    report = sync(desk)
    assert {path: scope.skipped for path, scope in scopes(report).items()} == {LEDGER: "archived", CONSOLE: None}
    assert run_verdict(report.scopes) is None
    assert desk.world.requests["GET /projects/:id/issues"] == before + 1
    assert desk.robot("count", "issues").data["issues"]["total"] == 7


def test_an_explicitly_selected_archived_project_is_skipped_without_failure(desk: Desk) -> None:
    desk.world.gitlab.archive_project(LEDGER)
    configure(desk, host(desk, f'projects = ["{LEDGER}"]'))
    assert desk.run("ingest", "--type", "issues").code == 0
    assert desk.robot("count", "issues").data["issues"]["total"] == 0


def test_an_archived_project_is_not_verified(desk: Desk) -> None:
    configure(desk, host(desk, 'groups = ["harbor"]'))
    sync(desk)
    with desk.world.lock:
        desk.world.gitlab.archive_project(LEDGER)
    sync(desk)
    assert {scope["project"] for scope in desk.robot("scrub", "--all").data["scrubbed"]} == {CONSOLE}


def test_archived_projects_are_synced_when_configured(desk: Desk) -> None:
    desk.world.gitlab.archive_project(LEDGER)
    configure(desk, host(desk, 'groups = ["harbor"]', "include_archived = true"))
    found = scopes(sync(desk))
    assert (found[LEDGER].skipped, found[LEDGER].tally.created) == (None, 5)


def test_an_unarchived_project_is_synced_again_within_a_day(desk: Desk) -> None:
    desk.world.gitlab.archive_project(LEDGER)
    configure(desk, host(desk, f'projects = ["{LEDGER}"]'))
    clock = SteadyClock()
    assert scopes(sync(desk, clock))[LEDGER].skipped == "archived"
    with desk.world.lock:
        desk.world.gitlab.archive_project(LEDGER, archived=False)
    clock.advance(DAY + 1)
    assert scopes(sync(desk, clock))[LEDGER].tally.created == 5


def test_a_project_that_becomes_forbidden_does_not_stop_others(desk: Desk) -> None:
    configure(desk, host(desk, f'projects = ["{LEDGER}", "harbor/gone"]', 'groups = ["harbor/web"]'))
    desk.world.gitlab.forbid_project(LEDGER)
    report = sync(desk)
    codes = {path: scope.error.code if scope.error else None for path, scope in scopes(report).items()}
    assert codes == {LEDGER: "REMOTE_REFUSED", "harbor/gone": "REMOTE_NOT_FOUND", CONSOLE: None}


# Renamed and moved projects


def test_a_renamed_project_is_recognised_and_nothing_is_fetched_twice(desk: Desk) -> None:
    configure(desk, host(desk, f'projects = ["{LEDGER}"]'))
    clock = SteadyClock()
    sync(desk, clock)
    with desk.world.lock:
        desk.world.gitlab.rename_project(LEDGER, "treasury/books")
    clock.advance(DAY + 1)
    report = sync(desk, clock)
    assert set(scopes(report)) == {"treasury/books"}
    assert scopes(report)["treasury/books"].tally.created == 0
    assert list(paths(desk).values()) == ["treasury/books"]
    assert desk.query("SELECT COUNT(*) FROM issues") == [(5,)]


def test_a_project_renamed_on_the_server_has_its_new_path_after_the_next_sync_that_sees_an_item(desk: Desk) -> None:
    configure(desk, host(desk, f'projects = ["{LEDGER}"]'))
    clock = SteadyClock()
    sync(desk, clock)
    asked = desk.world.requests[PROJECT]
    desk.world.advance(3600)
    with desk.world.lock:
        desk.world.gitlab.rename_project(LEDGER, "treasury/books")
        desk.world.gitlab.edit_issue("treasury/books", 2, title="Seen after the rename")
    report = sync(desk, clock)
    assert set(scopes(report)) == {"treasury/books"}
    assert list(paths(desk).values()) == ["treasury/books"]
    assert desk.world.requests[PROJECT] == asked + 1
    sync(desk, clock)
    assert desk.world.requests[PROJECT] == asked + 1, "learnt once"
    assert desk.query("SELECT COUNT(*) FROM issues") == [(5,)]


def test_a_configured_project_is_looked_up_at_most_once_a_day(desk: Desk) -> None:
    configure(desk, host(desk, f'projects = ["{LEDGER}"]'))
    clock = SteadyClock()
    for day in range(1, 4):
        for _ in range(3):
            sync(desk, clock, resources=("issues", "merge_requests"))
            clock.advance(3600)
        assert desk.world.requests[PROJECT] == day
        clock.advance(DAY)


def test_a_project_of_a_group_is_never_looked_up_separately(desk: Desk) -> None:
    configure(desk, host(desk, 'groups = ["harbor"]'))
    clock = SteadyClock()
    sync(desk, clock)
    clock.advance(30 * DAY)
    sync(desk, clock)
    assert desk.world.requests[PROJECT] == 0
    assert desk.query("SELECT DISTINCT updated_at FROM projects") == [(clock.now_ms(),)]


def test_a_project_renamed_inside_its_group_keeps_its_row(desk: Desk) -> None:
    configure(desk, host(desk, 'groups = ["harbor"]'))
    sync(desk)
    before = paths(desk)
    with desk.world.lock:
        desk.world.gitlab.rename_project(LEDGER, "harbor/books")
    report = sync(desk)
    assert scopes(report)["harbor/books"].tally.created == 0
    after = paths(desk)
    assert after.keys() == before.keys()
    assert set(after.values()) == {"harbor/books", CONSOLE}


def test_a_new_project_at_the_path_of_a_renamed_one_is_stored_separately(desk: Desk) -> None:
    configure(desk, host(desk, 'groups = ["harbor"]'))
    sync(desk)
    with desk.world.lock:
        desk.world.gitlab.rename_project(LEDGER, "harbor/books")
        desk.world.gitlab.create_project(LEDGER)
        desk.world.gitlab.create_issue(LEDGER)
    found = scopes(sync(desk))
    created = {path: scope.tally.created for path, scope in found.items()}
    assert created == {"harbor/books": 0, CONSOLE: 0, LEDGER: 1}
    assert sorted(paths(desk).values()) == sorted(["harbor/books", CONSOLE, LEDGER])


def test_a_recreated_project_of_a_group_is_stored_as_another_project(desk: Desk) -> None:
    configure(desk, host(desk, 'groups = ["harbor"]'))
    sync(desk)
    with desk.world.lock:
        desk.world.gitlab.delete_project(LEDGER)
        number = desk.world.gitlab.create_project(LEDGER).id
        desk.world.gitlab.create_issue(LEDGER)
    assert scopes(sync(desk))[LEDGER].tally.created == 1
    assert len(paths(desk)) == 3
    assert paths(desk)[number] == LEDGER
    assert desk.world.requests[PROJECT] == 0, "the group told its number"


def test_a_recreated_configured_project_is_found_after_a_day(desk: Desk) -> None:
    configure(desk, host(desk, f'projects = ["{LEDGER}"]'))
    clock = SteadyClock()
    sync(desk, clock)
    with desk.world.lock:
        desk.world.gitlab.delete_project(LEDGER)
        desk.world.gitlab.create_project(LEDGER)
        desk.world.gitlab.create_issue(LEDGER)
    clock.advance(DAY + 1)
    assert scopes(sync(desk, clock))[LEDGER].tally.created == 1
