"""The five situations in which mirrors lose or waste something, each by name, over the whole program."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.properties.audit import compare, journal
from tests.properties.effort import is_deep
from tests.properties.inprocess import BASE_URL, PROJECT, House, Reaper
from tests.properties.progress import asked_for, completed
from tests.support.deep import gate_cases

from tidelore.engine.crashpoint import Seam
from tidelore_world.wire import Request

LIST = f"/api/v4/projects/{PROJECT}/issues"


def on_list_request(house: House, number: int, act: object) -> list[Request]:
    """Call `act` just before the n-th list request (from 1) of issues; return the list requests as they come."""
    seen: list[Request] = []

    def hook(request: Request) -> None:
        if request.path.endswith("/issues"):
            seen.append(request)
            if len(seen) == number:
                act()  # type: ignore[operator]

    house.world.before_request.append(hook)
    return seen


def fill(house: House, count: int, *, seconds: float = 10.0) -> None:
    """Issues at instants of their own."""
    for number in range(count):
        house.world.gitlab.create_issue(PROJECT, title=f"issue {number}", description="as it was")
        house.world.advance(seconds)


@pytest.mark.parametrize("change", ["edit", "delete"])
def test_an_item_edited_during_the_walk_is_not_lost(tmp_path: Path, change: str) -> None:
    """An item of page 1 leaves it while page 2 is on its way: the first of page 2 slides into page 1."""
    house = House(tmp_path, per_page=5)
    fill(house, 20)
    forge = house.world.gitlab

    def shift() -> None:
        if change == "edit":
            forge.edit_issue(PROJECT, 2, description="edited on the way")
        else:
            forge.delete_issue(PROJECT, 2)

    requests = on_list_request(house, 2, shift)
    house.run(scrub_budget=0)
    assert len(requests) > 2
    compare(house)


@pytest.mark.parametrize("change", ["edit", "delete"])
def test_an_item_shifted_inside_one_shared_instant_is_not_lost(tmp_path: Path, change: str) -> None:
    """Where all pages share one instant there is nothing to re-anchor at: the window is read again instead."""
    house = House(tmp_path, per_page=5)
    house.world.gitlab.bulk(PROJECT, issues=20, same_instant=True)
    forge = house.world.gitlab

    def shift() -> None:
        if change == "edit":
            forge.edit_issue(PROJECT, 18, description="edited on the way")
        else:
            forge.delete_issue(PROJECT, 18)

    on_list_request(house, 2, shift)
    house.run(scrub_budget=0)
    compare(house)


def test_a_lower_id_edited_in_the_watermarks_own_second_is_ingested(tmp_path: Path) -> None:
    house = House(tmp_path)
    fill(house, 3)
    world = house.world
    mark_us = world.clock.now_us + 600_000
    world.gitlab.edit_issue(PROJECT, 3, description="moves the watermark", at_us=mark_us)
    world.advance(1)
    house.run()
    for lower, at_us in ((1, mark_us), (2, mark_us - 500_000)):
        world.gitlab.edit_issue(PROJECT, lower, description=f"edited in the same second {lower}", at_us=at_us)
    house.run(scrub_budget=0)
    compare(house)


def test_an_edit_that_keeps_its_own_millisecond_is_ingested(tmp_path: Path) -> None:
    house = House(tmp_path)
    fill(house, 3)
    issue = house.world.gitlab.issue(PROJECT, 3)
    with journal() as kept:
        house.run()
        house.world.gitlab.edit_issue(PROJECT, 3, title="again", at_us=issue.updated_at_us)
        house.run(scrub_budget=0)
        compare(house, children=False)
        kept.check()


@pytest.mark.deep
def test_250_items_sharing_one_instant_cost_at_most_4_requests_when_nothing_changed(tmp_path: Path) -> None:
    """Three pages, and one request of verification: all requests of the run are counted."""
    house = House(tmp_path)
    fill(house, 250)
    world = house.world
    for number in range(1, 251):
        world.gitlab.edit_issue(PROJECT, number, description="moved by a bulk edit")
    world.advance(3600)
    house.run(resources=("issues",))
    compare(house)
    for _ in range(4):
        assert house.count_requests(lambda: house.run(resources=("issues",))) <= 4
    compare(house)


@pytest.mark.deep
def test_250_items_created_in_one_instant_cost_at_most_as_many_requests(tmp_path: Path) -> None:
    """Verification spends its one request too, though it needs three strides for such an instant."""
    house = House(tmp_path)
    house.world.gitlab.bulk(PROJECT, issues=250, same_instant=True)
    house.world.advance(3600)
    house.run(resources=("issues",))
    for _ in range(8):
        assert house.count_requests(lambda: house.run(resources=("issues",))) <= 4
    compare(house)


def test_250_items_sharing_one_instant_do_not_hide_a_change_among_them(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.world.gitlab.bulk(PROJECT, issues=250, same_instant=True)
    house.run(scrub_budget=0)
    issue = house.world.gitlab.issue(PROJECT, 7)
    house.world.gitlab.edit_issue(PROJECT, 7, title="changed in place", at_us=issue.updated_at_us)
    house.run(scrub_budget=0)
    compare(house, children=False)


@pytest.mark.parametrize("same_instant", [False, True])
@gate_cases(1)
def test_after_a_kill_half_way_at_most_two_pages_per_scope_are_read_twice(tmp_path: Path, same_instant: bool) -> None:
    whole = House(tmp_path / "whole", per_page=10)
    broken = House(tmp_path / "broken", per_page=10)
    for house in (whole, broken):
        house.world.gitlab.bulk(PROJECT, issues=80, merge_requests=80, same_instant=same_instant)
        house.world.advance(3600)
    cost = whole.count_list_requests(lambda: whole.run(scrub_budget=0))
    visits = Reaper()
    House(tmp_path / "probe", whole.world, per_page=10).run(visits, scrub_budget=0)
    middle = visits.visits[: len(visits.visits) - visits.visits[::-1].index(Seam.SCOPE_DONE)]
    spent = broken.count_list_requests(lambda: broken.run(Reaper(len(middle) // 2), scrub_budget=0))
    assert 0 < spent < cost
    rest = broken.count_list_requests(lambda: broken.run(scrub_budget=0))
    # Of each list, a page that was being stored and one that was fetched ahead.
    assert spent + rest <= cost + 2 * 2
    compare(broken)


def test_a_crash_at_any_point_costs_at_most_two_pages_per_scope(tmp_path: Path) -> None:
    """And the children of the parents that were in flight; what was complete before the death is not read again."""
    house = House(tmp_path / "probe", per_page=2, concurrency=2)
    house.world.gitlab.bulk(PROJECT, issues=5, merge_requests=2, discussions=1, notes=2, events=1, files=1)
    house.world.advance(3600)
    probe = Reaper()
    lists = house.count_list_requests(lambda: house.run(probe, scrub_budget=0))
    children = len(asked_for(house.world.log))
    # A stride that is no divisor of the four seams of a commit: each of them has its turn.
    for place, seam in list(enumerate(probe.visits))[:: 1 if is_deep() else 3]:
        again = House(tmp_path / str(place), house.world, per_page=2, concurrency=2)
        again.world.log.clear()
        asked = again.count_list_requests(lambda: again.run(Reaper(place), scrub_budget=0))  # noqa: B023
        before = asked_for(again.world.log)
        with again.database() as database:
            whole = completed(database)
        again.world.log.clear()
        asked += again.count_list_requests(lambda: again.run(scrub_budget=0))  # noqa: B023
        after = asked_for(again.world.log)
        assert not whole.intersection(after), (place, seam)
        # A death between the answer about the project and its commit costs that question again.
        allowed = lists + 2 * 2 + (seam is Seam.PROJECT_RESOLVED)
        # What was finished before the death is asked once more, as in any run.
        finished = Seam.SCOPE_DONE not in probe.visits[place:]
        assert asked <= allowed + finished * 2, (place, seam)
        # Only what was being read, or waited for its commit, is read twice.
        in_flight = [task for task in before if task not in whole]
        assert len(before) + len(after) <= children + len(in_flight), (place, seam)
        compare(again)


def test_a_foreign_origin_next_link_is_refused_and_loses_nothing(tmp_path: Path) -> None:
    house = House(tmp_path, per_page=5)
    fill(house, 12)
    house.world.gitlab.bulk(PROJECT, merge_requests=12, same_instant=True)
    house.world.gitlab.foreign_next_link = "http://attacker.example/api/v4/projects/1/issues?page=2"
    house.run()
    assert {origin for origin, _ in house.transport.asked} == {BASE_URL}
    assert all("private-token" in headers for _, headers in house.transport.asked)
    compare(house)


def test_the_token_is_sent_to_no_other_origin_when_headers_are_missing(tmp_path: Path) -> None:
    house = House(tmp_path, per_page=4)
    house.world.gitlab.bulk(PROJECT, issues=13, same_instant=True)
    house.world.gitlab.foreign_next_link = "http://attacker.example/"
    house.world.gitlab.strip_headers = {"x-next-page", "x-total-pages", "x-total"}
    house.run()
    assert {origin for origin, _ in house.transport.asked} == {BASE_URL}
    compare(house)


@pytest.mark.parametrize("same_instant", [False, True])
def test_a_keyset_list_whose_last_page_is_full_has_an_end(tmp_path: Path, same_instant: bool) -> None:
    """Its last page has no link and heeds no page number: to count pages there would never end."""
    house = House(tmp_path, per_page=5, keyset=True)
    house.world.gitlab.bulk(PROJECT, issues=10, merge_requests=10, same_instant=same_instant)
    assert house.count_list_requests(lambda: house.run(scrub_budget=0)) <= 12
    compare(house)


def test_a_new_page_behind_a_full_one_is_not_hidden_by_its_etag(tmp_path: Path) -> None:
    """An ETag is made of one page's bytes, and those do not change when a page appears behind it."""
    house = House(tmp_path, per_page=5)
    house.world.gitlab.bulk(PROJECT, issues=5, same_instant=True)
    for _ in range(3):
        house.run(scrub_budget=0)
    house.world.gitlab.create_issue(PROJECT, title="behind the full page")
    house.run(scrub_budget=0)
    compare(house)
