"""Issues, pull requests, timelines and files of a GitHub repository, over real HTTP: each list equals the truth."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.contract.github_bench import REPO, Bench, ids, serving, walked
from tests.contract.github_truth import STORED_ELSEWHERE, by_update, mixed, payloads, records, rejected, repo_id

from tidelore.core.clock import parse_instant
from tidelore.core.errors import FeatureDisabled, RemoteNotFound
from tidelore.core.model import IssueRecord, PullIssueRecord
from tidelore.engine.ports import ListRequest, Page
from tidelore.sources.github.source import GitHubSource
from tidelore_world.github.records import FileChange


@pytest.fixture
def bench() -> Iterator[Bench]:
    with serving() as bench:
        yield bench


def fetch_one(bench: Bench, surface: Any, number: int) -> Page[Any]:
    page: Page[Any] = bench.run(lambda source: surface(source, repo_id(bench)).fetch_one(str(number)))
    return page


# Issues


@pytest.mark.parametrize("cursors", [True, False])
@pytest.mark.parametrize("by_creation", [False, True])
def test_issue_list_contains_every_issue_and_pull_request_as_the_world_shows_them(
    bench: Bench, by_creation: bool, cursors: bool
) -> None:
    mixed(bench)
    bench.forge.settings.issues_cursor_links = cursors
    pages = bench.run(lambda source: walked(source.issue_list(repo_id(bench), 5, by_creation=by_creation)))
    truth = bench.forge.truth_issues(REPO, bench.url)
    assert payloads(pages) == (truth if by_creation else by_update(truth))
    assert len(pages) == 5
    assert rejected(pages) == []
    for record, row in zip(records(pages), payloads(pages), strict=True):
        assert record.remote_id == row["id"]
        assert record.updated_at == parse_instant(row["updated_at"])
        if "pull_request" in row:
            assert isinstance(record, PullIssueRecord)
            assert (record.iid, record.comments, record.node_id) == (row["number"], row["comments"], row["node_id"])
        else:
            assert isinstance(record, IssueRecord)
            assert record.state == {"open": "opened"}.get(row["state"], row["state"])
            assert (record.iid, record.title, record.description) == (row["number"], row["title"], row["body"])
            assert record.references_full == f"{REPO}#{row['number']}"
            assert record.assignees == tuple(user["login"] for user in row["assignees"])
            assert record.labels == tuple(label["name"] for label in row["labels"])


def test_issue_list_by_creation_is_resumed_by_its_token_in_another_process(bench: Bench) -> None:
    mixed(bench)
    first = bench.run(lambda source: source.issue_list(repo_id(bench), 5, by_creation=True).fetch(ListRequest()))
    token = first.next_token
    assert "after=" in token
    bench.forge.delete_issue(REPO, bench.forge.truth_issues(REPO)[1]["number"])

    async def rest(source: GitHubSource) -> list[Page[Any]]:
        pages = source.issue_list(repo_id(bench), 5, by_creation=True)
        found = [await pages.fetch(ListRequest(token=token))]
        while found[-1].next_token is not None:
            found.append(await pages.fetch(ListRequest(token=found[-1].next_token)))
        return found

    assert ids(bench.run(rest)) == [row["id"] for row in bench.forge.truth_issues(REPO)][4:]


def test_issue_list_longer_than_a_thousand_rows_is_read_by_cursors(bench: Bench) -> None:
    bench.forge.bulk(REPO, issues=1100, pulls=0, threads=0, comments=0)
    pages = bench.run(lambda source: walked(source.issue_list(repo_id(bench), 100)))
    assert ids(pages) == [row["id"] for row in by_update(bench.forge.truth_issues(REPO))]
    assert len(bench.metrics) == 12


def test_issue_list_asks_since_a_second_and_is_conditional(bench: Bench) -> None:
    mixed(bench, 3)
    bench.world.advance(3600)
    changed = bench.forge.create_issue(REPO, "late")
    since = parse_instant(bench.world.clock.iso_s())

    async def do(source: GitHubSource) -> list[Page[Any]]:
        page = await source.issue_list(repo_id(bench)).fetch(ListRequest(since=since))
        request = ListRequest(since=since, validator=page.validator)
        return [page, await source.issue_list(repo_id(bench)).fetch(request)]

    page, same = bench.run(do)
    assert ids([page]) == [changed.id]
    assert same.not_modified


def test_malformed_issue_is_rejected_alone(bench: Bench) -> None:
    mixed(bench, 4)
    fault = bench.world.faults.add("malformed_item", re.compile(r"/issues$"), shape="no_id")
    (page,) = bench.run(lambda source: walked(source.issue_list(repo_id(bench))))
    assert fault.fired
    assert len(page.items) == len(bench.forge.truth_issues(REPO)) - 1
    (entry,) = page.rejected
    assert entry.locator is not None
    again = bench.run(lambda source: source.issue_list(repo_id(bench)).fetch_one(entry.locator))
    assert [json.loads(item.payload)["number"] for item in again.items] == [int(entry.locator)]


def test_page_that_answers_502_is_read_in_smaller_pages_from_the_same_cursor(bench: Bench) -> None:
    mixed(bench, 60)

    async def do(source: GitHubSource) -> list[Page[Any]]:
        pages = source.issue_list(repo_id(bench), 50)
        found = [await pages.fetch(ListRequest())]
        bench.world.faults.add("status", re.compile(r"/issues$"), times=2, status=502)
        while found[-1].next_token is not None:
            found.append(await pages.fetch(ListRequest(token=found[-1].next_token)))
        return found

    pages = bench.run(do)
    assert ids(pages) == [row["id"] for row in by_update(bench.forge.truth_issues(REPO))]
    assert [len(page.items) for page in pages][:2] == [50, 25]


def test_one_issue_has_the_same_version_alone_and_in_the_list(bench: Bench) -> None:
    mixed(bench, 3)

    async def do(source: GitHubSource) -> list[Any]:
        pages = await walked(source.issue_list(repo_id(bench)))
        alone = [
            await source.issue_list(repo_id(bench)).fetch_one(str(row["number"]))
            for row in by_update(bench.forge.truth_issues(REPO))
        ]
        return [[item.version for page in found for item in page.items] for found in (pages, alone)]

    listed, alone = bench.run(do)
    assert listed == alone


def test_deleted_and_transferred_issues_are_gone(bench: Bench) -> None:
    bench.forge.create_repo("harborline/other")
    for _ in range(3):
        bench.forge.create_issue("harborline/other")
    deleted, moved = bench.forge.create_issue(REPO), bench.forge.create_issue(REPO)
    bench.forge.delete_issue(REPO, deleted.number)
    bench.forge.transfer_issue(REPO, moved.number, "harborline/other")

    async def do(source: GitHubSource) -> list[Page[Any]]:
        pages = source.issue_list(repo_id(bench))
        return [await pages.fetch_one(str(number)) for number in (deleted.number, moved.number, 9999, bench.number)]

    *gone, there = bench.run(do)
    assert [(len(page.items), len(page.rejected)) for page in gone] == [(0, 0)] * 3
    assert len(there.items) == 1


def test_switched_off_issues_never_look_deleted(bench: Bench) -> None:
    made = bench.forge.create_issue(REPO)
    bench.forge.switch_issues(REPO, on=False)
    for locator in (made.number, bench.number, 9999):
        with pytest.raises(FeatureDisabled):
            fetch_one(bench, GitHubSource.issue_list, locator)
    with pytest.raises(FeatureDisabled):
        bench.run(lambda source: walked(source.issue_list(repo_id(bench))))
    assert len(records(bench.run(lambda source: walked(source.pull_list(repo_id(bench)))))) == 1


def test_issue_of_a_repository_that_became_private_is_not_gone(bench: Bench) -> None:
    made = bench.forge.create_issue(REPO)
    bench.forge.make_private(REPO, "mira")
    for surface in (GitHubSource.issue_list, GitHubSource.pull_list):
        with pytest.raises(RemoteNotFound):
            fetch_one(bench, surface, made.number)


# Pull requests


def test_pull_list_contains_every_pull_request_newest_update_first(bench: Bench) -> None:
    mixed(bench)
    bench.world.advance(60)
    bench.forge.request_review(REPO, bench.number, "mira")
    pages = bench.run(lambda source: walked(source.pull_list(repo_id(bench), 5)))
    truth = sorted(bench.forge.truth_pulls(REPO, bench.url), key=lambda row: (row["updated_at"], row["id"]))[::-1]
    assert payloads(pages) == truth
    for record, row in zip(records(pages), truth, strict=True):
        state = "merged" if row["merged_at"] else {"open": "opened"}.get(row["state"], row["state"])
        assert (record.remote_id, record.iid, record.state) == (row["id"], row["number"], state)
        assert (record.source_branch, record.head_sha) == (row["head"]["ref"], row["head"]["sha"])
        assert (record.target_branch, record.draft) == (row["base"]["ref"], row["draft"])
        assert record.reviewers == tuple(user["login"] for user in row["requested_reviewers"])
    assert "mira" in records(pages)[0].reviewers


def test_pull_list_is_conditional_and_its_items_have_one_version(bench: Bench) -> None:
    mixed(bench, 4)

    async def do(source: GitHubSource) -> list[Any]:
        pages = source.pull_list(repo_id(bench), 3)
        first = await pages.fetch(ListRequest())
        same = await source.pull_list(repo_id(bench), 3).fetch(ListRequest(validator=first.validator))
        alone = [await pages.fetch_one(str(item.record.iid)) for item in first.items]
        bench.world.advance(60)
        bench.forge.comment(REPO, bench.number, "new")
        moved = await pages.fetch(ListRequest(validator=first.validator))
        return [first, same, alone, moved]

    first, same, alone, moved = bench.run(do)
    assert same.not_modified
    assert [item.version for item in first.items] == [item.version for page in alone for item in page.items]
    assert moved.items[0].record.iid == bench.number
    merged = [page.items[0].record for page in alone if page.items[0].record.state == "merged"]
    assert [record.merge_user_username for record in merged] == ["octo"] * len(merged)


# Children


def test_timeline_yields_every_event_that_is_not_a_comment_a_review_or_a_commit(bench: Bench) -> None:
    forge, number = bench.forge, bench.number
    milestone = forge.create_milestone(REPO, "1.0")
    for index in range(60):
        forge.label(REPO, number, f"label-{index}")
        forge.comment(REPO, number, f"see #{number}")
    forge.unlabel(REPO, number, "label-3")
    forge.set_milestone(REPO, number, milestone.number)
    forge.set_milestone(REPO, number, None)
    forge.push(REPO, number, force=True)
    forge.assign(REPO, number, "mira")
    forge.close(REPO, number)
    forge.reopen(REPO, number)
    forge.review(REPO, number, "APPROVED", "fine")
    forge.merge(REPO, number)
    pages = bench.run(lambda source: walked(source.timeline(repo_id(bench), number)))
    truth = [row for row in forge.truth_timeline(REPO, number, bench.url) if row["event"] not in STORED_ELSEWHERE]
    assert payloads(pages) == truth
    labels = ("labeled", "unlabeled", "milestoned", "demilestoned")
    states = ("closed", "reopened", "merged")
    assert {row["event"] for row in truth} == {*labels, *states, "head_ref_force_pushed", "assigned"}
    assert rejected(pages) == []


def test_malformed_timeline_entry_is_rejected_alone(bench: Bench) -> None:
    bench.forge.label(REPO, bench.number, "bug")
    fault = bench.world.faults.add("malformed_item", re.compile(r"/timeline$"), shape="string")
    (page,) = bench.run(lambda source: walked(source.timeline(repo_id(bench), bench.number)))
    assert fault.fired
    assert len(page.rejected) == 1


def test_files_are_read_with_their_old_and_new_paths(bench: Bench) -> None:
    changes: list[FileChange | str] = [
        FileChange("new.py", "added"),
        FileChange("gone.py", "removed"),
        FileChange("after.py", "renamed", previous_filename="before.py"),
        *(f"src/{index}.py" for index in range(120)),
    ]
    number = bench.forge.create_pull(REPO, files=changes).number
    pages = bench.run(lambda source: walked(source.files(repo_id(bench), number)))
    truth = bench.forge.truth_files(REPO, number, bench.url)
    assert payloads(pages) == truth
    found = {record.new_path: record for record in records(pages)}
    assert found["new.py"].new_file
    assert found["gone.py"].deleted_file
    assert (found["after.py"].old_path, found["after.py"].renamed_file) == ("before.py", True)
    assert found["src/7.py"].old_path == "src/7.py"
