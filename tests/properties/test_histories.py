"""The main property: whatever happens, and wherever the process dies, the copy ends up equal to the truth."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as bounds

from tests.properties.audit import compare, journal
from tests.properties.inprocess import House
from tests.properties.machine import Round, Setting, histories, play_round, prepare, settings

DEEP = bool(os.environ.get("TIDELORE_DEEP"))


def examples(few: int, many: int) -> bounds:
    """How many examples a property gets: few in every change's gate, many in the long run."""
    return bounds(
        max_examples=many if DEEP else few,
        deadline=None,
        database=None,
        print_blob=True,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
    )


def live(setting: Setting, history: list[Round]) -> None:
    """Play a history, let the world fall quiet, and compare."""
    with tempfile.TemporaryDirectory() as folder, journal() as kept:
        house = House(
            Path(folder), per_page=setting.per_page, scrub_share=0.0, keyset=setting.keyset, skew_ms=setting.skew_ms
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
        compare(house)
        kept.check()
        ingested = sum(kept.versions.values())
        house.run()
        assert sum(kept.versions.values()) == ingested


@examples(few=300, many=300)
@given(settings, histories)
def test_the_copy_equals_the_truth_after_any_history(setting: Setting, history: list[Round]) -> None:
    live(setting, history)


@pytest.mark.deep
@examples(few=300, many=5000)
@given(settings, histories)
def test_the_copy_equals_the_truth_after_any_of_many_histories(setting: Setting, history: list[Round]) -> None:
    live(setting, history)
