"""A list on screen. Owns filtering, sorting and what stays selected while the rows under it change.

A row is known by its key: the cursor follows it wherever it goes. Only what changed is drawn again, and never more rows
than anybody reads; where some are left out the table says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from rich.text import Text
from textual.widgets import DataTable

from tidelore.console.looks import tones
from tidelore.console.words import Tone
from tidelore.remote_text import shorten, width

MOST_ROWS = 300


class Column(Struct, frozen=True):
    """One column; a `descending` one begins with its largest when it is sorted by."""

    name: str
    right: bool = False
    descending: bool = False


class Cell(Struct, frozen=True):
    """What stands in a row under one column; `value` is what it is sorted by where that is not its text."""

    text: str
    tone: Tone = ""
    value: float | None = None


class Line(Struct, frozen=True):
    """One row: how it is known, what it shows, and what it stands for."""

    key: str
    cells: tuple[Cell, ...]
    record: Any


class RowTable(DataTable[Text]):
    """A table of lines."""

    def __init__(self, columns: Sequence[Column], *, id: str, title: str = "") -> None:  # noqa: A002
        super().__init__(id=id, cursor_type="row", zebra_stripes=True, cursor_foreground_priority="css")
        self._heads = tuple(columns)
        self.border_title = title or None
        self._all: tuple[Line, ...] = ()
        self._shown: list[Line] = []
        self._room = 0
        self.part = ""
        self.sorted_by: int | None = None
        self.backwards = False

    def on_mount(self) -> None:
        for place, column in enumerate(self._heads):
            self.add_column(Text(column.name, justify="right" if column.right else "left"), key=str(place))

    def on_resize(self) -> None:
        self.redraw(anew=True)

    @property
    def line(self) -> Line | None:
        """The line under the cursor."""
        return self._shown[self.cursor_row] if 0 <= self.cursor_row < len(self._shown) else None

    def set_lines(self, lines: Sequence[Line]) -> None:
        """Show these lines."""
        self._all = tuple(lines)
        self.redraw()

    def set_part(self, part: str) -> None:
        """Show only lines that hold a text."""
        self.part = part.strip().casefold()
        self.redraw()

    def sort_next(self) -> None:
        """Sort by the next column; after the last one, as the lines came."""
        at = -1 if self.sorted_by is None else self.sorted_by
        self.sorted_by = at + 1 if at + 1 < len(self._heads) else None
        self.backwards = self.sorted_by is not None and self._heads[self.sorted_by].descending
        self.redraw()

    def sort_by(self, column: int) -> None:
        """Sort by a column; by the same one again, the other way round."""
        if self.sorted_by == column:
            self.backwards = not self.backwards
        else:
            self.sorted_by, self.backwards = column, self._heads[column].descending
        self.redraw()

    def reverse(self) -> None:
        """Turn the order round."""
        self.backwards = not self.backwards
        self.redraw()

    def redraw(self, *, anew: bool = False) -> None:
        """Bring the screen in line with the lines; `anew` draws every row again."""
        wanted = self._chosen()
        room = self._last_room(wanted)
        anew, self._room = anew or room != self._room, room
        known = [line.key for line in self._shown]
        if anew or [line.key for line in wanted] != known:
            self._draw_all(wanted)
        else:
            self._draw_changes(wanted)
        self._tell(wanted)

    def _chosen(self) -> list[Line]:
        lines = [line for line in self._all if self.part in " ".join(c.text for c in line.cells).casefold()]
        if self.sorted_by is not None:
            place = self.sorted_by
            lines.sort(key=lambda line: _order(line.cells[place]))
        if self.backwards:
            lines.reverse()
        return lines[:MOST_ROWS]

    def _draw_all(self, lines: list[Line]) -> None:
        kept, row = self.line, self.cursor_row
        self._shown = lines
        self.clear()
        for column in self.columns.values():
            # A column remembers its widest cell, also of rows that are gone.
            column.content_width = column.label.cell_len
        for line in lines:
            self.add_row(*self._cells(line), key=line.key)
        keys = [line.key for line in lines]
        self.move_cursor(row=keys.index(kept.key) if kept is not None and kept.key in keys else min(row, len(keys) - 1))

    def _draw_changes(self, lines: list[Line]) -> None:
        before, self._shown = self._shown, lines
        for old, new in zip(before, lines, strict=True):
            for place, (was, is_now) in enumerate(zip(old.cells, new.cells, strict=True)):
                if was != is_now:
                    self.update_cell(new.key, str(place), self._cell(place, is_now), update_width=True)

    def _cells(self, line: Line) -> list[Text]:
        return [self._cell(place, cell) for place, cell in enumerate(line.cells)]

    def _last_room(self, lines: list[Line]) -> int:
        """Return how wide the last column may be, so that the others are seen whole and nothing is scrolled aside."""
        others = range(len(self._heads) - 1)
        taken = [max([len(self._heads[at].name), *(width(line.cells[at].text) for line in lines)]) for at in others]
        padding = 2 * self.cell_padding
        return max(self.size.width - sum(taken) - padding * len(self._heads) - 1, len(self._heads[-1].name), 10)

    def _cell(self, place: int, cell: Cell) -> Text:
        right = self._heads[place].right
        last = place == len(self._heads) - 1
        return Text(
            shorten(cell.text, self._room) if last else cell.text,
            tones(self.app).get(cell.tone, ""),
            justify="right" if right else "left",
            no_wrap=True,
        )

    def _tell(self, shown: list[Line]) -> None:
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


def _order(cell: Cell) -> tuple[float, str]:
    return (0.0 if cell.value is None else cell.value, "" if cell.value is not None else cell.text.casefold())
