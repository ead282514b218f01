"""The commands about single items and about the whole copy: surgical sync, scrub and audit of mirrored repositories."""

from __future__ import annotations

import asyncio
import re
from collections import Counter

import pytest
from tests.situations.github.house import REPO, GitHubHouse
from tests.situations.github.test_comments import later
from tests.situations.github.test_features import begin, live

from tidelore.app.mirroring import scrub, surgical_sync
from tidelore.core.errors import TideloreError
from tidelore.core.references import Kind
from tidelore.sync.report import SurgicalReport
from tidelore.sync.surgical_preflight import SurgicalFlags, read_asked

STATES = "SELECT resolved, resolved_by FROM discussions WHERE resolvable = 1 ORDER BY id"

QUERIES = 2
"""The kinds of children of one item are read side by side, so two of those read by a query may be asked for apart."""


def refresh(house: GitHubHouse, *items: tuple[Kind, str]) -> SurgicalReport:
    """Sync these items only."""
    report = SurgicalReport()
    asked = [read_asked(text, kind) for kind, text in items]
    flags = SurgicalFlags(no_docs=True, no_embed=True, project=REPO)
    asyncio.run(surgical_sync(house.app(), asked, flags, report, force=False))
    return report


@pytest.mark.parametrize("text", ["2", "#2", f"{REPO}#2"])
def test_a_named_issue_is_refreshed_with_everything_below_it(both: GitHubHouse, text: str) -> None:
    begin(both)
    both.forge.comment(REPO, 2, "just said")
    both.forge.close(REPO, 2)
    both.forge.comment(REPO, 1, "not asked for")
    both.world.advance(60)
    report = refresh(both, ("issue", text))
    assert report.completion_status == "succeeded"
    assert [found for found in both.differences() if " 2:" in found] == []
    bodies = both.column("SELECT body FROM notes")
    assert "just said" in bodies
    assert "not asked for" not in bodies
    both.sync()
    assert both.differences() == []


@pytest.mark.parametrize("text", ["4", f"{REPO}#4"])
def test_a_named_pull_request_is_refreshed_with_everything_below_it(both: GitHubHouse, text: str) -> None:
    begin(both)
    forge = both.forge
    root = forge.review_comment(REPO, 4, "just said on a line")
    forge.resolve_thread(REPO, forge.thread_of(REPO, root.id).id, "mira")
    forge.comment(REPO, 4, "just said")
    forge.review(REPO, 4, "APPROVED", "fine")
    forge.push(REPO, 4)
    both.world.advance(60)
    report = refresh(both, ("mr", text))
    assert report.completion_status == "succeeded"
    both.sync()
    assert both.differences() == []


def test_a_pull_request_that_was_never_mirrored_is_stored_with_the_states_of_its_threads(both: GitHubHouse) -> None:
    forge = both.forge
    forge.create_pull(REPO)
    for _ in range(3):
        root = forge.review_comment(REPO, 1, "on a line")
        forge.resolve_thread(REPO, forge.thread_of(REPO, root.id).id, "mira")
    both.world.advance(60)
    # The comments arrive after the states of their threads.
    both.world.faults.add("status", re.compile(r"/1/comments$"), 2, status=502)
    refresh(both, ("mr", "1"))
    assert both.rows(STATES) == [(1, "mira")] * 3
    both.sync()
    assert both.differences() == []


def test_a_refreshed_item_costs_only_its_own_requests(house: GitHubHouse) -> None:
    begin(house)
    spent = house.requests(lambda: refresh(house, ("mr", "4")))
    repo = "GET /repos/:owner/:repo"
    assert spent == Counter(
        {
            f"{repo}/pulls/:n": 1,
            f"{repo}/issues/:n/comments": 1,
            f"{repo}/pulls/:n/comments": 1,
            f"{repo}/issues/:n/timeline": 1,
            f"{repo}/pulls/:n/files": 1,
            "POST /graphql": QUERIES,
        }
    )


def test_a_pull_request_named_as_an_issue_is_refused_with_the_right_flag(house: GitHubHouse) -> None:
    begin(house)
    with pytest.raises(TideloreError) as refused:
        refresh(house, ("issue", "4"))
    assert "--mr 4" in str(refused.value) + str(refused.value.details)
    assert live(house) == (3, 2, 7)


@pytest.mark.parametrize("leaves", ["deleted", "transferred", "hidden"])
def test_a_named_issue_that_left_changes_nothing(house: GitHubHouse, leaves: str) -> None:
    begin(house)
    house.forge.create_repo("octo/elsewhere")
    if leaves == "deleted":
        house.forge.delete_issue(REPO, 2)
    elif leaves == "transferred":
        house.forge.transfer_issue(REPO, 2, "octo/elsewhere")
    else:
        house.forge.make_private(REPO, "somebody")
    with pytest.raises(TideloreError):
        refresh(house, ("issue", "2"))
    assert live(house) == (3, 2, 7)


def test_scrub_finds_what_no_list_shows(both: GitHubHouse) -> None:
    begin(both)
    forge = both.forge
    thread = forge.thread_of(REPO, forge.truth_review_comments(REPO, 5)[0]["id"])
    forge.resolve_thread(REPO, thread.id, "mira")
    forge.delete_issue(REPO, 3)
    forge.delete_comment(forge.truth_comments(REPO, 4)[0]["id"], kind="comment")
    forge.rename_label(REPO, "bug", "defect")
    forge.react(REPO, 1)
    both.world.advance(120)
    report = asyncio.run(scrub(both.app(), None, 200))
    assert [scope.error for scope in report.scrubbed if scope.error is not None] == []
    asyncio.run(scrub(both.app(), REPO, 200))
    assert both.differences() == []
    assert both.audit().differences == []


def test_an_audit_of_a_true_copy_finds_nothing_and_writes_nothing(both: GitHubHouse) -> None:
    begin(both)
    both.forge.review(REPO, 4, "APPROVED", "fine")
    later(both)
    runs = both.column("SELECT COUNT(*) FROM sync_runs")
    report = both.audit()
    assert report.differences == []
    assert report.unread == []
    assert both.column("SELECT COUNT(*) FROM sync_runs") == runs


def test_an_audit_names_every_difference(both: GitHubHouse) -> None:
    begin(both)
    forge = both.forge
    forge.create_issue(REPO, "unknown here", "text")
    forge.delete_issue(REPO, 3)
    forge.comment(REPO, 1, "unknown here")
    forge.edit_comment(forge.truth_comments(REPO, 2)[0]["id"], "edited", kind="comment")
    forge.delete_comment(forge.truth_review_comments(REPO, 4)[0]["id"], kind="review_comment")
    thread = forge.thread_of(REPO, forge.truth_review_comments(REPO, 5)[0]["id"])
    forge.resolve_thread(REPO, thread.id, "mira")
    found = {(one.verdict, one.kind, one.iid) for one in both.audit().differences}
    assert {
        ("missing", "issues", 6),
        ("extra", "issues", 3),
        ("different", "issues", 1),
        ("missing", "comments", 1),
        ("different", "comments", 2),
        ("extra", "comments", 4),
        ("extra", "threads", 4),
        ("different", "threads", 5),
    } <= found
    both.verify()
    assert both.audit().differences == []


def test_an_audit_without_graphql_reports_what_it_could_not_compare(house: GitHubHouse) -> None:
    begin(house)
    house.forge.settings.graphql_limit = 0
    report = house.audit()
    assert report.differences == []
    assert {entry.kind for entry in report.unread} == {"threads", "closes_issues", "reviews"}
