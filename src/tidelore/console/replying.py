"""Write a reply in the user's editor, and ask before it is sent or a thread is resolved.

The terminal belongs to the editor while it runs. What is answered is quoted in lines that begin with `#>`; they are
removed, an empty text cancels. A text that was not sent is offered again until it is, as long as the console runs.
Quoted text is hostile: it must not control the terminal or the editor.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.app import SuspendNotSupported
from textual.binding import Binding, BindingType

from tidelore.app.console import QuotedNote, ReadingRow, ReplyDraft
from tidelore.console.backend import Backend
from tidelore.console.screen import ListScreen
from tidelore.console.style import clean_text, timestamp
from tidelore.core.errors import TideloreError, UserError
from tidelore.core.text import harmless, without_markdown

MARK = "#>"
"""Begins each line that is removed. A heading in Markdown needs a space after its sign, so no text is lost."""
_EDITORS = ("sensible-editor", "nano", "vim", "vi")
_ORDERS = re.compile(r"(?i)\b(vim?[<=>]?\d*|ex|local variables):")
"""What makes vim and Emacs obey a line of the file they open."""
_PREVIEW_LINES, _PREVIEW_CHARACTERS = 8, 400


def editor_command(environ: Mapping[str, str]) -> list[str]:
    """Return the words of the editor's command: VISUAL, EDITOR, or the first known editor that is installed."""
    for name in ("VISUAL", "EDITOR"):
        try:
            words = shlex.split(environ.get(name, ""))
        except ValueError as error:
            raise UserError(f"could not parse {name}: {error}", fix=f"set {name} to a command such as `nano`") from None
        if words:
            return words
    found = next((name for name in _EDITORS if shutil.which(name, path=environ.get("PATH"))), None)
    if found is None:
        raise UserError("no editor was found", fix="set EDITOR to the command of your editor, then restart the console")
    return [found]


def editable_text(place: str, quoted: Sequence[QuotedNote], body: str = "") -> str:
    """Return the file to edit: the text so far, then what is answered, as lines that are removed."""
    lines = [
        f"Write the reply to {clean_text(place)} above. Lines that begin with {MARK} are removed;",
        "an empty text cancels. You are asked again before it is sent.",
    ]
    for note in quoted:
        lines += ["", f"@{clean_text(note.by) if note.by else 'unknown'}  {timestamp(note.at)[:16]}"]
        lines += harmless(note.text).strip().split("\n")
    marked = [f"{MARK} {line}".rstrip() for line in (_ORDERS.sub(r"\1 :", line) for line in lines)]
    return "\n".join([body, "", *marked, ""])


def written_reply(text: str) -> str:
    """Return what was written without the lines that are removed."""
    kept = [line for line in text.splitlines() if not line.startswith(MARK)]
    return "\n".join(kept).strip()


def edit(command: Sequence[str], text: str) -> str:
    """Let the user edit a text; the terminal must be free. Raise UserError if the editor fails."""
    with tempfile.TemporaryDirectory(prefix="lore-reply-") as folder, _interrupts_ignored():
        path = Path(folder) / "reply.md"
        path.write_text(text, encoding="utf-8")
        try:
            code = subprocess.run([*command, str(path)], check=False).returncode  # noqa: S603 - the user's own command
            written = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise UserError(
                f"could not run the editor {command[0]!r}: {error.strerror}", fix="set EDITOR to an installed editor"
            ) from None
        if code != 0:
            raise UserError(f"the editor {command[0]!r} ended with code {code}", fix="nothing was sent; press a again")
        return written


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Leave Ctrl+C to the editor. With a handler instead of SIG_IGN, because the editor would inherit that."""
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


class ReplyingScreen(ListScreen):
    """A list whose rows can be answered, and resolved if they are review threads."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("a", "reply", "Reply")]

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._unsent: dict[str, str] = {}
        self._refusals: dict[str, int] = {}
        self._sending: set[str] = set()

    def selected(self) -> ReadingRow | None:
        """Return the selected row."""
        raise NotImplementedError

    def action_reply(self) -> None:
        """Write a reply to the selected row in the editor, and send it if that is confirmed."""
        row = self.selected()
        if row is not None:
            self.write_reply(row)

    def action_resolve(self) -> None:
        """Resolve the selected thread, or reopen it if it is resolved."""
        row, actions = self.selected(), self.backend.actions
        if row is None or actions is None or self._is_sending(row):
            return
        if row.thread is None or row.thread_state is None:
            self.notify("Only review threads can be resolved: see the list Unresolved.", severity="warning")
            return
        resolved = row.thread_state != "resolved"
        self._change_row(
            row,
            f"{'Resolve' if resolved else 'Reopen'} this thread of {row.reference}?",
            f"{clean_text(row.place)}\n{without_markdown(clean_text(row.text, 200))[0]}".strip(),
            lambda: actions.resolve(row, resolved=resolved),
        )

    def write_reply(self, row: ReadingRow) -> None:
        """Write a reply to a row in the editor, and send it if that is confirmed."""
        if not row.answerable:
            self.notify("Posts can be answered on their web page only: press o.", severity="warning")
        elif not self._is_sending(row) and not any(worker.group == "write" for worker in self.workers):
            self.run_in_background(partial(self._write, row), "write", exclusive=False)

    async def _write(self, row: ReadingRow) -> None:
        actions = self.backend.actions
        try:
            draft = await self.backend.search_reader.ask(lambda views: views.draft_reply(row))
            if self.app.screen.is_modal:
                return
            body = self._edited(row, draft)
        except TideloreError as error:
            self.tell_error(error)
            return
        if actions is None or not body:
            self._unsent.pop(row.key, None)
            self.notify("The text was empty; nothing was sent.")
            return
        self._unsent[row.key] = body

        def send() -> str:
            try:
                return actions.reply(draft.reference, body, refusals=self._refusals.get(row.key, 0))
            except TideloreError as error:
                if not error.retryable:
                    self._refusals[row.key] = self._refusals.get(row.key, 0) + 1
                raise

        self._change_row(row, f"Post this reply to {row.reference}?", _preview(body), send)

    def _edited(self, row: ReadingRow, draft: ReplyDraft) -> str:
        command = editor_command(os.environ)
        place = row.reference if not row.place else f"{row.reference}, {row.place}"
        text = editable_text(place, draft.quoted, self._unsent.get(row.key, ""))
        failure: UserError | None = None
        try:
            with self.app.suspend():
                # Caught inside, because an exception that leaves the block would leave the console suspended.
                try:
                    text = edit(command, text)
                except UserError as error:
                    failure = error
        except SuspendNotSupported:
            failure = UserError("no editor can run in this terminal", fix="use `lore reply` instead")
        if failure is not None:
            raise failure
        return written_reply(text)

    def _change_row(self, row: ReadingRow, question: str, consequence: str, act: Callable[[], str]) -> None:
        def once() -> str:
            try:
                told = act()
                self._unsent.pop(row.key, None)
                return told
            finally:
                self._sending.discard(row.key)

        self.change(question, consequence, once, lambda: self._sending.add(row.key))

    def _is_sending(self, row: ReadingRow) -> bool:
        if row.key in self._sending:
            self.notify(f"The last change of {row.reference} is still being sent.", severity="warning", markup=False)
        return row.key in self._sending


def _preview(body: str) -> str:
    lines = harmless(body).split("\n")
    shown = "\n".join(lines[:_PREVIEW_LINES])
    cut = len(lines) > _PREVIEW_LINES or len(shown) > _PREVIEW_CHARACTERS
    return f"{shown[:_PREVIEW_CHARACTERS]} …" if cut else shown
