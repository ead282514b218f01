"""A station for each test, with the machine's own settings out of the way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.situations.service.station import Station, station


@pytest.fixture
def post(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Station]:
    """A station that looks after nothing yet."""
    for name in list(os.environ):
        if name.startswith(("LORE_", "XDG_", "GITLAB_", "GITHUB_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    with station(tmp_path) as found:
        yield found
