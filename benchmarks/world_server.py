"""A simulated GitLab with a long history, as a process of its own: `python -m benchmarks.world_server`.

Owns the serving side. It prints its address once it listens and serves until it is told to stop, so that
what is measured shares neither an interpreter nor its lock with what answers.
"""

from __future__ import annotations

import argparse

from tidelore.simulator.server import run_forever
from tidelore.simulator.world import World

PROJECT = "harbour/archive"


def build(items: int) -> World:
    """Return a world with one project: half of the items are issues, half merge requests."""
    world = World()
    world.keep_log = False
    project = world.gitlab.create_project(PROJECT)
    world.gitlab.bulk(project.id, issues=items // 2, merge_requests=items - items // 2)
    return world


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, required=True)
    parser.add_argument("--latency-ms", type=float, default=0.0)
    options = parser.parse_args()
    run_forever(build(options.items), 0, options.latency_ms / 1000, ready=lambda url: print(url, flush=True))


if __name__ == "__main__":
    main()
