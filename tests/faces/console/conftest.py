"""A copy for the screens, made once: what a test changes it changes in a copy of its own."""

from __future__ import annotations

from pathlib import Path
from shutil import copyfile

import pytest
from tests.faces.console.copy_room import at_rest, build_copy

from tidelore.app.wiring import App


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> App:
    """The application on a copy that nobody changes."""
    app = build_copy(tmp_path_factory.mktemp("copy"))
    at_rest(app)
    return app


@pytest.fixture
def copy(finished: App, tmp_path: Path) -> App:
    """The application on a copy of one's own."""
    path = tmp_path / "lore.db"
    copyfile(finished.address, path)
    return App(finished.config, finished.environ, db=str(path), clock=finished.clock)
