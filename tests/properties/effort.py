"""How much effort a property gets: little in every change's gate, more for a deliberate bug that it must catch
(TIDELORE_MUTANT=1), much in the long run (TIDELORE_DEEP=1)."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings


def is_deep() -> bool:
    """Whether this is the long run."""
    return bool(os.environ.get("TIDELORE_DEEP"))


def examples(few: int, many: int) -> settings:
    """No directory of examples; a failure prints the blob that repeats it.

    `few` examples catch the deliberate bugs of `tests/mutants`; the gate runs half of them.

    The gate of a change draws the same examples every time, so that it blames the change; the long run explores.
    """
    gate = few if os.environ.get("TIDELORE_MUTANT") else max(2, few // 2)
    return settings(
        max_examples=many if is_deep() else gate,
        deadline=None,
        database=None,
        derandomize=not is_deep(),
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
