"""The first screen: what waits for you and what is new, with the thread of the selected row beside it.

The lists are read again only after the copy has changed. A thread is read and its Markdown rendered in the reader's
thread, so that no key waits for it; a thread that is no longer selected is not shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.events import Resize
from textual.widget import Widget
from textual.widgets import DataTable, Static

from tidelore.app.console import READING_LISTS, ConsoleViews, ReadingList, ReadingRow
from tidelore.console.backend import Backend
from tidelore.console.replying import ReplyingScreen
from tidelore.console.screen import filter_line
from tidelore.console.search import prose, thread_text
from tidelore.console.style import age, clean_text, short_names
from tidelore.console.table import Cell, RowTable, TableColumn, TableRow
from tidelore.core.errors import TideloreError
from tidelore.core.text import without_markdown

COLUMNS = (
    TableColumn("THREAD", yields="beginning"),
    TableColumn("AGE", right=True),
    TableColumn("TITLE"),
)
PAUSE_SECONDS = 0.06
"""How long to wait for the next key press before a thread is read."""
_NOTHING = "Nothing is stored yet; the first sync fetches it (`lore sync`, or the service)."
_EMPTY = {
    "inbox": "Nothing waits for you.",
    "mine": "No open thread is on your items, has your notes or mentions you.",
    "unresolved": "Every thread is resolved.",
}


class ReadingTable(RowTable):
    """The rows of a list; the left and right keys go to another list, Enter to the thread."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select_cursor", "Read"),
        Binding("left", "screen.step(-1)", "Lists", key_display="←→"),
        Binding("right", "screen.step(1)", "Next list", show=False),
    ]


