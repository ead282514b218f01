"""A process that posts what is due and dies by SIGKILL at a chosen instant.

    python outbound_driver.py DATABASE BASE_URL SETTLE_SECONDS SEAM

Owns the death: at the first visit of the seam the process kills itself, with no handler, no flush and no rollback.
With the seam `none` it lives. The outbox is called as it is: the seam is a parameter of it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

from tidelore.core.clock import SystemClock
from tidelore.core.config import Config, GitHubHost, Http
from tidelore.engine.crashpoint import Seam
from tidelore.feedback.outbox import Outbox
from tidelore.sources.github.source import open_github
from tidelore.sources.ports import Wiring
from tidelore.store.database.opening import open_database


async def send(address: str, base_url: str, settle_seconds: float, deadly: str) -> None:
    """Send everything that is due, or die."""

    def passing(here: Seam) -> None:
        if here == deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    host = GitHubHost(base_url=base_url, settle_write_seconds=settle_seconds, write_interval_seconds=0)
    config = Config(http=Http(max_retries=0, timeout_seconds=5), github=(host,))
    database = open_database(address, create=False)
    try:
        async with open_github(host, Wiring(config, SystemClock(), {}, lambda _metric: None)) as source:
            await Outbox(database, source, host, SystemClock(), passing).send_due(100)
    finally:
        database.close()


def run(argv: Sequence[str]) -> int:
    address, base_url, settle_seconds, deadly = argv
    asyncio.run(send(address, base_url, float(settle_seconds), deadly))
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
