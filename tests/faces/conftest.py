"""A desk for each test: a small world on a real socket, a home of its own, an environment without surprises."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faces.desk import CONSOLE, LEDGER, Desk
from tests.faces.following import Follower, following

from tidelore_world.server import serve
from tidelore_world.world import World


@pytest.fixture
def world() -> World:
    """Two projects: five issues and a merge request here, two issues and three merge requests there."""
    world = World()
    forge = world.gitlab
    for path, issues, requests in ((LEDGER, 5, 1), (CONSOLE, 2, 3)):
        forge.create_project(path)
        for _ in range(issues):
            forge.create_issue(path)
            world.advance(60)
        for _ in range(requests):
            forge.create_merge_request(path)
            world.advance(60)
    forge.close_issue(LEDGER, 1)
    world.advance(86_400)
    return world


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment that holds nothing of the machine's owner."""
    for name in list(os.environ):
        if name.startswith(("LORE_", "XDG_", "GITLAB_", "NO_COLOR", "FORCE_COLOR", "_LORE")):
            monkeypatch.delenv(name)
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def desk(world: World, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Desk]:
    """A desk whose world is served, both projects configured."""

    def read() -> tuple[str, str]:
        captured = capsys.readouterr()
        return captured.out, captured.err

    with serve(world) as server:
        desk = Desk(tmp_path, server.url, world, read)
        desk.configure(LEDGER, CONSOLE)
        yield desk


@pytest.fixture
def follower(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Follower]:
    """A desk that follows pull requests on a GitHub whose clock goes with ours; no token is needed there."""
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)

    def read() -> tuple[str, str]:
        captured = capsys.readouterr()
        return captured.out, captured.err

    with following(tmp_path, read) as desk:
        yield desk
