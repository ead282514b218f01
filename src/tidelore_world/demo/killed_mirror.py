"""The mirror of `lore demo`, and the process in which it is killed half way.

    python -m tidelore_world.demo.killed_mirror URL DATABASE COMMIT PROJECT...

Owns the death: at the given commit the process ends itself by SIGKILL inside the transaction, with no handler, no
flush and no rollback. The mirroring code is called as it is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tidelore.app.mirroring import mirror
from tidelore.app.wiring import App, run_until_signalled
from tidelore.core.config_file import parse_config
from tidelore.core.errors import TideloreError
from tidelore.engine.crashpoint import Crashpoint, Seam, no_seam
from tidelore_world.demo.text import FATE

if TYPE_CHECKING:
    from tidelore.sync.report import RunReport

RESOURCES = ("issues", "merge_requests")
GITHUB = "github"
ENVIRON = MappingProxyType({"GITHUB_TOKEN": "simulated"})
"""The simulated GitHub takes any token; without one, GraphQL and so the review threads could not be read."""


def open_app(
    url: str,
    database: str,
    paths: Sequence[str],
    seam: Crashpoint = no_seam,
    *,
    repos: Sequence[str] = (),
    accounts: Sequence[str] = (),
) -> App:
    """Return an application that mirrors these projects of a simulated GitLab, and every kind of children.

    With `repos` it mirrors repositories of the simulated GitHub too, with `accounts` Bluesky accounts.
    """
    tables: dict[str, Any] = {
        "gitlab": [{"name": "simulated", "base_url": url, "projects": list(paths)}],
        "sync": {"verify_reviewers": True},
    }
    if repos:
        tables["github"] = [{"name": GITHUB, "base_url": url, "repos": list(repos)}]
    if accounts:
        every = {"accounts": list(accounts), "initial_lookback_hours": 100_000}
        tables["bluesky"] = {"base_url": url, "plc_url": url, **every}
    return App(parse_config(tables), ENVIRON, db=database, seam=seam)


def mirror_all(
    app: App, *, walk: bool = True, scrub_budget: int | None = None, project: str | None = None
) -> RunReport:
    """Mirror issues, merge requests and their children, of one project or of all; without `walk` only verify them."""
    from tidelore.sync.mirror import MirrorRequest

    request = MirrorRequest(RESOURCES, project, walk=walk, scrub_budget=scrub_budget)
    return run_until_signalled(mirror(app, request, "lore demo"), FATE)


def mirror_and_die(url: str, database: str, paths: Sequence[str], commit: int) -> None:
    """Mirror in a process of its own that is killed inside its `commit`-th transaction; come back when it is dead."""
    command = [sys.executable, "-P", "-m", __spec__.name, url, database, str(commit), *paths]
    child = subprocess.run(  # noqa: S603 - this program's own module
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if child.returncode != -signal.SIGKILL:
        raise TideloreError(
            f"the process that should have been killed exited with {child.returncode}: {child.stderr.strip()}",
            fix="run it again with --verbose and report what it prints",
        )


def kill_at(seam: Seam, visit: int) -> Crashpoint:
    """Return a crashpoint that ends the process at the n-th visit of a seam."""
    left = visit

    def passing(here: Seam) -> None:
        nonlocal left
        left -= here is seam
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return passing


def main(argv: Sequence[str]) -> None:
    """Mirror until death."""
    url, database, commit, *paths = argv
    mirror_all(open_app(url, database, paths, kill_at(Seam.INSIDE_COMMIT, int(commit))))


if __name__ == "__main__":
    main(sys.argv[1:])
