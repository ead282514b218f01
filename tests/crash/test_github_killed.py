"""A real process that mirrors a GitHub repository, killed and started again: nothing lost, nothing stored twice."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.crash.stage import Stage, open_stage
from tests.situations.github.truth import differences
from tests.support.deep import gate_cases

from tidelore.engine.crashpoint import Seam
from tidelore.store.mirror.check import check_database
from tidelore_world.world import World

REPO = "octo/tide"
COMMAND = ("sync", "--no-docs", "--no-embed", "--robot")
VISITS = (2, 5, 9, 14, 20)
"""Visits of a seam in the lists, in the feeds and among the children."""


def build_world() -> World:
    """A repository whose lists take several pages each, and a quiet hour."""
    world = World()
    forge = world.github
    forge.create_repo(REPO)
    forge.bulk(REPO, pulls=5, issues=5, threads=2, comments=2)
    for number in range(1, 9):
        forge.comment(REPO, number, f"on {number}")
    world.advance(3600)
    return world


@pytest.fixture
def stage(dialect: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """That repository beside a database with nothing but the schema, on both kinds."""
    address = request.getfixturevalue(f"migrated_{dialect}_address")
    with open_stage(address, tmp_path, build_world(), {"GITHUB_TOKEN": "a-token-of-the-tests"}) as opened:
        config = f'[[github]]\nbase_url = "{opened.server.url}"\nrepos = ["{REPO}"]\n'
        (tmp_path / "config.toml").write_text(config)
        yield opened


@pytest.mark.parametrize("seam", [Seam.AFTER_FETCH, Seam.INSIDE_COMMIT, Seam.AFTER_COMMIT])
@gate_cases(1)
def test_a_mirrored_repository_is_whole_after_a_process_was_killed_again_and_again(stage: Stage, seam: Seam) -> None:
    for visit in VISITS:
        assert stage.lore_killed_at(seam, visit, *COMMAND).code == -signal.SIGKILL, visit
        with stage.world.lock:
            stage.world.github.comment(REPO, 1, f"said while it was dead, {visit}")
            stage.world.advance(60)
    ended = stage.lore(*COMMAND)
    assert ended.code == 0, ended
    with stage.database() as database, stage.world.lock:
        assert differences(database, stage.world.github, REPO) == []
        findings = check_database(database, time.time_ns() // 1_000_000)
    assert [finding for finding in findings if not finding.ok] == []
    assert Counter(stage.run_statuses()) == {"crashed": len(VISITS), "succeeded": 1}
