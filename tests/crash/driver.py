"""The command `lore` in a process that dies by SIGKILL at a chosen instant, or gets another signal there.

By SIGSTOP it stands still there, with all it holds, until it gets SIGCONT.

    python driver.py [STAGE/]SEAM N SIGNAL [VISITS_FILE] -- lore arguments...

Owns the death: at the N-th visit of the seam (of those after the seam STAGE, if one is named) the process kills
itself, with no handler, no flush and no rollback. N = 0 never dies; then, and only then, VISITS_FILE receives how
often each seam was passed: in all, and while the lists were read, before their children. With SECONDS_BEFORE_DEATH
the thread that came there waits first, while the other threads go on. With SECONDS_TOGETHER parents wait that long for
each other before their children are stored, so that what a transaction holds does not depend on the machine's load.
Otherwise production code is called as it is: the seam is a parameter of `main`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tidelore.cli.main import main
from tidelore.engine import child_batch
from tidelore.engine.crashpoint import Crashpoint, Seam


def kill_at(instant: str, visit: int, number: int, visits: Counter[Seam], lists: Counter[Seam]) -> Crashpoint:
    """Return a crashpoint that counts every visit and ends the process at one of them."""
    stage, _, seam = instant.rpartition("/")
    late: Counter[Seam] = Counter()

    def passing(here: Seam) -> None:
        visits[here] += 1
        late[here] += not stage or visits[Seam(stage)] > 0
        if here is Seam.SCOPE_DONE:
            lists.clear()
            lists.update(visits)
        if here == seam and late[here] == visit:
            time.sleep(float(os.environ.get("SECONDS_BEFORE_DEATH", "0")))
            os.kill(os.getpid(), number)

    return passing


def run(argv: Sequence[str]) -> int:
    """Run the command; come back only if the seam was visited fewer than N times."""
    cut = argv.index("--")
    (instant, visit, number, *report), command = argv[:cut], argv[cut + 1 :]
    visits: Counter[Seam] = Counter()
    lists: Counter[Seam] = Counter()
    child_batch.TOGETHER_SECONDS = float(os.environ.get("SECONDS_TOGETHER", child_batch.TOGETHER_SECONDS))
    code = main(command, seam=kill_at(instant, int(visit), int(number), visits, lists))
    if report and visit == "0":
        Path(report[0]).write_text(json.dumps({seam.value: (visits[seam], lists[seam]) for seam in Seam}))
    return code


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
