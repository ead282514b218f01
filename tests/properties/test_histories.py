"""The main property: whatever happens, and wherever the process dies, the copy ends up equal to the truth."""

from __future__ import annotations

from secrets import randbits

import pytest
from hypothesis import example, given, seed
from tests.properties.audit import compare, journal
from tests.properties.effort import examples, is_deep
from tests.properties.inprocess import House, scratch
from tests.properties.machine import Change, Round, Setting, Trouble, histories, play_round, prepare, settings

PARTS = 6


def live(setting: Setting, history: list[Round]) -> None:
    """Play a history, let the world fall quiet, and compare."""
    with scratch() as folder, journal() as kept:
        house = House(
            folder, per_page=setting.per_page, scrub_share=0.0, keyset=setting.keyset, skew_ms=setting.skew_ms
        )
        player = prepare(house, setting)
        for planned in history:
            play_round(house, player, planned, house.run)
        for _ in range(2):
            # Two days: long enough for the longest pause before something in quarantine is asked for again.
            house.world.advance(2 * 86_400)
            report = house.run()
            assert report is not None
            assert [scope.error for scope in report.scopes] == [None, None]
        # A change that carries an instant of the past leaves a note there that only verification can find.
        compare(house, children=False)
        kept.check()
        ingested = sum(kept.versions.values())
        house.run()
        assert sum(kept.versions.values()) == ingested
        house.run(scrub_budget=1000)
        compare(house, exact=True)


@examples(few=40, many=300)
@given(settings, histories)
@example(
    # A server in trouble finds nothing for a while: neither the children of an item nor the item. It is not gone.
    Setting(
        2, (Change("create", 0, 0), Change("create", 0, 0), Change("create", 1, 0)), False, False, frozenset(), False, 0
    ),
    [
        Round((), (), (Trouble("refused", 2, 4),), None),
        Round((Change("create", 1, 0),), (), (Trouble("refused", 2, 5),), None),
    ],
)
def test_the_copy_equals_the_server_after_any_history(setting: Setting, history: list[Round]) -> None:
    live(setting, history)


# Parts, so that the workers share them. No two parts have the same seed: it leaves the part as its remainder.
@pytest.mark.deep
@pytest.mark.parametrize("part", range(PARTS))
def test_the_copy_equals_the_server_after_each_of_many_histories(part: int) -> None:
    @seed((randbits(64) if is_deep() else 0) * PARTS + part)
    @examples(few=25, many=420)
    @given(settings, histories)
    def check(setting: Setting, history: list[Round]) -> None:
        live(setting, history)

    check()
