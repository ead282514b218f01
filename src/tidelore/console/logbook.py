"""The newest log records, for a screen. Owns where they come from: this process, or the file of another service.

Bounded: a console that runs for months keeps the last ones. Records pass the redactor before anything is kept. Where a
service writes to no file, the ledger tells what happened.
"""

from __future__ import annotations

import logging
import os
import re
from collections import deque
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from tidelore.core.clock import format_instant
from tidelore.http.redaction import RedactFilter
from tidelore.store.work.runs import RunRecord

KEPT = 2_000
_TAIL_BYTES = 256_000
_LINE = re.compile(r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d{3} (?P<level>[A-Z]+) (?P<logger>\S+?): (?P<message>.*)")


class Entry(Struct, frozen=True):
    """One record: when, how grave, from where, what."""

    at: str
    level: str
    logger: str
    message: str


class Logbook(logging.Handler):
    """Keeps what this process logs; the same records go nowhere near the screen's own output."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(RedactFilter(()))
        self._entries: deque[Entry] = deque(maxlen=KEPT)

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            message = f"{message}: {record.exc_info[1]!r}"
        at = format_instant(int(record.created * 1000))
        self._entries.append(Entry(at, record.levelname.lower(), record.name.removeprefix("tidelore."), message))

    def entries(self) -> list[Entry]:
        """Return what is kept, the oldest first."""
        return list(self._entries)


def read_tail(path: str) -> list[Entry]:
    """Return the last records of a log file; a line that is none of ours is shown as it is."""
    try:
        with open(os.path.expanduser(path), "rb") as file:  # noqa: PTH111, PTH123 - read from its end
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - _TAIL_BYTES, 0))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError as error:
        return [Entry("", "warning", "log", f"cannot read {path}: {error.strerror}")]
    whole = lines if size <= _TAIL_BYTES else lines[1:]
    return [_parse(line) for line in whole[-KEPT:] if line.strip()]


def from_ledger(runs: Iterable[RunRecord]) -> list[Entry]:
    """Return what the ledger tells of runs, in the order in which it happened."""
    entries: list[tuple[int, Entry]] = []
    for run in runs:
        entries.append((run.started_at, _happened(run.started_at, "info", f"run {run.id} started: {run.command}")))
        if run.finished_at is not None:
            stored = run.issues_ingested + run.mrs_ingested
            told = f"run {run.id} {run.status}: {run.command}, {stored:,} stored, {run.requests:,} requests"
            grave = "info" if run.status == "succeeded" else "error" if run.status == "failed" else "warning"
            error = f": {run.error}" if run.error else ""
            entries.append((run.finished_at, _happened(run.finished_at, grave, told + error)))
    return [entry for _, entry in sorted(entries, key=lambda pair: pair[0])]


def _happened(at: int, level: str, message: str) -> Entry:
    return Entry(format_instant(at), level, "ledger", message)


def _parse(line: str) -> Entry:
    if line.startswith("{"):
        try:
            found = msgspec.json.decode(line, type=dict[str, object])
        except msgspec.DecodeError:
            return Entry("", "", "", line)
        logger = str(found.get("logger", "")).removeprefix("tidelore.")
        return Entry(str(found.get("at", "")), str(found.get("level", "")), logger, str(found.get("message", "")))
    match = _LINE.fullmatch(line)
    if match is None:
        return Entry("", "", "", line)
    return Entry(match["at"], match["level"].lower(), match["logger"].removeprefix("tidelore."), match["message"])
