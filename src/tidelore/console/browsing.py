"""A list and what lies behind its rows. Owns the keys that every list has: filter, sort, open, copy.

Beside the list on a wide terminal, below it on a narrow one, the selected row is shown whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.events import Resize
from textual.widget import Widget
from textual.widgets import DataTable, Input, Static

from tidelore.console.desk import Desk
from tidelore.console.panel import PanelScreen
from tidelore.console.table import Line, RowTable


def filter_line() -> Input:
    """Return the line in which a filter is typed; it is seen while there is one."""
    line = Input(placeholder="Filter rows by text; Esc clears the filter", id="filter")
    line.display = False
    return line


class BrowseScreen(PanelScreen):
    """A list with details; what a row leads to is told by `address` and `reference`."""

    AUTO_FOCUS = "RowTable"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("s", "sort", "Sort"),
        Binding("S", "reverse", "Reverse", show=False),
        Binding("o", "open", "Open"),
        Binding("c", "copy", "Copy"),
        Binding("escape", "clear", "Clear", show=False),
    ]

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._told: tuple[str | None, str] | None = None

    def tables(self) -> Iterable[RowTable]:
        """Yield the lists of this screen; the first one is seen first. A screen with a body of its own has none."""
        return ()

    def detail(self, line: Line) -> Text:  # noqa: ARG002 - a screen without a place for details tells none
        """Return a row, whole."""
        return Text()

    def address(self, line: Line) -> str | None:  # noqa: ARG002 - what has no page says so for every row
        """Return the page of what a row stands for."""
        return None

    def reference(self, line: Line) -> str | None:
        """Return how what a row stands for is called in a command."""
        return line.key

    def body(self) -> Iterable[Widget]:
        yield filter_line()
        behind = VerticalScroll(Static("", id="detail", markup=False), id="behind")
        yield Container(Vertical(*self.tables(), id="lists"), behind, id="browse")

    @property
    def table(self) -> RowTable:
        """The list one is in, or else the first that is seen."""
        seen = [table for table in self.query(RowTable) if table.display]
        return next((table for table in seen if table.has_focus), seen[0])

    def tell_detail(self) -> None:
        """Show the selected row, whole, from its beginning if it is another one."""
        line = self.table.line
        key = None if line is None else (self.table.id, line.key)
        if key != self._told:
            self._told = key
            self.query_one("#behind", VerticalScroll).scroll_home(animate=False)
        self.query_one("#detail", Static).update(Text("No rows.", "dim") if line is None else self.detail(line))

    @property
    def room(self) -> int:
        """How many columns there are for details."""
        return self.query_one("#behind", VerticalScroll).scrollable_content_region.width

    @on(Resize)
    def _other_room(self) -> None:
        self.call_after_refresh(self.tell_detail)

    @on(DataTable.RowHighlighted)
    def _another_row(self) -> None:
        self.tell_detail()

    @on(DataTable.HeaderSelected)
    def _sort_by(self, event: DataTable.HeaderSelected) -> None:
        self.table.sort_by(event.column_index)

    @on(Input.Changed, "#filter")
    def _narrow(self, event: Input.Changed) -> None:
        self.table.set_part(event.value)
        self.tell_detail()

    @on(Input.Submitted, "#filter")
    def _narrowed(self) -> None:
        self.table.focus()

    def action_filter(self) -> None:
        """Type what rows must hold."""
        filtering = self.query_one("#filter", Input)
        filtering.display = True
        filtering.focus()

    def action_clear(self) -> None:
        """Show all rows again."""
        filtering = self.query_one("#filter", Input)
        filtering.value = ""
        filtering.display = False
        self.table.focus()

    def action_sort(self) -> None:
        """Sort by the next column."""
        self.table.sort_next()
        self.tell_detail()

    def action_reverse(self) -> None:
        """Turn the order round."""
        self.table.reverse()
        self.tell_detail()

    def action_open(self) -> None:
        """Open the selected row's page in the browser."""
        line = self.table.line
        self.open_page(None if line is None else self.address(line))

    def action_copy(self) -> None:
        """Copy the selected row's reference."""
        line = self.table.line
        self.copy_text(None if line is None else self.reference(line))

    def open_page(self, address: str | None) -> None:
        """Open an address; it comes from a remote system, so only the web is opened."""
        if address is None or not address.startswith(("https://", "http://")):
            self.notify("This item has no web page.", severity="warning")
            return
        self.app.open_url(address)
        self.notify(address, title="Opened", markup=False)

    def copy_text(self, text: str | None) -> None:
        """Put a text into the clipboard of the terminal."""
        if not text:
            self.notify("Nothing to copy.", severity="warning")
            return
        self.app.copy_to_clipboard(text)
        self.notify(text, title="Copied", markup=False)
