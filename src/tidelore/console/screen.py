"""The base of all screens: top bar, key bindings, refreshing, lists with details, and the confirmation dialog.

A screen keeps showing its rows until new ones are read; a failed read is reported in the bar. Nothing is changed
without a confirmation, and Enter alone confirms nothing.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, Vertical, VerticalScroll
from textual.events import Resize
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Button, DataTable, Input, Static
from textual.worker import Worker, WorkerState

from tidelore.app.console import BarStatus, ConsoleViews
from tidelore.app.status import JobEntry
from tidelore.console.backend import Backend
from tidelore.console.style import clean_text, duration, timestamp
from tidelore.console.table import RowTable, TableRow
from tidelore.core.errors import NotFound, TideloreError

if TYPE_CHECKING:
    from textual.worker import WorkType

logger = logging.getLogger(__name__)


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
        """Focus the other button."""
        self.focus_next()


SCREEN_TITLES = {
    "inbox": "Inbox",
    "search": "Search",
    "overview": "Overview",
    "feedback": "Feedback",
    "accounts": "Accounts",
    "runs": "Runs",
    "log": "Log",
}
"""The titles of the screens in the order of their keys: 1 opens the first one, and so on."""

CHANGING_ACTIONS = frozenset({"unblock", "pause", "retry", "reply", "resolve"})
"""Actions that change something."""
SERVICE_ACTION = "run_now"
"""The action that needs the service to run in this process."""


class TopBar(Static):
    """The bar on top: the screens, the service and its health."""

    def __init__(self, place: str, backend: Backend) -> None:
        super().__init__("", id="bar")
        self._place = place
        self._backend = backend
        self._told: tuple[BarStatus | None, TideloreError | None] = (None, None)

    def on_mount(self) -> None:
        self.tell(None, None)

    def on_resize(self) -> None:
        self.tell(*self._told)

    def tell(self, standing: BarStatus | None, error: TideloreError | None) -> None:
        """Show the status or the error; `loading` before the first read."""
        self._told = standing, error
        whole = {name: f" {number} {title} " for number, (name, title) in enumerate(SCREEN_TITLES.items(), 1)}
        if len("lore ") + sum(map(len, whole.values())) > self.content_size.width > 0:
            # Names that wrap would push the status out of the bar.
            whole = {name: title if name == self._place else title[:3] for name, title in whole.items()}
        tabs = [
            f"[@click=app.go('{name}')]{'[b reverse]' if name == self._place else '[$text-muted]'}{title}[/][/]"
            for name, title in whole.items()
        ]
        self.update("[b $primary]lore[/] " + "".join(tabs) + "\n" + self._standing(standing, error))

    def _standing(self, standing: BarStatus | None, error: TideloreError | None) -> str:
        if error is not None:
            fix = f" · {clean_text(error.fix)}" if error.fix else ""
            return f"[$text-error]✖ {_plain(clean_text(error.message, 120))}[/][$text-muted]{_plain(fix)}[/]"
        if standing is None:
            return "[$text-muted]… loading[/]"
        parts = [self._service(standing), _health(standing)]
        parts.append(f"[$text-muted]{timestamp(standing.now_ms)[11:]}[/]")
        if self._backend.actions is None:
            parts.append("[$text-muted]read-only[/]")
        return " [$text-muted]·[/] ".join(part for part in parts if part)

    def _service(self, standing: BarStatus) -> str:
        ours, found = self._backend.service, standing.service
        if found.since is not None:
            where = "here" if ours is not None and ours.running else f"pid {found.pid} on {found.host}"
            up = duration((standing.now_ms - found.since) / 1000)
            return f"[$text-success]● service {_plain(where)}, up {up}[/]"
        if ours is not None and ours.error is not None:
            return f"[$text-error]✖ no service: {_plain(clean_text(ours.error.message, 60))}[/]"
        if ours is not None and ours.running:
            return "[$text-warning]○ service starting[/]"
        return "[$text-muted]○ no service running[/]"


class KeyBar(Static):
    """The last line: the keys that work now. One widget, because one for each key makes every change of focus slow."""

    def on_mount(self) -> None:
        self._told = ""
        self.screen.bindings_updated_signal.subscribe(self, self._changed)

    def _changed(self, screen: Screen[Any]) -> None:
        if screen is self.screen:
            self.call_after_refresh(self._tell)

    def _tell(self) -> None:
        if not self.is_attached:
            return
        shown: dict[str, str] = {}
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if binding.show and active.enabled:
                name = _plain(self.app.get_key_display(binding))
                link = f"[@click=app.simulate_key('{binding.key}')]"
                shown.setdefault(binding.action, f"{link}[b $footer-key-foreground]{name}[/] {binding.description}[/]")
        told = " ".join(shown.values())
        if told != self._told:
            self._told = told
            self.update(told)


class ConsoleScreen(Screen[None]):
    """Base of all screens: `question` reads the database in the background, `show` draws the result."""

    PLACE: ClassVar[str] = ""
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 - as Textual declares it
    VERTICAL_BREAKPOINTS = [(0, "-low"), (34, "-tall")]  # noqa: RUF012

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self.backend = backend
        self.standing: BarStatus | None = None
        self._was_served = self.served

    def compose(self) -> ComposeResult:
        yield TopBar(self.PLACE, self.backend)
        yield from self.body()
        yield KeyBar()

    def body(self) -> Iterable[Widget]:
        """Yield the widgets between the top bar and the footer."""
        return ()

    @abstractmethod
    def question(self, views: ConsoleViews, now_ms: int) -> Any:
        """Read what this screen shows; runs in the reader's thread."""

    @abstractmethod
    def show(self, answer: Any, now_ms: int) -> None:
        """Draw what was read."""

    def on_screen_resume(self) -> None:
        # A screen that is only being prepared does not read the database.
        if self.is_current:
            self.reload()

    def reload(self) -> None:
        """Reload this screen, unless a reload is running."""
        if not any(worker.group == "reload" and worker.node is self for worker in self.workers):
            self.run_in_background(self._reload, "reload", exclusive=False)

    def reload_now(self) -> None:
        """Reload this screen even if a reload is running, because that one may have read older data."""
        self.run_in_background(self._reload, "again")

    def run_in_background(
        self, work: Callable[[], Coroutine[Any, Any, None]], group: str, *, exclusive: bool = True
    ) -> None:
        """Run work in the background and cancel what runs in its group, if it is `exclusive`.

        `work` is not yet a coroutine, because it may be cancelled before it begins.
        """
        self.run_worker(cast("WorkType[None]", work), group=group, exclusive=exclusive, exit_on_error=False)

    async def _reload(self) -> None:
        now_ms = self.backend.now_ms
        bar = self.query_one(TopBar)
        try:
            answer, standing = await self.backend.reader.ask(
                lambda views: (self.question(views, now_ms), views.bar(now_ms))
            )
        except TideloreError as error:
            # The service that is starting creates the database.
            expected = isinstance(error, NotFound) and error.has_no_copy and self._creating
            bar.tell(None, None if expected else error)
            return
        self.standing = standing
        bar.tell(standing, None)
        self.show(answer, now_ms)
        if self.served != self._was_served:
            # Keys that need the service are shown only while it runs.
            self._was_served = self.served
            self.refresh_bindings()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Show that work in the background failed unexpectedly; known errors are handled where they occur."""
        error = event.worker.error
        if event.state is WorkerState.ERROR and error is not None:
            logger.error("unexpected error on the screen %s", self.PLACE, exc_info=error)
            self.notify(f"Unexpected error, see the log: {error!r}", severity="error", markup=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide and disable the keys that change something where changes are not possible."""
        if action == SERVICE_ACTION:
            return self.served
        return (
            self.backend.actions is not None if action in CHANGING_ACTIONS else super().check_action(action, parameters)
        )

    @property
    def _creating(self) -> bool:
        """Whether a service of this process is about to create the database, and has not failed."""
        return self.backend.service is not None and self.backend.service.error is None

    @property
    def served(self) -> bool:
        """Whether the service runs in this process, so that jobs can be started."""
        return self.backend.actions is not None and self.backend.service is not None and self.backend.service.running

    def ask_to_run(self, jobs: Sequence[JobEntry], name: str, why: str = "") -> None:
        """Run jobs now after a confirmation; `name` is used in the question if there are several jobs."""
        actions, service = self.backend.actions, self.backend.service
        self.change(
            f"Run {jobs[0].name if len(jobs) == 1 else name} now?",
            run_consequence(jobs, why),
            lambda: "" if actions is None or service is None else actions.run_now(service, jobs),
        )

    def change(
        self, question: str, consequence: str, act: Any, on_confirmed: Callable[[], None] = lambda: None
    ) -> None:
        """Make a change if it is confirmed."""

        def answered(yes: bool | None) -> None:  # noqa: FBT001 - the result of the dialog
            if yes:
                on_confirmed()
                self.run_in_background(partial(self._act, act, question.rstrip("?")), "act", exclusive=False)

        self.app.push_screen(ConfirmScreen(question, consequence), answered)

    async def _act(self, act: Any, name: str, *, reads: bool = False) -> None:
        try:
            self.notify(await self.backend.act(act, name, reads=reads), markup=False)
        except TideloreError as error:
            self.tell_error(error)
        await self._reload()

    def tell_error(self, error: TideloreError) -> None:
        """Show why something failed, and the remedy."""
        self.notify(f"{error.message}\n{error.fix or ''}".strip(), severity="error", timeout=15, markup=False)


