"""GitHub Discussions in the copy: every change arrives, and nothing that is only hidden looks deleted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.situations.github.house import REPO, GitHubHouse
from tests.situations.github.truth import differences

from tidelore.sync.report import RunReport, ScopeReport

DAY = 86_400
TOPICS = "github.topics"
EVERYTHING = 400


@pytest.fixture
def house(tmp_path: Path) -> GitHubHouse:
    """A repository with two discussions, mirrored once."""
    house = GitHubHouse(tmp_path)
    for title in ("mooring", "anchors"):
        row = house.forge.create_discussion(REPO, title, f"about {title}", category="Q&A")
        first = house.forge.comment_discussion(REPO, row.number, "a comment")
        house.forge.comment_discussion(REPO, row.number, "a reply", reply_to=first.id)
    house.world.advance(DAY // 2)
    house.sync()
    return house


def differing(house: GitHubHouse) -> list[str]:
    with house.database() as database:
        return differences(database, house.forge, REPO)


def number_of(house: GitHubHouse, place: int = 0) -> int:
    return int(house.forge.truth_discussions(REPO)[place]["number"])


def comments_of(house: GitHubHouse, place: int = 0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = house.forge.truth_discussions(REPO)[place]["comments"]
    return found


def of_topics(scopes: list[ScopeReport]) -> ScopeReport:
    (found,) = [scope for scope in scopes if scope.surface == TOPICS]
    return found


def titles(house: GitHubHouse) -> list[str]:
    return [title for (title,) in house.rows("SELECT title FROM topics WHERE deleted_at IS NULL ORDER BY iid")]


def scrub(house: GitHubHouse) -> RunReport:
    report = house.run(walk=False, scrub_budget=EVERYTHING)
    assert report is not None
    return report


def test_first_sync_stores_every_discussion(house: GitHubHouse) -> None:
    assert differing(house) == []
    assert titles(house) == ["mooring", "anchors"]
    assert house.rows("SELECT node_id IS NOT NULL, has_topics FROM projects") == [(1, 1)]


def test_many_discussions_with_long_threads_are_stored_whole(house: GitHubHouse) -> None:
    for index in range(23):
        house.forge.create_discussion(REPO, f"topic {index}", "text")
    for index in range(40):
        house.forge.comment_discussion(REPO, number_of(house), f"comment {index}")
    house.world.advance(60)
    house.sync()
    assert differing(house) == []


def test_new_comment_answer_edit_vote_and_closing_arrive_with_the_next_sync(house: GitHubHouse) -> None:
    forge, number = house.forge, number_of(house)
    house.world.advance(60)
    forge.comment_discussion(REPO, number, "one more")
    forge.choose_answer(REPO, comments_of(house)[0]["databaseId"], number)
    forge.edit_discussion(REPO, number_of(house, 1), title="heavy anchors", body="new text")
    forge.upvote_discussion(REPO, number, 3)
    forge.close_discussion(REPO, number)
    forge.create_discussion(REPO, "a third one")
    house.world.advance(60)
    house.sync()
    assert differing(house) == []
    assert titles(house) == ["mooring", "heavy anchors", "a third one"]


def test_quiet_run_costs_one_graphql_point_and_a_repository_without_discussions_none(tmp_path: Path) -> None:
    spent = {}
    for name in ("without", "with"):
        (tmp_path / name).mkdir()
        house = GitHubHouse(tmp_path / name)
        house.forge.create_issue(REPO, "an issue")
        if name == "with":
            for index in range(25):
                house.forge.create_discussion(REPO, f"topic {index}")
                house.world.advance(10)
        house.world.advance(DAY // 2)
        house.sync()
        spent[name] = house.requests(house.sync)
    extra = spent["with"] - spent["without"]
    assert sum(extra.values()) == 1
    assert not any("graphql" in route for route in spent["without"])
    assert any("graphql" in route for route in extra)


def test_repository_without_discussions_has_no_report_of_them(tmp_path: Path) -> None:
    house = GitHubHouse(tmp_path)
    report = house.sync(scrub_budget=EVERYTHING)
    assert TOPICS not in {scope.surface for scope in (*report.scopes, *report.scrubbed)}
    assert TOPICS not in {scope.surface for scope in house.audit().scopes}


def test_discussions_that_are_switched_on_later_are_found_within_a_day(tmp_path: Path) -> None:
    house = GitHubHouse(tmp_path)
    house.sync()
    house.forge.create_discussion(REPO, "late")
    house.world.advance(DAY + 60)
    house.sync()
    assert titles(house) == ["late"]


def test_deleted_comment_is_removed_with_its_payload(house: GitHubHouse) -> None:
    forge, number = house.forge, number_of(house)
    doomed = forge.comment_discussion(REPO, number, "xyzzy")
    house.world.advance(60)
    house.sync()
    assert house.rows("SELECT COUNT(*) FROM topic_comments WHERE body = 'xyzzy'") == [(1,)]
    forge.settings.deletions_move_the_parent = False
    forge.delete_discussion_comment(REPO, doomed.id)
    house.world.advance(60)
    house.sync()
    scrub(house)
    assert differing(house) == []
    assert house.rows("SELECT COUNT(*) FROM raw_payloads WHERE resource_type = 'topic'") == [(2,)]


def test_deleted_comment_with_replies_stays_without_its_text(house: GitHubHouse) -> None:
    first = comments_of(house)[0]
    house.world.advance(60)
    house.forge.delete_discussion_comment(REPO, first["databaseId"])
    house.world.advance(60)
    house.sync()
    scrub(house)
    assert differing(house) == []
    query = "SELECT body, author_username, deleted_at IS NOT NULL FROM topic_comments WHERE remote_id = :id"
    assert house.rows(query, {"id": first["databaseId"]}) == [("", None, 1)]


def test_deleted_discussion_becomes_a_tombstone_at_verification(house: GitHubHouse) -> None:
    house.sync(documents=True)
    house.forge.delete_discussion(REPO, number_of(house))
    house.world.advance(60)
    house.sync()
    assert titles(house) == ["mooring", "anchors"]
    report = scrub(house)
    assert of_topics(report.scrubbed).tally.gone == 1
    assert titles(house) == ["anchors"]
    assert differing(house) == []
    assert house.rows("SELECT title FROM documents") == [("anchors",)]


def test_verification_finds_a_deleted_discussion_among_many_pages(house: GitHubHouse) -> None:
    for index in range(25):
        house.forge.create_discussion(REPO, f"topic {index}")
        house.world.advance(5 if index % 2 else 0)
    house.world.advance(60)
    house.sync()
    for place in (20, 11, 3):
        house.forge.delete_discussion(REPO, number_of(house, place))
    report = scrub(house)
    assert of_topics(report.scrubbed).tally.gone == 3
    assert differing(house) == []


@pytest.mark.parametrize("learnt", ["by the list", "by the repository"])
def test_switched_off_discussions_are_kept_and_reported_as_skipped(house: GitHubHouse, learnt: str) -> None:
    house.forge.switch_discussions(REPO, on=False)
    house.world.advance(60 if learnt == "by the list" else DAY + 60)
    report = house.sync(scrub_budget=EVERYTHING)
    found = of_topics(report.scopes)
    assert "switched off" in (found.skipped or "")
    assert [scope.error for scope in report.scrubbed if scope.error is not None] == []
    assert titles(house) == ["mooring", "anchors"]
    assert house.rows("SELECT status FROM sync_runs ORDER BY id DESC LIMIT 1") == [("succeeded",)]
    (audited,) = [scope for scope in house.audit().scopes if scope.surface == TOPICS]
    assert audited.skipped is not None
    assert audited.differences == []
    house.forge.switch_discussions(REPO, on=True)
    house.world.advance(DAY + 60)
    house.sync(scrub_budget=EVERYTHING)
    assert differing(house) == []


def test_token_that_may_not_read_discussions_deletes_nothing_and_fails_nothing(house: GitHubHouse) -> None:
    house.forge.settings.graphql_forbidden = {"Repository.discussions", "Repository.discussion"}
    house.world.advance(60)
    report = house.sync(scrub_budget=EVERYTHING)
    assert "may not read" in (of_topics(report.scopes).skipped or "")
    assert [scope.error for scope in report.scrubbed if scope.error is not None] == []
    assert titles(house) == ["mooring", "anchors"]
    assert house.rows("SELECT status FROM sync_runs ORDER BY id DESC LIMIT 1") == [("succeeded",)]
    (audited,) = [scope for scope in house.audit().scopes if scope.surface == TOPICS]
    assert (audited.error, audited.differences) == (None, [])
    assert audited.skipped is not None


def test_repository_that_became_private_loses_no_discussion(house: GitHubHouse) -> None:
    house.forge.make_private(REPO, "mira")
    house.world.advance(60)
    report = house.run(scrub_budget=EVERYTHING)
    assert report is not None
    assert of_topics(report.scopes).error is not None
    assert scrub(house).run_id > report.run_id
    assert titles(house) == ["mooring", "anchors"]


def test_discussions_are_read_although_another_list_fails(house: GitHubHouse) -> None:
    house.forge.create_discussion(REPO, "a third one")
    house.world.advance(60)
    house.world.faults.add("status", re.compile(r"issues/comments"), None, status=500)
    report = house.run()
    assert report is not None
    assert any(scope.error is not None for scope in report.scopes)
    assert of_topics(report.scopes).error is None
    assert titles(house) == ["mooring", "anchors", "a third one"]


def test_audit_finds_what_differs_in_discussions(house: GitHubHouse) -> None:
    assert house.audit().differences == []
    house.forge.settings.deletions_move_the_parent = False
    house.forge.delete_discussion_comment(REPO, comments_of(house)[0]["replies"][0]["databaseId"])
    gone = number_of(house, 1)
    house.forge.delete_discussion(REPO, gone)
    made = house.forge.create_discussion(REPO, "unseen").number
    found = {(one.verdict, one.kind, one.reference) for one in house.audit().differences}
    assert found == {
        ("different", "topics", f"{REPO}#{number_of(house)}"),
        ("extra", "topics", f"{REPO}#{gone}"),
        ("missing", "topics", f"{REPO}#{made}"),
    }


def test_only_issues_leave_the_discussions_alone(house: GitHubHouse) -> None:
    house.forge.create_discussion(REPO, "a third one")
    house.world.advance(60)
    report = house.sync(resources=("issues",))
    assert TOPICS not in {scope.surface for scope in report.scopes}


def test_discussion_that_cannot_be_parsed_is_quarantined_and_stored_later(house: GitHubHouse) -> None:
    number = number_of(house)
    house.world.advance(60)
    house.forge.edit_discussion(REPO, number, body="with \x00 inside")
    house.sync()
    assert house.rows("SELECT surface, locator FROM quarantine") == [(TOPICS, str(number))]
    assert titles(house) == ["mooring", "anchors"]
    house.forge.edit_discussion(REPO, number, body="readable again")
    house.world.advance(DAY // 4)
    house.sync()
    assert differing(house) == []
    assert house.rows("SELECT COUNT(*) FROM quarantine") == [(0,)]


def test_discussions_of_an_organisation_are_read_and_learnt_from_its_list(tmp_path: Path) -> None:
    house = GitHubHouse(tmp_path, host={"repos": [], "orgs": ["octo"]})
    house.sync()
    house.forge.create_discussion(REPO, "at once")
    house.world.advance(60)
    house.sync()
    assert titles(house) == ["at once"]
    assert differing(house) == []
    house.forge.switch_discussions(REPO, on=False)
    house.world.advance(60)
    assert not any("graphql" in route for route in house.requests(house.sync))
    assert titles(house) == ["at once"]
