"""List and remove saved searches: `lore searches`."""

from __future__ import annotations

import click

from tidelore.app.reading.saved_searches import RemovedSearch, SavedSearches, list_saved, remove_saved
from tidelore.cli.command import Invocation, LoreGroup, global_options, invocation_of
from tidelore.cli.output.render import Output, when
from tidelore.cli.output.table import table


@click.group(
    "searches",
    cls=LoreGroup,
    invoke_without_command=True,
    params=global_options(),
    example="lore searches",
    answer=SavedSearches,
)
@click.pass_context
def searches_command(ctx: click.Context) -> Output | None:
    """List saved searches.

    `lore search QUERY --save NAME` saves one, `lore search --saved NAME` runs it again, and `lore searches remove NAME`
    removes it.
    """
    if ctx.invoked_subcommand is not None:
        return None
    found = list_saved(invocation_of(ctx).app())
    rows = [
        [one.name, " ".join([one.query, *(f"{key}:{value}" for key, value in one.filters.items())]), when(one.seen_at)]
        for one in found.items
    ]
    lines = table(["NAME", "QUERY", "LAST SHOWN"], rows)
    return Output(found, lines if rows else ["No saved searches. Save one with `lore search QUERY --save NAME`."])


@searches_command.command("remove", example="lore searches remove locks", answer=RemovedSearch)
@click.argument("name")
def remove_command(invocation: Invocation, name: str) -> Output:
    """Remove a saved search."""
    done = remove_saved(invocation.app(), name)
    return Output(done, [f"Removed {done.name}."])
