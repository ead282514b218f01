"""Servers that are old, long, silent about their pages, or refuse in the middle: the copy is whole all the same."""

from __future__ import annotations

import re

import pytest
from tests.situations.gitlab.bench import (
    DAY,
    PROJECT,
    Bench,
    OddWorld,
    request_of,
    spoil_note,
    start_thread,
    true_bodies,
)
from tests.support.deep import gate_cases

from tidelore_world.server import serve
from tidelore_world.wire import Request

LEAN = ("fetch_resource_events = false", "fetch_mr_closes_issues = false", "fetch_mr_diffs = false")
DISCUSSIONS = "GET /projects/:id/merge_requests/:iid/discussions"
PAGE_HEADERS = {"link", "x-next-page", "x-prev-page", "x-total", "x-total-pages", "x-per-page", "x-page"}


def test_a_locked_merge_request_is_stored_filtered_and_unlocked_again(bench: Bench) -> None:
    forge = bench.world.gitlab
    forge.create_merge_request(PROJECT)
    forge.create_merge_request(PROJECT)
    forge.lock_merge_request(PROJECT, 1)
    bench.mirror()

    def shown(state: str) -> list[int]:
        return [entry["iid"] for entry in bench.robot("list", "mrs", "--state", state).data["items"]]

    assert shown("locked") == [1]
    assert bench.robot("count", "mrs").data["mrs"]["by_state"] == {"locked": 1, "opened": 1}
    bench.world.advance(DAY)
    forge.merge_merge_request(PROJECT, 1, by="ada")
    bench.mirror()
    assert shown("locked") == []
    assert shown("merged") == [1]


def test_an_old_server_without_the_new_field_names_is_read_completely(bench: Bench) -> None:
    forge = bench.world.gitlab
    forge.old_server = True
    forge.create_merge_request(PROJECT, draft=True)
    forge.create_merge_request(PROJECT, draft=False)
    forge.merge_merge_request(PROJECT, 2, by="ada")
    bench.mirror()
    for payload in bench.payloads("merge_request").values():
        assert not {"draft", "detailed_merge_status", "merge_user"} & set(payload)
    held = bench.query("SELECT draft, detailed_merge_status, merge_user_username FROM merge_requests ORDER BY iid")
    assert held == [(1, "cannot_be_merged", None), (0, "cannot_be_merged", "ada")]


def test_a_server_upgrade_to_the_new_field_names_updates_the_copy(bench: Bench) -> None:
    """The payload changes without a bump: the verification of the list finds it."""
    bench.set_up("scrub_share = 0.02")
    forge = bench.world.gitlab
    forge.old_server = True
    forge.create_merge_request(PROJECT, draft=True)
    bench.mirror()
    forge.old_server = False
    bench.world.advance(DAY)
    assert bench.run("scrub", "--all").code == 0
    assert bench.one("SELECT detailed_merge_status FROM merge_requests") == "draft_status"


@pytest.mark.parametrize("same_instant", [False, True], ids=["spread", "one-instant"])
@gate_cases(1)
def test_a_list_of_more_than_a_hundred_pages_is_read_completely(bench: Bench, same_instant: bool) -> None:
    bench.set_up(*LEAN, per_page=1)
    bench.world.gitlab.bulk(PROJECT, merge_requests=104, same_instant=same_instant)
    bench.world.advance(DAY)
    scope = bench.mirror()
    assert scope["pages"] > 100
    assert bench.one("SELECT COUNT(*) FROM merge_requests") == 104
    assert scope["children"]["discussions"]["fetched"] == 104


@pytest.mark.parametrize("stripped", [frozenset(), PAGE_HEADERS], ids=["headers", "no-headers"])
@gate_cases(1)
def test_more_than_a_hundred_pages_of_discussions_of_one_parent_are_read(
    bench: Bench, stripped: frozenset[str]
) -> None:
    bench.set_up(*LEAN, per_page=2)
    bench.world.gitlab.strip_headers = stripped
    bench.world.gitlab.bulk(PROJECT, merge_requests=1, discussions=210, notes=1)
    bench.world.advance(DAY)
    spent = bench.counted(bench.mirror)
    assert spent["discussions"] >= 2 * 105, "a list that shifts is read until two passes agree"
    assert bench.bodies() == true_bodies(request_of(bench.world))
    assert bench.watermark() is not None