def run_consequence(jobs: Sequence[JobEntry], why: str = "") -> str:
    """Return a description of what running these jobs now does."""
    several = f"These jobs run now: {', '.join(job.name for job in jobs)}."
    parts = [why, several if len(jobs) > 1 else "The job runs now."]
    if any(job.state == "running" for job in jobs):
        parts.append("A job that is already running runs again afterwards.")
    if any(job.state == "backing_off" for job in jobs):
        parts.append("A job in back-off after a failure is retried early.")
    return " ".join(part for part in parts if part)


def _health(standing: BarStatus) -> str:
    if standing.stale:
        return f"[$text-error]▲ stale: {_plain(', '.join(standing.stale))}[/]"
    if not standing.watched or not standing.service.running:
        return ""
    bound = [job for job in standing.jobs if job.staleness_bound_seconds is not None]
    first = sorted({job.source for job in bound if job.succeeded_at is None})
    if first:
        return f"[$text-warning]first sync: {_plain(', '.join(first))}[/]"
    return "[$text-success]all up to date[/]"


def _plain(text: str) -> str:
    """Return text with its brackets escaped, so that they are not parsed as markup."""
    return text.replace("[", "\\[")


def open_page(screen: Screen[Any], address: str | None) -> None:
    """Open a URL. It comes from a remote system, so only http(s) is allowed."""
    if address is None or not address.startswith(("https://", "http://")):
        screen.notify("This item has no web page.", severity="warning")
        return
    screen.app.open_url(address)
    screen.notify(address, title="Opened", markup=False)


