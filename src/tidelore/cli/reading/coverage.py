"""Open an item, print its payload, and report how complete the copy is: `lore open`, `lore payload`, `lore coverage`.

Reads the local database only; `lore open` starts the browser.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click
import msgspec

from tidelore.app.reading.coverage import Coverage, CoveredChildren, CoveredList, read_coverage
from tidelore.app.reading.payloads import ItemPayloads, find_payloads
from tidelore.app.reading.referring import OpenedItem, find_page
from tidelore.app.reports import CHILD_NAMES
from tidelore.cli.command import Invocation, lore_command
from tidelore.cli.options import json_option, only_project, project_option
from tidelore.cli.output.render import Output, open_page, plural, when
from tidelore.cli.output.table import Column, on_terminal, table
from tidelore.core.clock import describe_age, format_instant
from tidelore.core.config import forge_hosts

_COUNTS = ("parents", "current", "outdated", "never_read", "failing")


@lore_command("open", example="lore open 'group/project!12'", answer=OpenedItem)
@click.argument("reference", metavar="REF")
@project_option
@click.option("--print", "only_print", is_flag=True, help="Print the address instead of opening it.")
def open_command(invocation: Invocation, /, reference: str, *, project: str | None, only_print: bool) -> Output:
    """Open an item in the browser.

    REF is '#12', '!12', 'group/project!12', a URL, an at:// URI, or a number that only one kind of item has.
    """
    found = find_page(invocation.app(), reference, project)
    if not only_print:
        open_page(found.web_url)
    return Output(found, [found.web_url])


@lore_command("payload", example="lore payload 'group/project!12'", answer=ItemPayloads)
@click.argument("reference", metavar="REF")
@project_option
@click.option("--discussions", is_flag=True, help="Also print its discussions and comments, one a line.")
def payload_command(invocation: Invocation, /, reference: str, *, project: str | None, discussions: bool) -> Output:
    """Print raw JSON of an item.

    REF is '#12', '!12', 'group/project!12', a URL, an at:// URI, or a number that only one kind of item has. Fields
    that no other command shows are part of it.
    """
    found = find_payloads(invocation.app(), reference, project, below=discussions)
    lines = [msgspec.json.encode(one.payload).decode() for one in (found.item, *found.below)]
    return Output(found, lines, verbatim=True)


@lore_command("coverage", example="lore coverage -p group/project", answer=Coverage)
@only_project
@json_option
def coverage_command(invocation: Invocation, /, project: str | None) -> Output:
    """Show how complete the copy is.

    For each project: the lists with the number of stored items, and for what belongs to them (discussions, events,
    files and the like) how many issues and merge requests are current, outdated, never read, failing or unavailable.
    A list that is complete "since" a day leaves out what was last updated before (`mirror_since`).
    """
    app = invocation.app()
    found = read_coverage(app, project)
    if not found.lists and not forge_hosts(app.config):
        return Output(found, ["No project is configured. `lore sync-status` shows how far accounts have been read."])
    return Output(found, () if invocation.choices.robot else list(_lines(found)))


def _complete(one: CoveredList) -> str:
    """Return whether a list was read to its end, and from when on if older items were left out."""
    since = "" if one.since is None else f" since {format_instant(one.since)[:10]}"
    return f"{'yes' if one.complete else 'no'}{since}"


def _list_name(name: str) -> str:
    """Return the name of a list, in words on a terminal."""
    return name.partition(".")[2].replace("_", " ") if on_terminal() else name


def _child_name(one: CoveredChildren) -> str:
    """Return of what and which details, in words."""
    return f"{one.of.replace('_', ' ')} {CHILD_NAMES.get(one.kind, one.kind.replace('_', ' '))}"


def _lines(found: Coverage) -> Iterator[str]:
    if not found.lists and on_terminal():
        yield "Nothing synced yet. Run `lore sync`."
        return
    yield from table(
        [Column("PROJECT", path=True, shrinks=True), "LIST", Column("STORED", right=True), "COMPLETE", "READ"],
        [
            [one.project, _list_name(one.list), f"{one.stored:,}", _complete(one), when(one.read_at)]
            for one in found.lists
        ],
        always_headings=True,
    )
    yield ""
    if on_terminal():
        yield from _project_lines(found.children)
    else:
        heads = ["PROJECT", "OF", "KIND", *(name.replace("_", " ").upper() for name in _COUNTS), "UNAVAILABLE"]
        rows = [[one.project, one.of, one.kind, *_counts(one), one.unavailable or "-"] for one in found.children]
        yield from table(heads, rows, always_headings=True)
        yield ""
    if found.requests:
        pace = "" if found.seconds is None else f", about {describe_age(found.seconds)}"
        yield f"To read the rest: about {plural(found.requests, 'request')}{pace}"
    else:
        unavailable = any(one.unavailable for one in found.children)
        yield "The rest is unavailable." if unavailable else "Nothing is left to read."


def _project_lines(children: Sequence[CoveredChildren]) -> Iterator[str]:
    """Yield what belongs to the items of each project; a table of all projects would be too wide for a terminal."""
    projects: dict[str, list[CoveredChildren]] = {}
    for one in children:
        projects.setdefault(one.project, []).append(one)
    for project, found in projects.items():
        yield click.style(project, bold=True)
        yield from table(
            [
                "CHILDREN",
                *(
                    Column(name.replace("_", " ").upper(), right=True, optional=name in ("parents", "outdated"))
                    for name in _COUNTS
                ),
            ],
            [[_child_name(one), *_counts(one)] for one in found],
            indent="  ",
            always_headings=True,
        )
        yield from (f"  {_child_name(one)}: unavailable ({one.unavailable})" for one in found if one.unavailable)
        yield ""


def _counts(one: CoveredChildren) -> list[str]:
    return [f"{getattr(one, name):,}" for name in _COUNTS]
