"""Cases of a parametrised test that belong to `make test-all`."""

from __future__ import annotations

from typing import Any

import pytest


def deep(*values: Any) -> Any:
    """Return a case of a parametrised test that the gate leaves out: a larger size, another signal or database."""
    return pytest.param(*values, marks=pytest.mark.deep)
