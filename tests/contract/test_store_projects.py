"""A project is its forge's id: a rename keeps the row; a name that could mean two is refused."""

from __future__ import annotations

import pytest
from tests.databases.samples import CREATED, add_project, issue
from tests.databases.talk import keep

from tidelore.core.errors import NotFound, UserError
from tidelore.core.model import ProjectRecord, Scope
from tidelore.store.database.port import Database
from tidelore.store.mirror.cursors import list_poll_cursors, thread_scope, transfer_position
from tidelore.store.mirror.parents import ISSUES
from tidelore.store.mirror.projects import (
    ProjectRow,
    find_configured,
    find_projects,
    find_remote,
    list_projects,
    match_project,
    rename_repository,
    save_project,
    was_renamed,
)
from tidelore.store.work.events import PlannedReply
from tidelore.store.work.outbox import list_outbox, plan
from tidelore.store.work.tracked_pull_requests import list_tracked, track


def position(project: ProjectRow, surface: str, number: int) -> Scope:
    """The position in a list of a thread, or, with number 0, of the whole repository."""
    if number:
        return thread_scope("github", project.id, project.remote_id, surface, number)
    return Scope("github", f"github.{surface}", str(project.remote_id), project.id, project.path)


def test_projects_are_found_by_the_numbers_of_their_forge_and_a_huge_number_finds_none(database: Database) -> None:
    harbour = add_project(database, 7, "port/harbour")
    add_project(database, 8, "port/crane")
    assert find_projects(database, "gitlab", [7, 9, 10**30]) == [harbour]
    assert find_projects(database, "github", [7, 8]) == []


def test_a_renamed_project_keeps_its_row(database: Database) -> None:
    before = add_project(database, 7, "port/harbour")
    with database.transaction() as tx:
        record = ProjectRecord(7, "sea/harbour", "Harbour", None, archived=True)
        after = save_project(tx, "gitlab", "port/harbour", record, CREATED + 1)
    assert after.id == before.id
    assert (after.path, after.name, after.archived, after.configured) == ("sea/harbour", "Harbour", 1, "port/harbour")
    assert list_projects(database) == [after]
    assert database.read("SELECT created_at, updated_at FROM projects") == [(CREATED, CREATED + 1)]


def test_the_newest_item_shows_whether_its_project_was_renamed_since(database: Database) -> None:
    project = add_project(database, 7, "port/harbour")

    def learn(path: str, now_ms: int) -> None:
        with database.transaction() as tx:
            record = ProjectRecord(7, path, "Harbour", f"https://forge.test/{path}", archived=False)
            save_project(tx, "gitlab", "port/harbour", record, now_ms)

    learn("port/harbour", CREATED - 1)
    assert not was_renamed(database, project.id, "issues"), "nothing is stored yet"
    keep(database, project, ISSUES, [issue(1, web_url="https://forge.test/port/harbour/-/issues/1")])
    assert not was_renamed(database, project.id, "issues")
    keep(database, project, ISSUES, [issue(2, CREATED + 5, web_url="https://forge.test/port/harbour-2/-/issues/2")])
    assert was_renamed(database, project.id, "issues")
    learn("port/harbour-2", CREATED + 10**9)
    assert not was_renamed(database, project.id, "issues")
    learn("sea/harbour", CREATED + 10**9)
    assert not was_renamed(database, project.id, "issues"), "what was seen before the project was asked tells nothing"


