"""What of the tests belongs to `make test-all` only: whole tests are marked `deep`, cases of a test as below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest


def deep(*values: Any) -> Any:
    """Return a case of a parametrised test that the gate leaves out: a larger size, another signal or database."""
    return pytest.param(*values, marks=pytest.mark.deep)


def gate_cases(number: int) -> pytest.MarkDecorator:
    """Let the gate run only the first cases of a parametrised test whose cases take the same path."""
    return pytest.mark.gate_cases(number)


def mark_surplus_cases(items: Iterable[pytest.Item]) -> None:
    """Mark as deep each case of a test beyond the number that the gate runs."""
    seen: Counter[str] = Counter()
    for item in items:
        limit = item.get_closest_marker("gate_cases")
        if limit is None or item.get_closest_marker("deep") is not None:
            continue
        test = item.nodeid.partition("[")[0]
        seen[test] += 1
        if seen[test] > limit.args[0]:
            item.add_marker("deep")
