"""A process that replies to a thread or changes its state, and dies by SIGKILL at a chosen instant.

    python write_driver.py DATABASE BASE_URL VERB THREAD BODY SEAM

Owns the death: at the first visit of the seam the process kills itself. With the seam `none` it lives; it exits with 0
if the write is confirmed, else with 7.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

from tidelore.app.wiring import App
from tidelore.app.writing.replying import ChangeState, ReplyTo, change_state, reply_to
from tidelore.core.config_file import parse_config
from tidelore.engine.crashpoint import Crashpoint, Seam, no_seam

SETTLE_SECONDS = 0.6
LAB, HUB = "port/harbour", "harborline/ledger"
ENVIRON = {"GITLAB_TOKEN": "a-token-of-the-tests", "GITHUB_TOKEN": "ghp_0123456789abcdef0123"}


def make_app(address: str, base_url: str, seam: Crashpoint = no_seam) -> App:
    host = {"base_url": base_url, "settle_write_seconds": SETTLE_SECONDS, "write_interval_seconds": 0}
    config = parse_config(
        {
            "http": {"max_retries": 0, "timeout_seconds": 5},
            "embedding": {"provider": "none"},
            "gitlab": [host | {"projects": [LAB]}],
            "github": [host | {"repos": [{"name": HUB}], "mirror": "all"}],
        }
    )
    return App(config, ENVIRON, address, seam=seam)


def write(app: App, verb: str, thread: str, body: str) -> int:
    """Carry out one verb, as the command does."""
    if verb in ("reply", "reply --resolve"):
        answer = ReplyTo(reference=thread, body=body, resolve=verb.endswith("resolve"), refresh=False)
        _, error = asyncio.run(reply_to(app, answer))
    else:
        change = ChangeState(reference=thread, resolved=verb == "resolve", refresh=False)
        _, error = asyncio.run(change_state(app, change))
    return 0 if error is None else error.exit_code


def run(argv: Sequence[str]) -> int:
    address, base_url, verb, thread, body, deadly = argv

    def passing(here: Seam) -> None:
        if here == deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    return write(make_app(address, base_url, passing), verb, thread, body)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
