"""An ordinary copy and its site, made once for each test."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.faces.web.copies import client_of, ordinary

from tidelore.app.wiring import App


@pytest.fixture
def app(tmp_path: Path) -> App:
    """An ordinary copy."""
    return ordinary(tmp_path / "lore.db")


@pytest.fixture
def client(app: App) -> TestClient:
    """A browser of its site."""
    return client_of(app)
