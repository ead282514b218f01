"""A process that replies and is killed as soon as the server has accepted the reply, before that is stored.

python killed_reply.py CONFIG DATABASE REF BODY
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from tidelore.app.wiring import App
from tidelore.app.writing.replying import ReplyTo, reply_to
from tidelore.core.config_file import load_config
from tidelore.engine.crashpoint import Seam


def run(config: str, database: str, reference: str, body: str) -> None:
    """Reply, and die."""

    def passing(here: Seam) -> None:
        if here is Seam.AFTER_POST:
            os.kill(os.getpid(), signal.SIGKILL)

    app = App(load_config(config, dict(os.environ)), dict(os.environ), db=database, seam=passing)
    asyncio.run(reply_to(app, ReplyTo(reference=reference, body=body)))


if __name__ == "__main__":
    run(*sys.argv[1:])
