"""An ordinary copy, made once for all tests that only read it, and a browser of its site for each test."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient
from tests.faces.web.copies import client_of, ordinary

from tidelore.app.wiring import App


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> App:
    """An ordinary copy."""
    return ordinary(tmp_path_factory.mktemp("ordinary") / "lore.db")


@pytest.fixture
def client(app: App) -> TestClient:
    """A browser of its site."""
    return client_of(app)
