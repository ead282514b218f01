"""Rendered rows, kept as bytes: a page of a long thread is joined, not encoded again.

Owns the cache. Invariant: a kept fragment is used only while the row is the very same frozen value and the
origin, the repository's name and its revision are unchanged, so no change can leave a stale byte behind.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TypeVar

from tidelore_world.github.payloads import Payload
from tidelore_world.github.records import Comment, Review, ReviewComment, Thread
from tidelore_world.github.repository import Repository

Row = TypeVar("Row", bound=Thread | Comment | ReviewComment | Review)
Renderer = Callable[[str, Repository, Row], Payload]


class Fragments:
    """Encoded rows by renderer and id."""

    def __init__(self) -> None:
        self._kept: dict[tuple[object, int], tuple[object, str, str, int, bytes]] = {}

    def array(self, origin: str, repo: Repository, rows: Iterable[Row], render: Renderer[Row]) -> bytes:
        """A JSON array of rows."""
        return b"[" + b",".join(self.one(origin, repo, row, render) for row in rows) + b"]"

    def one(self, origin: str, repo: Repository, row: Row, render: Renderer[Row]) -> bytes:
        """One row as JSON."""
        place = (render, row.id)
        kept = self._kept.get(place)
        if kept is not None and kept[0] is row and kept[1:4] == (origin, repo.full_name, repo.revision):
            return kept[4]
        text = json.dumps(render(origin, repo, row), ensure_ascii=False, separators=(",", ":")).encode()
        self._kept[place] = (row, origin, repo.full_name, repo.revision, text)
        return text