@pytest.mark.deep
def test_ten_thousand_items_without_totals_are_all_listed(bench: Bench) -> None:
    """Their children are refused at once, so that the list alone is read."""
    bench.world.gitlab.bulk(PROJECT, issues=10_020)
    bench.world.advance(DAY)
    fault = bench.world.faults.add("status", "GET /projects/:id/issues/:iid/discussions", times=None, status=401)
    outcome = bench.try_mirror("issues")
    assert outcome.code == 4
    assert 1 <= fault.fired <= 10, "a source that rejects us is not asked for every parent"
    assert bench.one("SELECT COUNT(*) FROM issues") == 10_020


@pytest.mark.deep
def test_ten_thousand_discussions_without_totals_are_all_read(bench: Bench) -> None:
    bench.set_up(*LEAN)
    bench.world.gitlab.bulk(PROJECT, merge_requests=1, discussions=10_020, notes=1)
    bench.world.advance(DAY)
    assert bench.mirror()["children"]["discussions"]["seen"]["discussions"] == 10_020
    assert bench.one("SELECT COUNT(*) FROM notes") == 10_020


def test_a_child_list_next_link_to_another_origin_is_never_followed(bench: Bench) -> None:
    bench.set_up(*LEAN, per_page=2)
    bench.world.gitlab.bulk(PROJECT, merge_requests=3, discussions=5, notes=1)
    bench.world.advance(DAY)
    with serve(OddWorld()) as stranger:
        bench.world.gitlab.foreign_next_link = f"{stranger.url}/api/v4/projects/1/merge_requests?page=2"
        bench.mirror()
        assert stranger.world.requests.total() == 0
    assert [bench.bodies(iid) for iid in (1, 2, 3)] == [true_bodies(request_of(bench.world, iid)) for iid in (1, 2, 3)]


def test_a_short_rate_limit_while_reading_children_is_waited_for(bench: Bench) -> None:
    bench.set_up(retries=1)
    bench.world.gitlab.bulk(PROJECT, merge_requests=5, discussions=1, notes=1)
    bench.world.advance(DAY)
    fault = bench.world.faults.add("status", DISCUSSIONS, after=2, status=429, retry_after=1)
    scope = bench.mirror()
    assert fault.fired == 1
    assert scope["children"]["discussions"]["fetched"] == 5
    assert scope["children"]["discussions"]["failed"] == 0


def test_a_long_rate_limit_while_reading_children_stops_with_one_error(bench: Bench) -> None:
    bench.set_up("dependent_concurrency = 1")
    bench.world.gitlab.bulk(PROJECT, merge_requests=5, discussions=1, notes=1)
    bench.world.advance(DAY)
    fault = bench.world.faults.add("status", DISCUSSIONS, after=2, status=429, retry_after=3600)
    outcome = bench.try_mirror()
    assert fault.fired == 1
    assert outcome.code == 5
    assert outcome.error["code"] == "RATE_LIMITED"
    mine = "child_sync WHERE parent_kind = 'merge_requests' AND kind = 'discussions'"
    synced = bench.column(f"SELECT synced_for IS NOT NULL FROM {mine} ORDER BY parent_id")
    assert synced.count(True) == 2, "what was read before stays"
    assert bench.column(f"SELECT DISTINCT attempts FROM {mine}") == [0], "no parent is to blame"
    bench.query("DELETE FROM source_pauses")
    assert bench.mirror()["children"]["discussions"]["fetched"] == 3


def test_credentials_rejected_while_reading_children_stop_with_one_error(bench: Bench) -> None:
    bench.set_up("dependent_concurrency = 1")
    bench.world.gitlab.bulk(PROJECT, merge_requests=5, discussions=1, notes=1)
    bench.world.advance(DAY)
    fault = bench.world.faults.add("status", DISCUSSIONS, times=None, after=2, status=401)
    outcome = bench.try_mirror()
    assert outcome.code == 4
    assert outcome.error["code"] == "CREDENTIALS_REJECTED"
    assert fault.fired == 1, "asked once, and no more"
    assert [scope["error"]["code"] for scope in outcome.document["data"]["scopes"]] == ["CREDENTIALS_REJECTED"]
    assert bench.query("SELECT status FROM sync_runs") == [("failed",)]
    bench.world.faults.clear()
    assert bench.mirror()["children"]["discussions"]["fetched"] == 3


