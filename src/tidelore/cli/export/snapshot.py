"""Write files for other programs: `lore snapshot` and `lore datasette`."""

from __future__ import annotations

import click

from tidelore.app.export.datasette import DatasetteCommand, prepare_datasette
from tidelore.app.export.snapshot import Snapshot, make_snapshot
from tidelore.cli.command import Invocation, lore_command
from tidelore.cli.options import only_project
from tidelore.cli.output.render import Output, instant, plural
from tidelore.core.text import one_line

_NOUNS = {
    "issues": "issue",
    "merge_requests": "merge request",
    "notes": "note",
    "topics": "topic",
    "posts": "post",
    "documents": "document",
}


@lore_command("snapshot", example="lore snapshot team.db --no-payloads", answer=Snapshot)
@click.argument("file", metavar="FILE")
@only_project
@click.option("--no-payloads", is_flag=True, help="Leave out the raw payloads, which reading does not need.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
def snapshot_command(
    invocation: Invocation,
    file: str,
    project: str | None,
    no_payloads: bool,  # noqa: FBT001
    force: bool,  # noqa: FBT001
) -> Output:
    """Write a copy for reading to a file.

    FILE gets the whole copy, or one project. Others read it with `lore --db FILE`, sqlite3 or Datasette, also from
    read-only media. It is consistent although a sync may be running, and appears under its name when it is complete. It
    contains no secrets, tokens, pending replies or feedback, and cannot be synced. A snapshot of one project has no
    posts and no vectors: search there is by words.
    """
    done = make_snapshot(invocation.app(), file, project, payloads=not no_payloads, replace=force)
    counts = [plural(getattr(done.counts, name), noun) for name, noun in _NOUNS.items() if getattr(done.counts, name)]
    of_project = f" of {one_line(done.project)}" if done.project else ""
    return Output(
        done,
        [
            f"Wrote {one_line(done.path)}: {done.size_bytes:,} bytes{of_project}.",
            ", ".join(counts) or "It is empty.",
            f"Synced: {instant(done.synced_at) or 'never'}. Read it with:",
            f"  lore --db {one_line(done.path)} search …",
        ],
    )


@lore_command("datasette", example="lore datasette team.db", answer=DatasetteCommand)
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--metadata", metavar="FILE", help="Where to write the metadata; default: in the cache folder.")
def datasette_command(invocation: Invocation, file: str | None, metadata: str | None) -> Output:
    """Show the copy in Datasette.

    Prints the command to run. FILE is a database or a snapshot; default: the configured database. Writes a metadata
    file with descriptions of all tables and columns, facets, sort orders and two queries. Datasette itself is not part
    of this package: `pip install datasette`.
    """
    found = prepare_datasette(invocation.app(), file, metadata)
    return Output(found, [found.command], verbatim=True)
