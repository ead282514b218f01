"""The main thread hears signals whatever the work does, and ends the process when the work does not."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import pytest

STUCK = """
    import threading
    from tidelore.service import threads as supervisor
    from tidelore.service.control import Control
    from tidelore.store.database.port import Patience

    async def stuck():
        print("begun", flush=True)
        # Blocks its own loop, as a store call does that cannot be interrupted.
        threading.Event().wait()

    supervisor.STOP_SECONDS = 0.2
    supervisor.supervise(stuck, Control(), Patience())
"""
WAITING = """
    from tidelore.service import threads as supervisor
    from tidelore.service.control import Control
    from tidelore.store.database.port import Patience

    patience = Patience()

    async def waiting():
        print("begun", flush=True)
        # As a store call that waits for a lock.
        assert patience.pause(600) is False
        return "gave up"

    supervisor.WAIT_SECONDS = 0.1
    print(supervisor.supervise(waiting, Control(), patience), flush=True)
"""


def run(script: str, numbers: list[int]) -> tuple[int, str]:
    words = [sys.executable, "-c", textwrap.dedent(script)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        for number in numbers:
            process.send_signal(number)
        out, _ = process.communicate(timeout=30)
        return process.returncode, out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_work_that_cannot_be_stopped_ends_with_its_process(number: int) -> None:
    code, out = run(STUCK, [number])
    assert (code, "did not stop in time" in out) == (1, True)


@pytest.mark.parametrize("numbers", [[signal.SIGTERM], [signal.SIGINT, signal.SIGTERM]])
def test_a_store_call_that_waits_gives_up_when_the_service_is_asked_to_stop(numbers: list[int]) -> None:
    assert run(WAITING, numbers) == (0, "gave up\n")