def copy_text(screen: Screen[Any], text: str | None) -> None:
    """Copy text to the clipboard of the terminal."""
    if not text:
        screen.notify("Nothing to copy.", severity="warning")
        return
    screen.app.copy_to_clipboard(text)
    screen.notify(text, title="Copied", markup=False)


def filter_line() -> Input:
    """Return the input for a filter; it is hidden until a filter is typed."""
    line = Input(placeholder="Filter rows by text; Esc clears the filter", id="filter")
    line.display = False
    return line


class ListScreen(ConsoleScreen):
    """A list with details of the selected row; `address` and `reference` say what its keys open and copy."""

    AUTO_FOCUS = "RowTable"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("s", "sort", "Sort"),
        Binding("S", "reverse", "Reverse", show=False),
        Binding("o", "open", "Open"),
        Binding("c", "copy", "Copy"),
        Binding("escape", "clear", "Clear", show=False),
    ]

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._told: tuple[str | None, str] | None = None

    def tables(self) -> Iterable[RowTable]:
        """Yield the lists of this screen, the visible one first; none if the screen overrides `body`."""
        return ()

    def detail(self, line: TableRow) -> Text:  # noqa: ARG002 - overridden by screens with details
        """Return the details of a row."""
        return Text()

    def address(self, line: TableRow) -> str | None:  # noqa: ARG002 - overridden by screens whose rows have a web page
        """Return the web address of a row."""
        return None

    def reference(self, line: TableRow) -> str | None:
        """Return the reference of a row as commands accept it."""
        return line.key

    def body(self) -> Iterable[Widget]:
        yield filter_line()
        behind = VerticalScroll(Static("", id="detail", markup=False), id="behind")
        yield Container(Vertical(*self.tables(), id="lists"), behind, id="browse")

    @property
    def table(self) -> RowTable:
        """The list with the focus, or else the first visible one."""
        seen = [table for table in self.query(RowTable) if table.display]
        return next((table for table in seen if table.has_focus), seen[0])

    def update_detail(self) -> None:
        """Show the details of the selected row; scroll to the top if another row was selected."""
        line = self.table.line
        key = None if line is None else (self.table.id, line.key)
        if key != self._told:
            self._told = key
            self.query_one("#behind", VerticalScroll).scroll_home(animate=False)
        self.query_one("#detail", Static).update(Text("No rows.", "dim") if line is None else self.detail(line))

    @property
    def room(self) -> int:
        """The width of the details in columns."""
        return self.query_one("#behind", VerticalScroll).scrollable_content_region.width

    @on(Resize)
    def _other_room(self) -> None:
        self.call_after_refresh(self.update_detail)

    @on(DataTable.RowHighlighted)
    def _another_row(self) -> None:
        self.update_detail()

    @on(DataTable.HeaderSelected)
    def _sort_by(self, event: DataTable.HeaderSelected) -> None:
        self.table.sort_by(event.column_index)

    @on(Input.Changed, "#filter")
    def _narrow(self, event: Input.Changed) -> None:
        self.table.set_part(event.value)
        self.update_detail()

    @on(Input.Submitted, "#filter")
    def _narrowed(self) -> None:
        self.table.focus()

    def action_filter(self) -> None:
        """Show the filter input."""
        filtering = self.query_one("#filter", Input)
        filtering.display = True
        filtering.focus()

    def action_clear(self) -> None:
        """Show all rows again."""
        filtering = self.query_one("#filter", Input)
        filtering.value = ""
        filtering.display = False
        self.table.focus()

    def action_sort(self) -> None:
        """Sort by the next column."""
        self.table.sort_next()
        self.update_detail()

    def action_reverse(self) -> None:
        """Reverse the order."""
        self.table.reverse()
        self.update_detail()

    def action_open(self) -> None:
        """Open the selected row's page in the browser."""
        line = self.table.line
        open_page(self, None if line is None else self.address(line))

    def action_copy(self) -> None:
        """Copy the selected row's reference."""
        line = self.table.line
        copy_text(self, None if line is None else self.reference(line))
