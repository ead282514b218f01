"""A small commit graph: enough to push, to force-push and to compare two heads as GitHub does.

Owns parents, generations and branches. Refuses to know diffs or files. Invariant: a commit is never
forgotten, so a head that a force-push replaced can still be compared with its successor.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Literal

from tidelore_world.github.records import User

_BASE, _HEAD, _BOTH = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit; `generation` is one more than that of its highest parent."""

    sha: str
    parents: tuple[str, ...]
    generation: int
    message: str
    author: User
    at_s: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a head stands to a base; `ahead` lists the head's own commits, oldest first."""

    base: Commit
    head: Commit
    merge_base: Commit
    ahead: tuple[Commit, ...]
    behind_by: int

    @property
    def status(self) -> Literal["identical", "ahead", "behind", "diverged"]:
        """The word the compare endpoint uses."""
        if self.ahead and self.behind_by:
            return "diverged"
        if self.ahead:
            return "ahead"
        return "behind" if self.behind_by else "identical"


class CommitGraph:
    """The commits and branches of one repository."""

    def __init__(self) -> None:
        self.branches: dict[str, str] = {}
        self._commits: dict[str, Commit] = {}

    def commit(self, sha: str, parents: tuple[str, ...], message: str, author: User, at_s: int) -> Commit:
        """Record a commit whose parents are known."""
        generation = 1 + max((self._commits[parent].generation for parent in parents), default=0)
        made = self._commits[sha] = Commit(sha, parents, generation, message, author, at_s)
        return made

    def resolve(self, ref: str) -> Commit | None:
        """Find a commit by full sha, by branch, or by `owner:branch`."""
        branch = ref.rpartition(":")[2]
        return self._commits.get(self.branches.get(branch, ref))

    def compare(self, base: Commit, head: Commit) -> Comparison | None:
        """Paint ancestors from both ends, newest generation first, until only shared ones remain.

        None when the two have no history in common.
        """
        paint = {base.sha: _BASE}
        paint[head.sha] = paint.get(head.sha, 0) | _HEAD
        queue = [(-self._commits[sha].generation, sha) for sha in paint]
        heapq.heapify(queue)
        ahead: list[Commit] = []
        behind_by, merge_base = 0, None
        while queue and (merge_base is None or any(paint[sha] != _BOTH for _, sha in queue)):
            commit = self._commits[heapq.heappop(queue)[1]]
            colour = paint[commit.sha]
            if colour == _BOTH:
                merge_base = merge_base or commit
            elif colour == _HEAD:
                ahead.append(commit)
            else:
                behind_by += 1
            for parent in commit.parents:
                if parent not in paint:
                    heapq.heappush(queue, (-self._commits[parent].generation, parent))
                paint[parent] = paint.get(parent, 0) | colour
        if merge_base is None:
            return None
        return Comparison(base, head, merge_base, tuple(reversed(ahead)), behind_by)
