"""Start the console, switch between its screens and refresh the visible one.

The screen is drawn before the service starts; on leaving, the service is stopped after the screen is gone. Only the
visible screen reads the database. A signal is handled like the key that quits. `lore top` has no service and no
actions.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual import constants, events
from textual.app import App as TextualApp
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.filter import LineFilter, NoColor
from textual.screen import ModalScreen
from textual.widgets import Static

from tidelore.app.console import ConsoleActions, ServiceThread, fork_service
from tidelore.console.accounts import AccountsScreen
from tidelore.console.backend import Backend
from tidelore.console.driver import TerminalDriver
from tidelore.console.feedback import FeedbackScreen
from tidelore.console.inbox import InboxScreen
from tidelore.console.log import Logbook, LogScreen
from tidelore.console.overview import OverviewScreen
from tidelore.console.runs import RunsScreen
from tidelore.console.screen import SCREEN_TITLES, ConsoleScreen, KeyBar
from tidelore.console.search import SearchScreen
from tidelore.console.style import DARK, LIGHT, THEMES, choose_theme, fields, is_colourless
from tidelore.console.table import RowTable
from tidelore.core.errors import TideloreError

if TYPE_CHECKING:
    from tidelore.app.wiring import App, SettingsFile


KEYS: tuple[tuple[str, str | None], ...] = (
    ("1 … 7", "inbox search overview feedback accounts runs log"),
    ("←  →", "inbox: the next list: mine, unresolved, issues …"),
    ("Tab", "next pane; arrow keys move inside it"),
    ("Enter", "read the thread; show the jobs of a source"),
    ("/  Esc", "filter or search; go back"),
    ("s  S", "sort by the next column; reverse"),
    ("o  c", "open in the browser; copy the reference"),
    ("v", "feedback: pull requests, events, outbox"),
    ("u *", "feedback: unblock a pull request"),
    ("p *", "feedback, accounts: pause or resume"),
    ("a *", "inbox, search: reply in your editor"),
    ("e *", "inbox: resolve the thread, or reopen it"),
    ("r", "inbox: fetch the item from its host"),
    ("r *", "run a source or job now; retry"),
    ("f  x", "runs: failed only; copy the recovery command"),
    ("w  End", "log: warnings only; follow"),
    ("d  g", "dark or light theme; reload"),
    ("q", "quit"),
)


class HelpScreen(ModalScreen[None]):
    """Lists all keys. Marked keys ask for confirmation and are not available in `lore top`."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark", "dismiss", "Close", priority=True)]

    def compose(self) -> ComposeResult:
        text = fields(list(KEYS))
        text.append("\n* asks for confirmation; not available in `lore top`", "dim")
        with VerticalScroll(id="keys") as window:
            window.border_title = "Keys"
            yield Static(text)
        yield KeyBar()


SCREENS: dict[str, type[ConsoleScreen]] = {
    "inbox": InboxScreen,
    "overview": OverviewScreen,
    "feedback": FeedbackScreen,
    "accounts": AccountsScreen,
    "runs": RunsScreen,
    "search": SearchScreen,
    "log": LogScreen,
}
HELP = "help"
REFRESH_SECONDS = 2.0
PREPARE_SECONDS = 0.1
"""How long keys and the service have the event loop to themselves before a screen is prepared."""
RARELY = 1_000
"""How many collections of young objects come before a full one; the default is ten."""
QUIET_BEATS, BEATS_PER_COLLECTION = 3, 30
"""After how many refreshes without a key everything is collected, and after how many more again."""
TURN_SECONDS = 0.001
ESCAPE_SECONDS = 0.05
"""How long to wait after Escape for the rest of another key, unless ESCDELAY says otherwise."""


