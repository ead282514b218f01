"""The bench of the loop's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.service.bench import Bench

from tidelore.service import loop as looping


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.database.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop that waits for nobody for long: these seconds are real."""
    monkeypatch.setattr(looping, "GRACE_SECONDS", 0.05)
    monkeypatch.setattr(looping, "LAST_SECONDS", 1.0)
