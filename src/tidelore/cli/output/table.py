"""Format tables for the terminal: align, cut and colour columns.

On a terminal a table has headings and colours and never exceeds the terminal's width: columns marked `shrinks` are
cut first, then `optional` ones are left out, then the widest of the others are cut, so a row always takes one line.
In a pipe or a file each row is its complete cells separated by tabs, without headings unless the page has several
tables.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TextIO, TypeVar

import click
from msgspec import Struct

from tidelore.app.answers import encode_hook
from tidelore.core.patterns import late_pattern
from tidelore.core.text import one_line, shorten, shorten_start, width

_WIDEST_PROSE = 120
_DEFAULT_COLUMNS = 80
_GAP = "  "
_READABLE_TITLE = 34
_SHORTEST_TITLE = 20
_SHORTEST_PATH = 16
_SHORTEST = 6
_STATE_COLOURS = {
    **dict.fromkeys(("opened", "open", "established", "succeeded", "complete", "waiting"), "green"),
    **dict.fromkeys(("closed", "failed", "crashed", "unavailable", "blocked", "missing", "backing off"), "red"),
    **dict.fromkeys(("merged", "resolved"), "magenta"),
    **dict.fromkeys(("running", "new", "in progress"), "cyan"),
    **dict.fromkeys(("paused", "cancelled", "locked", "stopped", "gone", "partial"), "yellow"),
}


_GAPS = late_pattern(r"(?<=\S) {2,}(?=\S)")
_WORDS = late_pattern(r"((?:[^\s`]|`[^`]*`|`)+)(\s*)")

T = TypeVar("T")


class Column(Struct, Generic[T], frozen=True):
    """A column: its heading, how it is aligned and coloured, and whether it is cut first on a narrow terminal.

    `cell` returns its text for an item of the table.
    """

    heading: str
    cell: Callable[[T], str] = str
    right: bool = False
    shrinks: bool = False
    optional: bool = False
    """Leave the column out on a terminal that has no room for it; the last one goes first."""
    colour: str | None = None
    path: bool = False
    """Cut the beginning instead of the end, because the last part of a path is the most specific."""
    state: bool = False
    """Colour each cell by the state it names."""


def on_terminal(stream: TextIO | None = None) -> bool:
    """Return whether stdout, or another stream, is a terminal."""
    try:
        return (stream or sys.stdout).isatty()
    except (AttributeError, ValueError):
        return False


def terminal_columns(stream: TextIO | None = None) -> int:
    """Return the width of the terminal that stdout, or another stream, is; 80 if it is none. COLUMNS overrides it."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isascii() and asked.isdecimal() and int(asked):
        return int(asked)
    try:
        # Not `shutil`: it imports all compression modules, which is slow.
        return os.get_terminal_size((stream or sys.stdout).fileno()).columns or _DEFAULT_COLUMNS
    except (OSError, ValueError, AttributeError):
        return _DEFAULT_COLUMNS


def page_columns() -> int:
    """Return how wide prose is wrapped: as wide as the terminal, at most 120 columns."""
    return min(terminal_columns(), _WIDEST_PROSE)


def line_columns() -> int:
    """Return where a line of a page is cut instead of wrapped; in a pipe nothing is cut."""
    return page_columns() if on_terminal() else sys.maxsize


def fit_lines(lines: Sequence[str]) -> list[str]:
    """Return lines that a terminal need not break: wider ones are broken between words. In a pipe nothing changes."""
    if not on_terminal():
        return list(lines)
    columns = terminal_columns()
    return [part for line in lines for part in wrap_line(line, columns)]


