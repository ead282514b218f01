"""The log screen: the newest log records of this process, or of another service from its log file.

At most `KEPT` records are held, after redaction. Where a service writes no log file, the screen lists its runs
instead.
"""

from __future__ import annotations

import logging
import os
import re
from collections import deque
from collections.abc import Iterable
from functools import partial
from textwrap import wrap
from typing import ClassVar

import msgspec
from msgspec import Struct
from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.widget import Widget
from textual.widgets import Input, RichLog

from tidelore.app.console import ConsoleViews
from tidelore.app.status import ListedRun
from tidelore.console.screen import ConsoleScreen, filter_line
from tidelore.console.style import clean_text, tones
from tidelore.core.clock import format_instant
from tidelore.core.redaction import RedactFilter

KEPT = 2_000
_TAIL_BYTES = 256_000
_LINE = re.compile(r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d{3} (?P<level>[A-Z]+) (?P<logger>\S+?): (?P<message>.*)")


class LogEntry(Struct, frozen=True):
    """One log record."""

    at: str
    level: str
    logger: str
    message: str


class Logbook(logging.Handler):
    """A log handler that keeps the newest records of this process for the log screen."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(RedactFilter(()))
        self._entries: deque[LogEntry] = deque(maxlen=KEPT)

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            message = f"{message}: {record.exc_info[1]!r}"
        at = format_instant(int(record.created * 1000))
        self._entries.append(LogEntry(at, record.levelname.lower(), record.name.removeprefix("tidelore."), message))

    def entries(self) -> list[LogEntry]:
        """Return the kept records, oldest first."""
        return list(self._entries)


def read_tail(path: str) -> list[LogEntry]:
    """Return the last records of a log file; a line in another format is shown unchanged."""
    try:
        with open(os.path.expanduser(path), "rb") as file:  # noqa: PTH111, PTH123 - read from its end
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - _TAIL_BYTES, 0))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError as error:
        return [LogEntry("", "warning", "log", f"cannot read {path}: {error.strerror}")]
    whole = lines if size <= _TAIL_BYTES else lines[1:]
    return [_parse(line) for line in whole[-KEPT:] if line.strip()]


def entries_of_runs(runs: Iterable[ListedRun]) -> list[LogEntry]:
    """Return starts and ends of runs as log entries, oldest first."""
    entries: list[tuple[int, LogEntry]] = []
    for run in runs:
        entries.append((run.started_at, _happened(run.started_at, "info", f"run {run.id} started: {run.command}")))
        if run.finished_at is not None:
            told = f"run {run.id} {run.status}: {run.command}, {run.stored:,} stored, {run.requests:,} requests"
            grave = "info" if run.status == "succeeded" else "error" if run.status == "failed" else "warning"
            error = f": {run.error}" if run.error else ""
            entries.append((run.finished_at, _happened(run.finished_at, grave, told + error)))
    return [entry for _, entry in sorted(entries, key=lambda pair: pair[0])]


def _happened(at: int, level: str, message: str) -> LogEntry:
    return LogEntry(format_instant(at), level, "ledger", message)


def _parse(line: str) -> LogEntry:
    if line.startswith("{"):
        try:
            found = msgspec.json.decode(line, type=dict[str, object])
        except msgspec.DecodeError:
            return LogEntry("", "", "", line)
        logger = str(found.get("logger", "")).removeprefix("tidelore.")
        return LogEntry(str(found.get("at", "")), str(found.get("level", "")), logger, str(found.get("message", "")))
    match = _LINE.fullmatch(line)
    if match is None:
        return LogEntry("", "", "", line)
    return LogEntry(match["at"], match["level"].lower(), match["logger"].removeprefix("tidelore."), match["message"])


def still_shown(shown: list[LogEntry], wanted: list[LogEntry]) -> int:
    """Return how many of the wanted entries are shown already; the oldest of the shown ones may be gone."""
    for dropped, entry in enumerate(shown):
        if wanted and entry == wanted[0] and shown[dropped:] == wanted[: len(shown) - dropped]:
            return len(shown) - dropped
    return 0


_TONES = {"warning": "warn", "error": "bad", "critical": "bad", "debug": "dim"}
_LEDGER = 150
_PORTION = 80
"""How many entries are written at once: some twenty milliseconds."""
_LOGGER = 16
"""Width of the column of logger names; most names fit, so that messages are aligned."""
_WIDE = 100
"""Minimum width of the terminal at which logger names are shown."""


class LogScreen(ConsoleScreen):
    """The newest records, the last one at the bottom; scrolls along unless the user scrolled up."""

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
        self._entries: list[LogEntry] = []
        self._shown: list[LogEntry] = []

    def question(self, views: ConsoleViews, now_ms: int) -> tuple[str, list[LogEntry]]:  # noqa: ARG002
        file = self.backend.app.config.log.file
        if self.backend.service is not None and not self.backend.service.elsewhere:
            return "this process", self.backend.logbook.entries()
        if file:
            return file, read_tail(file)
        return "the run history (set log.file to see the log of another process)", entries_of_runs(views.runs(_LEDGER))

    def show(self, answer: tuple[str, list[LogEntry]], now_ms: int) -> None:  # noqa: ARG002
        origin, self._entries = answer
        self.query_one(RichLog).border_title = f"Log: {origin}".replace("[", "\\[")
        self._draw()

    def _draw(self, *, anew: bool = False) -> None:
        log = self.query_one(RichLog)
        wanted = [entry for entry in self._entries if self._fits(entry)]
        known = 0 if anew else still_shown(self._shown, wanted)
        if known == 0:
            log.clear()
        if not wanted:
            empty = "No record matches; Esc clears the filter." if self.part else "No records yet."
            empty = "No warnings and errors." if self.only_warnings and not self.part else empty
            log.write(Text(empty, "dim"))
        self._shown = wanted[:known]
        self.run_in_background(partial(self._write, wanted, follow=known == 0 or log.is_vertical_scroll_end), "draw")
        parts = [f"/{self.part}"] if self.part else []
        parts += ["warnings and errors"] if self.only_warnings else []
        log.border_subtitle = " · ".join([*parts, f"{len(wanted):,}"])

    async def _write(self, wanted: list[LogEntry], *, follow: bool) -> None:
        """Write what is not shown yet, in portions, so that keys are handled in between."""
        log = self.query_one(RichLog)
        # Pass the visible width: by default the widget uses the size of the terminal at start.
        columns = log.scrollable_content_region.width or None
        while len(self._shown) < len(wanted):
            begin = len(self._shown)
            for entry in wanted[begin : begin + _PORTION]:
                log.write(self._line(entry, columns or 0), width=columns, scroll_end=follow)
            self._shown = wanted[: begin + _PORTION]
            await self.backend.app.clock.sleep(0)

    def _fits(self, entry: LogEntry) -> bool:
        grave = not self.only_warnings or entry.level in ("warning", "error", "critical")
        return grave and self.part in f"{entry.at} {entry.level} {entry.logger} {entry.message}".casefold()

    def _line(self, entry: LogEntry, columns: int) -> Text:
        text = Text()
        text.append(f"{entry.at[11:19] or '        '} ", "dim")
        text.append(f"{entry.level:<8}", tones(self.app).get(_TONES.get(entry.level, ""), ""))
        if columns >= _WIDE:
            text.append(f"{entry.logger:<{_LOGGER}} " if entry.logger else "", "dim")
        begin = text.cell_len
        message = clean_text(entry.message, 1000)
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
        """Show the filter input."""
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
        """Show only warnings and errors, or all records."""
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
