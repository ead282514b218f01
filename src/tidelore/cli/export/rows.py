"""Export rows for other programs: `lore export`.

Reads the local database only.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import click

from tidelore.app.export.formats import FORMATS, Export, ExportTarget, choose_format, write_export
from tidelore.app.export.rows import SHAPES, ExportRequest, NoteRequest, export_rows
from tidelore.app.listing import POST_KINDS, ListRequest, PostRequest, TopicRequest
from tidelore.cli import options
from tidelore.cli.command import Invocation, LoreGroup, choose_fields, global_options
from tidelore.cli.output.render import Output, plural
from tidelore.cli.output.table import on_terminal
from tidelore.core.errors import UserError

_FILE = options.combine(
    click.option(
        "--format", "kind_of_file", type=click.Choice(FORMATS), help="Default: by the ending of FILE, or csv."
    ),
    click.option("-o", "--output", metavar="FILE", help="Write to this file; default: stdout."),
    click.option("--force", is_flag=True, help="Overwrite FILE."),
    click.option("--fields", metavar="A,B", help="Only these columns, in this order."),
    click.option("-n", "--limit", type=click.IntRange(1), help="At most this many rows; default: all."),
)


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
@options.issue_filters
@_FILE
def issues_command(invocation: Invocation, /, **wanted: Any) -> Output | None:
    """Export issues.

    With their descriptions, in the order of their creation.
    """
    return _export(invocation, "issues", ListRequest, wanted)


@export_command.command("mrs", example="lore export mrs --state merged -o merged.csv", answer=Export)
@options.merge_request_filters
@_FILE
def mrs_command(invocation: Invocation, /, **wanted: Any) -> Output | None:
    """Export merge requests.

    With their descriptions, in the order of their creation.
    """
    return _export(invocation, "mrs", ListRequest, wanted)


@export_command.command("notes", example="lore export notes --author alice --since 30d -o notes.jsonl", answer=Export)
@click.option("--system", is_flag=True, help="Include system notes.")
@options.author_filter("notes")
@options.only_project
@options.since_filter("notes")
@_FILE
def notes_command(invocation: Invocation, /, **wanted: Any) -> Output | None:
    """Export notes.

    Of issues and merge requests, in the order in which they were stored.
    """
    return _export(invocation, "notes", NoteRequest, wanted)


@export_command.command("topics", example="lore export topics --format json", answer=Export)
@options.topic_filters
@_FILE
def topics_command(invocation: Invocation, /, **wanted: Any) -> Output | None:
    """Export topics.

    The Discussions of GitHub, in the order of their creation.
    """
    return _export(invocation, "topics", TopicRequest, wanted)


@export_command.command("posts", example="lore export posts --since 7d -o posts.csv", answer=Export)
@click.option("--kind", type=click.Choice(POST_KINDS), help="Only posts of this kind.")
@options.post_filters
@_FILE
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
    options.read_filters(wanted)
    rows = export_rows(invocation.app(), what, request(**wanted))
    target = ExportTarget(kind, columns, None if path is None else Path(path), replace)
    done = write_export(rows if limit is None else islice(rows, limit), shape, target)
    return None if path is None else Output(done, [f"Wrote {done.path}: {plural(done.rows, 'row')}."])
