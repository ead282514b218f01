"""The console itself: six screens, the keys that lead to them, and the beat at which the seen one is read anew.

Owns no data: every screen reads its own. Upholds that only the screen that is seen asks anything, and that a signal is
obeyed like the key that leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.filter import LineFilter, NoColor

from tidelore.console.accounts import AccountsScreen
from tidelore.console.desk import Desk
from tidelore.console.feedback import FeedbackScreen
from tidelore.console.helping import HelpScreen
from tidelore.console.log import LogScreen
from tidelore.console.overview import OverviewScreen
from tidelore.console.panel import PLACES, PanelScreen
from tidelore.console.runs import RunsScreen
from tidelore.console.search import SearchScreen
from tidelore.console.table import RowTable
from tidelore.console.themes import DARK, LIGHT, THEMES
from tidelore.core.signals import heard

SCREENS: dict[str, type[PanelScreen]] = {
    "overview": OverviewScreen,
    "feedback": FeedbackScreen,
    "accounts": AccountsScreen,
    "runs": RunsScreen,
    "search": SearchScreen,
    "log": LogScreen,
}
REFRESH_SECONDS = 2.0


class ConsoleApp(App[None]):
    """The console on a terminal."""

    TITLE = "lore"
    CSS_PATH = "console.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(at), f"go('{name}')", name, show=False) for at, name in enumerate(PLACES, 1)),
        Binding("g", "look", "Reload", show=False),
        Binding("d", "dark", "Dark", show=False),
        Binding("question_mark", "keys", "Keys", key_display="?"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),
    ]

    def __init__(self, desk: Desk, *, theme: str = DARK, colourless: bool = False, signals: Sequence[int] = ()) -> None:
        self._colourless = colourless
        self._signals = signals
        self._hearing = ExitStack()
        super().__init__()
        self.desk = desk
        for one in THEMES:
            self.register_theme(one)
        self.theme = theme
        self.set_class(colourless, "-colourless")
        for name, screen in SCREENS.items():
            self.add_mode(name, partial(screen, desk))

    def get_line_filters(self) -> Sequence[LineFilter]:
        found = super().get_line_filters()
        return [*found, NoColor()] if self._colourless else found

    def on_mount(self) -> None:
        self.switch_mode("overview")
        self.set_interval(REFRESH_SECONDS, self._beat)
        self._hearing.enter_context(heard(dict.fromkeys(self._signals, self.exit)))
        if self.desk.service is not None:
            # After the first paint: what the service loads would delay it.
            self.call_after_refresh(self.desk.service.start)

    def on_unmount(self) -> None:
        self._hearing.close()

    def action_go(self, place: str) -> None:
        """Go to another screen."""
        if not isinstance(self.screen, PanelScreen):
            return
        self.switch_mode(place)

    def action_look(self) -> None:
        """Read what is seen anew."""
        if isinstance(self.screen, PanelScreen):
            self.screen.look_again()

    def _beat(self) -> None:
        # Also under a window, which lets it be seen.
        seen = next((screen for screen in reversed(self.screen_stack) if isinstance(screen, PanelScreen)), None)
        if seen is not None:
            seen.look()

    def action_dark(self) -> None:
        """Change between dark and light."""
        self.theme = LIGHT if self.current_theme.dark else DARK
        for table in self.screen.query(RowTable):
            table.redraw(anew=True)

    def action_keys(self) -> None:
        """Show every key."""
        self.push_screen(HelpScreen())
