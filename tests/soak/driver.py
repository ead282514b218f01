"""The service in a process whose clock is a file: it stands still until whoever holds the file moves it.

    python driver.py CLOCK_FILE CONFIG_FILE DATABASE

Owns the clock; everything else is production code, called as `lore service` calls it. The file holds one number, the
present instant in microseconds: wall clock and growing seconds both follow it. A sleep looks at it again and again.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

from tidelore.app import feedback_jobs, service_jobs
from tidelore.app.serving import ServeRequest, run_service
from tidelore.app.wiring import App, SettingsFile
from tidelore.cli.output.logs import set_up_logging
from tidelore.core.config_file import load_config

LOOK_SECONDS = 0.004
"""How often a sleeper looks at the file, in seconds of the machine."""
SELDOM_SECONDS = 900.0
"""How often rows are looked at that nobody announced: a week of looks every 15 seconds would be all that is seen."""


class FileClock:
    """Time by command."""

    def __init__(self, path: str) -> None:
        with Path(path).open("rb") as file:
            self._marks = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)

    def _now_us(self) -> int:
        return int(struct.unpack("<q", self._marks[:8])[0])

    def now_ms(self) -> int:
        return self._now_us() // 1000

    def monotonic(self) -> float:
        return self._now_us() / 1_000_000

    async def sleep(self, seconds: float) -> None:
        until = self.monotonic() + seconds
        await asyncio.sleep(0)
        while self.monotonic() < until:  # noqa: ASYNC110 - no event tells of a file that changed
            await asyncio.sleep(LOOK_SECONDS)


def run(argv: Sequence[str]) -> int:
    """Serve until told to stop."""
    clock_file, config, database = argv
    clock = FileClock(clock_file)
    service_jobs.DOCUMENTS_SECONDS = SELDOM_SECONDS
    feedback_jobs.ANSWERS_SECONDS = SELDOM_SECONDS
    service_jobs.BLUESKY_LOOK_SECONDS = SELDOM_SECONDS

    def build() -> App:
        return App(load_config(config, {}), dict(os.environ), database, clock)

    def log_as_asked(app: App) -> None:
        set_up_logging(app.config, verbose=False, quiet=False, service=True)

    app = build()
    log_as_asked(app)
    run_service(app, ServeRequest(), SettingsFile(config, build, log_as_asked))
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
