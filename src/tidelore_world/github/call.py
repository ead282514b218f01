"""One request to a repository's endpoint, with its address already taken apart.

Owns the type that reading and writing handlers share.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelore_world.github.repository import Repository
from tidelore_world.wire import Request


@dataclass(frozen=True, slots=True)
class Call:
    """A request, the repository it is about, the numbers in its path, the free text at its end, who asks."""

    request: Request
    repo: Repository
    numbers: tuple[int, ...] = ()
    tail: str = ""
    suffix: str = ""
    login: str = ""

    @property
    def numeric_path(self) -> str:
        """The same address by the repository's id."""
        return f"/repositories/{self.repo.id}{self.suffix}"