def test_a_renamed_repository_takes_its_positions_pull_requests_and_answers_along(database: Database) -> None:
    with database.transaction() as tx:
        record = ProjectRecord(7, "port/harbour", "harbour", None, archived=False)
        project = save_project(tx, "github", "port/harbour", record, CREATED)
        other = save_project(
            tx, "github", "port/harbour2", ProjectRecord(8, "port/harbour2", "h", None, archived=False), CREATED
        )
        track(tx, project.id, project.path, 12, issue_number=None, tracked_by="operator", now_ms=CREATED)
        plan(tx, project.id, project.path, PlannedReply("pr", 12, None, "0" * 64, "Done.", "reply"), CREATED)
        for row in (project, other):
            for surface, number in (("merge_requests", 0), ("pr_issue_comments", 12)):
                transfer_position(tx, position(row, surface, number), row.id, complete=True, now_ms=CREATED)
    with database.transaction() as tx:
        rename_repository(tx, project, "sea/quay")
    assert [row.path for row in list_projects(database)] == ["port/harbour2", "sea/quay"]
    assert [row.repo_full_name for row in list_tracked(database)] == ["sea/quay"]
    assert [row.repo_full_name for row in list_outbox(database)] == ["sea/quay"]
    assert database.read("SELECT repo_full_name FROM action_tokens") == [("sea/quay",)]
    shown = database.read("SELECT repo_full_name FROM github_comment_poll_cursors WHERE scope_number = 12 ORDER BY 1")
    assert shown == [("port/harbour2",), ("sea/quay",)]
    for row in (project, other):
        found = list_poll_cursors(database, row.id)
        assert [(one.surface, one.scope_number) for one in found] == [("merge_requests", 0), ("pr_issue_comments", 12)]
        assert {one.last_updated_at for one in found} == {row.id}


def test_the_same_id_on_two_sources_gives_two_projects(database: Database) -> None:
    first = add_project(database, 7)
    with database.transaction() as tx:
        record = ProjectRecord(7, "port/harbour", "harbour", None, archived=False)
        second = save_project(tx, "github", "port/harbour", record, CREATED)
    assert first.id != second.id


def test_a_configured_path_is_stored_with_its_resolved_project(database: Database) -> None:
    project = add_project(database, 7, "port/harbour")
    assert find_configured(database, "gitlab", "port/harbour") == project
    assert find_configured(database, "github", "port/harbour") is None
    assert find_configured(database, "gitlab", "port/quay") is None


def test_a_project_is_found_by_its_remote_id(database: Database) -> None:
    project = add_project(database, 7, "port/harbour")
    assert find_remote(database, "gitlab", 7) == project
    assert find_remote(database, "github", 7) is None
    assert find_remote(database, "gitlab", 8) is None


def test_a_project_row_has_the_time_of_its_last_refresh(database: Database) -> None:
    assert add_project(database, 7, "port/harbour").updated_at == CREATED
    with database.transaction() as tx:
        record = ProjectRecord(7, "port/harbour", "harbour", None, archived=False)
        assert save_project(tx, "gitlab", "port/harbour", record, CREATED + 5).updated_at == CREATED + 5


def test_a_project_is_found_by_its_path_or_a_suffix(database: Database) -> None:
    harbour = add_project(database, 1, "port/north/harbour")
    add_project(database, 2, "port/quay")
    for name in ("port/north/harbour", "north/harbour", "harbour"):
        assert match_project(database, name) == harbour


def test_a_path_suffix_matches_whole_segments_only(database: Database) -> None:
    add_project(database, 1, "port/harbour")
    with pytest.raises(NotFound, match="arbour"):
        match_project(database, "arbour")


def test_a_full_path_takes_precedence_over_a_suffix_match(database: Database) -> None:
    short = add_project(database, 1, "port/harbour")
    add_project(database, 2, "old/port/harbour")
    assert match_project(database, "port/harbour") == short


def test_an_ambiguous_name_is_refused_with_its_candidates(database: Database) -> None:
    add_project(database, 1, "north/harbour")
    add_project(database, 2, "south/harbour")
    with pytest.raises(UserError) as caught:
        match_project(database, "harbour")
    assert caught.value.exit_code == 2
    assert caught.value.details["candidates"] == ["north/harbour", "south/harbour"]


def test_an_unknown_project_is_refused_with_the_known_ones(database: Database) -> None:
    add_project(database, 1, "port/harbour")
    with pytest.raises(NotFound) as caught:
        match_project(database, "quay")
    assert "port/harbour" in (caught.value.fix or "")


def test_deleting_a_project_deletes_its_rows(database: Database) -> None:
    project = add_project(database)
    with database.transaction() as tx:
        tx.execute("INSERT INTO labels (project_id, name) VALUES (:id, 'bug')", {"id": project.id})
        tx.execute("DELETE FROM projects WHERE id = :id", {"id": project.id})
    assert database.read("SELECT COUNT(*) FROM labels") == [(0,)]
