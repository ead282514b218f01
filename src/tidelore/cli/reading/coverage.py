"""Open an item, print its payload, and report how complete the copy is: `lore open`, `lore payload`, `lore coverage`.

Reads the local database only; `lore open` starts the browser.
"""

from __future__ import annotations

from collections.abc import Iterator

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
    return Output(found, [msgspec.json.encode(one.payload).decode() for one in (found.item, *found.below)])


@lore_command("coverage", example="lore coverage -p group/project", answer=Coverage)
@only_project
@json_option
def coverage_command(invocation: Invocation, /, project: str | None) -> Output:
    """Show how complete the copy is.

    For each project: the lists with the number of stored items, and for what belongs to them (discussions, events,
    files and the like) how many issues and merge requests are current, outdated, never read, failing or unavailable.
    A list that is complete "since" a day leaves out what was last updated before (`mirror_since`).
    """
    found = read_coverage(invocation.app(), project)
    return Output(found, () if invocation.choices.robot else list(_lines(found)))


def _complete(one: CoveredList) -> str:
    """Return whether a list was read to its end, and from when on if older items were left out."""
    since = "" if one.since is None else f" since {format_instant(one.since)[:10]}"
    return f"{'yes' if one.complete else 'no'}{since}"


def _list_name(name: str) -> str:
    """Return the name of a list, in words on a terminal."""
    return name.partition(".")[2].replace("_", " ") if on_terminal() else name


def _child_names(one: CoveredChildren) -> tuple[str, str]:
    """Return of what and which details, in words on a terminal."""
    if not on_terminal():
        return one.of, one.kind
    return one.of.replace("_", " "), CHILD_NAMES.get(one.kind, one.kind.replace("_", " "))


def _lines(found: Coverage) -> Iterator[str]:
    yield from table(
        [Column("PROJECT", path=True, shrinks=True), "LIST", Column("STORED", right=True), "COMPLETE", "READ"],
        [
            [one.project, _list_name(one.list), f"{one.stored:,}", _complete(one), when(one.read_at)]
            for one in found.lists
        ],
        always_headings=True,
    )
    yield ""
    counts = ("parents", "current", "outdated", "never_read", "failing")
    yield from table(
        [
            Column("PROJECT", path=True, shrinks=True),
            "OF",
            "KIND",
            *(Column(name.replace("_", " ").upper(), right=True) for name in counts),
            "UNAVAILABLE",
        ],
        [
            [one.project, *_child_names(one), *(f"{getattr(one, name):,}" for name in counts), one.unavailable or "-"]
            for one in found.children
        ],
        always_headings=True,
    )
    yield ""
    pace = "" if found.seconds is None else f", about {describe_age(found.seconds)}"
    yield f"To read the rest: about {plural(found.requests, 'request')}{pace}"
