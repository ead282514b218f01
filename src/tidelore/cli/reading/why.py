"""From a line of code to the conversation about it: `lore why`.

Reads the git checkout and the local database only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from tidelore.app.reading.why import Why, WhyQuestion, explain_line
from tidelore.cli.command import Invocation, lore_command
from tidelore.cli.options import json_option, project_option
from tidelore.cli.output.render import Output, ago
from tidelore.cli.output.table import page_columns
from tidelore.core.text import block, one_line

_STEP = "  "


@lore_command("why", example="lore why src/login.py:45", answer=Why)
@click.argument("place", metavar="FILE[:LINE]")
@project_option
@click.option("--max-tokens", type=click.IntRange(256), default=2000, help="Limit the answer to this number of tokens.")
@json_option
def why_command(invocation: Invocation, /, **wanted: Any) -> Output:
    """Show the discussion behind a line of code.

    FILE is a file of your git checkout. With LINE, `git blame` finds the commit of that line; without, the newest
    commit of the file that belongs to a stored merge request counts. The remotes of the checkout name the project.
    """
    found = explain_line(invocation.app(), WhyQuestion(**wanted))
    return Output(found, () if invocation.choices.robot else list(_lines(found, page_columns())))


def _lines(found: Why, columns: int) -> Iterator[str]:
    commit, item = found.commit, found.item
    where = f"{found.file}:{found.line}" if found.line is not None else found.file
    yield click.style(one_line(where), bold=True)
    yield one_line(f"commit {commit.sha[:12]} by {commit.author}, {ago(commit.at)}: {commit.summary}")
    yield click.style(one_line(f"{item.reference}  {item.title}"), fg="cyan")
    yield one_line(f"{item.state}, by @{item.author or 'unknown'}  {item.web_url or ''}")
    for title, entries in (
        ("Threads on this file", [(one.place or "", one.last_by, one.last or one.opening) for one in found.threads]),
        ("Decisive notes", [(note.why, note.author, note.body) for note in found.notes]),
    ):
        if entries:
            yield ""
            yield click.style(f"{title}:", bold=True)
        for place, author, text in entries:
            yield _STEP + one_line(f"{place} @{author or 'unknown'}:")
            yield from block(text, columns, _STEP * 2)
