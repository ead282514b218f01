"""Count stored issues, merge requests, posts and what belongs to them: `lore count`.

Reads the local database only.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import click

from tidelore.app.reading.counting import (
    COUNTED,
    Counts,
    DiscussionCount,
    EventCount,
    ItemCount,
    NoteCount,
    NoteCounts,
    PostCount,
    count,
)
from tidelore.cli.command import Invocation, lore_command
from tidelore.cli.options import only_project
from tidelore.cli.output.render import Output
from tidelore.core.errors import UserError
from tidelore.core.references import KINDS, Kind

_TITLES = {"issues": "Issues", "mrs": "Merge Requests", "topics": "Topics"}
_BY_DEFAULT = ("issues", "mrs")
_CHILDREN = ("discussions", "notes", "events")
_SHORT: dict[Kind, str] = {"issue": "Issue", "mr": "MR"}


@lore_command("count", example="lore count notes --type mr", answer=Counts)
@click.argument("entity", required=False, type=click.Choice(COUNTED))
@click.option("--type", "kind", type=click.Choice(KINDS), help="Only what belongs to issues, or to merge requests.")
@only_project
def count_command(invocation: Invocation, entity: str | None, kind: Kind | None, project: str | None) -> Output:
    """Count issues, merge requests and what belongs to them.

    ENTITY is issues, mrs, topics, discussions, notes, events, files or posts. Without it, counts issues and merge
    requests by state. Deleted items are counted separately; what belongs to them is not counted.
    """
    if kind is not None and entity not in _CHILDREN:
        raise UserError(
            f"--type cannot be used with {entity or 'a count of issues and merge requests'}",
            fix=f"use it with {', '.join(_CHILDREN)}",
        )
    if project and entity == "posts":
        raise UserError("--project cannot be used with posts", fix="remove --project")
    entities = [entity] if entity else list(_BY_DEFAULT)
    counts = count(invocation.app(), entities, kind, project)
    return Output(counts, [line for name in entities for line in _lines(name, getattr(counts, name))])


def _lines(name: str, found: Any) -> list[str]:
    match found:
        case ItemCount():
            deleted = [f"  (and {found.deleted:,} deleted)"] if found.deleted else []
            return [f"{_TITLES[name]}: {found.total:,}", *_breakdown(found.by_state), *deleted]
        case PostCount():
            deleted = [f"  (and {found.deleted:,} deleted)"] if found.deleted else []
            return [f"Posts: {found.total:,}", *_breakdown(found.by_kind), *deleted, f"Links: {found.links:,}"]
        case DiscussionCount():
            by_type = {_title("Discussions", [kind]): number for kind, number in found.by_type.items()}
            more = _breakdown(by_type) if len(by_type) > 1 else []
            return [f"{_title('Discussions', found.by_type)}: {found.total:,}", *more]
        case NoteCount():
            return _note_lines(found)
        case EventCount():
            return [f"{_title('Events', found.by_type)}: {found.total:,}", *_breakdown(found.by_kind)]
    return [f"Changed Files: {found.total:,}"]


def _note_lines(found: NoteCount) -> list[str]:
    lines = [_tell_notes(_title("Notes", found.by_type), found)]
    if len(found.by_type) > 1:
        lines += [f"  {_tell_notes(_title('Notes', [kind]), counts)}" for kind, counts in found.by_type.items()]
    if "mr" in found.by_type:
        lines.append(f"DiffNotes: {found.diff_notes:,} (with file position metadata)")
    return lines


def _title(what: str, kinds: Collection[Kind]) -> str:
    return what if len(kinds) > 1 else f"{_SHORT[next(iter(kinds))]} {what}"


def _tell_notes(title: str, count: NoteCounts) -> str:
    return f"{title}: {count.total:,} (excluding {count.system:,} system notes)"


def _breakdown(counts: dict[str, int]) -> list[str]:
    width = max((len(name) for name in counts), default=0)
    return [f"  {f'{name}:':<{width + 1}} {count:,}" for name, count in counts.items()]
