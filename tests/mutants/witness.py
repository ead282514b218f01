"""A pytest plugin for the child process: it says which copy of the program is being tested, and keeps it so.

Tests that start processes with an environment of their own would reach the installed program; here they reach
the copy as well.
"""

from __future__ import annotations

import os
import subprocess
from typing import Any

import tidelore

MARK = "the program under test: "


def pytest_sessionstart() -> None:
    """Print where the program came from; the runner believes no verdict about another copy."""
    print(f"{MARK}{tidelore.__file__}")
    popen: Any = subprocess.Popen
    start = popen.__init__

    def start_with_the_copy(self: Any, *words: Any, env: dict[str, str] | None = None, **how: Any) -> None:
        if env is not None:
            env = {**env, "PYTHONPATH": os.environ["PYTHONPATH"]}
        start(self, *words, env=env, **how)

    popen.__init__ = start_with_the_copy
