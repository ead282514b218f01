"""Diffs of merge requests: small, plausible unified hunks for given file paths.

Owns the text of a diff. Refuses to know merge requests. Invariant: same rng state and paths, same diff.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import PurePosixPath

from tidelore_world.gitlab.state import FileDiff

_CONTEXT = (
    "def settle(batch, clock):",
    "    if not batch:",
    "        return Outcome.empty()",
    "    deadline = clock.now() + LIMIT",
    "    for entry in batch.entries:",
    "        entry.apply(ledger)",
    "    return Outcome(batch.id, len(batch.entries))",
)
_OLD = (
    "    retries = 3",
    "    cursor = None",
    "    limit = settings.get('limit')",
    "    log.info('done')",
)
_NEW = (
    "    retries = policy.retries",
    "    cursor = store.cursor(scope)",
    "    limit = settings.require('limit')",
    "    log.info('settled', extra={'entries': len(entries)})",
    "    metrics.observe(elapsed)",
)


def make_diffs(rng: random.Random, paths: Sequence[str]) -> list[FileDiff]:
    """One to three changed files; now and then one is new, renamed or removed."""
    chosen = list(paths[: rng.randint(1, 3)]) or ["README.md"]
    return [make_diff(rng, path) for path in chosen]


def make_diff(rng: random.Random, path: str) -> FileDiff:
    """One changed file, once in eight new, once in twelve renamed, once in twenty removed."""
    dice = rng.random()
    if dice < 0.12:
        added = rng.sample(_NEW, 3)
        return FileDiff(path, path, _hunk(0, 0, [f"+{line}" for line in added]), new_file=True)
    if dice < 0.2:
        old = str(PurePosixPath(path).with_name(f"old_{PurePosixPath(path).name}"))
        return FileDiff(old, path, _edit_hunk(rng), renamed_file=True)
    if dice < 0.25:
        removed = [f"-{line}" for line in rng.sample(_OLD, 3)]
        return FileDiff(path, path, _hunk(1, 0, removed), deleted_file=True)
    return FileDiff(path, path, _edit_hunk(rng))


def _edit_hunk(rng: random.Random) -> str:
    start = rng.randint(4, 180)
    before, after = _CONTEXT[:3], _CONTEXT[-2:]
    lines = [f" {line}" for line in before]
    lines += [f"-{line}" for line in rng.sample(_OLD, rng.randint(0, 2))]
    lines += [f"+{line}" for line in rng.sample(_NEW, rng.randint(1, 3))]
    lines += [f" {line}" for line in after]
    return _hunk(start, start, lines)


def _hunk(old_start: int, new_start: int, lines: list[str]) -> str:
    old = sum(line[0] in " -" for line in lines)
    new = sum(line[0] in " +" for line in lines)
    return f"@@ -{old_start},{old} +{new_start},{new} @@\n" + "\n".join(lines) + "\n"
