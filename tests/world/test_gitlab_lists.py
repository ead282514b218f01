"""Lists of issues and merge requests: order, filters, offset and keyset paging, headers."""

from __future__ import annotations

import json
import random
import time

import pytest
from tests.world.asking import PATH, PROJECT, ask, get, iids, links, project_world, walk

from tidelore_world.clock import iso_millis
from tidelore_world.world import World

SECOND = 1_000_000


def _world_with(count: int) -> World:
    world = project_world()
    for _ in range(count):
        world.advance(10)
        world.gitlab.create_issue(PATH)
    return world


def test_lists_are_newest_created_first_with_twenty_per_page_by_default() -> None:
    world = _world_with(25)
    response = ask(world, f"{PROJECT}/issues")
    assert [row["iid"] for row in json.loads(response.body)] == list(range(25, 5, -1))
    assert response.headers["x-per-page"] == "20"
    world.gitlab.edit_issue(PATH, 1)
    assert iids(world, f"{PROJECT}/issues?page=2") == [5, 4, 3, 2, 1]


def test_per_page_is_limited_to_one_hundred() -> None:
    world = project_world()
    world.gitlab.bulk(PATH, issues=150)
    response = ask(world, f"{PROJECT}/issues?per_page=500")
    assert len(json.loads(response.body)) == 100
    assert response.headers["x-per-page"] == "100"


@pytest.mark.parametrize(
    "query", ["per_page=0", "per_page=many", "page=x", "updated_after=soon", "order_by=size", "sort=up", "scope=us"]
)
def test_invalid_parameters_are_answered_with_400(query: str) -> None:
    response = ask(_world_with(1), f"{PROJECT}/issues?{query}")
    assert response.status == 400
    assert query.partition("=")[0] in json.loads(response.body)["error"]


def test_locked_is_a_state_but_not_a_filter_value() -> None:
    world = project_world()
    for _ in range(3):
        world.gitlab.create_merge_request(PATH)
    world.gitlab.lock_merge_request(PATH, 1)
    world.gitlab.merge_merge_request(PATH, 2)
    assert ask(world, f"{PROJECT}/merge_requests?state=locked").status == 400
    assert {row["iid"]: row["state"] for row in get(world, f"{PROJECT}/merge_requests?state=all")} == {
        1: "locked",
        2: "merged",
        3: "opened",
    }
    assert iids(world, f"{PROJECT}/merge_requests?state=merged") == [2]
    assert iids(world, f"{PROJECT}/merge_requests?state=opened") == [3]
    assert ask(world, f"{PROJECT}/issues?state=merged").status == 400


def test_state_filter_follows_a_change() -> None:
    world = _world_with(3)
    assert iids(world, f"{PROJECT}/issues?state=opened") == [3, 2, 1]
    world.gitlab.close_issue(PATH, 2)
    assert iids(world, f"{PROJECT}/issues?state=opened") == [3, 1]
    assert iids(world, f"{PROJECT}/issues?state=closed") == [2]
    world.gitlab.reopen_issue(PATH, 2)
    assert iids(world, f"{PROJECT}/issues?state=closed") == []


def test_updated_after_is_inclusive_and_compares_microseconds() -> None:
    world = project_world()
    at = world.clock.now_us
    for offset in (122_999, 123_000, 123_456, 124_000):
        world.gitlab.create_issue(PATH, at_us=at + offset)
    ascending = f"{PROJECT}/issues?order_by=updated_at&sort=asc"
    assert iids(world, f"{ascending}&updated_after=2026-03-02T09:00:00.123Z") == [2, 3, 4]
    assert iids(world, f"{ascending}&updated_after=2026-03-02T09:00:00.123456Z") == [3, 4]
    assert iids(world, f"{ascending}&updated_before=2026-03-02T09:00:00.123456Z") == [1, 2, 3]
    both = "updated_after=2026-03-02T09:00:00.123Z&updated_before=2026-03-02T09:00:00.1235Z"
    assert iids(world, f"{ascending}&{both}") == [2, 3]
    assert iids(world, f"{PROJECT}/issues?order_by=updated_at&sort=desc&{both}") == [3, 2]
    assert iids(world, f"{PROJECT}/issues?order_by=created_at&sort=asc&{both}") == [2, 3]


def test_rows_keep_microseconds_and_json_shows_truncated_milliseconds() -> None:
    world = project_world()
    world.gitlab.create_issue(PATH, at_us=world.clock.now_us + 123_999)
    row = get(world, f"{PROJECT}/issues/1")
    assert row["updated_at"] == row["created_at"] == "2026-03-02T09:00:00.123Z"