def wrap_line(line: str, columns: int, margin: int | None = None) -> list[str]:
    """Return a line broken between words; commands in backticks and words that are too long stay whole.

    Further lines begin at `margin`, or else below the last column in the left half of the line, or a step further in.
    """
    plain = click.unstyle(line)
    if width(plain) <= columns:
        return [line]
    indent = len(plain) - len(plain.lstrip())
    if margin is None:
        gaps = [gap.end() for gap in _GAPS.finditer(plain, indent) if gap.end() <= columns // 2]
        margin = max([indent + len(_GAP), *gaps])
    found: list[str] = []
    current = line[: len(line) - len(line.lstrip())]
    for word, blank in _WORDS.findall(line.lstrip()):
        needed = width(click.unstyle(word))
        # A word that no line has room for begins where it stands.
        if current.strip() and width(click.unstyle(current)) + needed > columns and margin + needed <= columns:
            found.append(current.rstrip())
            current = " " * margin
        current += word + blank
    return [*found, current.rstrip()]


def table_of(items: Sequence[T], *columns: Column[T], indent: str = "", always_headings: bool = False) -> list[str]:
    """Return a table with a row for each item, as lines; see `table`."""
    rows = [[column.cell(item) for column in columns] for item in items]
    return table(columns, rows, indent=indent, always_headings=always_headings)


def table(
    columns: Sequence[Column[Any] | str],
    rows: Sequence[Sequence[str]],
    *,
    indent: str = "",
    always_headings: bool = False,
) -> list[str]:
    """Return a table as lines: aligned and cut to the terminal's width, or tab-separated and complete in a pipe.

    `always_headings` prints the headings in a pipe too, for pages that consist of several tables.
    """
    heads: list[Column[Any]] = [Column(column) if isinstance(column, str) else column for column in columns]
    cells = [[one_line(cell) for cell in row] for row in rows]
    titles = [head.heading for head in heads]
    if not on_terminal():
        return ["\t".join(row) for row in ([titles, *cells] if always_headings else cells)]
    room = terminal_columns()
    natural = [max(width(row[at]) for row in (titles, *cells)) for at in range(len(heads))]
    shown = _affordable(heads, natural, room - len(indent))
    heads = [heads[at] for at in shown]
    widths = _fit(heads, [natural[at] for at in shown], room - len(indent))
    lines = [_line(heads, [titles[at] for at in shown], widths, indent, room, heading=True)]
    return lines + [_line(heads, [row[at] for at in shown], widths, indent, room, heading=False) for row in cells]


def fields(values: Mapping[str, Any]) -> list[str]:
    """Return named values, one on each line: aligned on a terminal, separated by a tab in a pipe."""
    shown = [(name, "-" if value is None else one_line(encode_hook(value))) for name, value in values.items()]
    if not on_terminal():
        return [f"{name}\t{value}" for name, value in shown]
    margin = max((len(name) for name, _ in shown), default=0)
    return [f"{name:<{margin}}{_GAP}{value}" for name, value in shown]


def _affordable(heads: Sequence[Column[Any]], natural: Sequence[int], room: int) -> list[int]:
    """Return the columns to show: all, or without the optional ones that do not fit."""
    shown = list(range(len(heads)))
    for spare in [at for at in reversed(shown) if heads[at].optional]:
        main = _main([heads[at] for at in shown])
        least = [_least(heads[at], is_main=place == main) for place, at in enumerate(shown)]
        needed = (min(natural[at], most) for at, most in zip(shown, least, strict=True))
        if sum(needed) + len(_GAP) * (len(shown) - 1) <= room:
            break
        shown.remove(spare)
    return shown


def _main(heads: Sequence[Column[Any]]) -> int | None:
    """Return the column that people read, such as the title: the first column that may shrink, except a path."""
    return next((at for at, head in enumerate(heads) if head.shrinks and not head.path), None)


def _least(head: Column[Any], *, is_main: bool) -> int:
    """Return the width below which a column is not cut for the sake of an optional one."""
    if is_main:
        return _READABLE_TITLE
    return _SHORTEST_PATH if head.path else _SHORTEST_TITLE if head.shrinks else sys.maxsize


def _fit(heads: Sequence[Column[Any]], natural: Sequence[int], room: int) -> list[int]:
    """Return the width of each column, cut where necessary so that a row fits into `room`."""
    widths = [min(needed, max(room, 1)) for needed in natural]
    excess = sum(widths) + len(_GAP) * (len(heads) - 1) - room
    main = _main(heads)
    first = [at for at, head in enumerate(heads) if head.shrinks]
    paths = [at for at, head in enumerate(heads) if head.path]
    others = [at for at, head in enumerate(heads) if not head.shrinks and not head.right]
    for places, least in (
        ([at for at in first if at != main], _SHORTEST_TITLE),
        ([] if main is None else [main], _READABLE_TITLE),
        (paths, _SHORTEST_PATH),
        (first, _SHORTEST_TITLE),
        (paths, _SHORTEST),
        (others, _SHORTEST),
        (first, _SHORTEST),
    ):
        excess = _shrink(widths, places, least, excess)
    return widths


def _shrink(widths: list[int], places: Sequence[int], least: int, excess: int) -> int:
    """Reduce the widest of these columns, one character at a time; return the excess that remains."""
    while excess > 0:
        widest = max(places, key=lambda at: widths[at], default=None)
        if widest is None or widths[widest] <= least:
            break
        widths[widest] -= 1
        excess -= 1
    return excess


def _line(
    heads: Sequence[Column[Any]], cells: Sequence[str], widths: Sequence[int], indent: str, room: int, *, heading: bool
) -> str:
    """Return one row; a terminal too narrow for even the shortest columns cuts it at the right edge."""
    parts, left = [], room - len(indent)
    for at, (head, cell, columns) in enumerate(zip(heads, cells, widths, strict=True)):
        cut = shorten_start if head.path and not heading else shorten
        shown = cut(cell, min(columns, left)) if left > 0 else ""
        blank = " " * max(min(columns, left) - width(shown), 0)
        if head.right:
            parts.append(blank + _styled(head, shown, heading=heading))
        else:
            parts.append(_styled(head, shown, heading=heading) + (blank if at < len(heads) - 1 else ""))
        left -= columns + len(_GAP)
        if left <= 0:
            break
    return (indent + _GAP.join(parts)).rstrip()


def _styled(head: Column[Any], text: str, *, heading: bool) -> str:
    if not text:
        return text
    if heading:
        return click.style(text, bold=True)
    colour = _STATE_COLOURS.get(text) if head.state else head.colour
    return click.style(text, fg=colour) if colour else text
