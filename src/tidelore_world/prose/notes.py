"""System notes: the lines a forge writes by itself when somebody changes a thing.

Owns their wording. Refuses an unknown kind, naming the known ones, so a typing error cannot become text.
"""

from __future__ import annotations

from types import MappingProxyType

from .cast import PEOPLE
from .dice import Dice

KINDS: MappingProxyType[str, str] = MappingProxyType(
    {
        "description": "changed the description",
        "title": "changed title from **{old}** to **{new}**",
        "label_added": 'added ~"{label}" label',
        "label_removed": 'removed ~"{label}" label',
        "assigned": "assigned to @{user}",
        "unassigned": "unassigned @{user}",
        "review_requested": "requested review from @{user}",
        "approved": "approved this merge request",
        "unapproved": "unapproved this merge request",
        "milestone": 'changed milestone to %"{milestone}"',
        "milestone_removed": "removed milestone",
        "closed": "closed",
        "closed_by": "closed via merge request {ref}",
        "reopened": "reopened",
        "merged": "merged",
        "mentioned": "mentioned in {ref}",
        "commits": "added {count} commits",
        "draft": "marked this merge request as **draft**",
        "ready": "marked this merge request as **ready**",
        "branch": "created branch `{branch}` to address this issue",
        "target": "changed target branch from `{old}` to `{new}`",
        "resolved": "resolved all threads",
        "due": "changed due date to {date}",
        "weight": "changed weight to **{weight}**",
        "confidential": "made the issue confidential",
        "locked": "locked the discussion in this issue",
        "related": "marked this issue as related to {ref}",
        "duplicate": "marked this issue as a duplicate of {ref}",
        "moved": "moved from {ref}",
    }
)


def system_note(dice: Dice, kind: str, facts: dict[str, object]) -> str:
    """The note for a kind of change; facts that are not given are drawn."""
    template = KINDS.get(kind)
    if template is None:
        known = ", ".join(KINDS)
        message = f"unknown kind of system note {kind!r}; known: {known}"
        raise ValueError(message)
    return template.format_map({**_drawn(dice), **facts})


def _drawn(dice: Dice) -> dict[str, object]:
    return {
        "user": dice.pick(PEOPLE).username,
        "label": dice.pick(("backend", "needs-design", "customer", "bug", "blocked", "performance")),
        "milestone": f"{dice.between(2025, 2026)}.{dice.between(1, 12):02d}",
        "ref": f"#{dice.between(12, 9900)}" if dice.chance(0.5) else f"!{dice.between(40, 9800)}",
        "count": dice.between(2, 14),
        "branch": f"fix/{dice.hexadecimal(6)}",
        "old": "main",
        "new": f"release-{dice.between(3, 6)}",
        "date": f"2026-{dice.between(1, 12):02d}-{dice.between(1, 28):02d}",
        "weight": dice.between(1, 8),
    }