def test_created_after_filters_by_creation() -> None:
    world = _world_with(4)
    world.advance(100)
    world.gitlab.edit_issue(PATH, 1)
    third = iso_millis(world.gitlab.issue(PATH, 3).created_at_us)
    assert iids(world, f"{PROJECT}/issues?created_after={third}") == [4, 3]
    assert iids(world, f"{PROJECT}/issues?created_after={third}&order_by=updated_at&sort=asc") == [3, 4]


def test_ties_are_ordered_by_id_newest_first_unless_set_to_follow_the_sort() -> None:
    world = project_world()
    for _ in range(4):
        world.gitlab.create_issue(PATH)
    ascending, descending = (f"{PROJECT}/issues?order_by=updated_at&sort={sort}" for sort in ("asc", "desc"))
    assert iids(world, ascending) == iids(world, descending) == [4, 3, 2, 1]
    world.gitlab.ties_follow_sort = True
    assert iids(world, ascending) == [1, 2, 3, 4]
    assert iids(world, descending) == [4, 3, 2, 1]


def test_the_iids_parameter_selects_items() -> None:
    world = _world_with(5)
    assert iids(world, f"{PROJECT}/issues?iids[]=2&iids[]=5&iids[]=99") == [5, 2]


def test_scope_created_by_me_shows_only_the_callers_items() -> None:
    world = _world_with(2)
    mine = world.gitlab.create_issue(PATH, author=world.gitlab.caller)
    others = [issue for issue in world.gitlab.project(PATH).issues if issue.author is not world.gitlab.caller]
    assert mine.iid in iids(world, f"{PROJECT}/issues?scope=created_by_me")
    assert not {issue.iid for issue in others} & set(iids(world, f"{PROJECT}/issues?scope=created_by_me"))


def test_pagination_headers_and_links_use_the_callers_origin() -> None:
    world = _world_with(5)
    response = ask(world, f"{PROJECT}/issues?per_page=2&page=2&sort=asc", host="127.0.0.1:8123")
    shown = {name: value for name, value in response.headers.items() if name.startswith("x-")}
    assert shown == {
        "x-page": "2",
        "x-per-page": "2",
        "x-next-page": "3",
        "x-prev-page": "1",
        "x-total": "5",
        "x-total-pages": "3",
    }
    found = links(response)
    assert set(found) == {"first", "prev", "next", "last"}
    assert all(url.startswith(f"http://127.0.0.1:8123{PROJECT}/issues?") for url in found.values())
    assert all("sort=asc" in url for url in found.values())
    last = ask(world, found["last"])
    assert last.headers["x-next-page"] == ""
    assert "next" not in links(last)


def test_totals_and_last_link_are_omitted_above_ten_thousand_rows() -> None:
    world = project_world()
    world.gitlab.bulk(PATH, issues=10_000)
    exact = ask(world, f"{PROJECT}/issues?per_page=1")
    assert exact.headers["x-total"] == "10000"
    assert "last" in links(exact)
    world.gitlab.create_issue(PATH)
    above = ask(world, f"{PROJECT}/issues?per_page=1")
    assert "x-total" not in above.headers
    assert "x-total-pages" not in above.headers
    assert above.headers["x-next-page"] == "2"
    assert set(links(above)) == {"first", "next"}


def test_pagination_headers_can_be_stripped() -> None:
    world = _world_with(3)
    world.gitlab.strip_headers = {"link", "x-next-page"}
    response = ask(world, f"{PROJECT}/issues?per_page=2")
    assert "link" not in response.headers
    assert "x-next-page" not in response.headers
    assert response.headers["x-page"] == "1"


def test_the_next_link_can_point_to_another_origin() -> None:
    world = _world_with(3)
    world.gitlab.foreign_next_link = "http://localhost:1/api/v4/steal"
    assert links(ask(world, f"{PROJECT}/issues?per_page=2"))["next"] == "http://localhost:1/api/v4/steal"
    assert "next" not in links(ask(world, f"{PROJECT}/issues?per_page=2&page=2"))


def test_offset_pages_shift_when_an_item_is_edited_during_the_walk() -> None:
    world = _world_with(4)
    address = f"{PROJECT}/issues?order_by=updated_at&sort=asc&per_page=2"
    first = iids(world, address)
    world.advance(10)
    world.gitlab.edit_issue(PATH, 1)
    second = iids(world, f"{address}&page=2")
    assert (first, second) == ([1, 2], [4, 1])


