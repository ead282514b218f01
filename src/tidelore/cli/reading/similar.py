"""Find threads similar to an item: `lore similar`. Shows them like the results of a search."""

from __future__ import annotations

from typing import Any

import click

from tidelore.app.searching import SearchPage, SimilarThreads, find_similar
from tidelore.cli.command import Invocation, lore_command
from tidelore.cli.options import item_fields, json_option, project_option
from tidelore.cli.output.render import Output
from tidelore.cli.search import result_lines


@lore_command("similar", example="lore similar 'group/project!12'", answer=SimilarThreads)
@click.argument("reference", metavar="REF")
@project_option
@click.option("-n", "--limit", type=click.IntRange(1, 100), default=10, help="Number of threads to show.")
@item_fields
@json_option
def similar_command(invocation: Invocation, /, reference: str, **wanted: Any) -> Output:
    """Find threads similar to an item.

    REF is '#12', '!12', 'group/project!12', a URL, an at:// URI, or a number that only one kind of item has. Compares
    stored embeddings (see `lore embed`) and needs no network.
    """
    found = find_similar(invocation.app(), reference, wanted["project"], wanted["limit"])
    page = SearchPage(items=found.items, total=found.total, total_is_lower_bound=False, mode="semantic", notice=None)
    return Output(found, result_lines(page))
