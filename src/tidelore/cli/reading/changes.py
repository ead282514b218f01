"""List what changed in the copy: `lore changes` for programs, `lore digest` for people.

Reads the local database only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import click

from tidelore.app.reading.changes import (
    ChangedItem,
    ChangePage,
    ChangeQuestion,
    Digest,
    list_changes,
    read_digest,
)
from tidelore.cli.command import Invocation, lore_command
from tidelore.cli.options import after_option, json_option, lockdown_option, max_tokens_option, only_project
from tidelore.cli.output.render import Output, ago, instant, plural
from tidelore.cli.output.table import line_columns
from tidelore.cli.reading.threads import request_lines
from tidelore.core.text import one_line, shorten, without_markdown

_STEP = "  "
_COLOURS = {"new": "green", "merged": "magenta", "closed": "red", "deleted": "red"}


@lore_command("changes", example="lore changes --since 1d --max-tokens 2000", answer=ChangePage)
@click.option(
    "--since",
    metavar="CURSOR|WHEN",
    default="1d",
    help="`data.cursor` of an earlier call, or 12h, 7d, 2026-03-01.",
)
@after_option
@only_project
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=50, help="Number of items to show.")
@max_tokens_option
@lockdown_option
@json_option
def changes_command(invocation: Invocation, /, **wanted: Any) -> Output:
    """List what changed in the local copy, newest change first.

    Issues, merge requests, topics and posts, each once with its new notes. With a time, what happened since then. With
    the `cursor` of an earlier call, every change that was stored after that call, each exactly once: read the pages to
    the end (`next`), then pass `cursor` at the next visit.
    """
    robot, budget = invocation.choices.robot, wanted.pop("max_tokens")
    page = list_changes(invocation.app(), ChangeQuestion(**wanted, max_tokens=budget if robot else None))
    return Output(page, () if robot else list(_change_lines(page)))


@lore_command("digest", example="lore digest --since yesterday", answer=Digest)
@click.option("--since", metavar="WHEN", default="yesterday", help="Begin at: 12h, 7d, today, yesterday or 2026-03-01.")
@only_project
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=50, help="Number of items to show.")
@lockdown_option
@json_option
def digest_command(invocation: Invocation, /, since: str, *, project: str | None, limit: int) -> Output:
    """Summarise what is new, and what waits for you.

    Days begin at midnight UTC. What waits for you needs your login (see `lore threads`).
    """
    found = read_digest(invocation.app(), since, project, limit)
    return Output(found, () if invocation.choices.robot else list(digest_lines(found)))


def _change_lines(page: ChangePage) -> Iterator[str]:
    if not page.items:
        yield "No changes."
    columns = line_columns()
    for item in page.items:
        yield from _item_lines(item, columns)
    if page.next:
        yield f"(more: --after {page.next})"
    yield f"Next visit: lore changes --since {page.cursor}"


def digest_lines(found: Digest) -> Iterator[str]:
    """Yield a digest as text, grouped by project."""
    columns = line_columns()
    yield from _waiting_lines(found, columns)
    yield click.style(f"Since {(instant(found.since) or '')[:16].replace('T', ' ')} UTC", bold=True)
    counts = {name: getattr(found.counts, name) for name in found.counts.__struct_fields__}
    told = [f"{count:,} {name}" for name, count in counts.items() if count and name != "notes"]
    told += [plural(found.counts.notes, "new note")] if found.counts.notes else []
    yield _STEP + (", ".join(told) or "nothing happened")
    for place, items in _by_place(found.items).items():
        yield ""
        yield click.style(place, bold=True)
        for item in items:
            yield from _item_lines(item, columns, indent=_STEP, short=place)
    if found.next:
        yield f"{_STEP}({found.total - len(found.items):,} more: --limit, or lore changes --after {found.next})"


def _waiting_lines(found: Digest, columns: int) -> Iterator[str]:
    """Yield what waits for the reader, the most urgent first."""
    yield from request_lines(found.review_requests, len(found.review_requests), columns)
    if not found.waiting:
        return
    yield click.style(f"Waiting for your answer ({found.waiting_total:,})", bold=True)
    for thread in found.waiting:
        where = f" {thread.place}" if thread.place else ""
        yield _STEP + shorten(one_line(f"{thread.reference}{where}  {thread.title}"), columns - 2)
        said = f"{thread.why}, @{thread.last_by or 'unknown'} {ago(thread.last_at)}: {thread.last or thread.opening}"
        yield _STEP * 2 + shorten(_plain(said), columns - 4)
    if found.waiting_notice:
        yield f"{_STEP}({found.waiting_notice})"
    yield ""


def _plain(text: str) -> str:
    """Return a text of others on one line, without the marks of its Markdown."""
    return without_markdown(one_line(text))[0]


def _by_place(items: Sequence[ChangedItem]) -> dict[str, list[ChangedItem]]:
    """Return items by their project; posts are one group."""
    found: dict[str, list[ChangedItem]] = {}
    for item in items:
        path = item.reference.rpartition("!")[0] or item.reference.rpartition("#")[0]
        place = "Posts" if item.type == "post" else path
        found.setdefault(place, []).append(item)
    return found


def _item_lines(item: ChangedItem, columns: int, *, indent: str = "", short: str = "") -> Iterator[str]:
    name = item.reference.removeprefix(short) if short and item.type != "post" else item.reference
    if item.type == "post" and columns < sys.maxsize:
        # On a terminal its address would leave no room for its text.
        name = f"@{item.author}"
    word = click.style(f"{item.change:<8}", fg=_COLOURS.get(item.change))
    room, margin = max(columns - len(indent) - 9, 20), indent + " " * 9
    yield f"{indent}{word} {shorten(one_line(f'{name}  {item.title}'), room)}"
    for note in item.notes:
        where = f" [{note.place}]" if note.place else ""
        yield margin + shorten(_plain(f"@{note.author or 'unknown'}{where}: {note.text}"), room)
    if item.new_notes > len(item.notes):
        yield f"{margin}({plural(item.new_notes - len(item.notes), 'more note')})"