class ConsoleApp(TextualApp[None]):
    """The console on a terminal."""

    TITLE = "lore"
    CSS_PATH = "console.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(at), f"go('{name}')", name, show=False) for at, name in enumerate(SCREEN_TITLES, 1)),
        Binding("g", "reload", "Reload", show=False),
        Binding("d", "dark", "Dark", show=False),
        Binding("question_mark", "keys", "Keys", key_display="?"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),
    ]

    def __init__(
        self,
        backend: Backend,
        *,
        theme: str = DARK,
        colourless: bool = False,
        signals: Sequence[int] = (),
        first: str = "inbox",
    ) -> None:
        self._first = first
        self._colourless = colourless
        self._signals = signals
        self._handlers: dict[int, Any] = {}
        self._collecting = gc.get_threshold()
        self._quiet_beats = 0
        super().__init__(driver_class=TerminalDriver)
        self.backend = backend
        for one in THEMES:
            self.register_theme(one)
        self.theme = theme
        self.set_class(colourless, "-colourless")
        for name, screen in SCREENS.items():
            self.add_mode(name, partial(self._open, screen))
        # Installed, so that it stays mounted after it was closed.
        self.install_screen(HelpScreen(), HELP)

    def _open(self, kind: type[ConsoleScreen]) -> ConsoleScreen:
        screen = kind(self.backend)
        # Its widgets are styled when they are mounted. Textual would parse all styles again, twice, while a key waits.
        screen._css_update_count = self._css_update_count
        return screen

    def get_line_filters(self) -> Sequence[LineFilter]:
        found = super().get_line_filters()
        return [*found, NoColor()] if self._colourless else found

    def on_mount(self) -> None:
        # The collector would look through all modules, styles and rows again and again, some 75 ms each time and in
        # the middle of a key. Modules and styles stay; the rest is collected while no key is pressed.
        gc.freeze()
        gc.set_threshold(*self._collecting[:2], RARELY)
        self.switch_mode(self._first)
        self.set_interval(REFRESH_SECONDS, self._beat)
        self.set_timer(PREPARE_SECONDS, self._prepare)
        # Not by the event loop, which may be waiting for a terminal that takes no output.
        self._handlers = {number: signal.signal(number, self._leave) for number in self._signals}
        if self.backend.service is not None:
            # After the first paint, because loading the service would delay it.
            self.call_after_refresh(self.backend.service.start)

    def _prepare(self) -> None:
        """Mount and lay out the next screen that was not opened yet, because a key would wait 30 to 100 ms for it."""
        if not self.is_running:
            # Textual is going through the screens to close them, and none may be added meanwhile.
            return
        waiting = [name for name in SCREENS if not self._screen_stacks.get(name)]
        if waiting:
            self._init_mode(waiting[0])
        elif not self.get_screen(HELP).is_running:
            self._get_screen(HELP)
        else:
            # Now everything is loaded that lives as long as the console.
            gc.freeze()
            return
        self.set_timer(PREPARE_SECONDS, self._prepare)

    def on_unmount(self) -> None:
        gc.unfreeze()
        gc.set_threshold(*self._collecting)
        for number, handler in self._handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _leave(self, *_signal: object) -> None:
        if isinstance(self._driver, TerminalDriver):
            self._driver.leave()

    def action_go(self, place: str) -> None:
        """Go to another screen."""
        if self.is_running and isinstance(self.screen, ConsoleScreen):
            self.switch_mode(place)

    def action_reload(self) -> None:
        """Reload the visible screen."""
        if isinstance(self.screen, ConsoleScreen):
            self.screen.reload_now()

    def _beat(self) -> None:
        # Also the screen below a dialog, which is still visible.
        seen = next((screen for screen in reversed(self.screen_stack) if isinstance(screen, ConsoleScreen)), None)
        if seen is not None:
            seen.reload()
        self._quiet_beats += 1
        if self._quiet_beats % BEATS_PER_COLLECTION == QUIET_BEATS:
            gc.collect()

    async def on_event(self, event: events.Event) -> None:
        """Note that a key was pressed, and handle the event."""
        if isinstance(event, events.Key):
            self._quiet_beats = 0
        await super().on_event(event)

    def action_dark(self) -> None:
        """Switch between the dark and the light theme."""
        self.theme = LIGHT if self.current_theme.dark else DARK
        for table in self.screen.query(RowTable):
            table.redraw(anew=True)

    def action_keys(self) -> None:
        """Show all keys."""
        self.push_screen(HELP)


def run_console(
    app: App,
    settings: SettingsFile | None,
    *,
    theme: str,
    color: bool,
    tell: Callable[[str], None] = lambda _text: None,
    threaded: bool = False,
) -> TideloreError | None:
    """Run the service in a separate process with the console; return the error if it ended before the console.

    `tell` gets what the user should know when the screen is closed and something is not finished yet. `threaded`: run
    the service in a thread, because this program has threads already and must not be forked.
    """

    def tell_safely(text: str) -> None:
        # The terminal may be gone.
        with suppress(OSError):
            tell(text)

    with _logged(app) as logbook:
        threads = ServiceThread(app, settings) if threaded else None
        service = threads or fork_service(app, settings, logbook.handle)
        try:
            _show(Backend(app, logbook, service, ConsoleActions(app)), theme, color=color, tell=tell_safely)
        finally:
            if service.running:
                tell_safely("Stopping the service …")
            service.stop()
        return None if service.elsewhere else service.error


def run_top(app: App, *, theme: str, color: bool) -> None:
    """Show the console of a service in another process, read-only."""
    _show(Backend(app, Logbook()), theme, color=color, first="overview")


def _show(
    backend: Backend,
    theme: str,
    *,
    color: bool,
    first: str = "inbox",
    tell: Callable[[str], None] = lambda _text: None,
) -> None:
    console = ConsoleApp(
        backend,
        theme=choose_theme(theme, os.environ),
        colourless=is_colourless(os.environ, color=color),
        signals=(signal.SIGTERM, signal.SIGHUP),
        first=first,
    )
    with _quick_keys():
        try:
            console.run()
        finally:
            backend.close(tell)


@contextmanager
def _quick_keys() -> Iterator[None]:
    """Let keys wait less: for the rest of an escape sequence, and for threads that sync, which give way more often."""
    turn, escape = sys.getswitchinterval(), constants.ESCAPE_DELAY
    sys.setswitchinterval(TURN_SECONDS)
    if "ESCDELAY" not in os.environ:
        constants.ESCAPE_DELAY = ESCAPE_SECONDS  # type: ignore[misc]
    try:
        yield
    finally:
        sys.setswitchinterval(turn)
        constants.ESCAPE_DELAY = escape  # type: ignore[misc]


@contextmanager
def _logged(app: App) -> Iterator[Logbook]:
    """Collect log records for the log screen, so that none are printed over the console."""
    logbook = Logbook()
    logger = logging.getLogger("tidelore")
    before = logger.handlers, logger.propagate, logger.level
    # A configured log file is still written; records for the terminal go to the log screen instead.
    kept = [handler for handler in logger.handlers if isinstance(handler, logging.FileHandler)]
    logger.handlers, logger.propagate = [*kept, logbook], False
    logger.setLevel(app.config.log.level.upper())
    try:
        yield logbook
    finally:
        logger.handlers, logger.propagate = before[0], before[1]
        logger.setLevel(before[2])
