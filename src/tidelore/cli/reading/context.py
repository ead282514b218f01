"""Show what matters about one item within a token budget: `lore context`.

Reads the local database only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from tidelore.app.reading.context import DEFAULT_TOKENS, Context, ContextQuestion, read_context
from tidelore.app.reading.threads import ListedThread
from tidelore.cli.command import Invocation, lore_command
from tidelore.cli.options import freshness_options, json_option, lockdown_option, project_option, refresh_first
from tidelore.cli.output.conversations import Prose
from tidelore.cli.output.render import Output, ago, prose_block
from tidelore.cli.output.table import fit_lines, page_columns
from tidelore.core.text import block, one_line

_STEP = "  "


@lore_command("context", example="lore context 'group/project!12' --max-tokens 1500", answer=Context)
@click.argument("reference", metavar="REF")
@project_option
@click.option(
    "--max-tokens", type=click.IntRange(256), default=DEFAULT_TOKENS, help="Limit the answer to this number of tokens."
)
@lockdown_option
@freshness_options
@json_option
def context_command(invocation: Invocation, /, **wanted: Any) -> Output:
    """Show what matters about an item, within a budget.

    The answer has the item, notes that decide something, unresolved threads, linked items, changed files and events.
    What does not fit is counted, with the command that shows it.
    """
    refresh_first(invocation, wanted, wanted["reference"], wanted["project"])
    found = read_context(invocation.app(), ContextQuestion(**wanted))
    if invocation.choices.robot:
        return Output(found)
    lines = list(context_lines(found, page_columns(), prose_block(invocation.choices)))
    return Output(found, lines, paged=True)


def context_lines(found: Context, columns: int, prose: Prose = block) -> Iterator[str]:
    """Yield a context as text; `prose` turns Markdown into lines."""
    item = found.item
    yield from fit_lines([click.style(one_line(f"{item.reference}  {item.title}"), bold=True)])
    yield one_line(f"{item.state}, by @{item.author or 'unknown'}, updated {ago(item.updated_at)}")
    if item.description:
        yield ""
        yield from prose(item.description, columns, _STEP)
    if found.notes:
        yield from _heading("Decisive notes")
    for note in found.notes:
        place = f" [{note.place}]" if note.place else ""
        yield from fit_lines([_STEP + one_line(f"@{note.author or 'unknown'} {ago(note.at)}{place} ({note.why}):")])
        yield from prose(note.body, columns, _STEP * 2)
    open_threads = [thread for thread in found.threads if thread.state != "unknown"]
    yield from _threads("Unresolved threads", open_threads, columns, prose)
    unclear = [thread for thread in found.threads if thread.state == "unknown"]
    yield from _threads("Threads, not known whether resolved", unclear, columns, prose)
    yield from _plain_parts(found)
    for missing in found.left_out:
        yield _STEP + one_line(f"({missing.count:,} more {missing.what}: {missing.call})")


def _threads(title: str, threads: Sequence[ListedThread], columns: int, prose: Prose) -> Iterator[str]:
    if threads:
        yield from _heading(title)
    for thread in threads:
        yield _STEP + one_line(f"{thread.place or thread.kind}: @{thread.last_by or 'unknown'} {ago(thread.last_at)}")
        yield from prose(thread.last or thread.opening, columns, _STEP * 2)


def _plain_parts(found: Context) -> Iterator[str]:
    parts = {
        "Linked": [
            f"{one.relation} {one.reference}  {one.title or ''} ({one.state or 'not stored'})" for one in found.linked
        ],
        "Files": found.files,
        "Events": [f"{ago(event.at)}  {event.what} (@{event.by or 'unknown'})" for event in found.events],
    }
    for name, lines in parts.items():
        if lines:
            yield from _heading(name)
            yield from (_STEP + one_line(line) for line in lines)


def _heading(text: str) -> Iterator[str]:
    yield ""
    yield click.style(f"{text}:", bold=True)
