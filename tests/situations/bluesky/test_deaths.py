"""A poll or a scrub that dies at any of its seams: nothing is lost or doubled, and what was read stays read."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.properties.inprocess import Killed, Reaper
from tests.situations.bluesky.house import Waters
from tests.support.deep import gate_cases

from tidelore.app.accounts import scrub_accounts

ALICE, BOB = "alice.test", "bob.test"
POSTS = 12
LONG = 50
"""So many that to start over costs more than what may be repeated."""
PER_PAGE = 5


def talking(folder: Path, mode: str, posts: int = POSTS) -> Waters:
    """Two accounts with several pages each, of which one also reposts."""
    waters = Waters(folder, mode=mode, posts_per_page=PER_PAGE)
    waters.add(ALICE, BOB)
    for number in range(posts):
        uri = waters.sky.post(ALICE, f"Alice {number} https://example.com/{number}").uri
        waters.sky.post(BOB, f"Bob {number}")
        waters.world.advance(30)
        if number % 4 == 0:
            waters.sky.repost(BOB, uri)
    return waters


@pytest.mark.parametrize("mode", ["feed", "records"])
@gate_cases(1)
def test_a_poll_killed_at_any_point_loses_and_duplicates_nothing(tmp_path: Path, mode: str) -> None:
    whole = Reaper()
    talking(tmp_path / "whole", mode).poll(whole)
    for visit in range(len(whole.visits)):
        waters = talking(tmp_path / str(visit), mode)
        assert waters.try_poll(Reaper(at_visit=visit)) is None
        waters.poll(everyone=True)
        for name in (ALICE, BOB):
            assert waters.held(name) == waters.truth(name), f"killed at {whole.visits[visit]}, visit {visit}"


@pytest.mark.parametrize("mode", ["feed", "records"])
@gate_cases(1)
def test_after_a_killed_poll_at_most_two_pages_of_a_list_are_read_again(tmp_path: Path, mode: str) -> None:
    whole = Reaper()
    pages = talking(tmp_path / "whole", mode, LONG).poll(whole).pages
    for visit in range(len(whole.visits) // 2, len(whole.visits), 5):
        waters = talking(tmp_path / str(visit), mode, LONG)
        waters.try_poll(Reaper(at_visit=visit))
        read = len(waters.held(ALICE)) + len(waters.held(BOB))
        again = waters.poll(everyone=True)
        # One page of each list for its head or its overlap, and one that was being stored.
        assert again.pages <= pages - read // PER_PAGE + 4, f"killed at {whole.visits[visit]}, visit {visit}"


def disturbed(folder: Path, mode: str) -> Waters:
    """Accounts that were read, of which verification finds an edit, deletions and a backdated post."""
    waters = talking(folder, mode)
    waters.poll()
    records = waters.sky.truth_records(ALICE)
    waters.sky.edit(records[0]["uri"], "Alice, corrected")
    waters.sky.delete(records[5]["uri"])
    waters.sky.delete(waters.sky.truth_records(BOB)[-1]["uri"])
    waters.sky.post(BOB, "Dated long ago", created_at="2020-01-01T00:00:00Z")
    return waters


def scrub(waters: Waters, reaper: Reaper) -> bool:
    """Verify all accounts alone, as `lore scrub --all` does; False if the process died."""
    try:
        report = asyncio.run(scrub_accounts(waters.app(reaper), 1000, force=True))
    except Killed:
        return False
    assert report is not None
    return all(scope.error is None for scope in report.scrubbed)


@pytest.mark.parametrize("mode", ["feed", "records"])
@gate_cases(1)
def test_a_scrub_killed_at_any_point_is_completed_by_the_next_one(tmp_path: Path, mode: str) -> None:
    whole = Reaper()
    assert scrub(disturbed(tmp_path / "whole", mode), whole)
    assert len(whole.visits) > 12
    for visit in range(len(whole.visits)):
        waters = disturbed(tmp_path / str(visit), mode)
        scrub(waters, Reaper(at_visit=visit))
        assert scrub(waters, Reaper())
        for name in (ALICE, BOB):
            assert waters.held(name) == waters.truth(name), f"killed at {whole.visits[visit]}, visit {visit}"