def test_keyset_pages_of_issues_do_not_shift() -> None:
    world = _world_with(5)
    address = f"{PROJECT}/issues?order_by=updated_at&sort=asc&per_page=2&pagination=keyset"
    first = ask(world, address)
    assert "x-page" not in first.headers
    assert set(links(first)) == {"next"}
    world.advance(10)
    world.gitlab.edit_issue(PATH, 1)
    assert iids(world, links(first)["next"]) == [3, 4]
    assert [row["iid"] for row in walk(world, address)] == [2, 3, 4, 5, 1]


def test_a_keyset_walk_reads_rows_of_one_instant_once_in_both_directions() -> None:
    world = project_world()
    world.gitlab.bulk(PATH, issues=25, same_instant=True)
    for sort in ("asc", "desc"):
        rows = walk(world, f"{PROJECT}/issues?order_by=updated_at&sort={sort}&per_page=10&pagination=keyset")
        assert sorted(row["iid"] for row in rows) == list(range(1, 26))


def test_keyset_pagination_is_refused_for_merge_requests_and_when_disabled() -> None:
    world = _world_with(1)
    assert ask(world, f"{PROJECT}/merge_requests?pagination=keyset").status == 405
    world.gitlab.keyset_issues = False
    assert ask(world, f"{PROJECT}/issues?pagination=keyset").status == 405


def test_an_invalid_keyset_cursor_is_answered_with_400() -> None:
    assert ask(_world_with(1), f"{PROJECT}/issues?pagination=keyset&cursor=%21%21").status == 400


def test_the_etag_changes_with_the_rows_and_a_304_has_no_body() -> None:
    world = _world_with(3)
    address = f"{PROJECT}/issues?per_page=2"
    etag = ask(world, address).headers["etag"]
    again = ask(world, address, if_none_match=etag)
    assert (again.status, again.body) == (304, b"")
    assert ask(world, f"{address}&page=2", if_none_match=etag).status == 200
    world.gitlab.edit_issue(PATH, 3)
    assert ask(world, address, if_none_match=etag).status == 200


def test_a_deleted_item_is_not_listed_and_gives_404() -> None:
    world = _world_with(3)
    assert iids(world, f"{PROJECT}/issues?order_by=updated_at") == [3, 2, 1]
    world.gitlab.delete_issue(PATH, 2)
    assert iids(world, f"{PROJECT}/issues") == iids(world, f"{PROJECT}/issues?order_by=updated_at") == [3, 1]
    assert ask(world, f"{PROJECT}/issues/2").status == 404
    assert ask(world, f"{PROJECT}/issues/2/discussions").status == 404
    world.gitlab.create_issue(PATH)
    assert iids(world, f"{PROJECT}/issues") == [4, 3, 1]


def test_a_walk_over_random_changes_shows_exactly_the_truth() -> None:
    world = project_world()
    world.gitlab.bulk(PATH, issues=60, merge_requests=40)
    for seed in range(5):
        world.gitlab.change(30, random.Random(seed), advance=world.advance)
        for order in ("created_at", "updated_at"):
            for sort in ("asc", "desc"):
                rows = walk(world, f"{PROJECT}/issues?order_by={order}&sort={sort}&per_page=7")
                assert sorted(rows, key=lambda row: row["iid"]) == world.gitlab.truth_issues(PATH)
                stamps = [row[order] for row in rows]
                assert stamps == sorted(stamps, reverse=sort == "desc")
                rows = walk(world, f"{PROJECT}/merge_requests?order_by={order}&sort={sort}&per_page=7")
                assert sorted(rows, key=lambda row: row["iid"]) == world.gitlab.truth_merge_requests(PATH)


@pytest.mark.deep
def test_one_page_of_a_hundred_thousand_issues_is_rendered_fast() -> None:
    world = project_world()
    world.gitlab.bulk(PATH, issues=100_000)
    address = f"{PROJECT}/issues?order_by=updated_at&sort=asc&per_page=1&page="
    small = project_world()
    small.gitlab.bulk(PATH, issues=1_000)

    def cost(there: World, page: int) -> float:
        best = float("inf")
        for _ in range(5):
            there.gitlab.edit_issue(PATH, 17)
            begin = time.perf_counter()
            ask(there, f"{address}{page}")
            best = min(best, time.perf_counter() - begin)
        return best

    ask(world, f"{address}1")
    ask(small, f"{address}1")
    assert cost(world, 90_000) < 10 * cost(small, 900) + 0.002
