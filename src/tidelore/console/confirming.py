"""Asking before anything is written. Owns the one dialog that stands between a key and a change.

The safe answer is the one that is chosen beforehand: Enter alone changes nothing.
"""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Static


class ConfirmScreen(ModalScreen[bool]):
    """One question, answered with yes or no."""

    AUTO_FOCUS = "#no"
    BINDINGS = [  # noqa: RUF012 - as Textual declares it
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape", "answer(False)", "No"),
        Binding("left,right", "other", "Choose", show=False),
    ]

    def __init__(self, question: str, consequence: str) -> None:
        super().__init__()
        self._question = question
        self._consequence = consequence

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Static(self._question, id="question", markup=False)
            yield Static(self._consequence, id="consequence", markup=False)
            with Horizontal(id="choices"):
                yield Button("No (n)", id="no")
                yield Button("Yes (y)", id="yes", variant="warning")

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")

    def action_answer(self, answer: bool) -> None:  # noqa: FBT001 - the value of the key
        """Close with an answer."""
        self.dismiss(answer)

    def action_other(self) -> None:
        """Go to the other button."""
        self.focus_next()
