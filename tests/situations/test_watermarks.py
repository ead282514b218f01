"""What moves a watermark, over the whole program: remote instants, and forward only (invariants 4 and 5)."""

from __future__ import annotations

from pathlib import Path

from tests.properties.audit import compare, journal
from tests.properties.inprocess import PROJECT, House


def watermarks(house: House) -> list[int | None]:
    with house.database() as database:
        return [at for (at,) in database.read("SELECT watermark_at FROM cursors ORDER BY surface")]


def test_an_empty_first_scan_leaves_the_cursor_empty(tmp_path: Path) -> None:
    """Whatever appears afterwards is found, though it may carry an instant from before the scan."""
    house = House(tmp_path, scrub_share=0.0)
    house.run()
    assert watermarks(house) == [None, None]
    world = house.world
    world.gitlab.create_issue(PROJECT, title="imported", at_us=world.clock.now_us - 3_600_000_000)
    house.run()
    compare(house)


def test_a_watermark_stays_when_the_newest_item_was_deleted(tmp_path: Path) -> None:
    house = House(tmp_path, scrub_share=0.0)
    for _ in range(3):
        house.world.gitlab.create_issue(PROJECT)
        house.world.advance(1)
    with journal() as kept:
        house.run(resources=("issues",))
        (before,) = watermarks(house)
        house.world.gitlab.delete_issue(PROJECT, 3)
        house.world.gitlab.delete_issue(PROJECT, 2)
        house.run(resources=("issues",))
        assert watermarks(house) == [before]
        kept.check()


def test_items_that_share_the_last_instant_of_a_page_are_all_read(tmp_path: Path) -> None:
    """The page ends in the middle of an instant: the next one starts at that instant, not after it."""
    house = House(tmp_path, per_page=5, scrub_share=0.0)
    for step in (10, 10, 10, 10, 0, 0, 10, 10):
        house.world.gitlab.create_issue(PROJECT)
        house.world.advance(step)
    house.run()
    compare(house)
