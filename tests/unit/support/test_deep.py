"""The gate runs the first cases of a test and leaves the others to `make test-all`."""

from __future__ import annotations

import pytest
from tests.support.deep import gate_cases, mark_surplus_cases


@gate_cases(2)
@pytest.mark.parametrize("case", [pytest.param("never", marks=pytest.mark.deep), "first", "second", "third"])
def test_only_the_first_cases_that_are_not_deep_stay_in_the_gate(case: str, request: pytest.FixtureRequest) -> None:
    """Holds in `make test-all` too, where all four cases run."""
    in_gate = request.node.get_closest_marker("deep") is None
    assert in_gate == (case in ("first", "second"))


def test_a_test_without_a_limit_keeps_all_its_cases(request: pytest.FixtureRequest) -> None:
    mark_surplus_cases([request.node] * 3)
    assert request.node.get_closest_marker("deep") is None
