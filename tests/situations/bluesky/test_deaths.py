"""A poll that dies at any of its seams: nothing is lost, nothing is doubled, and what was read stays read."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.properties.inprocess import Reaper
from tests.situations.bluesky.house import Waters

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
def test_after_a_killed_poll_only_one_page_is_read_again(tmp_path: Path, mode: str) -> None:
    whole = Reaper()
    pages = talking(tmp_path / "whole", mode, LONG).poll(whole).pages
    for visit in range(len(whole.visits) // 2, len(whole.visits), 5):
        waters = talking(tmp_path / str(visit), mode, LONG)
        waters.try_poll(Reaper(at_visit=visit))
        read = len(waters.held(ALICE)) + len(waters.held(BOB))
        again = waters.poll(everyone=True)
        # One page of each list for its head or its overlap, and one that was fetched and not stored.
        assert again.pages <= pages - read // PER_PAGE + 4, f"killed at {whole.visits[visit]}, visit {visit}"
