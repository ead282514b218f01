"""Runs that are killed or run out of time at any point: nothing is lost, nothing is stored twice, and they end."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.properties.inprocess import Reaper, scratch
from tests.situations.github.house import REPO, GitHubHouse
from tests.situations.github.test_comments import BetweenTwoLists
from tests.situations.github.test_faults import LISTS, change_everything
from tests.situations.github.test_features import begin
from tests.support.deep import gate_cases

from tidelore.engine.crashpoint import Seam
from tidelore_world.wire import Request, Response

STRIDE = 11
"""How many visits of seams lie between two kills in the ordinary gate."""
SLICES = 60
"""More slices than any of these runs needs."""


def build(folder: Path) -> GitHubHouse:
    """A mirrored repository, read in pages of two, in which something changed in every list."""
    house = GitHubHouse(folder, http={"per_page": 2})
    begin(house)
    change_everything(house)
    house.world.advance(60)
    return house


def check_kill(visit: int) -> bool:
    """Kill a run at one visit of any seam and mirror again; return False if the run ended before."""
    with scratch() as folder:
        house = build(folder)
        killed = house.run(Reaper(visit)) is None
        house.sync()
        assert house.differences() == [], f"killed at visit {visit}"
        return killed


def check_first_kill(visit: int) -> bool:
    """The same with the very first run."""
    with scratch() as folder:
        house = GitHubHouse(folder, http={"per_page": 2})
        house.forge.bulk(REPO, pulls=3, issues=3, threads=2, comments=2)
        house.world.advance(3600)
        killed = house.run(Reaper(visit)) is None
        house.sync()
        assert house.differences() == [], f"killed at visit {visit}"
        return killed


@pytest.mark.parametrize("check", [check_kill, check_first_kill])
@pytest.mark.parametrize("step", [STRIDE, pytest.param(1, marks=pytest.mark.deep)])
@gate_cases(1)
def test_a_run_killed_at_any_seam_loses_and_repeats_nothing(check: object, step: int) -> None:
    assert callable(check)
    visit = 0
    while check(visit):
        visit += step
    assert visit > 20


def test_every_seam_of_a_run_is_among_those_it_is_killed_at(house: GitHubHouse) -> None:
    begin(house)
    change_everything(house)
    reaper = Reaper()
    house.run(reaper, scrub_budget=20)
    for seam in (Seam.AFTER_FETCH, Seam.BEFORE_COMMIT, Seam.INSIDE_COMMIT, Seam.AFTER_COMMIT, Seam.SCOPE_DONE):
        assert reaper.visits.count(seam) >= 4, seam


@pytest.mark.parametrize("seam", [Seam.AFTER_FETCH, Seam.INSIDE_COMMIT, Seam.AFTER_COMMIT])
@gate_cases(1)
def test_a_run_killed_again_and_again_moves_on(both: GitHubHouse, seam: Seam) -> None:
    both.forge.bulk(REPO, pulls=3, issues=3, threads=2, comments=2)
    both.world.advance(3600)
    for visit in range(1, 40):
        if both.run(Reaper(visit, seam)) is not None:
            break
    else:
        pytest.fail("every run was killed")
    both.sync()
    assert both.differences() == []


def test_pull_requests_behind_the_first_page_are_read_after_a_kill_there(tmp_path: Path) -> None:
    house = GitHubHouse(tmp_path, http={"per_page": 2})
    house.forge.bulk(REPO, pulls=7, issues=0, threads=1, comments=1)
    house.world.advance(3600)
    for _ in range(2):
        assert house.run(Reaper(0, Seam.AFTER_COMMIT)) is None
    assert house.column("SELECT COUNT(*) FROM gaps") == [1]
    spent = house.requests(house.sync)
    assert spent["GET /repos/:owner/:repo/pulls/:n"] == 0, "the list contains them"
    assert house.column("SELECT COUNT(*) FROM gaps") == [0]
    assert house.differences() == []


def test_a_verification_that_is_killed_loses_nothing(house: GitHubHouse) -> None:
    begin(house)
    house.forge.delete_issue(REPO, 3)
    house.forge.delete_comment(house.forge.truth_review_comments(REPO)[0]["id"], kind="review_comment")
    for visit in range(8, 60, 4):
        house.world.advance(120)
        house.run(Reaper(visit), scrub_budget=100)
    house.verify()
    assert house.differences() == []


@pytest.mark.parametrize("path", [f"/{name}" for name in LISTS])
@gate_cases(2)
def test_a_slice_that_ends_within_or_after_any_list_is_continued_by_the_next(both: GitHubHouse, path: str) -> None:
    begin(both)
    change_everything(both)
    BetweenTwoLists(both, path, lambda: both.world.advance(1000))
    report = both.run(seconds=60)
    assert report is not None
    # After the last list only children are left, and they have their own share of the slice.
    assert bool(report.unfinished) == (path != f"/{LISTS[-1]}")
    report = both.run(seconds=600)
    assert report is not None
    assert not report.unfinished
    assert both.differences() == []


class SlowWorld:
    """Lets every request take a few seconds."""

    def __init__(self, house: GitHubHouse, seconds: float) -> None:
        self._world, self._seconds, self._handle = house.world, seconds, house.world.handle
        house.world.handle = self  # type: ignore[method-assign]

    def __call__(self, request: Request) -> Response:
        self._world.advance(self._seconds)
        return self._handle(request)


@pytest.mark.parametrize("seconds", [12, 21, 60])
@gate_cases(1)
def test_a_first_sync_in_slices_ends_with_the_whole_copy(tmp_path: Path, seconds: float) -> None:
    house = GitHubHouse(tmp_path, http={"per_page": 2})
    house.forge.bulk(REPO, pulls=5, issues=5, threads=2, comments=2)
    house.world.advance(3600)
    SlowWorld(house, 2)
    before = house.world.requests.copy()
    slices = [house.sync(seconds=seconds)]
    while slices[-1].unfinished and len(slices) < SLICES:
        slices.append(house.sync(seconds=seconds))
    assert 1 < len(slices) < SLICES
    spent = house.world.requests - before
    assert not [route for route in spent if route.endswith("/:n/comments")], "the feeds contain all comments"
    assert house.differences() == []
