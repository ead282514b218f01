"""A simulated GitLab with a long history, as a process of its own: `python -m benchmarks.world_server`.

Owns the serving side. It prints its address once it listens and serves until it is told to stop, so that
what is measured shares neither an interpreter nor its lock with what answers.
"""

from __future__ import annotations

import argparse

from msgspec import Struct

from tidelore_world.server import run_forever
from tidelore_world.world import World

PROJECT = "harbour/archive"


class Contents(Struct, frozen=True):
    """What the one project holds: so many items, and under each so many children."""

    issues: int
    merge_requests: int
    discussions: int = 0
    notes: int = 0
    events: int = 0
    files: int = 0

    @property
    def items(self) -> int:
        return self.issues + self.merge_requests


def half_and_half(items: int) -> Contents:
    """Return bare items: half of them issues, half merge requests."""
    return Contents(items // 2, items - items // 2)


def build(contents: Contents) -> World:
    """Return a world with one project."""
    world = World()
    world.keep_log = False
    world.gitlab.graphql_kept = {}
    project = world.gitlab.create_project(PROJECT)
    world.gitlab.bulk(
        project.id,
        contents.issues,
        contents.merge_requests,
        discussions=contents.discussions,
        notes=contents.notes,
        events=contents.events,
        files=contents.files,
    )
    return world


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in Contents.__struct_fields__:
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=0)
    parser.add_argument("--latency-ms", type=float, default=0.0)
    options = vars(parser.parse_args())
    latency = options.pop("latency_ms") / 1000
    run_forever(build(Contents(**options)), 0, latency, ready=lambda url: print(url, flush=True))


if __name__ == "__main__":
    main()
