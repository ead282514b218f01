"""Life without a script: which of many things happens next. Owns the draw; refuses to know what any of them does.

Invariant: same generator, same deeds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def draw(
    weights: Mapping[str, float],
    act: Callable[[str], dict[str, Any] | None],
    count: int,
    rng: random.Random,
    kinds: Sequence[str] | None,
    advance: Callable[[float], None] | None,
) -> list[dict[str, Any]]:
    """Let `count` things happen, or as many as can; `act` does one and tells of it. With `advance`, time passes."""
    names = list(weights) if kinds is None else list(kinds)
    unknown = [name for name in names if name not in weights]
    if unknown:
        raise ValueError(f"unknown changes {unknown}; known: {', '.join(weights)}")
    done: list[dict[str, Any]] = []
    attempts = 0
    while len(done) < count and attempts < 20 * count:
        attempts += 1
        if advance is not None:
            advance(rng.randint(1, 90))
        name = rng.choices(names, [weights[name] for name in names])[0]
        told = act(name)
        if told is not None:
            done.append({"kind": name, **told})
    return done
