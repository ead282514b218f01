"""`lore count`: how much the copy holds, by state."""

from __future__ import annotations

import click

from tidelore.cli.face import LoreCommand, face_of
from tidelore.cli.render import Answer
from tidelore.store.parents import count_by_state, count_deleted
from tidelore.store.projects import match_project

ENTITIES = {"issues": ("Issues", "issues"), "mrs": ("Merge Requests", "merge_requests")}


@click.command("count", cls=LoreCommand)
@click.argument("entity", required=False, type=click.Choice(list(ENTITIES)))
@click.option("-p", "--project", metavar="PATH", help="Only this project (a path, or an ending of one).")
@click.pass_context
def command(ctx: click.Context, entity: str | None, project: str | None) -> Answer:
    """Count issues and merge requests, by state.

    Deleted ones (kept as tombstones) are counted apart.
    """
    database = face_of(ctx).open_store()
    try:
        chosen = match_project(database, project) if project else None
        project_id = chosen.id if chosen else None
        data = {}
        lines: list[str] = []
        for name in [entity] if entity else list(ENTITIES):
            title, table = ENTITIES[name]
            states = count_by_state(database, table, project_id)
            deleted = count_deleted(database, table, project_id)
            data[name] = {"total": sum(states.values()), "by_state": states, "deleted": deleted}
            lines.append(f"{title}: {sum(states.values()):,}")
            width = max((len(state) for state in states), default=0)
            lines += [f"  {state + ':':<{width + 1}} {count:,}" for state, count in states.items()]
            if deleted:
                lines.append(f"  (and {deleted:,} deleted)")
    finally:
        database.close()
    return Answer({"project": chosen.path if chosen else None, **data}, lines)
