"""The built package: what lies in the sdist and the wheel, and what an installation from the wheel can do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what `make dist` builds."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return folder


def wheel_of(dist: Path) -> Path:
    (wheel,) = dist.glob("*.whl")
    return wheel


class Installation:
    """The wheel in a virtual environment of its own, used from an empty home directory."""

    def __init__(self, folder: Path, wheel: Path, extras: str) -> None:
        self._bin = folder / "venv" / "bin"
        self._home = folder / "home"
        self._home.mkdir()
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True, timeout=120)
        pip = [str(self._bin / "pip"), "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), f"{wheel}{extras}"], check=True, timeout=900)

    @property
    def environ(self) -> Mapping[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LORE_", "XDG_", "PYTHON"))}
        return kept | {"HOME": str(self._home), "PATH": f"{self._bin}:{os.environ['PATH']}"}

    def lore(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self._bin / "lore"), *argv],
            cwd=self._home,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def data(self, *argv: str) -> Any:
        done = self.lore("--robot", "--full", *argv)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)["data"]

    def error(self, *argv: str) -> tuple[int, str, str]:
        done = self.lore("--robot", *argv)
        error = json.loads(done.stdout)["error"]
        return done.returncode, error["code"], error["fix"]


def test_the_sdist_contains_license_and_sources_and_no_database(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "constraints.txt", "Makefile", "docs/install.md"} <= names
    assert {"src/tidelore/__init__.py", "src/tidelore_world/__init__.py", "tests/conftest.py"} <= names
    assert [name for name in names if ".db" in Path(name).name or ".venv" in name or "__pycache__" in name] == []


def test_the_wheel_contains_both_packages_with_data_and_license(dist: Path) -> None:
    with zipfile.ZipFile(wheel_of(dist)) as archive:
        names = set(archive.namelist())
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        headers = HeaderParser().parsestr(archive.read(metadata).decode())
    assert headers["License-Expression"] == "Apache-2.0"
    assert metadata.replace("METADATA", "licenses/LICENSE") in names
    data = metadata.partition("/")[0].replace(".dist-info", ".data")
    known = {"tidelore", "tidelore_world", metadata.partition("/")[0], data}
    assert {name.partition("/")[0] for name in names} == known
    assert [name for name in names if name.startswith(data)] == [f"{data}/data/share/man/man1/lore.1"]
    shipped = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*") if path.is_file()}
    assert {name for name in shipped if "__pycache__" not in name} <= names


def test_a_wheel_without_extras_syncs_and_searches_words_and_names_missing_extras(dist: Path, tmp_path: Path) -> None:
    bare = Installation(tmp_path, wheel_of(dist), "")
    assert bare.lore("--version").stdout.startswith("lore ")
    doctor = bare.lore("doctor")
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    told = bare.lore("demo")
    assert told.returncode == 0, told.stdout + told.stderr
    assert "9. Search by words" in told.stdout
    assert "pip install 'tidelore[vectors]'" in told.stdout
    assert "found: " in told.stdout.partition("10. ")[2]
    lived = bare.lore("demo", "--console", "--for", "3", "--scale", "0.2")
    assert lived.returncode == 0, lived.stdout + lived.stderr
    assert "The service stored:" in lived.stdout
    postgres = ("count", "--db", "postgresql://harbor@127.0.0.1:9/lore")
    assert bare.error(*postgres) == (2, "EXTRA_MISSING", "pip install 'tidelore[postgres]'")


def test_a_wheel_with_all_extras_runs_the_demo_with_semantic_search(dist: Path, tmp_path: Path) -> None:
    whole = Installation(tmp_path, wheel_of(dist), "[all]")
    assert whole.lore("--version").stdout.startswith("lore ")
    doctor = whole.lore("doctor")
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    data = whole.data("demo")
    assert data["search"]["documents"] == data["search"]["embedded"] > 0
    assert data["refreshed"]["found"] is True
    assert all((found["missing"], found["extra"]) == (0, 0) for found in data["comparison"])
    assert whole.error("count", "--db", "postgresql://harbor@127.0.0.1:9/lore")[1] == "DATABASE_UNREACHABLE"
