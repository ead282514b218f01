"""A database that cannot be made, opened or grown: one clear error, the documented exit code, nothing broken."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.crash.stage import Ended, Stage, open_stage

COMMAND = ("ingest", "--type", "issues", "--robot")
SMALL = 300_000


def assert_refused(ended: Ended, place: str, code: str = "STORAGE_FAILED") -> None:
    assert ended.code == 1, ended
    assert ended.error["code"] == code
    assert place in ended.error["message"]
    assert ended.error["fix"]
    assert ended.error["retryable"] is True
    assert "Traceback" not in ended.stderr


def test_a_database_path_below_a_regular_file_is_refused_before_any_request(
    sqlite_stage: Stage, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a directory")
    place = str(tmp_path / "file" / "below" / "lore.db")
    assert_refused(sqlite_stage.lore(*COMMAND, "--db", place), place)
    assert sqlite_stage.requests == 0


def test_a_directory_at_the_database_path_is_refused(sqlite_stage: Stage, tmp_path: Path) -> None:
    place = tmp_path / "lore.d"
    place.mkdir()
    assert_refused(sqlite_stage.lore(*COMMAND, "--db", str(place)), str(place))
    assert sqlite_stage.requests == 0
    assert list(place.iterdir()) == []


def test_an_unreachable_database_server_is_refused_before_any_request(sqlite_stage: Stage, tmp_path: Path) -> None:
    ended = sqlite_stage.lore(*COMMAND, "--db", f"postgresql://postgres@/nowhere?host={tmp_path}")
    assert_refused(ended, "nowhere", "DATABASE_UNREACHABLE")
    assert sqlite_stage.requests == 0


def limit_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, SMALL))


def test_a_file_size_limit_ends_the_run_and_loses_nothing(sqlite_stage: Stage) -> None:
    stage = sqlite_stage
    assert_refused(stage.lore(*COMMAND, limit=limit_files), stage.address)
    complete_afterwards(stage)


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A file system of its own, with room for some pages only."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount the small disk; the file size limit stands for it in the test above")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"this machine does not mount a small disk: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_ends_the_run_and_the_next_one_with_space_completes_the_copy(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with small_disk(disk), open_stage(str(disk / "lore.db"), tmp_path) as stage:
        full = stage.lore(*COMMAND)
        assert_refused(full, stage.address)
        assert "full" in full.error["message"]
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        complete_afterwards(stage)


def complete_afterwards(stage: Stage) -> None:
    """With room again, the same command goes on where the storage refused."""
    again = stage.lore(*COMMAND)
    assert again.code == 0, again
    assert stage.run_statuses()[-1] == "succeeded"
    assert "running" not in stage.run_statuses()
    assert sorted(stage.payloads()) == sorted(stage.true_payloads("issues"))
    stage.assert_copy_is_true("issues")
