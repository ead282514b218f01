"""Renders the stages of a sync: one line each, with result and duration."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelore.core.progress import DocumentReport, EmbedReport

STAGES = {
    "ingest": "lists",
    "dependents": "children",
    "scrub": "verification",
    "docs": "documents",
    "embed": "embeddings",
}
CHILDREN = {
    "discussions": "discussion",
    "notes": "note",
    "events": "event",
    "closed_issues": "closed issue",
    "files": "file",
    "statuses": "status",
}


def stage_line(name: str, told: str, seconds: float, *, troubled: bool) -> str:
    """Return the line of one stage."""
    plain = "utf" not in (sys.stdout.encoding or "").lower()
    icon = ("!" if plain else "⚠") if troubled else ("+" if plain else "✓")
    return f"{icon} {name:<13} {told}  ({seconds:.1f} s)"


def documents_data(made: DocumentReport | None) -> dict[str, Any] | None:
    """Return the result of the document stage as data."""
    names = ("regenerated", "unchanged", "removed", "failed")
    return None if made is None else {name: getattr(made, name) for name in names}


def documents_line(made: DocumentReport) -> str:
    """Return the result of the document stage on one line."""
    return f"{made.regenerated:,} written, {made.unchanged:,} unchanged, {made.removed:,} removed"


def notice_lines(made: EmbedReport | None) -> list[str]:
    """Return why embeddings are missing, and the remedy."""
    if made is None or made.notice is None:
        return []
    return [f"  {made.notice}", *([f"  {made.error.fix}"] if made.error is not None and made.error.fix else [])]
