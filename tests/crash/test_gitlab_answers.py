"""A process that answers on a merge request is killed around its write: one note on the server."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from tests.crash.gitlab_answer_driver import SETTLE_SECONDS
from tests.support.fork_server import fork_script

from tidelore.engine.crashpoint import Seam
from tidelore.store.database.opening import open_database
from tidelore_world.server import serve
from tidelore_world.world import World

DRIVER = Path(__file__).with_name("gitlab_answer_driver.py")
PROJECT = "harbor/cranes"
PATIENCE_SECONDS = 60.0


@pytest.mark.parametrize("seam", [Seam.BEFORE_POST, Seam.AFTER_POST, Seam.INSIDE_COMMIT])
def test_a_process_killed_around_a_write_leaves_one_note(migrated_sqlite_address: str, seam: Seam) -> None:
    world = World()
    world.gitlab.create_project(PROJECT)
    request = world.gitlab.create_merge_request(PROJECT, title="Rename the crane", author="robin")
    environ = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}

    def answer(deadly: str) -> int:
        process = fork_script(DRIVER, [migrated_sqlite_address, server.url, PROJECT, deadly], environ)
        process.communicate(timeout=PATIENCE_SECONDS)
        return process.wait()

    with serve(world) as server:
        assert answer(seam.value) == -signal.SIGKILL
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            assert answer("none") == 0
            database = open_database(migrated_sqlite_address)
            ((status,),) = database.read("SELECT status FROM outbox")
            database.close()
            if status == "observed":
                break
            assert time.monotonic() < deadline, "never arrives"
            time.sleep(SETTLE_SECONDS / 4)
    notes = [note for home in request.discussions for note in home.notes if "lore-action:" in note.body]
    assert len(notes) == 1
