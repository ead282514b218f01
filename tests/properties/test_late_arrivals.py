"""Changes that surface late: written at an instant, visible up to the overlap after it, behind a walk under way."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.properties.audit import compare, journal
from tests.properties.effort import examples
from tests.properties.inprocess import PROJECT, House, scratch

from tidelore_world.wire import Request

OVERLAP_US = 2_000_000


def test_a_change_appearing_behind_a_running_walk_is_found_by_the_next_walk(tmp_path: Path) -> None:
    """Page 1 was read to its end; a second late, something is written there, and the walk goes on for a minute."""
    house = House(tmp_path, per_page=5)
    forge, world = house.world.gitlab, house.world
    for _ in range(8):
        forge.create_issue(PROJECT)
        world.advance(0.1)
    seen: list[Request] = []

    def strike(request: Request) -> None:
        seen.append(request)
        if len(seen) == 3:  # the project, page 1, and now page 2
            forge.create_issue(PROJECT, title="committed late", at_us=world.clock.now_us - 700_000)
            world.advance(60)
            forge.edit_issue(PROJECT, 8, title="moves the watermark on")

    world.before_request.append(strike)
    house.run(resources=("issues",), scrub_budget=0)
    world.before_request.clear()
    world.advance(3600)
    house.run(scrub_budget=0)
    compare(house)


moments = st.tuples(st.integers(1, 9), st.integers(0, 7), st.integers(0, OVERLAP_US), st.sampled_from((0, 300, 9000)))


@examples(few=50, many=1500)
@given(st.integers(2, 4), st.lists(st.sampled_from((0, 1, 300, 1500)), min_size=3, max_size=9), st.lists(moments))
def test_no_late_change_is_lost_in_any_continuation_of_the_walk(
    per_page: int, steps: list[int], late: list[tuple[int, int, int, int]]
) -> None:
    """Edits that carry an instant up to the overlap ago, at any request, with pauses after them."""
    with scratch() as folder, journal() as kept:
        house = House(folder, per_page=per_page, scrub_share=0.0)
        forge, world = house.world.gitlab, house.world
        for step in steps:
            forge.create_issue(PROJECT, title="as it was", description="")
            world.advance(step / 1000)
        served = [0]

        def strike(_request: Request) -> None:
            served[0] += 1
            for number, (place, pick, lag_us, pause_ms) in enumerate(late):
                if place == served[0]:
                    issue = forge.issue(PROJECT, 1 + pick % len(steps))
                    at_us = max(world.clock.now_us - lag_us, issue.updated_at_us)
                    forge.edit_issue(PROJECT, issue.iid, title=f"edit {number}", at_us=at_us)
                    world.advance(pause_ms / 1000)

        world.before_request.append(strike)
        for _ in range(3):
            house.run(resources=("issues",))
        world.before_request.clear()
        world.advance(3600)
        house.run()
        compare(house)
        kept.check()