def test_a_parent_that_is_not_found_does_not_stop_the_others(bench: Bench) -> None:
    bench.world.gitlab.bulk(PROJECT, merge_requests=3, discussions=1, notes=1)
    bench.world.advance(DAY)
    fault = bench.world.faults.add("status", re.compile(r"/merge_requests/2/discussions"), status=404)
    outcome = bench.try_mirror()
    assert fault.fired == 1
    assert outcome.code == 7
    assert bench.watermark(2) is None
    assert [bench.bodies(iid) for iid in (1, 3)] == [true_bodies(request_of(bench.world, iid)) for iid in (1, 3)]
    assert bench.query("SELECT status, warnings_count FROM sync_runs") == [("partial", 1)]
    assert bench.mirror()["children"]["discussions"]["fetched"] == 1


@pytest.mark.parametrize("child", ["discussions", "diffs"])
def test_a_parent_deleted_between_its_list_and_its_children_is_tombstoned(bench: Bench, child: str) -> None:
    forge = bench.world.gitlab
    forge.bulk(PROJECT, merge_requests=3, discussions=1, notes=1, files=1)
    bench.world.advance(DAY)
    deleted: list[str] = []

    def delete(request: Request) -> None:
        if request.path.endswith(f"/2/{child}") and not deleted:
            forge.delete_merge_request(PROJECT, 2)
            deleted.append(request.path)

    bench.world.before_request.append(delete)
    scope = bench.mirror()
    assert len(deleted) == 1
    assert scope["gone"] == 1
    assert bench.column("SELECT iid FROM merge_requests WHERE deleted_at IS NOT NULL") == [2]
    assert [bench.bodies(iid) for iid in (1, 3)] == [true_bodies(request_of(bench.world, iid)) for iid in (1, 3)]
    assert bench.counted(bench.mirror) == {"merge_requests": 1}


def test_an_unreadable_note_quarantines_its_discussion_and_nothing_else(both: Bench) -> None:
    bench, forge = both, both.world.gitlab
    forge.bulk(PROJECT, merge_requests=3, discussions=2, notes=2, files=1)
    forge.add_note(request_of(bench.world, 2), "unreadable", thread=True)
    bench.world.advance(DAY)
    home = request_of(bench.world, 2).discussions[-1]
    rewrite = bench.world.rewrite(r"/merge_requests/\d+/discussions$", spoil_note("unreadable"))
    scope = bench.mirror()
    assert rewrite.fired == 1
    assert scope["children"]["discussions"]["quarantined"] == 1
    assert scope["children"]["diffs"]["fetched"] == 3, "its other children are read"
    assert [bench.watermark(iid) is None for iid in (1, 2, 3)] == [False, True, False]
    (entry,) = bench.robot("sync-status").data["quarantine"]
    assert entry["remote_key"] == home.id
    assert entry["surface"] == "gitlab.merge_requests.discussions"
    assert entry["scope"].endswith("/2")
    assert "created_at" in entry["error"]
    assert "notes[0]" in entry["error"] or "note " in entry["error"]
    assert home.id in bench.run("sync-status").out
    bench.world.rewrites.clear()
    bench.mirror()
    assert bench.robot("sync-status").data["quarantine"] == []
    assert bench.bodies(2) == true_bodies(request_of(bench.world, 2))
    assert bench.watermark(2) is not None


def test_a_parent_that_cannot_be_read_is_requested_once_per_run(bench: Bench) -> None:
    """Verification reads what it finds at once; what failed in the same run is not tried a second time."""
    bench.set_up("scrub_share = 0.02")
    found = bench.world.gitlab.create_merge_request(PROJECT)
    start_thread(bench.world, found, "unreadable")
    bench.world.advance(DAY)
    rewrite = bench.world.rewrite(r"/merge_requests/\d+/discussions$", spoil_note("unreadable"))
    for runs in range(1, 4):
        bench.mirror()
        assert rewrite.fired == runs


def test_quarantined_children_are_removed_with_their_deleted_parent(bench: Bench) -> None:
    bench.set_up("scrub_share = 0.02")
    found = bench.world.gitlab.create_merge_request(PROJECT)
    start_thread(bench.world, found, "unreadable")
    bench.world.advance(DAY)
    rewrite = bench.world.rewrite(r"/merge_requests/\d+/discussions$", spoil_note("unreadable"))
    bench.mirror()
    assert rewrite.fired == 1
    assert len(bench.robot("sync-status").data["quarantine"]) == 1
    bench.world.gitlab.delete_merge_request(PROJECT, 1)
    bench.run("scrub", "--all")
    assert bench.one("SELECT deleted_at IS NOT NULL FROM merge_requests")
    assert bench.robot("sync-status").data["quarantine"] == []
