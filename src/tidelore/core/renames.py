"""Find all names that one file has had, by following its renames in both directions.

The search is breadth first, visits each name once and stops at a limit, so it ends also for circles and long chains.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

NAMES_LIMIT = 100
"""A file with more names than this is a generated one, or several that took each other's names."""


class Rename(Struct, frozen=True):
    """A merge request that gave the file another name; `at` is when it was merged, else last updated."""

    old_path: str
    new_path: str
    iid: int
    state: str
    at: int


class Lineage(Struct, frozen=True):
    """The names of a file, the oldest first, and the renames between them; `cut` when there are more."""

    names: tuple[str, ...]
    renames: tuple[Rename, ...] = ()
    cut: bool = False


def follow_renames(
    start: str, renames_of: Callable[[str], Iterable[Rename]], names_limit: int = NAMES_LIMIT
) -> Lineage:
    """Return every name that renames connect with `start`; `renames_of` gives those a name takes part in."""
    # How many renames lie between a name and `start`: negative before it, positive after it.
    distances = {start: 0}
    found: dict[Rename, None] = {}
    cut = False
    waiting = deque([start])
    while waiting:
        name = waiting.popleft()
        for rename in renames_of(name):
            later = rename.old_path == name
            other = rename.new_path if later else rename.old_path
            if other not in distances:
                if len(distances) >= names_limit:
                    cut = True
                    continue
                distances[other] = distances[name] + (1 if later else -1)
                waiting.append(other)
            found[rename] = None
    renames = tuple(sorted(found, key=_by_age))
    # In a circle a distance says nothing about age, so the renames themselves tell the order where they are one chain.
    names = list(dict.fromkeys(_chain(renames))) or sorted(distances, key=distances.__getitem__)
    return Lineage(tuple(names), renames, cut)


def describe_lineage(lineage: Lineage) -> str:
    """Return the names in a line, with an arrow where a rename leads from one to the next."""
    chain = _chain(lineage.renames)
    if chain:
        return " -> ".join(chain)
    steps = {(rename.old_path, rename.new_path) for rename in lineage.renames}
    text = lineage.names[0]
    for before, after in zip(lineage.names, lineage.names[1:], strict=False):
        text += f" -> {after}" if (before, after) in steps else f", {after}"
    return text


def _chain(renames: Sequence[Rename]) -> list[str]:
    """Return the names in the order of time, one as often as the file had it; empty where they are no single chain."""
    names: list[str] = []
    for rename in renames:
        if names[-2:] == [rename.old_path, rename.new_path]:
            # The same step in another merge request.
            continue
        if names and names[-1] != rename.old_path:
            return []
        names += [rename.new_path] if names else [rename.old_path, rename.new_path]
    return names


def _by_age(rename: Rename) -> tuple[int, int, str]:
    return rename.at, rename.iid, rename.old_path
