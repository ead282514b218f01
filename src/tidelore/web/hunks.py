"""Turns a diff hunk into numbered lines. Pure."""

from __future__ import annotations

import re

from msgspec import Struct

LINES = 12
"""How many lines of a hunk a thread shows: the last ones, below which it was written."""
_HEAD = re.compile(r"@@ -(\d{1,9})(?:,\d{1,9})? \+(\d{1,9})(?:,\d{1,9})? @@")
_KINDS = {"+": "added", "-": "removed"}


class HunkLine(Struct, frozen=True):
    """A line of a hunk. `kind` is head, added, removed or context; the numbers are those before and after."""

    kind: str
    text: str
    old: int | None = None
    new: int | None = None


def parse_hunk(text: str | None) -> list[HunkLine]:
    """Return the last lines of a hunk with their numbers; lines before its head have none."""
    if not text:
        return []
    found: list[HunkLine] = []
    old = new = None
    for line in text.split("\n"):
        head = _HEAD.match(line)
        if head is not None:
            old, new = int(head[1]), int(head[2])
            found.append(HunkLine("head", line))
            continue
        kind = _KINDS.get(line[:1], "context")
        found.append(HunkLine(kind, line[1:], None if kind == "added" else old, None if kind == "removed" else new))
        if old is not None and new is not None:
            old += kind != "added"
            new += kind != "removed"
    return found if len(found) <= LINES else found[-LINES:]
