"""Situations run on both databases; the ordinary gate is content with one of them.

What differs between the two is held by the contract tests, which always run on both.
"""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the second database to the deep run."""
    for item in items:
        if HERE in item.path.parents and "postgres" in item.name.partition("[")[2]:
            item.add_marker(pytest.mark.deep)
