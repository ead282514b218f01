"""A process that answers on a merge request and dies by SIGKILL at a chosen instant.

    python gitlab_answer_driver.py DATABASE BASE_URL PROJECT SEAM

Owns the death: at the first visit of the seam the process kills itself. With the seam `none` it lives.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

from tidelore.app.feedback_events import post_answer
from tidelore.app.wiring import App
from tidelore.core.config_file import parse_config
from tidelore.engine.crashpoint import Seam
from tidelore.feedback.outbox import AnswerRequest
from tidelore.feedback.repositories import choose_repo

SETTLE_SECONDS = 0.4


def run(argv: Sequence[str]) -> int:
    address, base_url, project, deadly = argv

    def passing(here: Seam) -> None:
        if here == deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    host = {
        "base_url": base_url,
        "projects": [project],
        "settle_write_seconds": SETTLE_SECONDS,
        "write_interval_seconds": 0,
    }
    config = parse_config({"http": {"max_retries": 0, "timeout_seconds": 5}, "gitlab": [host]})
    app = App(config, {"GITLAB_TOKEN": "a-token-of-the-tests"}, address, seam=passing)
    answering = AnswerRequest("pr", 1, "Because.", "reply")
    asyncio.run(post_answer(app, choose_repo(config, None), answering))
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
