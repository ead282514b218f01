"""Repositories that change as a whole: switched off, hidden, archived, renamed, replaced, new in an organisation."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.situations.github.house import REPO, GitHubHouse
from tests.situations.github.test_comments import later

from tidelore.app.sources import accept_repository, choose_repository
from tidelore.core.errors import RemoteNotFound, RepositoryReplaced

NEW = "octo/ocean"
DAY = 86_400
LIVE = "SELECT COUNT(*) FROM (SELECT id FROM {} WHERE deleted_at IS NULL) live"


def begin(house: GitHubHouse) -> None:
    """Mirror three issues and two pull requests with comments."""
    forge = house.forge
    for number in (1, 2, 3):
        forge.create_issue(REPO, f"issue {number}", "text")
        forge.comment(REPO, number, f"on issue {number}")
    for number in (4, 5):
        forge.create_pull(REPO)
        forge.comment(REPO, number, f"on pull request {number}")
        forge.review_comment(REPO, number, f"on a line of {number}")
    later(house)
    later(house)


def live(house: GitHubHouse) -> tuple[int, int, int]:
    """How many issues, pull requests and comments the copy has."""
    issues, pulls = (house.column(LIVE.format(table))[0] for table in ("issues", "merge_requests"))
    return issues, pulls, house.column("SELECT COUNT(*) FROM notes WHERE kind <> 'review_summary'")[0]


@pytest.mark.parametrize("loses", [True, False])
def test_issues_switched_off_lose_nothing_and_come_back(both: GitHubHouse, *, loses: bool) -> None:
    both.forge.settings.pulls_lose_issue_side = loses
    begin(both)
    both.forge.switch_issues(REPO, on=False)
    both.forge.review_comment(REPO, 4, "said meanwhile")
    for _ in range(4):
        both.world.advance(3600)
        both.sync(scrub_budget=100)
    assert live(both) == (3, 2, 8)
    assert "said meanwhile" in both.column("SELECT body FROM notes")
    both.forge.switch_issues(REPO, on=True)
    both.forge.comment(REPO, 1, "and on again")
    both.forge.delete_issue(REPO, 3)
    both.world.advance(8 * DAY)
    both.verify()
    assert both.differences() == []


def test_a_repository_hidden_from_the_token_fails_and_loses_nothing(both: GitHubHouse) -> None:
    begin(both)
    both.forge.make_private(REPO, "somebody")
    for wait in (60, 2 * DAY, 60):
        both.world.advance(wait)
        report = both.run(scrub_budget=100)
        assert report is not None
        errors = [scope.error for scope in report.scopes]
        assert all(isinstance(error, RemoteNotFound) for error in errors), errors
    assert live(both) == (3, 2, 7)
    both.forge.make_public(REPO)
    both.forge.comment(REPO, 1, "visible again")
    both.verify()
    assert both.differences() == []


def test_a_hidden_repository_costs_two_requests_or_one_when_it_is_looked_up_anyway(house: GitHubHouse) -> None:
    begin(house)
    house.forge.make_private(REPO, "somebody")
    assert house.requests(house.run).total() == 2
    house.world.advance(2 * DAY)
    assert house.requests(house.run).total() == 1


def test_an_archived_repository_is_skipped_and_kept(house: GitHubHouse) -> None:
    begin(house)
    house.forge.comment(REPO, 1, "the last word")
    house.forge.archive_repo(REPO)
    house.world.advance(2 * DAY)
    report = house.sync()
    assert {scope.skipped for scope in report.scopes} == {"archived"}
    assert live(house) == (3, 2, 7)
    house.forge.archive_repo(REPO, archived=False)
    house.world.advance(2 * DAY)
    house.sync()
    assert "the last word" in house.column("SELECT body FROM notes")


def test_an_archived_repository_is_read_with_include_archived(tmp_path: Path) -> None:
    house = GitHubHouse(tmp_path, host={"include_archived": True})
    begin(house)
    house.forge.comment(REPO, 1, "the last word")
    house.forge.archive_repo(REPO)
    house.world.advance(2 * DAY)
    report = house.sync()
    assert {scope.skipped for scope in report.scopes} == {None}
    house.verify()
    assert house.differences() == []


def test_a_renamed_repository_keeps_its_rows_and_follows_its_path(both: GitHubHouse) -> None:
    begin(both)
    before = both.rows("SELECT id, iid FROM issues ORDER BY id")
    both.forge.rename_repo(REPO, NEW)
    both.forge.comment(NEW, 1, "after the rename")
    later(both)
    later(both)
    assert both.rows("SELECT path, configured FROM projects") == [(NEW, REPO)]
    assert both.rows("SELECT id, iid FROM issues ORDER BY id") == before
    both.verify()
    assert both.differences(NEW) == []
    assert both.rows("SELECT COUNT(*) FROM cursors GROUP BY surface HAVING COUNT(*) > 1") == []


def test_a_renamed_repository_without_any_change_is_learnt_within_a_day(house: GitHubHouse) -> None:
    begin(house)
    house.forge.rename_repo(REPO, NEW)
    house.world.advance(DAY + 60)
    house.sync()
    assert house.column("SELECT path FROM projects") == [NEW]


def take_over(house: GitHubHouse) -> None:
    """Rename the repository, and let another one take its name."""
    house.forge.rename_repo(REPO, NEW)
    house.forge.create_repo(REPO)
    house.forge.create_issue(REPO, "of another repository", "text")


@pytest.mark.parametrize("wait", [60, DAY + 60])
def test_another_repository_under_the_name_is_refused_and_nothing_of_it_is_read(both: GitHubHouse, wait: int) -> None:
    begin(both)
    take_over(both)
    both.forge.comment(NEW, 4, "in the known repository")
    both.world.advance(wait)
    for _ in range(2):
        report = both.run(scrub_budget=50)
        assert report is not None
        for scope in report.scopes:
            assert isinstance(scope.error, RepositoryReplaced), scope.error
            assert "lore sources accept github octo/tide" in (scope.error.fix or "")
        both.world.advance(60)
    assert "of another repository" not in both.column("SELECT title FROM issues")
    assert both.rows("SELECT path, configured FROM projects") == [(REPO, REPO)]
    assert live(both)[:2] == (3, 2)


def test_a_renamed_repository_is_followed_on_when_another_one_takes_its_old_name_later(both: GitHubHouse) -> None:
    begin(both)
    both.forge.rename_repo(REPO, NEW)
    both.world.advance(DAY + 60)
    both.sync()
    both.forge.create_repo(REPO)
    both.forge.create_issue(REPO, "of another repository", "text")
    both.forge.comment(NEW, 1, "in the known repository")
    both.world.advance(DAY + 60)
    both.verify()
    assert both.differences(NEW) == []
    assert both.column("SELECT path FROM projects") == [NEW]


def test_an_accepted_repository_is_mirrored_beside_the_former_one(house: GitHubHouse) -> None:
    begin(house)
    take_over(house)
    house.world.advance(DAY + 60)
    app = house.app()
    accepted = asyncio.run(accept_repository(app, choose_repository(app.config, "github", REPO)))
    assert accepted.former is not None
    assert accepted.former.path == NEW
    later(house)
    assert house.differences() == []
    assert sorted(house.rows("SELECT path, configured FROM projects")) == [(NEW, NEW), (REPO, REPO)]
    assert live(house)[:2] == (4, 2), "what is stored of the former one is kept"


def test_what_feedback_keeps_under_the_name_of_a_repository_follows_its_rename(house: GitHubHouse) -> None:
    begin(house)
    with house.database() as database, database.transaction() as tx:
        tx.execute(
            "INSERT INTO action_tokens (repo_full_name, token, project_id, scope_kind, scope_number, source, status,"
            " created_at, updated_at) SELECT path, 'one', id, 'pr', 4, source, 'planned', 0, 0 FROM projects"
        )
    house.forge.rename_repo(REPO, NEW)
    house.world.advance(DAY + 60)
    house.sync()
    assert house.column("SELECT repo_full_name FROM action_tokens") == [NEW]


def test_a_repository_that_was_deleted_and_made_again_is_refused(house: GitHubHouse) -> None:
    begin(house)
    old = house.forge.repository(REPO)
    house.forge.rename_repo(REPO, NEW)
    house.forge.make_private(NEW, "somebody")
    house.forge.create_repo(REPO)
    house.forge.create_issue(REPO, "of another repository", "text")
    assert house.forge.repository(REPO).id != old.id
    for wait in (60, 2 * DAY):
        house.world.advance(wait)
        report = house.run()
        assert report is not None
        assert all(isinstance(scope.error, RepositoryReplaced) for scope in report.scopes), report.scopes
    assert "of another repository" not in house.column("SELECT title FROM issues")
    assert live(house) == (3, 2, 7)


def test_a_new_repository_of_an_organisation_is_mirrored_by_the_next_run(tmp_path: Path) -> None:
    house = GitHubHouse(tmp_path, host={"repos": [], "orgs": ["octo"]})
    begin(house)
    assert house.differences() == []
    house.forge.create_repo(NEW)
    house.forge.create_issue(NEW, "in the new one", "text")
    later(house)
    assert sorted(house.column("SELECT path FROM projects")) == [NEW, REPO]
    assert house.differences(NEW) == []
    house.forge.rename_repo(NEW, "octo/lake")
    house.forge.create_repo(NEW)
    house.forge.create_issue(NEW, "under the old name", "text")
    later(house)
    assert house.differences(NEW) == []
    assert house.differences("octo/lake") == []
