"""Real processes that do the same thing at the same instant: each waits at the line until all have arrived."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

_PRELUDE = "import sys\n{prepare}\nprint('ready', flush=True)\nsys.stdin.readline()\n{act}\n"


def race(runners: int, prepare: str, act: str, arguments: Sequence[str]) -> list[str]:
    """Run `prepare` in each process, then `act` in all at once; return what each printed."""
    script = _PRELUDE.format(prepare=prepare, act=act)
    crowd = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", script, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(runners)
    ]
    try:
        for runner in crowd:
            assert runner.stdout is not None
            assert runner.stdout.readline() == "ready\n", runner.communicate(timeout=30)[1]
        for runner in crowd:
            assert runner.stdin is not None
            runner.stdin.write("go\n")
            runner.stdin.flush()
        ends = [runner.communicate(timeout=60) for runner in crowd]
    finally:
        for runner in crowd:
            if runner.poll() is None:
                runner.kill()
                runner.communicate()
    assert [error for _, error in ends if error] == []
    return [output.strip() for output, _ in ends]
