"""Benchmark `cold-start`: how long the installed `lore` takes from nothing, against a bare interpreter.

The commands are started in turn, so that each sees the same machine; medians are compared.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks.findings import Finding
from benchmarks.scale import Scale
from benchmarks.workplace import copy_lists, served_world
from benchmarks.world_server import half_and_half

BOUNDS = {"lore --version": 2.5, "lore count": 4.0}
ROWS = 1_000


def run(scale: Scale) -> Iterator[Finding]:
    """Measure a command that needs nothing and one that reads the copy."""
    # Not resolved: the script stands beside the environment's own interpreter, which is a link.
    lore = str(Path(sys.executable).with_name("lore"))
    bare = (sys.executable, "-c", "pass")
    commands = {"lore --version": (lore, "--version"), "lore count": (lore, "count")}
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "lore.db"
        with served_world(half_and_half(ROWS)) as url:
            copy_lists(url, database)
        # Without PYTHON*: as a user starts it, with compiled modules kept from one start to the next.
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LORE_", "PYTHON"))}
        environ = {**kept, "LORE_DB": str(database), "XDG_CONFIG_HOME": folder}
        seconds = alternate({"bare": bare, **commands}, environ, scale.starts)
    yield Finding("cold-start", f"python -c pass, median of {scale.starts}", seconds["bare"] * 1000, "ms")
    for title in commands:
        yield Finding("cold-start", title, seconds[title] * 1000, "ms")
        yield Finding("cold-start", f"{title} / python -c pass", seconds[title] / seconds["bare"], "x", BOUNDS[title])


def alternate(commands: Mapping[str, Sequence[str]], environ: Mapping[str, str], rounds: int) -> dict[str, float]:
    """Return the median seconds of each command, started in turn."""
    times: dict[str, list[float]] = {title: [] for title in commands}
    for number in range(rounds + 1):
        for title, command in commands.items():
            started = perf_counter()
            subprocess.run(command, env=environ, stdout=subprocess.DEVNULL, check=True)
            # The first round fills the file cache and the bytecode cache.
            if number:
                times[title].append(perf_counter() - started)
    return {title: median(values) for title, values in times.items()}
