"""Export rows for other programs: `lore export`.

Reads the local database only.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import click

from tidelore.app.export.formats import FORMATS, Export, ExportTarget, choose_format, write_export
from tidelore.app.export.rows import SHAPES, ExportRequest, NoteRequest, export_rows
from tidelore.app.listing import POST_KINDS, ListRequest, PostRequest, TopicRequest
from tidelore.cli.command import Invocation, LoreGroup, global_options
from tidelore.cli.output.render import Output, choose_fields, plural
from tidelore.cli.output.table import on_terminal
from tidelore.core.clock import SystemClock
from tidelore.core.errors import UserError
from tidelore.core.references import parse_since

_AUTHOR = click.option("--author", metavar="USER", help="Only those written by this user.")
_PROJECT = click.option("-p", "--project", metavar="PATH", help="Only this project (path or unambiguous ending).")
_SINCE = click.option("--since", metavar="WHEN", help="Only those updated since: 12h, 7d, 2w or 2026-03-01.")
_DELETED = click.option("--deleted", is_flag=True, help="Only deleted ones instead.")
_PEOPLE = (
    click.option("--assignee", metavar="USER", help="Only items assigned to this user."),
    click.option("--label", "labels", multiple=True, metavar="NAME", help="Only items with this label (repeatable)."),
    click.option("--milestone", metavar="TITLE", help="Only items in this milestone."),
)
_FILE = (
    click.option(
        "--format", "kind_of_file", type=click.Choice(FORMATS), help="Default: by the ending of FILE, or csv."
    ),
    click.option("-o", "--output", metavar="FILE", help="Write to this file; default: stdout."),
    click.option("--force", is_flag=True, help="Overwrite FILE."),
    click.option("--fields", metavar="A,B", help="Only these columns, in this order."),
    click.option("-n", "--limit", type=click.IntRange(1), help="At most this many rows; default: all."),
)


def _with(*options: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed((*options, *_FILE)):
            function = option(function)
        return function

    return add


@click.group(
    "export",
    cls=LoreGroup,
    no_args_is_help=True,
    params=global_options(),
    example="lore export issues --state opened -o issues.csv",
)
def export_command() -> None:
    """Export rows as CSV, JSON or Parquet."""


@export_command.command("issues", example="lore export issues --label bug --format jsonl", answer=Export)
@click.option("--state", type=click.Choice(["opened", "closed", "all"]), default="all", help="Only this state.")
@click.option("--status", metavar="NAME", help="Only issues with this work item status.")
@_with(_AUTHOR, *_PEOPLE, _PROJECT, _SINCE, _DELETED)
def issues_command(invocation: Invocation, /, **wanted: Any) -> Output | None:
    """Export issues.

    With their descriptions, in the order of their creation.
    """
    return _export(invocation, "issues", ListRequest, wanted)


@export_command.command("mrs", example="lore export mrs --state merged -o merged.csv", answer=Export)
@click.option(
    "--state",
    type=click.Choice(["opened", "merged", "closed", "locked", "all"]),
    default="all",
    help="Only this state.",
)
@click.option("--draft/--no-draft", default=None, help="Only drafts, or only non-drafts.")
@click.option("--reviewer", metavar="USER", help="Only merge requests with this reviewer.")
@click.option("--target-branch", metavar="NAME", help="Only merge requests into this branch.")
@click.option("--source-branch", metavar="NAME", help="Only merge requests from this branch.")
@_with(_AUTHOR, *_PEOPLE, _PROJECT, _SINCE, _DELETED)
def mrs_command(invocation: Invocation, /, **wanted: Any) -> Output | None:
    """Export merge requests.

    With their descriptions, in the order of their creation.
    """
    return _export(invocation, "mrs", ListRequest, wanted)


@export_command.command("notes", example="lore export notes --author alice --since 30d -o notes.jsonl", answer=Export)
@click.option("--system", is_flag=True, help="Include system notes.")
@_with(_AUTHOR, _PROJECT, _SINCE)
def notes_command(invocation: Invocation, /, **wanted: Any) -> Output | None:
    """Export notes.

    Of issues and merge requests, in the order in which they were stored.
    """
    return _export(invocation, "notes", NoteRequest, wanted)


@export_command.command("topics", example="lore export topics --format json", answer=Export)
@click.option("--state", type=click.Choice(["opened", "closed", "all"]), default="all", help="Only this state.")
@click.option("--answered/--unanswered", default=None, help="Only topics with an answer, or only those without one.")
@click.option("--category", metavar="NAME", help="Only topics in this category.")
@_with(_AUTHOR, _PROJECT, _SINCE, _DELETED)
def topics_command(invocation: Invocation, /, **wanted: Any) -> Output | None:
    """Export topics.

    The Discussions of GitHub, in the order of their creation.
    """
    return _export(invocation, "topics", TopicRequest, wanted)


@export_command.command("posts", example="lore export posts --since 7d -o posts.csv", answer=Export)
@click.option("--kind", type=click.Choice(POST_KINDS), help="Only posts of this kind.")
@_with(_AUTHOR, _SINCE, _DELETED)
def posts_command(invocation: Invocation, /, **wanted: Any) -> Output | None:
    """Export posts.

    Newest first.
    """
    return _export(invocation, "posts", PostRequest, wanted)


def _export(invocation: Invocation, what: str, request: type[ExportRequest], wanted: dict[str, Any]) -> Output | None:
    path, limit, fields = wanted.pop("output"), wanted.pop("limit"), wanted.pop("fields")
    kind = choose_format(wanted.pop("kind_of_file"), path)
    shape = SHAPES[what]
    chosen = choose_fields(fields, shape)
    # In the order in which they were asked for.
    order = [name.strip() for name in fields.split(",")] if fields else list(shape.__struct_fields__)
    columns = tuple(dict.fromkeys(name for name in order if name in chosen))
    replace = wanted.pop("force")
    if path is None and invocation.choices.robot:
        raise UserError("--robot needs --output FILE: stdout has the answer", fix="add -o FILE, or remove --robot")
    if path is None and kind == "parquet" and on_terminal():
        raise UserError("Parquet cannot be shown on a terminal", fix="add -o FILE")
    wanted["since"] = parse_since(wanted["since"], SystemClock().now_ms()) if wanted["since"] else None
    if wanted.get("state") == "all":
        wanted["state"] = None
    rows = export_rows(invocation.app(), what, request(**wanted))
    target = ExportTarget(kind, columns, None if path is None else Path(path), replace)
    done = write_export(rows if limit is None else islice(rows, limit), shape, target)
    return None if path is None else Output(done, [f"Wrote {done.path}: {plural(done.rows, 'row')}."])
