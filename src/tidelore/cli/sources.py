"""`lore sources`: lists hosts and their projects with their ids, and accepts a repository that took over a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tidelore.cli.face import LoreCommand, LoreGroup, face_of, global_options
from tidelore.cli.logs import set_up_logging
from tidelore.cli.render import Answer, instant
from tidelore.cli.table import Column, table
from tidelore.core.errors import NotFound
from tidelore.core.text import one_line

if TYPE_CHECKING:
    from tidelore.app.sources import Accepted, SourceEntry
    from tidelore.cli.face import Face
    from tidelore.store.mirror.projects import ProjectRow


@click.group(
    "sources",
    cls=LoreGroup,
    invoke_without_command=True,
    params=global_options(),
    example="lore sources",
)
@click.pass_context
def command(ctx: click.Context) -> Answer | None:
    """List the configured hosts and their projects with their ids.

    The id is stored when a project is first read. `lore sources accept SOURCE PATH` accepts another repository under a
    known name.
    """
    if ctx.invoked_subcommand is not None:
        return None
    from tidelore.app.sources import list_sources

    face = face_of(ctx)
    entries = list_sources(face.app().config, _stored(face))
    items = [_entry_data(entry) for entry in entries]
    lines = _entry_table(entries) if entries else ["No projects are configured."]
    return Answer({"items": items, "total": len(items), "next": None}, lines)


@command.command("accept", cls=LoreCommand, example="lore sources accept github owner/repo")
@click.argument("source")
@click.argument("path")
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
@click.pass_context
def accept_command(ctx: click.Context, source: str, path: str, force: bool) -> Answer:  # noqa: FBT001
    """Accept the repository that now answers under a configured name.

    SOURCE is the name of a GitHub host, PATH a repository configured there. Use it after an error with the code
    REPOSITORY_REPLACED. Stored data of the former repository is kept under the name it has now and is no longer updated
    unless that name is configured.
    """
    from tidelore.app.sources import accept_repository, choose_repository
    from tidelore.app.wiring import run_until_signalled

    face = face_of(ctx)
    app = face.app()
    set_up_logging(app.config, verbose=face.choices.verbose, quiet=face.choices.quiet or face.choices.robot)
    place = choose_repository(app.config, source, path)
    done = run_until_signalled(accept_repository(app, place, force=force), "nothing was changed")
    return Answer(_accepted_data(done), [_accepted_line(done)])


def _stored(face: Face) -> list[ProjectRow]:
    from tidelore.store.mirror.projects import list_projects

    try:
        database = face.open_store()
    except NotFound:
        return []
    try:
        return list_projects(database)
    finally:
        database.close()


def _entry_data(entry: SourceEntry) -> dict[str, Any]:
    return {
        "source": entry.source,
        "kind": entry.kind,
        "base_url": entry.base_url,
        "configured": entry.configured,
        "path": entry.path,
        "remote_id": entry.remote_id,
        "updated_at": instant(entry.updated_at),
    }


def _entry_table(entries: list[SourceEntry]) -> list[str]:
    rows = [
        [
            entry.source,
            entry.configured,
            "not read yet" if entry.remote_id is None else str(entry.remote_id),
            entry.path if entry.path is not None and entry.path != entry.configured else "-",
            entry.base_url,
        ]
        for entry in entries
    ]
    return table(["SOURCE", "PROJECT", "ID", "NAME NOW", Column("HOST", optional=True)], rows)


def _accepted_data(done: Accepted) -> dict[str, Any]:
    former = done.former
    return {
        "source": done.project.source,
        "configured": done.project.configured,
        "path": done.project.path,
        "remote_id": done.project.remote_id,
        "former": None if former is None else {"path": former.path, "remote_id": former.remote_id},
    }


def _accepted_line(done: Accepted) -> str:
    name, former = one_line(done.project.configured), done.former
    if former is None:
        return f"{name} has the known id {done.project.remote_id}; nothing to accept."
    kept = f"stored data of id {former.remote_id} is kept as {one_line(former.path)}"
    return f"{name} is id {done.project.remote_id} from now on; {kept}."
