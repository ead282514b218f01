"""What a mutant is: one deliberate bug, the promise it breaks, and the test that must notice it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A bug as data. `before` occurs exactly once in `file` (below `src/tidelore`); `test` may carry a parameter id."""

    name: str
    invariant: str
    file: str
    before: str
    after: str
    test: str
    why: str


@dataclass(frozen=True)
class Promise:
    """A row of docs/invariants.md. `also` are tests that hold it besides those its mutants name."""

    key: str
    also: tuple[str, ...] = ()
