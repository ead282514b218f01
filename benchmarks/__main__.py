"""The command: run the benchmarks, print one table, write one file, and fail when a bound is broken."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from benchmarks import (
    agents,
    batches,
    bluesky,
    cold_start,
    console,
    conversations,
    embedding,
    feedback,
    github,
    hooks,
    many_projects,
    memory,
    mirror,
    pauses,
    peer,
    poll,
    postgres,
    reads,
    search,
    surgical,
    web,
    workers,
)
from benchmarks.findings import Finding, save, table
from benchmarks.recorded import Recorded, record
from benchmarks.scale import FULL, QUICK, Scale

BENCHMARKS: dict[str, Callable[[Scale], Iterator[Finding]]] = {
    "cold-start": cold_start.run,
    "poll": poll.run,
    "feedback": feedback.run,
    "github": github.run,
    "hooks": hooks.run,
    "bluesky": bluesky.run,
    "many-projects": many_projects.run,
    "memory": memory.run,
    "mirror": mirror.run,
    "conversations": conversations.run,
    "batches": batches.run,
    "peer": peer.run,
    "pauses": pauses.run,
    "reads": reads.run,
    "postgres": postgres.run,
    "console": console.run,
    "embedding": embedding.run,
    "search": search.run,
    "surgical": surgical.run,
    "web": web.run,
    "workers": workers.run,
    "agents": agents.run,
}


def _names(text: str) -> list[str]:
    """Parse a list of benchmarks with commas between them."""
    names = text.split(",")
    if unknown := [name for name in names if name not in BENCHMARKS]:
        raise argparse.ArgumentTypeError(f"no benchmark {unknown[0]!r}; there are {', '.join(sorted(BENCHMARKS))}")
    return names


def main() -> int:
    """Return 1 when a bound is broken."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure what the project promises.")
    parser.add_argument("--only", type=_names, metavar="NAME,…", help=", ".join(sorted(BENCHMARKS)))
    parser.add_argument("--quick", action="store_true", help="smaller histories and fewer rounds, same bounds")
    parser.add_argument("--record", action="store_true", help="write the findings into docs/benchmarks.md")
    options = parser.parse_args()
    if options.record and options.quick:
        parser.error("--record needs the full size: leave out --quick")
    conditions = {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "quick": options.quick,
    }
    findings: list[Finding] = []
    for name, run in BENCHMARKS.items():
        if options.only and name not in options.only:
            continue
        print(f"{name} ...", file=sys.stderr, flush=True)
        found = _timed(run, QUICK if options.quick else FULL)
        findings.extend(found.findings)
        if options.record:
            # After each one, so that an interrupted run keeps what it measured.
            record({name: found}, list(BENCHMARKS))
    print(table(findings))
    path = save(findings, conditions)
    print(f"\nwritten to benchmarks/results/{path.name}")
    return int(any(finding.broken for finding in findings))


def _timed(run: Callable[[Scale], Iterator[Finding]], scale: Scale) -> Recorded:
    began, load = datetime.now(UTC), os.getloadavg()[0]
    findings = list(run(scale))
    seconds = round((datetime.now(UTC) - began).total_seconds())
    cores = os.cpu_count() or 1
    return Recorded(began.isoformat(timespec="seconds"), seconds, cores, load, platform.python_version(), findings)


if __name__ == "__main__":
    sys.exit(main())
