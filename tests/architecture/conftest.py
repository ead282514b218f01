"""The source the rules hold, and a way to build a small one that breaks them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tidelore
import tidelore_world


@pytest.fixture(scope="session")
def source() -> Path:
    """The folder of the package."""
    return Path(tidelore.__file__).parent


@pytest.fixture(scope="session")
def world_source() -> Path:
    """The folder of the simulated world."""
    return Path(tidelore_world.__file__).parent


@pytest.fixture
def plant(tmp_path: Path) -> Callable[..., Path]:
    """Write modules below a fresh folder: `plant({"cli/main.py": "import os"})` returns the folder."""

    def write(files: dict[str, str]) -> Path:
        root = tmp_path / "tidelore"
        for name, text in {"__init__.py": '"""Root."""\n', **files}.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return root

    return write
