"""What is behind, counted on both databases: due, settling, failing, and the oldest read."""

from __future__ import annotations

from typing import Any

import pytest
from tests.databases.samples import CREATED, add_project, issue, merge_request, scope_of
from tests.support.manual_clock import ManualClock

from tidelore.core.config import Sync
from tidelore.engine.cursor import Cursor
from tidelore.engine.ports import Batch
from tidelore.engine.whole import ChildReading, Children
from tidelore.sources.github.source import GitHubSource
from tidelore.sources.gitlab.source import GitLabSource
from tidelore.store.database.port import Database
from tidelore.store.mirror.child_progress import Backlog, count_due, read_backlog, wanted_children
from tidelore.store.mirror.child_writer import ChildWriter
from tidelore.store.mirror.children import DISCUSSIONS
from tidelore.store.mirror.kinds import ISSUE, MERGE_REQUEST, PARENT_KINDS
from tidelore.store.mirror.page_writer import PageWriter
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS
from tidelore.store.mirror.projects import ProjectRow

NOTHING: Children[Any] = Children((), (), 1, None)


@pytest.fixture
def project(database: Database, clock: ManualClock) -> ProjectRow:
    """A project of five issues and one merge request, and a neighbour that must not be counted."""
    for number, path in ((2, "port/quay"), (1, "port/harbour")):
        row = add_project(database, number, path)
        writer = PageWriter(database, scope_of(row), ISSUES, clock.now_ms)
        writer.commit(Batch([issue(number * 100 + n) for n in range(5)], Cursor()))
        changes = PageWriter(database, scope_of(row, "gitlab.merge_requests"), MERGE_REQUESTS, clock.now_ms)
        changes.commit(Batch([merge_request(number * 100)], Cursor()))
    return row


def child_writer(database: Database, clock: ManualClock, project: ProjectRow) -> ChildWriter:
    return ChildWriter(database, scope_of(project), ISSUE, DISCUSSIONS, clock.now_ms)


def test_parents_are_counted_by_the_state_of_their_children(
    database: Database, clock: ManualClock, project: ProjectRow
) -> None:
    at = clock.now_ms()
    parents = child_writer(database, clock, project)
    synced, settling, failing, again, _untouched = parents.due(10)
    parents.replace([ChildReading(synced, NOTHING, True)])
    clock.advance(1)
    parents.replace([ChildReading(settling, NOTHING, False)])
    clock.advance(1)
    parents.record_failure(failing, "no answer")
    clock.advance(1)
    parents.record_failure(again, "a gateway in the way")
    found = read_backlog(database, ISSUE, "discussions", project.id)
    assert found == Backlog("discussions", 4, 1, 2, "a gateway in the way", at)
    assert count_due(database, ISSUE, "discussions", project.id) == (4, 5)


def test_a_new_parent_version_makes_its_children_due_instead_of_settling(
    database: Database, clock: ManualClock, project: ProjectRow
) -> None:
    parents = child_writer(database, clock, project)
    for parent in parents.due(10):
        parents.replace([ChildReading(parent, NOTHING, False)])
    writer = PageWriter(database, scope_of(project), ISSUES, clock.now_ms)
    writer.commit(Batch([issue(100, CREATED + 1000)], Cursor()))
    found = read_backlog(database, ISSUE, "discussions", project.id)
    assert (found.due, found.settling) == (5, 4)


def test_deleted_parents_are_not_counted_as_due(database: Database, clock: ManualClock, project: ProjectRow) -> None:
    assert read_backlog(database, ISSUE, "discussions", project.id).due == 5
    writer = PageWriter(database, scope_of(project), ISSUES, clock.now_ms)
    writer.commit(Batch([], Cursor(), gone=[100]))
    assert read_backlog(database, ISSUE, "discussions", project.id).due == 4


@pytest.mark.parametrize(("table", "name"), [(k.table, name) for k in PARENT_KINDS.values() for name in k.children])
def test_the_backlog_can_be_counted_for_every_kind_of_child(
    database: Database, project: ProjectRow, table: str, name: str
) -> None:
    found = read_backlog(database, PARENT_KINDS[table], name, project.id)
    due = 0 if name in PARENT_KINDS[table].on_demand else 5 if table == "issues" else 1
    assert found == Backlog(name, due, 0, 0, None, None)


def test_the_kinds_of_children_to_fetch_follow_the_settings() -> None:
    gitlab, github = GitLabSource.resources, GitHubSource.resources
    issues = ISSUE.having(gitlab["issues"].children)
    assert wanted_children(issues, Sync()) == ("discussions", "resource_events")
    off = Sync(fetch_resource_events=False, fetch_mr_closes_issues=False, fetch_mr_diffs=False, verify_reviewers=True)
    merge_requests = MERGE_REQUEST.having(gitlab["merge_requests"].children)
    assert wanted_children(merge_requests, off) == ("discussions", "reviewers", "positions")
    pulls = MERGE_REQUEST.having(github["merge_requests"].children)
    assert wanted_children(pulls, off) == ("comments", "reviews", "threads")
