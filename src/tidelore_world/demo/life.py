"""Life in a simulated world while somebody watches: a seeded mix of changes in every network, at the pace of our clock.

Owns the thread, what happens in a step and the operator who asks for a status now and then. Invariant: the world's
clock goes with ours, so nothing on a screen is younger than the present.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelore.core.clock import Clock
    from tidelore_world.world import World

STEP_SECONDS = (0.7, 1.6)
COMMAND = "/lore status"
FIRST_COMMAND, COMMANDS_APART = 2, 6
"""After how many steps the operator speaks for the first time, and how many there are between two commands."""


class Life:
    """What goes on in a world; `changes` are counted by network, `commands` are the operator's.

    Same seed, same changes in the same order; how many of them there are is up to how long it is watched.
    """

    def __init__(self, world: World, seed: int, operator: str, clock: Clock) -> None:
        self.changes: Counter[str] = Counter()
        self.commands = 0
        self._world = world
        self._rng = random.Random(f"life of {seed}")
        self._operator = operator
        self._clock = clock
        self._steps = 0
        self._stopped = threading.Event()
        self._error: BaseException | None = None

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Let things happen on a thread of its own until the block ends."""
        thread = threading.Thread(target=self._live, name="world", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join()
        if self._error is not None:
            raise self._error

    def step(self) -> None:
        """Let the time pass that has passed for us, and one thing happen in each network."""
        from tidelore_world.gitlab.actions import EVERYDAY, ON_REQUEST

        world, rng = self._world, self._rng
        with world.lock:
            world.advance(max(0.0, self._clock.now_ms() / 1000 - world.clock.now_us / 1_000_000))
            self.changes["gitlab"] += len(world.gitlab.change(1, rng, [*EVERYDAY, *ON_REQUEST]))
            self.changes["github"] += len(world.github.change(1, rng))
            self.changes["bluesky"] += len(world.bluesky.change(1, rng))
            if self._steps % COMMANDS_APART == FIRST_COMMAND:
                self._command()
        self._steps += 1

    def _command(self) -> None:
        github = self._world.github
        open_pulls = [
            (repo, int(pull["number"]))
            for repo in github.truth_repos()
            for pull in github.truth_pulls(repo)
            if pull["state"] == "open"
        ]
        if open_pulls:
            repo, number = self._rng.choice(open_pulls)
            github.comment(repo, number, COMMAND, self._operator)
            self.commands += 1

    def _live(self) -> None:
        try:
            while not self._stopped.wait(self._rng.uniform(*STEP_SECONDS)):
                self.step()
        except Exception as error:  # noqa: BLE001 - raised again where the block ends; a thread has nobody to tell
            self._error = error
