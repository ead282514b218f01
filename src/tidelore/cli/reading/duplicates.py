"""Find open issues that describe the same thing: `lore duplicates`.

Reads the local database only; closes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from tidelore.app.reading.duplicates import DuplicateQuestion, Duplicates, find_duplicates
from tidelore.cli.command import Invocation, lore_command
from tidelore.cli.options import json_option, only_project
from tidelore.cli.output.render import Output, plural
from tidelore.cli.output.table import line_columns
from tidelore.core.text import one_line, shorten

_STEP = "  "


@lore_command("duplicates", example="lore duplicates -p group/project", answer=Duplicates)
@click.argument("reference", metavar="[REF]", required=False)
@only_project
@click.option(
    "--similarity", type=click.FloatRange(0.1, 1.0), default=0.4, help="Least similarity of a pair, from 0.1 to 1."
)
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=20, help="Number of groups to show.")
@json_option
def duplicates_command(invocation: Invocation, /, **wanted: Any) -> Output:
    """Find open issues that may describe the same thing.

    Compares titles and descriptions by their rare words. REF compares one issue with the others. Each pair is shown
    with its evidence; nothing is closed.
    """
    found = find_duplicates(invocation.app(), DuplicateQuestion(**wanted))
    return Output(found, () if invocation.choices.robot else list(_lines(found, line_columns())))


def _lines(found: Duplicates, columns: int) -> Iterator[str]:
    if not found.items:
        yield f"No duplicates among {plural(found.compared, 'open issue')}."
    for group in found.items:
        for issue in group.issues:
            yield shorten(one_line(f"{issue.reference}  {issue.title}"), columns)
        for pair in group.pairs:
            mention = ", one mentions the other" if pair.mentioned else ""
            said = f"{pair.first} = {pair.second}: {pair.similarity:.2f}{mention}; {', '.join(pair.shared)}"
            yield _STEP + shorten(one_line(said), columns - len(_STEP))
        yield ""
