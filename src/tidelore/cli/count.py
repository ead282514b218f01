"""Count stored issues, merge requests, posts and what belongs to them: `lore count`.

Reads the local database only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from tidelore.cli.command import LoreCommand, invocation_of
from tidelore.cli.output.render import Output
from tidelore.core.errors import UserError
from tidelore.core.references import KINDS, Kind
from tidelore.store.database.port import Database
from tidelore.store.mirror.parents import count_by_state, count_deleted
from tidelore.store.mirror.projects import match_project
from tidelore.store.reading.posts import count_deleted_posts, count_links, count_posts
from tidelore.store.reading.totals import NoteCount, count_discussions, count_events, count_files, count_notes

Counted = tuple[dict[str, Any], list[str]]
"""A count as data and as text."""
_PARENTS = {"issues": ("Issues", "issues"), "mrs": ("Merge Requests", "merge_requests")}
_SHORT: dict[Kind, str] = {"issue": "Issue", "mr": "MR"}
_STATES = ("opened", "merged", "closed", "locked")


@click.command("count", cls=LoreCommand, example="lore count notes --type mr")
@click.argument(
    "entity", required=False, type=click.Choice([*_PARENTS, "discussions", "notes", "events", "files", "posts"])
)
@click.option("--type", "kind", type=click.Choice(KINDS), help="Only what belongs to issues, or to merge requests.")
@click.option("-p", "--project", metavar="PATH", help="Only this project (path or unambiguous ending).")
@click.pass_context
def count_command(ctx: click.Context, entity: str | None, kind: Kind | None, project: str | None) -> Output:
    """Count issues, merge requests and what belongs to them.

    ENTITY is issues, mrs, discussions, notes, events, files or posts. Without it, counts issues and merge requests by
    state. Deleted items are counted separately; what belongs to them is not counted.
    """
    if kind is not None and entity not in _CHILDREN:
        raise UserError(
            f"--type cannot be used with {entity or 'a count of issues and merge requests'}",
            fix=f"use it with {', '.join(_CHILDREN)}",
        )
    if project and entity == "posts":
        raise UserError("--project cannot be used with posts", fix="remove --project")
    database = invocation_of(ctx).open_store()
    try:
        chosen = match_project(database, project) if project else None
        project_id = chosen.id if chosen else None
        data: dict[str, Any] = {"project": chosen.path if chosen else None}
        lines: list[str] = []
        for name in [entity] if entity else list(_PARENTS):
            data[name], told = _count(database, name, [kind] if kind else list(KINDS), project_id)
            lines += told
    finally:
        database.close()
    return Output(data, lines)


def _count(database: Database, name: str, kinds: list[Kind], project_id: int | None) -> Counted:
    if name in _PARENTS:
        return _count_parents(database, name, project_id)
    if name == "files":
        total = count_files(database, project_id)
        return {"total": total}, [f"Changed Files: {total:,}"]
    if name == "posts":
        return _count_posts(database)
    return _CHILDREN[name](database, kinds, project_id)


def _count_parents(database: Database, name: str, project_id: int | None) -> Counted:
    title, table = _PARENTS[name]
    found = count_by_state(database, table, project_id)
    order = [*(state for state in _STATES if state in found), *(state for state in found if state not in _STATES)]
    states = {state: found[state] for state in order}
    total, deleted = sum(states.values()), count_deleted(database, table, project_id)
    lines = [f"{title}: {total:,}", *_breakdown(states)]
    if deleted:
        lines.append(f"  (and {deleted:,} deleted)")
    return {"total": total, "by_state": states, "deleted": deleted}, lines


def _count_posts(database: Database) -> Counted:
    found, deleted, links = count_posts(database), count_deleted_posts(database), count_links(database)
    total = sum(found.values())
    lines = [f"Posts: {total:,}", *_breakdown(found), f"Links: {links:,}"]
    if deleted:
        lines.insert(-1, f"  (and {deleted:,} deleted)")
    return {"total": total, "by_kind": found, "deleted": deleted, "links": links}, lines


def _count_discussions(database: Database, kinds: list[Kind], project_id: int | None) -> Counted:
    found = {kind: count_discussions(database, kind, project_id) for kind in kinds}
    total = sum(found.values())
    lines = [f"{_title('Discussions', kinds)}: {total:,}"]
    if len(kinds) > 1:
        lines += _breakdown({_title("Discussions", [kind]): count for kind, count in found.items()})
    return {"total": total, "by_type": found}, lines


def _count_notes(database: Database, kinds: list[Kind], project_id: int | None) -> Counted:
    found = {kind: count_notes(database, kind, project_id) for kind in kinds}
    together = NoteCount(
        sum(count.total for count in found.values()),
        sum(count.system for count in found.values()),
        sum(count.diff_notes for count in found.values()),
    )
    lines = [_tell_notes(_title("Notes", kinds), together)]
    if len(kinds) > 1:
        lines += [f"  {_tell_notes(_title('Notes', [kind]), count)}" for kind, count in found.items()]
    if "mr" in kinds:
        lines.append(f"DiffNotes: {together.diff_notes:,} (with file position metadata)")
    counts = {name: getattr(together, name) for name in together.__struct_fields__}
    return {**counts, "by_type": found}, lines


def _count_events(database: Database, kinds: list[Kind], project_id: int | None) -> Counted:
    found = {kind: count_events(database, kind, project_id) for kind in kinds}
    by_kind = {name: sum(counts[name] for counts in found.values()) for name in found[kinds[0]]}
    total = sum(by_kind.values())
    data = {
        "total": total,
        "by_kind": by_kind,
        "by_type": {kind: sum(counts.values()) for kind, counts in found.items()},
    }
    return data, [f"{_title('Events', kinds)}: {total:,}", *_breakdown(by_kind)]


_CHILDREN: dict[str, Callable[[Database, list[Kind], int | None], Counted]] = {
    "discussions": _count_discussions,
    "notes": _count_notes,
    "events": _count_events,
}


def _title(what: str, kinds: list[Kind]) -> str:
    return what if len(kinds) > 1 else f"{_SHORT[kinds[0]]} {what}"


def _tell_notes(title: str, count: NoteCount) -> str:
    return f"{title}: {count.total:,} (excluding {count.system:,} system notes)"


def _breakdown(counts: dict[str, int]) -> list[str]:
    width = max((len(name) for name in counts), default=0)
    return [f"  {f'{name}:':<{width + 1}} {count:,}" for name, count in counts.items()]