class ThreadView(VerticalScroll):
    """The thread of the selected row; Escape goes back to the list."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "screen.back", "Back"),
        Binding("j", "scroll_down", "Down", show=False),
        Binding("k", "scroll_up", "Up", show=False),
    ]


class InboxScreen(ReplyingScreen):
    """Lists on the left, the selected thread on the right."""

    PLACE = "inbox"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "resolve", "Resolve"),
        Binding("r", "fetch", "Refresh"),
        Binding("s", "sort", "Sort", show=False),
        Binding("c", "copy", "Copy", show=False),
    ]

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._list = next(iter(READING_LISTS))
        self._seq: int | None = None
        self._previewed: tuple[ReadingRow, int] | None = None
        self._outdated = False

    def body(self) -> Iterable[Widget]:
        yield Static("", id="strip")
        yield filter_line()
        rows = ReadingTable(COLUMNS, id="rows", empty="… loading")
        behind = ThreadView(Static("", id="detail", markup=False), id="behind")
        yield Container(Vertical(rows, id="lists"), behind, id="browse")

    def on_mount(self) -> None:
        self._show_strip()

    def question(self, views: ConsoleViews, now_ms: int) -> tuple[str, ReadingList | None]:  # noqa: ARG002
        return self._list, views.reading_list(self._list, self._seq)

    def show(self, answer: tuple[str, ReadingList | None], now_ms: int) -> None:
        name, found = answer
        if found is None or name != self._list:
            return
        changed, self._seq = self._seq is not None, found.seq
        table = self.query_one("#rows", RowTable)
        # Before the first change of the copy, a list is empty because nothing was fetched.
        reason = _EMPTY.get(name, _NOTHING) if found.seq else _NOTHING
        table.empty = found.notice or reason
        short = short_names([row.reference for row in found.rows])
        times = Counter(row.reference for row in found.rows)
        table.set_lines([_line(row, short[row.reference], now_ms, times[row.reference] > 1) for row in found.rows])
        shown = f"{len(found.rows):,} of {found.total:,}" if found.total > len(found.rows) else f"{found.total:,}"
        table.border_title = f"{READING_LISTS[name]} · {shown}"
        if changed:
            # The thread under the cursor may have changed too; its reader keeps the place in it.
            self._outdated = True
        self.update_detail()

    def update_detail(self) -> None:
        """Show what is known of the row at once, and the whole thread as soon as it is read."""
        line = self.table.line
        # A list without rows says why on the whole width. While it is loading, nothing moves.
        self.query_one("#behind").display = line is not None or self._seq is None
        if line is None:
            self._previewed = None
            notice = self.query_one("#rows", RowTable).empty if self._seq is not None else ""
            self.query_one("#detail", Static).update(Text(notice, "dim"))
            return
        wanted = (line.record, self.room)
        if self._previewed == wanted and not self._outdated:
            return
        self._outdated = False
        if self._previewed is None or self._previewed[0].key != line.record.key:
            self.query_one("#behind", VerticalScroll).scroll_home(animate=False)
            self.query_one("#detail", Static).update(_opening(line.record, 0))
        self._previewed = wanted
        self.run_in_background(partial(self._read, *wanted), "thread")

    async def _read(self, row: ReadingRow, columns: int) -> None:
        await self.backend.app.clock.sleep(PAUSE_SECONDS)

        def read(views: ConsoleViews) -> Text:
            whole = _opening(row, columns)
            return whole.append_text(thread_text(views.read_thread(row), columns, titled=False))

        try:
            text = await self.backend.search_reader.ask(read)
        except TideloreError as error:
            text = _opening(row, columns).append(f"\n{error.message}\n{error.fix or ''}")
        if self._previewed == (row, columns):
            self.query_one("#detail", Static).update(text)

    def address(self, line: TableRow) -> str | None:
        return str(line.record.web_url) if line.record.web_url else None

    def reference(self, line: TableRow) -> str | None:
        return str(line.record.reference)

    @property
    def table(self) -> RowTable:
        return self.query_one("#rows", RowTable)

    def action_step(self, by: int) -> None:
        """Go to the next or previous list."""
        names = list(READING_LISTS)
        self.action_choose(names[(names.index(self._list) + by) % len(names)])

    def action_choose(self, name: str) -> None:
        """Go to a list."""
        if name not in READING_LISTS:
            self.app.switch_mode(name)
            return
        self._list, self._seq, self._previewed = name, None, None
        table = self.table
        # Each list starts in its own order.
        table.restore_order()
        table.empty, table.border_title = "… loading", READING_LISTS[name]
        table.set_lines([])
        table.move_cursor(row=0)
        table.focus()
        self._show_strip()
        self.update_detail()
        self.reload_now()

    def action_back(self) -> None:
        """Go from the thread back to the list."""
        self.table.focus()

    def selected(self) -> ReadingRow | None:
        line = self.table.line
        return None if line is None else line.record

    def action_fetch(self) -> None:
        """Fetch the selected item from its host."""
        row, actions = self.selected(), self.backend.actions
        if row is None or actions is None:
            return
        self.notify(f"Fetching {row.reference} …", markup=False, timeout=2)
        work = partial(self._act, lambda: actions.refresh(row), f"fetch {row.reference}", reads=True)
        self.run_in_background(work, "act", exclusive=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide what changes the copy where that is not possible."""
        if action == "fetch":
            return self.backend.actions is not None
        return super().check_action(action, parameters)

    @on(DataTable.RowSelected, "#rows")
    def _to_thread(self) -> None:
        self.query_one("#behind", VerticalScroll).focus()

    @on(Resize)
    def _other_width(self) -> None:
        self.call_after_refresh(self.update_detail)

    def _show_strip(self) -> None:
        names = [*READING_LISTS.items(), ("search", "Search")]
        parts = [
            f"[@click=screen.choose('{name}')]{'[b reverse]' if name == self._list else '[$text-muted]'} {title} [/][/]"
            for name, title in names
        ]
        self.query_one("#strip", Static).update("".join(parts))


def _opening(row: ReadingRow, columns: int) -> Text:
    """Return the title of a row and, of a thread, its place and its last note, formatted for `columns`."""
    text = Text()
    text.append(f"{f'@{row.by}' if row.reference.startswith('at://') else row.reference}\n", "bold")
    # Its title is the beginning of its text, which follows as soon as it is read.
    if not (columns and row.reference.startswith("at://")):
        text.append(f"{clean_text(row.title)}\n")
    text.append("\n")
    if row.text is not None:
        state = "not known whether resolved" if row.state == "unknown" else row.state
        text.append(f"{clean_text(row.place)}  {state}\n" if row.place else f"{state}\n", "italic")
        text.append_text(prose(row.text, columns))
        text.append(f"{'─' * 20}\n", "dim")
    return text


def _line(row: ReadingRow, name: str, now_ms: int, one_of_several: bool) -> TableRow:  # noqa: FBT001
    # The title alone would not tell several threads of an item apart.
    told = row.text if one_of_several and row.text is not None else row.title
    cells = (
        Cell(clean_text(name or f"@{row.by}", 48 if name else 24), "strong"),
        Cell(age(row.at, now_ms), "", now_ms - row.at),
        Cell(without_markdown(clean_text(told, 300))[0]),
    )
    return TableRow(row.key, cells, row)
