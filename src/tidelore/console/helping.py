"""Every key, in a window over any screen. Owns telling them; they are declared where they are used."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from tidelore.console.words import fields

KEYS: tuple[tuple[str, str | None], ...] = (
    ("1 … 6", "overview feedback accounts runs search log"),
    ("Tab", "next pane; arrow keys move inside it"),
    ("Enter", "show the jobs of a source, or the full thread"),
    ("/  Esc", "filter or search; go back"),
    ("s  S", "sort by the next column; reverse"),
    ("o  c", "open in the browser; copy the reference"),
    ("v", "feedback: pull requests, events, outbox"),
    ("u *", "feedback: unblock a pull request"),
    ("p *", "feedback, accounts: pause or resume"),
    ("r *", "run a source or job now; retry"),
    ("f  x", "runs: failed only; copy the recovery command"),
    ("w  End", "log: warnings only; follow"),
    ("d  g", "dark or light theme; reload"),
    ("q", "quit"),
)


class HelpScreen(ModalScreen[None]):
    """The keys; what is marked asks before it changes anything, and does nothing in `lore top`."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark", "dismiss", "Close", priority=True)]

    def compose(self) -> ComposeResult:
        text = fields(list(KEYS))
        text.append("\n* asks for confirmation; not available in `lore top`", "dim")
        with VerticalScroll(id="keys") as window:
            window.border_title = "Keys"
            yield Static(text)
        yield Footer(show_command_palette=False, compact=True)
