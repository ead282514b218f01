"""The image is built and runs, where a container engine answers; test_deploy.py checks its file elsewhere."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.architecture.test_deploy import containerfile_problems, instructions

import tidelore

ROOT = Path(__file__).parents[2]
IMAGE = "lore-built-by-a-test"


def find_engine() -> str | None:
    """Return the container engine that answers here: an installed client alone cannot build anything."""
    for name in ("podman", "docker"):
        program = shutil.which(name)
        if program is None:
            continue
        asked = subprocess.run([program, "info"], capture_output=True, timeout=60, check=False)
        if asked.returncode == 0:
            return program
    return None


@pytest.mark.deep
def test_the_image_is_built_and_runs_as_an_unprivileged_user_or_its_file_is_sound() -> None:
    engine = find_engine()
    if engine is None:
        # Nothing here can build it: at least its text must be sound.
        assert containerfile_problems(instructions()) == []
        return
    built = subprocess.run(
        [engine, "build", "--tag", IMAGE, "--file", "deploy/Containerfile", "."],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert built.returncode == 0, built.stderr[-2000:]
    try:
        assert tidelore.__version__ in _run(engine, "--version")
        assert _run(engine, "-c", "import os; print(os.getuid() != 0)", entrypoint="python").strip() == "True"
    finally:
        subprocess.run([engine, "rmi", "--force", IMAGE], capture_output=True, timeout=120, check=False)


def _run(engine: str, *words: str, entrypoint: str = "lore") -> str:
    command = [engine, "run", "--rm", "--entrypoint", entrypoint, IMAGE, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
