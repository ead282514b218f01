"""Search while one types. Owns the line, the list and the preview.

Words are searched at every key; where the model runs in this process, meanings refine the list a moment later. Only the
newest question counts: what an older one finds is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.widget import Widget
from textual.widgets import DataTable, Input, Static

from tidelore.app.console import read_thread
from tidelore.console.browsing import BrowseScreen, filter_line
from tidelore.console.desk import Desk
from tidelore.console.table import Cell, Column, Line, RowTable
from tidelore.console.thread import ThreadScreen
from tidelore.console.thread_text import result_text, thread_text
from tidelore.console.words import remote, since
from tidelore.core.errors import TideloreError
from tidelore.search.find import SearchResults
from tidelore.search.results import ThreadResult
from tidelore.store.database.port import Database

RESULTS = (
    Column("THREAD", yields="beginning"),
    Column("STATE"),
    Column("UPDATED", right=True),
    Column("TITLE"),
)
EMPTY = "Results appear as you type."
LIMIT = 50
PAUSE_SECONDS = 0.12
"""How long to wait for the next key before a search is made."""


class ResultTable(RowTable):
    """What was found; behind each row is a thread."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Read")]


class SearchScreen(BrowseScreen):
    """A line to type in, what it finds, and the thread behind the selected result."""

    PLACE = "search"
    AUTO_FOCUS = "#query"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "ask", "Search", key_display="/"),
        Binding("escape", "swap", "Query/results"),
    ]

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._previewed: ThreadResult | None = None

    def body(self) -> Iterable[Widget]:
        yield Input(placeholder='keywords, "a phrase", -excluded, label:bug, author:mira, since:7d', id="query")
        yield filter_line()
        results = ResultTable(RESULTS, id="results", title="Results", empty=EMPTY)
        behind = VerticalScroll(Static("", id="detail", markup=False), id="behind")
        yield Container(Vertical(results, id="lists"), behind, id="browse")

    def question(self, database: Database, now_ms: int) -> None:
        """The results change when somebody types, not by themselves."""

    def show(self, answer: None, now_ms: int) -> None:
        pass

    @on(Input.Changed, "#query")
    def _typed(self, event: Input.Changed) -> None:
        self.run_worker(self._search(event.value), group="search", exclusive=True, exit_on_error=False)

    @on(Input.Submitted, "#query")
    def _to_results(self) -> None:
        self.query_one(RowTable).focus()

    @on(DataTable.RowSelected, "#results")
    def _chosen(self) -> None:
        line = self.table.line
        if line is not None:
            self.app.push_screen(ThreadScreen(self.desk, line.record))

    def tell_detail(self) -> None:
        """Show the place that was found at once, the whole thread as soon as it is read."""
        line = self.table.line
        if line is None:
            self.query_one("#detail", Static).update(Text())
        elif self._previewed != line.record:
            self.query_one("#behind", VerticalScroll).scroll_home(animate=False)
            self.query_one("#detail", Static).update(result_text(line.record))
            self.run_worker(self._preview(line.record), group="preview", exclusive=True, exit_on_error=False)
        self._previewed = None if line is None else line.record

    def address(self, line: Line) -> str | None:
        return str(line.record.web_url) if line.record.web_url else None

    def action_ask(self) -> None:
        """Go back to the line."""
        self.query_one("#query", Input).focus()

    def action_swap(self) -> None:
        """Go from the line to the results, or back."""
        (self.table if self.query_one("#query", Input).has_focus else self.query_one("#query", Input)).focus()

    async def _search(self, text: str) -> None:
        await self.desk.app.clock.sleep(PAUSE_SECONDS)
        table = self.query_one("#results", RowTable)
        if not text.strip():
            table.empty = EMPTY
            table.set_lines([])
            table.border_title = "Results"
            self.tell_detail()
            return
        try:
            finder = self.desk.finder
            self._tell(await self.desk.seeker.ask(lambda database: finder.by_words(database, text, LIMIT)))
            found = await self.desk.seeker.ask(lambda database: finder.by_meaning(database, text, LIMIT))
        except TideloreError as error:
            table.border_title = remote(f"{error.message} · {error.fix or ''}", 120).replace("[", "\\[")
            return
        if found is not None:
            self._tell(found)

    def _tell(self, found: SearchResults) -> None:
        table = self.query_one("#results", RowTable)
        notices = [said for said in found.notices if "keywords only" not in said]
        table.empty = notices[0] if notices else "No results."
        table.set_lines([_line(result, self.desk.now_ms) for result in found.threads])
        how = "by keyword and meaning" if found.mode == "hybrid" else "by keyword"
        notice = "".join(f" · {said}" for said in notices if found.threads)
        table.border_title = f"{found.total:,} found {how}{notice}".replace("[", "\\[")
        self.tell_detail()

    async def _preview(self, found: ThreadResult) -> None:
        await self.desk.app.clock.sleep(PAUSE_SECONDS)
        try:
            thread = await self.desk.seeker.ask(lambda database: read_thread(database, found))
        except TideloreError:
            return
        whole = result_text(found)
        whole.append(f"{'─' * 20}\n", "dim")
        whole.append_text(thread_text(thread, self.room, titled=False))
        self.query_one("#detail", Static).update(whole)


def _line(found: ThreadResult, now_ms: int) -> Line:
    name = found.reference if found.project else f"@{found.author or '?'}"
    told = found.title if found.project else found.snippet
    cells = (
        Cell(remote(name, 48), "strong"),
        Cell(remote(found.state), "dim"),
        Cell(since(found.updated_at, now_ms), "", now_ms - found.updated_at),
        Cell(remote(told, 300)),
    )
    return Line(found.reference, cells, found)
