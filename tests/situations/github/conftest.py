"""A repository for each test, in one process."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.situations.github.house import GitHubHouse


@pytest.fixture
def house(tmp_path: Path) -> GitHubHouse:
    """An empty repository and an empty copy, in a file."""
    return GitHubHouse(tmp_path)


@pytest.fixture
def both(tmp_path: Path, address: str) -> GitHubHouse:
    """The same with the copy in each kind of database."""
    return GitHubHouse(tmp_path, address=address)
