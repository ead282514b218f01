"""A simulated Bluesky as people are followed there, as a process of its own: `python -m benchmarks.network`.

Owns the mix: how many accounts post how often, so that 342 of them bring 50 to 150 posts in a regular cycle, and some
18,000 in a first one. It prints its address once it listens.
"""

from __future__ import annotations

import argparse
import random
from typing import NamedTuple

from msgspec import Struct

from tidelore.core.clock import SystemClock, format_instant
from tidelore_world.bluesky.records import Card
from tidelore_world.clock import DAY_US, HOUR_US
from tidelore_world.server import run_forever
from tidelore_world.world import World

BEHIND_MS = 2 * 3_600_000
"""The network's present is so long ago, so that it has room for changes before the machine's own present."""
_TEXTS = 500


class Text(NamedTuple):
    """What a post says, and the page it shows."""

    words: str
    card: Card | None


class Habit(Struct, frozen=True):
    """Which share of the accounts posts how often, and how many posts they had written before the last day."""

    share: float
    posts_a_day: float
    before: int


MIX = (
    Habit(0.018, 480.0, 60),
    Habit(0.07, 72.0, 60),
    Habit(0.30, 6.0, 45),
    Habit(0.36, 0.5, 48),
    Habit(0.19, 1 / 30, 30),
    Habit(0.03, 0.0, 0),
)
"""Newsrooms, the talkative, the regular, the occasional, the silent, and those who never wrote; the rest is gone."""


class Crowd(Struct, frozen=True):
    """How many accounts there are: a mix of them, or as many with a few posts each; and what a stream has to tell."""

    mixed: int = 0
    plain: int = 0
    streamed: int = 0


def build(crowd: Crowd, start_ms: int) -> World:
    """Return a network with these accounts at an instant."""
    world = World(start=format_instant(start_ms))
    world.keep_log = False
    world.bluesky.settings.rate_limit = None
    world.bluesky.settings.stream_backlog = 1 << 40
    rng = random.Random(7)
    texts = write_texts(world)
    now_us = world.clock.now_us
    moments: list[tuple[int, str]] = []
    gone: list[str] = []
    for index in range(crowd.mixed):
        handle = f"account{index}.example"
        world.bluesky.create_account(handle, at_us=now_us - 400 * DAY_US)
        habit = habit_of(index, crowd.mixed)
        if habit is None:
            gone.append(handle)
            continue
        moments += ((now_us - DAY_US - round(rng.random() * 300 * DAY_US), handle) for _ in range(habit.before))
        moments += ((now_us - round(rng.random() * DAY_US), handle) for _ in range(happen(habit.posts_a_day, rng)))
    for index in range(crowd.plain):
        handle = f"account{index}.example"
        world.bluesky.create_account(handle, at_us=now_us - 400 * DAY_US)
        moments.append((now_us - round(rng.random() * 20 * DAY_US), handle))
    spread = (now_us - HOUR_US + number for number in range(crowd.streamed))
    moments += ((at_us, f"account{number % crowd.mixed}.example") for number, at_us in enumerate(spread))
    for at_us, handle in sorted(moments):
        text = rng.choice(texts)
        world.bluesky.post(handle, text.words, external=text.card, at_us=at_us)
    for handle in gone:
        world.bluesky.deactivate(handle)
    return world


def write_texts(world: World) -> list[Text]:
    """Return what people say; every second of it shares a link."""
    found: list[Text] = []
    for number in range(_TEXTS):
        words, links = world.prose.post(world.prose.topic())
        card = next((Card(link.url, link.title, link.description) for link in links if link.url not in words), None)
        found.append(Text(words, card) if number % 2 else Text(words.partition(" http")[0], None))
    return found


def habit_of(index: int, accounts: int) -> Habit | None:
    """Return how often one of so many accounts posts; None for one that is gone."""
    place = (index + 0.5) / accounts
    for habit in MIX:
        place -= habit.share
        if place < 0:
            return habit
    return None


def happen(expected: float, rng: random.Random) -> int:
    """Return how often something happens that is expected so often: by chance, and at no set times."""
    count, left = 0, rng.expovariate(1.0)
    while left < expected:
        count += 1
        left += rng.expovariate(1.0)
    return count


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in Crowd.__struct_fields__:
        parser.add_argument(f"--{name}", type=int, default=0)
    parser.add_argument("--latency-ms", type=float, default=0.0)
    options = vars(parser.parse_args())
    latency = options.pop("latency_ms") / 1000
    world = build(Crowd(**options), SystemClock().now_ms() - BEHIND_MS)
    run_forever(world, 0, latency, ready=lambda url: print(url, flush=True))


if __name__ == "__main__":
    main()
