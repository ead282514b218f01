"""What all screens have in common: the bar on top, the keys below, and how a screen is read anew.

Owns that a screen shows what it has until it has something better: the first paint waits for nothing, a read that fails
is told in the bar and leaves the rows as they were.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from msgspec import Struct
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer, Static

from tidelore.console.confirming import ConfirmScreen
from tidelore.console.desk import Desk
from tidelore.console.words import moment, remote, span
from tidelore.core.errors import TideloreError
from tidelore.service.status import ServiceStatus, read_service
from tidelore.store.database.port import Database
from tidelore.store.work.service_records import JobRow

PLACES = {
    "overview": "Overview",
    "feedback": "Feedback",
    "accounts": "Accounts",
    "runs": "Runs",
    "search": "Search",
    "log": "Log",
}
"""The screens by the key that leads to each: the first one to 1, and so on."""

CHANGES = frozenset({"unblock", "pause", "retry"})
"""What keys ask for that is written."""
SERVED = "run_now"
"""What keys ask of a service, which has to be in this process."""


class Standing(Struct, frozen=True):
    """What the bar tells, whichever screen is below it."""

    service: ServiceStatus
    now_ms: int


class TopBar(Static):
    """Where one is, and whether all is well."""

    def __init__(self, place: str, desk: Desk) -> None:
        super().__init__("", id="bar")
        self._place = place
        self._desk = desk

    def on_mount(self) -> None:
        self.tell(None, None)

    def tell(self, standing: Standing | None, error: TideloreError | None) -> None:
        """Say how things stand; before the first answer, that it is being read."""
        tabs = [
            f"[@click=app.go('{name}')]{'[b reverse]' if name == self._place else '[$text-muted]'}"
            f" {number} {title} [/][/]"
            for number, (name, title) in enumerate(PLACES.items(), 1)
        ]
        self.update("[b $primary]lore[/] " + "".join(tabs) + "\n" + self._standing(standing, error))

    def _standing(self, standing: Standing | None, error: TideloreError | None) -> str:
        if error is not None:
            fix = f" · {remote(error.fix)}" if error.fix else ""
            return f"[$text-error]✖ {_plain(remote(error.message, 120))}[/][$text-muted]{_plain(fix)}[/]"
        if standing is None:
            return "[$text-muted]… loading[/]"
        parts = [self._service(standing.service, standing.now_ms), _health(standing.service)]
        parts.append(f"[$text-muted]{moment(standing.now_ms)[11:]}[/]")
        if self._desk.hands is None:
            parts.append("[$text-muted]read-only[/]")
        return " [$text-muted]·[/] ".join(part for part in parts if part)

    def _service(self, status: ServiceStatus, now_ms: int) -> str:
        ours, holder = self._desk.service, status.holder
        if holder is not None and holder.holder is not None:
            where = "here" if ours is not None and ours.running else f"pid {holder.holder.pid} on {holder.holder.host}"
            return f"[$text-success]● service {_plain(where)}, up {span((now_ms - holder.acquired_at) / 1000)}[/]"
        if ours is not None and ours.error is not None:
            return f"[$text-error]✖ no service: {_plain(remote(ours.error.message, 60))}[/]"
        if ours is not None and ours.running:
            return "[$text-warning]○ service starting[/]"
        return "[$text-muted]○ no service running[/]"


class PanelScreen(Screen[None]):
    """One screen. `question` is read beside it, `show` draws the answer."""

    PLACE: ClassVar[str] = ""
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 - as Textual declares it
    VERTICAL_BREAKPOINTS = [(0, "-low"), (34, "-tall")]  # noqa: RUF012

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk
        self.standing: Standing | None = None
        self._was_served = self.served

    def compose(self) -> ComposeResult:
        yield TopBar(self.PLACE, self.desk)
        yield from self.body()
        yield Footer(show_command_palette=False, compact=True)

    def body(self) -> Iterable[Widget]:
        """Yield what is between the bar and the keys."""
        return ()

    @abstractmethod
    def question(self, database: Database, now_ms: int) -> Any:
        """Read what this screen shows; runs in the reader's thread."""

    @abstractmethod
    def show(self, answer: Any, now_ms: int) -> None:
        """Draw what was read."""

    def on_screen_resume(self) -> None:
        self.look()

    def look(self) -> None:
        """Read this screen anew, unless that is under way."""
        if not any(worker.group == "look" and worker.node is self for worker in self.workers):
            self.run_worker(self._look(), group="look", exit_on_error=False)

    def look_again(self) -> None:
        """Read this screen anew also if that is under way: what is read then may be older than what was asked for."""
        self.run_worker(self._look(), group="again", exclusive=True, exit_on_error=False)

    async def _look(self) -> None:
        now_ms = self.desk.now_ms
        bar = self.query_one(TopBar)
        try:
            answer, status = await self.desk.reader.ask(
                lambda database: (self.question(database, now_ms), read_service(database, now_ms))
            )
        except TideloreError as error:
            bar.tell(None, error)
            return
        self.standing = Standing(status, now_ms)
        bar.tell(self.standing, None)
        self.show(answer, now_ms)
        if self.served != self._was_served:
            # The keys that need a service come and go with it.
            self._was_served = self.served
            self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Where nothing may be changed, the keys that change something are neither shown nor heard."""
        if action == SERVED:
            return self.served
        return self.desk.hands is not None if action in CHANGES else super().check_action(action, parameters)

    @property
    def served(self) -> bool:
        """Whether the service is in this process, and may be asked for something."""
        return self.desk.hands is not None and self.desk.service is not None and self.desk.service.running

    def ask_to_run(self, jobs: Sequence[JobRow], name: str, why: str = "") -> None:
        """Let jobs run at once if that is confirmed; `name` is what they are called together."""
        hands, service = self.desk.hands, self.desk.service
        self.change(
            f"Run {jobs[0].name if len(jobs) == 1 else name} now?",
            run_consequence(jobs, why),
            lambda: "" if hands is None or service is None else hands.run_now(service, jobs),
        )

    def change(self, question: str, consequence: str, act: Any) -> None:
        """Make a change if it is confirmed."""

        def answered(yes: bool | None) -> None:  # noqa: FBT001 - the result of the dialog
            if yes:
                self.run_worker(self._act(act), group="act", exit_on_error=False)

        self.app.push_screen(ConfirmScreen(question, consequence), answered)

    async def _act(self, act: Any) -> None:
        try:
            self.notify(await self.desk.act(act), markup=False)
        except TideloreError as error:
            self.notify(f"{error.message}\n{error.fix or ''}".strip(), severity="error", timeout=15, markup=False)
        await self._look()


def run_consequence(jobs: Sequence[JobRow], why: str = "") -> str:
    """Return what running jobs now means."""
    several = f"These jobs run now: {', '.join(job.name for job in jobs)}."
    parts = [why, several if len(jobs) > 1 else "The job runs now."]
    if any(job.state == "running" for job in jobs):
        parts.append("A job that is already running runs again afterwards.")
    if any(job.state == "backing_off" for job in jobs):
        parts.append("A job in back-off after a failure is retried early.")
    return " ".join(part for part in parts if part)


def _health(status: ServiceStatus) -> str:
    stale = [one.source for one in status.health.sources if not one.ok]
    if stale:
        return f"[$text-error]▲ stale: {_plain(', '.join(stale))}[/]"
    return "[$text-success]all up to date[/]" if status.health.sources and status.holder is not None else ""


def _plain(text: str) -> str:
    """Return text in which no bracket is read as markup."""
    return text.replace("[", "\\[")
