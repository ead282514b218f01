"""Benchmark `memory`: the peak of a mirroring process, and whether it grows with the history.

Each mirror runs in a process of its own that reports its own peak: `python -m benchmarks.memory URL DB`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.findings import Finding
from benchmarks.scale import Scale
from benchmarks.workplace import ROOT, copy_lists, served_world, stored
from benchmarks.world_server import half_and_half

PEAK_BOUND_MB = 150
GROWTH_BOUND = 1.10


def run(scale: Scale) -> Iterator[Finding]:
    """Measure a history and one twice as long."""
    once, twice = (_peak_of_mirror(items) for items in (scale.items, 2 * scale.items))
    yield Finding("memory", f"peak with {scale.items:,} items", once, "MB", PEAK_BOUND_MB)
    yield Finding("memory", f"peak with {2 * scale.items:,} items", twice, "MB", PEAK_BOUND_MB)
    yield Finding("memory", "peak, history doubled", twice / once, "x", GROWTH_BOUND)


def peak_mb() -> float:
    """Return the largest resident size of this process so far."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not ru_maxrss: on Linux that outlives exec, so it would begin with the size of the parent.
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) / 1024
    import resource

    per_mb = 1024 * 1024 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / per_mb


def _peak_of_mirror(items: int) -> float:
    with served_world(half_and_half(items)) as url, tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.memory", url, str(Path(folder) / "lore.db")]
        answer = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    mirrored, peak = answer.stdout.split()
    if int(mirrored) != items:
        raise RuntimeError(f"{mirrored} of {items} items were mirrored")
    return float(peak)


def main() -> None:
    """Mirror and print how many items that was and what the peak is."""
    url, database = sys.argv[1:]
    report = copy_lists(url, Path(database))
    print(stored(report), peak_mb())


if __name__ == "__main__":
    main()
