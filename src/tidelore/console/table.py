"""A table that can be filtered and sorted and keeps its selection while rows change.

The selected row is identified by its key. Only changed rows are drawn again, at most `MOST_ROWS`. On a narrow
terminal the columns with the highest `spare` are left out first, then the widest columns are cut. Widths are set
before rows are painted, because Textual would measure later and keep showing what it painted too narrow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip
from textual.widgets import DataTable
from textual.widgets.data_table import RowKey

from tidelore.console.style import Tone, tones
from tidelore.core.text import block, shorten, shorten_start, width

Yields = Literal["beginning", "end"]

READABLE = 14
"""Minimum width of the last column; optional columns are left out to make room for it."""
SHARE = 3
"""The last column gets this fraction (a third) of the room before long names are shown in full."""
NAME = 24
"""Names up to this width are cut only if the last column would be narrower than `READABLE`."""
FLOOR = 12
"""Minimum width of a name."""


def choose_columns(
    natural: Sequence[int], floors: Sequence[int], spare: Sequence[int], padding: int, room: int
) -> list[int]:
    """Return the indexes of the columns that fit into `room`; columns with a `spare` of 0 are always shown."""
    shown = list(range(len(natural)))
    for place in sorted((at for at in shown if spare[at]), key=lambda at: -spare[at]):
        *others, last = shown
        least = sum(floors[at] for at in others) + min(natural[last], READABLE)
        if least + padding * len(shown) <= room:
            break
        shown.remove(place)
    return shown


def fit_widths(natural: Sequence[int], floors: Sequence[int], room: int) -> tuple[int, ...]:
    """Return column widths that fit into `room`, from their natural widths; none is narrower than its floor."""
    *others, last = natural
    for wanted, least in ((room // SHARE, NAME), (READABLE, 0)):
        while room - sum(others) < min(last, wanted):
            yielding = [at for at in range(len(others)) if others[at] > max(floors[at], least)]
            if not yielding:
                break
            others[max(yielding, key=lambda at: others[at])] -= 1
    return (*others, max(min(last, room - sum(others)), floors[len(others)]))


def clip(text: str, columns: int, yields: Yields) -> str:
    """Return text cut to at most `columns`, with an ellipsis where it was cut."""
    return shorten(text, columns) if yields == "end" else shorten_start(text, columns)


MOST_ROWS = 300
_NUMBER = re.compile(r"([0-9]{1,18})")


class TableColumn(Struct, frozen=True):
    """One column; a `descending` one is sorted with the largest value first.

    `yields` is the part that is cut on a narrow terminal; without it the column is never cut, except that the end of
    the last column is. Columns with a `spare` are left out if there is no room, the highest `spare` first. A column
    that is cut keeps `least` columns.
    """

    name: str
    right: bool = False
    descending: bool = False
    yields: Yields | None = None
    spare: int = 0
    least: int = FLOOR


class Cell(Struct, frozen=True):
    """The content of one cell; it is sorted by `value` if set, else by its text."""

    text: str
    tone: Tone = ""
    value: float | None = None


class TableRow(Struct, frozen=True):
    """One row: its key, its cells and the record it shows."""

    key: str
    cells: tuple[Cell, ...]
    record: Any


class RowTable(DataTable[Text]):
    """A table with filter, sorting and a stable selection.

    `IS_READ`: whether it is filled at once; otherwise it says that it is loading until its rows are set.
    """

    IS_READ: ClassVar[bool] = False

    def __init__(self, columns: Sequence[TableColumn], *, id: str, title: str = "", empty: str = "") -> None:  # noqa: A002
        super().__init__(id=id, cursor_type="row", zebra_stripes=True, cursor_foreground_priority="css")
        self._heads = tuple(columns)
        self.border_title = title or None
        self.empty = empty
        self._all: tuple[TableRow, ...] = ()
        self._is_read = self.IS_READ
        self._shown: list[TableRow] = []
        self._places: list[int] = []
        self._widths: tuple[int, ...] = ()
        self.part = ""
        self.sorted_by: int | None = None
        self.backwards = False

    def on_resize(self) -> None:
        self.redraw(anew=True)

    def render_line(self, y: int) -> Strip:
        """Draw a line; an empty table shows below its headings why it is empty."""
        told = [] if self._shown else block(self.why_empty(), self.size.width - 2)
        if not 0 <= y - self.header_height < len(told):
            return super().render_line(y)
        heading = self.get_component_rich_style("datatable--header")
        muted = Style(color=heading.color, bgcolor=heading.bgcolor)
        line = shorten(told[y - self.header_height], self.size.width - 1)
        return Strip([Segment(f" {line}", muted)]).adjust_cell_length(self.size.width, muted)

    def why_empty(self) -> str:
        """Return what is shown instead of rows."""
        if not self._is_read:
            return "… loading"
        return f"No row matches “{self.part}”; Esc clears the filter." if self._all else self.empty

    @property
    def line(self) -> TableRow | None:
        """The row under the cursor."""
        return self._shown[self.cursor_row] if 0 <= self.cursor_row < len(self._shown) else None

    def set_lines(self, lines: Sequence[TableRow]) -> None:
        """Show these rows."""
        self._all = tuple(_with_unique_keys(lines))
        self._is_read = True
        self.redraw()

    def set_part(self, part: str) -> None:
        """Show only rows that contain a text."""
        self.part = part.strip().casefold()
        self.redraw()

    def sort_next(self) -> None:
        """Sort by the next visible column; after the last one, restore the original order."""
        at = -1 if self.sorted_by is None else self.sorted_by
        self.sorted_by = next((place for place in self._places if place > at), None)
        self.backwards = self.sorted_by is not None and self._heads[self.sorted_by].descending
        self.redraw()

    def sort_by(self, shown: int) -> None:
        """Sort by a visible column; if it is sorted by it already, reverse the order."""
        column = self._places[shown]
        if self.sorted_by == column:
            self.backwards = not self.backwards
        else:
            self.sorted_by, self.backwards = column, self._heads[column].descending
        self.redraw()

    def reverse(self) -> None:
        """Reverse the order."""
        self.backwards = not self.backwards
        self.redraw()

    def restore_order(self) -> None:
        """Show the rows in the order in which they were given."""
        self.sorted_by, self.backwards = None, False

    def redraw(self, *, anew: bool = False) -> None:
        """Draw the rows that changed; `anew` draws every row. A sort by a column that is not shown is undone."""
        wanted = self._chosen()
        places, widths = self._fitting(wanted)
        if self.sorted_by is not None and self.sorted_by not in places and self.size.width:
            self.restore_order()
            wanted = self._chosen()
            places, widths = self._fitting(wanted)
        anew = anew or (places, widths) != (self._places, self._widths)
        self._places, self._widths = places, widths
        known = [line.key for line in self._shown]
        if anew or [line.key for line in wanted] != known:
            self._draw_all(wanted)
        else:
            self._draw_changes(wanted)
        self._tell(wanted)

    def _chosen(self) -> list[TableRow]:
        lines = [line for line in self._all if self.part in " ".join(c.text for c in line.cells).casefold()]
        if self.sorted_by is not None:
            place = self.sorted_by
            lines.sort(key=lambda line: _order(line.cells[place]))
        if self.backwards:
            lines.reverse()
        return lines[:MOST_ROWS]

    def _draw_all(self, lines: list[TableRow]) -> None:
        # Without a selected row the cursor stays on the first one.
        kept, row = self.line if self.has_focus or self.cursor_row else None, self.cursor_row
        self._shown = lines
        if [key.value for key in self.columns] == [str(place) for place in self._places]:
            self.clear()
        else:
            self.clear(columns=True)
            self._draw_heads()
        for column, columns in zip(self.ordered_columns, self._widths, strict=True):
            column.content_width = columns
        for line in lines:
            self.add_row(*self._cells(line), key=line.key)
        keys = [line.key for line in lines]
        place = keys.index(kept.key) if kept is not None and kept.key in keys else min(row, len(keys) - 1)
        # Row -1 would be the heading, which must not be selected.
        self.move_cursor(row=max(place, 0))

    def _update_dimensions(self, new_rows: Iterable[RowKey]) -> None:  # noqa: ARG002 - as Textual calls it
        """Compute the height without measuring cells: the columns have widths already, and every row is one line.

        Textual would measure each cell of new rows, 12 ms for 300 rows.
        """
        super()._update_dimensions(())

    def _draw_heads(self) -> None:
        for place in self._places:
            head = self._heads[place]
            self.add_column(Text(head.name, justify="right" if head.right else "left"), key=str(place))

    def _draw_changes(self, lines: list[TableRow]) -> None:
        before, self._shown = self._shown, lines
        for old, new in zip(before, lines, strict=True):
            for place, columns in zip(self._places, self._widths, strict=True):
                if old.cells[place] != new.cells[place]:
                    self.update_cell(new.key, str(place), self._cell(place, new.cells[place], columns))

    def _cells(self, line: TableRow) -> list[Text]:
        return [
            self._cell(place, line.cells[place], columns)
            for place, columns in zip(self._places, self._widths, strict=True)
        ]

    def _fitting(self, lines: list[TableRow]) -> tuple[list[int], tuple[int, ...]]:
        """Return the visible columns and their widths, so that the table needs no horizontal scrolling."""
        natural = [
            max([len(head.name), *(width(line.cells[at].text) for line in lines)])
            for at, head in enumerate(self._heads)
        ]
        floors = [
            whole if head.yields is None else min(whole, max(len(head.name), head.least))
            for head, whole in zip(self._heads, natural, strict=True)
        ]
        padding, room = 2 * self.cell_padding, self.size.width - 1
        places = choose_columns(natural, floors, [head.spare for head in self._heads], padding, room)
        least = [*(floors[at] for at in places[:-1]), len(self._heads[places[-1]].name)]
        return places, fit_widths([natural[at] for at in places], least, room - padding * len(places))

    def _cell(self, place: int, cell: Cell, columns: int) -> Text:
        head = self._heads[place]
        return Text(
            clip(cell.text, columns, head.yields or "end"),
            tones(self.app).get(cell.tone, ""),
            justify="right" if head.right else "left",
            no_wrap=True,
        )

    def _tell(self, shown: list[TableRow]) -> None:
        parts = []
        if self.part:
            parts.append(f"/{self.part}")
        if self.sorted_by is not None:
            parts.append(f"{self._heads[self.sorted_by].name.lower()} {'▼' if self.backwards else '▲'}")
        elif self.backwards:
            parts.append("reversed")
        total = len(self._all)
        parts.append(f"{total:,}" if len(shown) == total else f"{len(shown):,} of {total:,}")
        self.border_subtitle = " · ".join(parts)


def _with_unique_keys(lines: Iterable[TableRow]) -> Iterator[TableRow]:
    """Yield the rows; a repeated key gets a number, because Textual refuses two rows with the same key.

    Two hosts may have a project with the same path, and so two search results with the same reference.
    """
    seen: dict[str, int] = {}
    for line in lines:
        seen[line.key] = seen.get(line.key, 0) + 1
        yield line if seen[line.key] == 1 else replace(line, key=f"{line.key}\n{seen[line.key]}")


def _order(cell: Cell) -> tuple[float, list[str | int]]:
    """Return what a cell is sorted by; numbers within a text count as numbers, so that #9 comes before #10."""
    if cell.value is not None:
        return cell.value, []
    parts = _NUMBER.split(cell.text.casefold())
    return 0.0, [int(part) if at % 2 else part for at, part in enumerate(parts)]
