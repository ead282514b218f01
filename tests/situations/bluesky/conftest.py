"""A network for each test, in one process; the machine's logs are left as they were."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.situations.bluesky.house import Waters


@pytest.fixture
def waters(tmp_path: Path) -> Waters:
    """An empty network, nobody followed, feeds read."""
    return Waters(tmp_path)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What a cycle logs, at the level of its lines."""
    logger = logging.getLogger("tidelore")
    before = logger.propagate
    logger.propagate = True
    with caplog.at_level(logging.INFO, logger="tidelore.sync"):
        yield caplog
    logger.propagate = before
