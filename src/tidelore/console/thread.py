"""One thread on the whole screen. Owns the keys of reading: scroll, open, copy, back."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static

from tidelore.app.console import read_thread
from tidelore.console.desk import Desk
from tidelore.console.thread_text import thread_text
from tidelore.core.errors import TideloreError
from tidelore.search.results import ThreadResult


class ThreadScreen(Screen[None]):
    """Everything the copy holds of one thread; it is read when it is opened."""

    AUTO_FOCUS = "#thread"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Back"),
        Binding("o", "open", "Open"),
        Binding("c", "copy", "Copy"),
    ]

    def __init__(self, desk: Desk, found: ThreadResult) -> None:
        super().__init__()
        self._desk = desk
        self._found = found

    def compose(self) -> ComposeResult:
        yield VerticalScroll(Static(Text("… loading", "dim"), id="text", markup=False), id="thread")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        scroll = self.query_one("#thread")
        scroll.border_title = self._found.reference.replace("[", "\\[")
        self.run_worker(self._read(), exit_on_error=False)

    async def _read(self) -> None:
        try:
            thread = await self._desk.seeker.ask(lambda database: read_thread(database, self._found))
        except TideloreError as error:
            text = Text(f"{error.message}\n{error.fix or ''}")
        else:
            text = thread_text(thread, self.query_one("#thread").scrollable_content_region.width)
        self.query_one("#text", Static).update(text)

    def action_leave(self) -> None:
        """Go back to the results."""
        self.dismiss()

    def action_open(self) -> None:
        """Open the page in the browser."""
        address = self._found.web_url
        if address is None or not address.startswith(("https://", "http://")):
            self.notify("This item has no web page.", severity="warning")
            return
        self.app.open_url(address)
        self.notify(address, title="Opened", markup=False)

    def action_copy(self) -> None:
        """Copy the reference."""
        self.app.copy_to_clipboard(self._found.reference)
        self.notify(self._found.reference, title="Copied", markup=False)
