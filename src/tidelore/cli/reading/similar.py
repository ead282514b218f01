"""Find threads similar to an item: `lore similar`. Shows them like the results of a search."""

from __future__ import annotations

from typing import Any

import click

from tidelore.app.searching import FoundThread, SearchPage, SimilarThreads, find_similar
from tidelore.cli.command import Invocation, lore_command
from tidelore.cli.output.render import Output, choose_fields, only_fields
from tidelore.cli.search import result_lines


@lore_command("similar", example="lore similar 'group/project!12'", answer=SimilarThreads)
@click.argument("reference", metavar="REF")
@click.option("-p", "--project", metavar="PATH", help="Project (path or unambiguous ending).")
@click.option("-n", "--limit", type=click.IntRange(1, 100), default=10, help="Number of threads to show.")
@click.option("--fields", metavar="A,B", help="Only these fields of the items in JSON.")
@click.option("--json", "as_json", is_flag=True, help="Same as --robot.")
def similar_command(invocation: Invocation, /, reference: str, **wanted: Any) -> Output:
    """Find threads similar to an item.

    REF is '#12', '!12', 'group/project!12', a URL, an at:// URI, or a number that only one kind of item has. Compares
    stored embeddings (see `lore embed`) and needs no network.
    """
    invocation.choices.robot |= wanted["as_json"]
    chosen = choose_fields(wanted["fields"], FoundThread)
    found = find_similar(invocation.app(), reference, wanted["project"], wanted["limit"])
    page = SearchPage(items=found.items, total=found.total, total_is_lower_bound=False, mode="semantic", notice=None)
    items = [only_fields(item, chosen) for item in found.items]
    return Output({"items": items, "total": found.total, "next": found.next}, result_lines(page))
