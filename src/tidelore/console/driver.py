"""The terminal of the console, which may disappear or stop reading at any time.

Textual's driver waits without end for the thread that writes: a terminal that is gone ends this thread, and then the
console hears neither keys nor signals; the end of the input makes the other thread spin. Here the loss of the terminal
ends the console like the key that quits, and output that the terminal does not take is dropped once the console is
leaving.
"""

from __future__ import annotations

import os
import select
import termios
from codecs import getincrementaldecoder
from contextlib import suppress
from queue import Full

from textual import constants
from textual._xterm_parser import XTermParser
from textual.drivers._writer_thread import WriterThread
from textual.drivers.linux_driver import LinuxDriver

LOOK_SECONDS = 0.1
"""How often a thread that waits looks whether the console is leaving."""
FLUSH_SECONDS = 2.0
"""How long the last output may take, such as the codes that restore the terminal."""
DISCARDS = 20
"""How often output that the terminal does not take is dropped before its thread is left alone."""


class TerminalDriver(LinuxDriver):
    """Reads keys from the terminal and writes to it until the console leaves or the terminal is gone."""

    leaving = False
    """Whether the console was asked to leave; a terminal that takes no output is not waited for any more."""

    def leave(self) -> None:
        """End the console; may be called from any thread and from a signal handler."""
        self.leaving = True
        self._loop.call_soon_threadsafe(self._app.exit)

    def write(self, data: str) -> None:
        writer = self._writer_thread
        while writer is not None and writer.is_alive():
            try:
                writer._queue.put(data, timeout=LOOK_SECONDS)
            except Full:
                if self.leaving:
                    return
            else:
                return
        if writer is not None and not self.leaving:
            # Its thread ended with an error: the terminal is gone.
            self.leave()

    def close(self) -> None:
        writer = self._writer_thread
        if writer is None or _is_ended(writer, FLUSH_SECONDS):
            return
        self.leaving = True
        for _ in range(DISCARDS):
            _discard_output(writer.fileno())
            if _is_ended(writer, LOOK_SECONDS):
                return

    def run_input_thread(self) -> None:
        """Pass keys on until the input is disabled or the terminal is gone."""
        try:
            self._read_keys()
        except (OSError, EOFError):
            self.leave()

    def _read_keys(self) -> None:
        parser, decode = XTermParser(self._debug), getincrementaldecoder("utf-8")("replace").decode
        wait = LOOK_SECONDS
        while not self.exit_event.is_set():
            if select.select([self.fileno], [], [], wait)[0]:
                found = os.read(self.fileno, 4096)
                if not found:
                    raise EOFError
                # Escape alone is a key, unless the rest of another key follows at once.
                wait = constants.ESCAPE_DELAY if found.endswith(b"\x1b") else LOOK_SECONDS
                for event in parser.feed(decode(found)):
                    self.process_message(event)
            else:
                wait = LOOK_SECONDS
            for event in parser.tick():
                self.process_message(event)


def _is_ended(writer: WriterThread, seconds: float) -> bool:
    """Let the thread write what is queued and end; return whether it did within this time."""
    if writer.is_alive():
        with suppress(Full):
            writer._queue.put(None, timeout=seconds)
            writer.join(seconds)
    return not writer.is_alive()


def _discard_output(number: int) -> None:
    """Drop what the terminal has not taken, so that a blocked write ends."""
    with suppress(termios.error):
        termios.tcflush(number, termios.TCOFLUSH)
