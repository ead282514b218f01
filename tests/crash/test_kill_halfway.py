"""Killed half way through: the second run pays for the other half, not for the whole again."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.crash.stage import PROJECTS, open_stage
from tests.crash.stage import build_world as world_of

from tidelore.engine.crashpoint import Seam

ITEMS = 120


@pytest.mark.deep
def test_after_a_kill_half_way_the_next_run_reads_the_rest_plus_one_page_per_scope(
    dialect: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    command = ("ingest", "--type", "issues")
    each = ITEMS // len(PROJECTS)
    with open_stage(str(tmp_path / "whole.db"), tmp_path / "whole", world_of(each, 0)) as stage:
        _, pages = stage.count_visits(*command)[Seam.AFTER_COMMIT]
        assert stage.list_requests == pages + len(PROJECTS)
    address = request.getfixturevalue(f"migrated_{dialect}_address")
    with open_stage(address, tmp_path / "halved", world_of(each, 0)) as stage:
        assert len(stage.truth("issues")) == ITEMS
        half = pages // 2
        assert stage.lore_killed_at(Seam.AFTER_COMMIT, half, *command).code == -signal.SIGKILL
        ((stored,),) = stage.rows("SELECT COUNT(*) FROM issues")
        assert ITEMS * 0.4 < stored < ITEMS * 0.6
        before = stage.list_requests
        again = stage.lore(*command, "--robot")
        assert again.code == 0, again
        assert stage.list_requests - before <= (pages - half) + len(PROJECTS)
        assert sum(scope["created"] for scope in again.data["scopes"]) == ITEMS - stored
        stage.assert_copy_is_true("issues")
