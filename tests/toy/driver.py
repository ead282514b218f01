"""The command `lore` with the toy tracker in its registry, in a process that may be killed at a seam.

Takes the arguments of `tests/crash/driver.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.crash.driver import run
from tests.toy.source import TOY

from tidelore.sources.registry import also

if __name__ == "__main__":
    with also(TOY):
        sys.exit(run(sys.argv[1:]))
