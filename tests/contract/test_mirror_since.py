"""`mirror_since`: what was last updated before the horizon is left out, on every forge, until it moves or is wanted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.contract.source_houses import HOUSES, SourceHouse
from tests.properties.inprocess import Reaper
from tests.support.deep import deep
from tests.toy.source import TOY

from tidelore.core.clock import format_instant
from tidelore.core.errors import ConfigError
from tidelore.sources.registry import also

DAY = 86_400
OLD, MOVED, NEW = (1, 2, 3), (4, 5), (6, 7, 8)
"""Issues from before the horizon, those of them that were commented since, and those that were opened since."""


@pytest.fixture(params=["github", "gitlab", deep("toy")])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SourceHouse]:
    """Issues of ten weeks, and a horizon in their midst: `horizon` is that instant."""
    shape = HOUSES[request.param]
    with also(TOY) if shape.kind == "toy" else nullcontext():
        house = shape(tmp_path)
        for number in (*OLD, *MOVED):
            assert house.open(f"old {number}", "text") == number
            house.say(number, f"said early on {number}")
            house.world.advance(7 * DAY)
        set_since(house, format_instant(house.clock.now_ms()))
        house.world.advance(7 * DAY)
        for number in MOVED:
            house.say(number, f"said later on {number}")
        for number in NEW:
            house.world.advance(3600)
            assert house.open(f"new {number}", "text") == number
        house.world.advance(DAY)
        yield house


def set_since(house: SourceHouse, text: str) -> None:
    house.host_keys = {"mirror_since": text}


def settle(house: SourceHouse) -> None:
    """Sync until the comments of everything count as read."""
    house.sync()
    house.world.advance(120)
    house.sync()


def has(house: SourceHouse, *numbers: int) -> None:
    """The copy has these issues whole, and no other."""
    truth = house.truth()
    assert house.copy() == {number: truth[number] for number in numbers}
    assert house.problems() == []


def test_items_from_before_the_horizon_are_neither_stored_nor_read_and_others_are_whole(house: SourceHouse) -> None:
    settle(house)
    has(house, *MOVED, *NEW)
    assert house.rows("SELECT DISTINCT attempts FROM child_sync") == [(0,)]


def test_a_scrub_and_an_audit_pass_over_items_from_before_the_horizon(house: SourceHouse) -> None:
    settle(house)
    for _ in range(3):
        report = house.sync(scrub_budget=100)
        assert sum(scope.tally.created for scope in report.scrubbed) == 0
    has(house, *MOVED, *NEW)
    assert house.audit().differences == []


def test_an_item_that_is_older_but_was_updated_since_is_missing_to_an_audit_and_found_by_a_scrub(
    house: SourceHouse,
) -> None:
    settle(house)
    house.change(f"DELETE FROM issues WHERE iid = {MOVED[0]}")
    missing = [(one.verdict, one.kind, one.iid) for one in house.audit().differences]
    assert missing == [("missing", "issues", MOVED[0])]
    house.sync(scrub_budget=100)
    settle(house)
    assert house.copy()[MOVED[0]] == house.truth()[MOVED[0]]
    assert set(house.copy()) == {*MOVED, *NEW}


def test_an_old_item_that_moves_later_is_stored_whole(house: SourceHouse) -> None:
    settle(house)
    house.say(OLD[1], "said at last")
    house.world.advance(DAY)
    settle(house)
    has(house, OLD[1], *MOVED, *NEW)
    assert house.audit().differences == []


def test_an_old_item_that_is_asked_for_is_stored_whole_and_stays_known(house: SourceHouse) -> None:
    settle(house)
    house.refresh(OLD[0])
    has(house, OLD[0], *MOVED, *NEW)
    house.delete(OLD[0])
    for _ in range(2):
        house.sync(scrub_budget=100)
    has(house, *MOVED, *NEW)


def test_an_earlier_horizon_reads_what_is_missing_and_none_reads_the_rest(house: SourceHouse) -> None:
    settle(house)
    set_since(house, format_instant(house.clock.now_ms() - 34 * DAY * 1000))
    settle(house)
    has(house, OLD[2], *MOVED, *NEW)
    set_since(house, "")
    assert {one.iid for one in house.audit().differences if one.verdict == "missing"} == {OLD[0], OLD[1]}
    settle(house)
    has(house, *OLD, *MOVED, *NEW)
    assert house.audit().differences == []
    assert house.count_requests(house.sync) == house.quiet_requests


@pytest.mark.deep
def test_an_earlier_horizon_is_read_to_its_end_although_the_process_dies_again_and_again(house: SourceHouse) -> None:
    settle(house)
    set_since(house, "")
    visits = 0
    while house.run(Reaper(visits)) is None:
        visits += 1
    assert visits > 5
    settle(house)
    has(house, *OLD, *MOVED, *NEW)


def test_a_later_horizon_deletes_nothing_and_starts_nothing_over(house: SourceHouse) -> None:
    set_since(house, "")
    settle(house)
    set_since(house, "3d")
    assert house.count_requests(house.sync) == house.quiet_requests
    has(house, *OLD, *MOVED, *NEW)
    house.sync(scrub_budget=100)
    has(house, *OLD, *MOVED, *NEW)
    assert house.audit().differences == []
    assert house.rows("SELECT COUNT(*) FROM cursors WHERE horizon_at IS NOT NULL") == [(0,)]


def test_a_later_horizon_shortens_a_first_sync_that_was_interrupted(house: SourceHouse) -> None:
    later, since = house.host_keys, ""
    set_since(house, since)
    house.run(Reaper(8))
    house.host_keys = later
    before = set(house.copy())
    settle(house)
    has(house, *sorted({*before, *MOVED, *NEW}))
    assert before != {*OLD, *MOVED, *NEW}


def test_a_duration_stays_at_the_day_of_the_first_sync(house: SourceHouse) -> None:
    set_since(house, "20d")
    settle(house)
    stored = set(house.copy())
    horizons = house.rows("SELECT DISTINCT horizon_at FROM cursors")
    assert len(horizons) == 1
    house.world.advance(30 * DAY)
    assert house.count_requests(house.sync) <= house.quiet_requests + 1
    assert set(house.copy()) == stored
    assert house.rows("SELECT DISTINCT horizon_at FROM cursors") == horizons
    set_since(house, "200d")
    settle(house)
    has(house, *OLD, *MOVED, *NEW)


def test_a_horizon_in_the_future_is_refused_by_name(house: SourceHouse) -> None:
    set_since(house, format_instant(house.clock.now_ms() + DAY * 1000))
    with pytest.raises(ConfigError, match="mirror_since of harbour/tides is in the future"):
        house.sync()
