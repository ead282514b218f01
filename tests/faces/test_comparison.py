"""The comparison that the demo ends with: it sees each kind of difference in each list, and only there."""

from __future__ import annotations

from functools import partial

import pytest
from tests.faces.desk import Desk
from tests.support.deep import gate_cases

from tidelore_world.demo.comparison import LISTS, Difference, compare
from tidelore_world.demo.killed_mirror import mirror_all, open_app
from tidelore_world.demo.truth import true_rows
from tidelore_world.world import World

TABLES = {
    "issues": "issues",
    "merge_requests": "merge_requests",
    "discussions": "discussions",
    "notes": "notes",
    "state_events": "resource_state_events",
    "label_events": "resource_label_events",
    "milestone_events": "resource_milestone_events",
    "closed_issues": "mr_closes_issues",
    "files": "mr_file_changes",
    "reviewers": "mr_reviewers",
}
CHANGED = {
    "notes": (
        "position_new_line = 4711",
        "body = 'other'",
        "resolved_by = 'nobody'",
        "position = 99",
        "note_type = 'x'",
    ),
    "state_events": ("state = 'other'", "created_at = 1", "user_username = 'nobody'"),
    "label_events": ("label_name = 'other'", "action = 'other'"),
    "milestone_events": ("milestone_title = NULL", "milestone_remote_id = 1"),
    "closed_issues": ("title = 'other'", "issue_iid = 4711"),
    "files": ("renamed_file = 1 - renamed_file", "deleted_file = 1 - deleted_file", "new_file = 1 - new_file"),
}


@pytest.fixture
def world() -> World:
    """Three small projects with something in every list."""
    world = World()
    world.gitlab.populate(0.1)
    world.advance(86_400)
    return world


@pytest.fixture
def mirrored(desk: Desk) -> Desk:
    """A desk whose copy holds everything."""
    mirror_all(open_app(desk.url, str(desk.db), list(_paths(desk))))
    return desk


def _paths(desk: Desk) -> list[str]:
    return [project.path for project in desk.world.gitlab.projects.values()]


def _compared(desk: Desk) -> dict[str, Difference]:
    database = desk.store()
    try:
        found = compare(database, partial(true_rows, desk.world.gitlab), _paths(desk))
    finally:
        database.close()
    return {difference.list: difference for difference in found}


def test_a_complete_copy_has_every_kind_of_row_and_no_difference(mirrored: Desk) -> None:
    found = _compared(mirrored)
    assert tuple(found) == LISTS
    assert all(difference.truth == difference.copy > 0 for difference in found.values())
    assert not any(difference.faults for difference in found.values())


def test_rows_lost_from_the_copy_are_missing(mirrored: Desk) -> None:
    # From the leaves up: what hangs on something that is lost is lost with it.
    for name, table in reversed(TABLES.items()):
        before = _compared(mirrored)[name]
        key = "(merge_request_id, username)" if name == "reviewers" else "id"
        one = f"WHERE {key} IN (SELECT {key.strip('()')} FROM {table} LIMIT 1)"
        parent = name in {"issues", "merge_requests"}
        mirrored.query(f"UPDATE {table} SET deleted_at = 1 {one}" if parent else f"DELETE FROM {table} {one}")
        assert _compared(mirrored)[name].missing == before.missing + 1, name


def test_remotely_deleted_items_are_extra_with_their_children(mirrored: Desk) -> None:
    forge, path = mirrored.world.gitlab, _paths(mirrored)[0]
    issue = next(iter(forge.project(path).issues))
    forge.delete_issue(path, issue.iid)
    found = _compared(mirrored)
    assert found["issues"].extra == 1
    assert found["discussions"].extra == len(issue.discussions) > 0
    assert found["notes"].extra == sum(len(thread.notes) for thread in issue.discussions)


@pytest.mark.parametrize("name", CHANGED)
@gate_cases(1)
def test_a_changed_column_is_a_difference(mirrored: Desk, name: str) -> None:
    for change in CHANGED[name]:
        before = _compared(mirrored)[name].different
        place = mirrored.query(f"SELECT MAX(id) - {before} FROM {TABLES[name]}")[0][0]
        mirrored.query(f"UPDATE {TABLES[name]} SET {change} WHERE id = {place}")
        assert _compared(mirrored)[name].different == before + 1, change


@pytest.mark.parametrize("name", ["issues", "merge_requests", "discussions"])
@gate_cases(1)
def test_an_old_payload_is_a_difference(mirrored: Desk, name: str) -> None:
    mirrored.query(
        "UPDATE raw_payloads SET encoding = 'identity', payload = CAST('{}' AS BLOB)"
        f" WHERE id = (SELECT MAX(raw_payload_id) FROM {name})"
    )
    assert _compared(mirrored)[name].different == 1


@pytest.mark.parametrize("column", ["name", "category", "color", "icon_name"])
@gate_cases(1)
def test_a_wrong_status_is_different_and_an_absent_one_is_missing(mirrored: Desk, column: str) -> None:
    one = "WHERE id = (SELECT MAX(id) FROM issues WHERE status_name IS NOT NULL)"
    mirrored.query(f"UPDATE issues SET status_{column} = 'other' {one}")
    assert _compared(mirrored)["statuses"].different == 1
    mirrored.query(f"UPDATE issues SET status_name = NULL {one}")
    assert _compared(mirrored)["statuses"].missing == 1
