"""What happened, line by line. Owns the screen of the log; where records come from is told in its frame."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import wrap
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.widget import Widget
from textual.widgets import Input, RichLog

from tidelore.console.browsing import filter_line
from tidelore.console.logbook import KEPT, Entry, from_ledger, read_tail
from tidelore.console.panel import PanelScreen
from tidelore.console.themes import tones
from tidelore.console.words import remote
from tidelore.store.database.port import Database
from tidelore.store.work import activity

_TONES = {"warning": "warn", "error": "bad", "critical": "bad", "debug": "dim"}
_LEDGER = 150
_LOGGER = 16
"""How wide the names of most loggers are: what they say begins in one column."""
_WIDE = 100
"""On how many columns there is room for them."""


class LogScreen(PanelScreen):
    """The newest records, the last one at the bottom; it follows unless somebody scrolled up."""

    PLACE = "log"
    AUTO_FOCUS = "RichLog"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("w", "warnings", "Warnings"),
        Binding("c", "copy", "Copy last"),
        Binding("end", "follow", "Follow"),
        Binding("escape", "clear", "Clear", show=False),
    ]
    only_warnings = False
    part = ""

    def body(self) -> Iterable[Widget]:
        yield filter_line()
        yield RichLog(id="log", max_lines=KEPT, wrap=True, min_width=20, auto_scroll=True, markup=False)

    def on_mount(self) -> None:
        self._entries: list[Entry] = []
        self._shown: list[Entry] = []

    def question(self, database: Database, now_ms: int) -> tuple[str, list[Entry]]:  # noqa: ARG002
        file = self.desk.app.config.log.file
        if self.desk.service is not None and not self.desk.service.elsewhere:
            return "this process", self.desk.logbook.entries()
        if file:
            return file, read_tail(file)
        return "the run history (set log.file to see the log of another process)", from_ledger(
            activity.newest_runs(database, _LEDGER)
        )

    def show(self, answer: tuple[str, list[Entry]], now_ms: int) -> None:  # noqa: ARG002
        origin, self._entries = answer
        self.query_one(RichLog).border_title = f"Log: {origin}".replace("[", "\\[")
        self._draw()

    def _draw(self, *, anew: bool = False) -> None:
        log = self.query_one(RichLog)
        # As wide as it is seen: by itself it would measure the terminal it was started on.
        columns = log.scrollable_content_region.width or None
        wanted = [entry for entry in self._entries if self._fits(entry)]
        known = len(self._shown)
        if anew or wanted[:known] != self._shown:
            log.clear()
            known = 0
        for entry in wanted[known:]:
            log.write(self._line(entry, columns or 0), width=columns, scroll_end=log.is_vertical_scroll_end)
        self._shown = wanted
        parts = [f"/{self.part}"] if self.part else []
        parts += ["warnings and errors"] if self.only_warnings else []
        log.border_subtitle = " · ".join([*parts, f"{len(wanted):,}"])

    def _fits(self, entry: Entry) -> bool:
        grave = not self.only_warnings or entry.level in ("warning", "error", "critical")
        return grave and self.part in f"{entry.at} {entry.level} {entry.logger} {entry.message}".casefold()

    def _line(self, entry: Entry, columns: int) -> Text:
        text = Text()
        text.append(f"{entry.at[11:19] or '        '} ", "dim")
        text.append(f"{entry.level:<8}", tones(self.app).get(_TONES.get(entry.level, ""), ""))
        if columns >= _WIDE:
            text.append(f"{entry.logger:<{_LOGGER}} " if entry.logger else "", "dim")
        begin = text.cell_len
        message = remote(entry.message, 1000)
        parts = wrap(message, max(columns - begin, 1), break_on_hyphens=False) if columns else [message]
        return text.append(f"\n{' ' * begin}".join(parts))

    @on(Resize)
    def _other_room(self) -> None:
        self.call_after_refresh(self._draw, anew=True)

    @on(Input.Changed, "#filter")
    def _narrow(self, event: Input.Changed) -> None:
        self.part = event.value.strip().casefold()
        self._draw(anew=True)

    @on(Input.Submitted, "#filter")
    def _narrowed(self) -> None:
        self.query_one(RichLog).focus()

    def action_filter(self) -> None:
        """Type what records must hold."""
        line = self.query_one("#filter", Input)
        line.display = True
        line.focus()

    def action_clear(self) -> None:
        """Show all records again."""
        line = self.query_one("#filter", Input)
        line.value = ""
        line.display = False
        self.query_one(RichLog).focus()

    def action_warnings(self) -> None:
        """Show only what went wrong, or all."""
        self.only_warnings = not self.only_warnings
        self._draw(anew=True)

    def action_follow(self) -> None:
        """Go to the newest record."""
        self.query_one(RichLog).scroll_end(animate=False)

    def action_copy(self) -> None:
        """Copy the newest record."""
        if not self._shown:
            self.notify("Nothing to copy.", severity="warning")
            return
        entry = self._shown[-1]
        self.app.copy_to_clipboard(f"{entry.at} {entry.level} {entry.logger} {entry.message}".strip())
        self.notify("Copied the newest record.")
