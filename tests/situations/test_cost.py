"""What a poll costs does not grow with the length of history (invariant 9)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.properties.audit import compare
from tests.properties.inprocess import PROJECT, House
from tests.support.deep import gate_cases


@pytest.mark.parametrize("history", [10, 200])
@gate_cases(1)
def test_a_poll_costs_one_request_per_list_for_a_history_of_any_length(tmp_path: Path, history: int) -> None:
    house = House(tmp_path, per_page=10, scrub_share=0.0)
    house.world.gitlab.bulk(PROJECT, issues=history, merge_requests=history)
    house.world.advance(86_400)
    house.run()
    assert house.count_requests(house.run) == 2
    house.world.gitlab.edit_issue(PROJECT, 1, description="one change")
    # The two lists, and of the one issue that changed four child lists and its status.
    assert house.count_requests(house.run) == 2 + 4 + 1
    compare(house)
