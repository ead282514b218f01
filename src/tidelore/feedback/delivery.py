"""Deliver events: lease the next one, run the configured handler, and record success or failure.

A failed event is retried with growing pauses. After the last attempt its pull request is blocked with the error, so
later events are not delivered before it. Errors are stored without secrets.

The handler gets the event as JSON on standard input, without a shell, and only the named environment variables. Exit 0
means success; otherwise the last lines of its standard error are kept. It runs in its own process group, which is
killed at the timeout and together with this process. A handler that does not exist is a configuration error, not a
failed event.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from tempfile import TemporaryFile

import msgspec
from msgspec import Struct

from tidelore.core.clock import Clock, format_instant
from tidelore.core.concurrency import gather
from tidelore.core.config import HANDLER_ENV, RepoSettings
from tidelore.core.errors import ConfigError, IllegalTransition, LockHeld
from tidelore.feedback.events import batch_event
from tidelore.feedback.lifecycle import HANDLER_FAILED, block_pull
from tidelore.http.redaction import redact
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.events import EventRow, ack, find_event, lease_next, nack
from tidelore.store.work.followed_issues import batch_followups, waiting_followups
from tidelore.store.work.tracked_pull_requests import AWAITING, find_tracked

LONGEST_PAUSE_SECONDS = 3600.0
_LONGEST_ERROR = 4000
_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|API_?KEY|PRIVATE_?KEY", re.IGNORECASE)


def next_event(
    database: Database,
    projects: Sequence[ProjectRow],
    now_ms: int,
    lease_seconds: float,
    holder: str,
    *,
    pr: int | None = None,
    include_closed: bool = False,
) -> EventRow | None:
    """Lease the oldest event that is ready in these projects; None when nothing is."""
    for project in projects:
        for issue_number in waiting_followups(database, project.id):
            with database.transaction() as tx:
                batch_followups(tx, project.id, issue_number, batch_event, now_ms)
    ids = [project.id for project in projects]
    return lease_next(
        database,
        now_ms,
        round(lease_seconds * 1000),
        holder,
        pr=pr,
        project_ids=ids,
        include_closed=include_closed,
    )


def succeed(database: Database, handle: int | str, now_ms: int) -> EventRow:
    """Note that an event was acted on, by its lease or its number."""
    return ack(database, handle, now_ms)


def fail(
    database: Database, source_name: str, handle: int | str, error: str, settings: RepoSettings, now_ms: int
) -> EventRow:
    """Note that acting on an event failed: it is handed out again later, or its pull request is blocked."""
    text = redact(error, _secrets(os.environ)).strip()[-_LONGEST_ERROR:] or "no error message given"
    before = find_event(database, handle if isinstance(handle, int) else int(handle.partition("-")[0] or 0))
    exhausted = before.attempts + 1 >= settings.handler_max_attempts
    # Where there is no pull request to block, the event itself rests.
    pause = (
        LONGEST_PAUSE_SECONDS
        if exhausted
        else event_pause_seconds(before.attempts + 1, settings.handler_backoff_seconds)
    )
    event = nack(database, handle, error=text, next_attempt_at=now_ms + round(pause * 1000))
    if event.processed_at is None and event.attempts >= settings.handler_max_attempts and event.pr_number is not None:
        row = find_tracked(database, event.project_id, event.pr_number)
        if row is not None and row.status == AWAITING:
            # Whoever moved it on meanwhile had a reason of their own.
            with suppress(IllegalTransition):
                block_pull(database, source_name, row, HANDLER_FAILED, text, now_ms)
    return event


def _secrets(environ: Mapping[str, str]) -> list[str]:
    """Return the values of variables that are secret by their names; programs print them in their errors."""
    return [value for name, value in environ.items() if _SECRET_NAME.search(name)]


def event_pause_seconds(attempts: int, first_seconds: float) -> float:
    """Return how long an event rests after its 1st, 2nd, … failure: doubling, up to an hour."""
    return float(min(LONGEST_PAUSE_SECONDS, first_seconds * 2.0 ** min(attempts - 1, 30)))


_PR_SET_PDEATHSIG = 1
_TAIL_BYTES = 8192
_TAIL_LINES = 20
_MARGIN_SECONDS = 60.0
_DRAIN_SECONDS = 2.0
_GUARD = ("/bin/sh", "-c", 'read -r _; kill -9 "-$1"', "lore-handler-guard")
_INSTANTS = ("created_at", "updated_at", "ingested_at")
_PRIVATE = frozenset({"project_id", "processed_at", "next_attempt_at", "lease_id", "leased_by", "leased_until"})


class HandlerResult(Struct, frozen=True):
    """How a handler ended; without an error it is done with its event."""

    error: str | None


class HandlerRunner:
    """Runs the configured handler of one repository."""

    def __init__(
        self, database: Database, project: ProjectRow, settings: RepoSettings, clock: Clock, holder: str = "handler"
    ) -> None:
        self._database = database
        self._project = project
        self._settings = settings
        self._clock = clock
        self._holder = holder

    async def run_all(self, on_event: Callable[[EventRow], None] = lambda _event: None) -> int:
        """Handle events until none is ready; return how many were.

        Different threads are handled side by side, as many as `handler_concurrency` says. Inside one thread the lease
        keeps the order: whoever handles an event takes the next one of its thread.
        """
        handled = 0

        async def work() -> None:
            nonlocal handled
            while (event := await self.run_next()) is not None:
                handled += 1
                on_event(event)

        if self._settings.handler:
            await gather(work() for _ in range(self._settings.handler_concurrency))
        return handled

    async def run_next(self, *, pr: int | None = None) -> EventRow | None:
        """Handle the oldest event that is ready and return how it stands now; None when none is, or nobody handles."""
        command = self._settings.handler
        if not command:
            return None
        # Looked for on our own PATH: the handler may get another, or none.
        program = shutil.which(command[0])
        if program is None:
            raise ConfigError(
                f"cannot run the handler {command[0]!r}: not an executable program",
                fix="set `handler` of this repository to a program and its arguments, without a shell",
                key="github.handler",
            )
        # The lease outlives the program: nobody else is given the event while it runs.
        lease_seconds = max(
            self._settings.event_lease_seconds, self._settings.handler_timeout_seconds + _MARGIN_SECONDS
        )
        event = next_event(self._database, [self._project], self._clock.now_ms(), lease_seconds, self._holder, pr=pr)
        return None if event is None else await self._handle(event, (program, *command[1:]))

    async def _handle(self, event: EventRow, command: Sequence[str]) -> EventRow:
        assert event.lease_id is not None
        try:
            document = msgspec.json.encode(event_document(event, self._project.source)) + b"\n"
            environ = handler_environ(self._settings.handler_env or HANDLER_ENV, os.environ)
            ending = await run_handler(command, document, self._settings.handler_timeout_seconds, environ)
        except asyncio.CancelledError:
            # Not the handler's failure: it is ready again at once, and blocks nothing.
            with suppress(LockHeld):
                now = self._clock.now_ms()
                nack(self._database, event.lease_id, error="interrupted: the service was stopped", next_attempt_at=now)
            raise
        if ending.error is not None:
            return self._fail(event, ending.error)
        return succeed(self._database, event.lease_id, self._clock.now_ms())

    def _fail(self, event: EventRow, error: str) -> EventRow:
        assert event.lease_id is not None
        try:
            return fail(
                self._database, self._project.source, event.lease_id, error, self._settings, self._clock.now_ms()
            )
        except LockHeld:
            # Somebody else has the event by now, and its outcome with it.
            return event


def event_document(event: EventRow, source: str) -> Mapping[str, object]:
    """Return an event as it is handed to a program."""
    document: dict[str, object] = {"source": source}
    for name in EventRow.__struct_fields__:
        if name not in _PRIVATE:
            value = getattr(event, name)
            document[name] = format_instant(value) if name in _INSTANTS else value
    return document


def handler_environ(names: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a handler gets: those that are named, a name with a star at its end for all that
    begin so.
    """
    exact = {name for name in names if not name.endswith("*")}
    beginnings = tuple(name.removesuffix("*") for name in names if name.endswith("*"))
    return {
        name: value for name, value in environ.items() if name in exact or (beginnings and name.startswith(beginnings))
    }


async def run_handler(
    command: Sequence[str], document: bytes, timeout_seconds: float, environ: Mapping[str, str] | None = None
) -> HandlerResult:
    """Run a program to its end, or to the end of its time.

    It runs in a process group of its own, which is killed when this process dies. Without an `environ` it gets the
    default variables.
    """
    environ = handler_environ(HANDLER_ENV, os.environ) if environ is None else environ
    # No pipe of asyncio's own: it waits for their end, and a grandchild may hold them open for ever.
    with TemporaryFile() as given, StderrTail() as complaints:
        given.write(document)
        given.seek(0)
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=given,
                stdout=DEVNULL,
                stderr=complaints.end,
                env=environ,
                start_new_session=True,
                preexec_fn=_die_with_parent(),
            )
        except OSError as error:
            return HandlerResult(f"the handler could not be started: {error.strerror or error}")
        reading = asyncio.create_task(complaints.read())
        timed_out = False
        try:
            async with _guarded(process.pid), asyncio.timeout(timeout_seconds):
                await process.wait()
        except TimeoutError:
            timed_out = True
        finally:
            # Also after a good end: what it left running in the background has no event any more.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            # What left the group may still hold the pipe; what it says is not waited for.
            await asyncio.wait([reading], timeout=_DRAIN_SECONDS)
            reading.cancel()
    if timed_out:
        return HandlerResult(
            _described(f"the handler took longer than {timeout_seconds:g} s and was killed", complaints)
        )
    code = process.returncode or 0
    if code == 0:
        return HandlerResult(None)
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return HandlerResult(_described(f"the handler {how}", complaints))


@asynccontextmanager
async def _guarded(group: int) -> AsyncIterator[None]:
    """Have a process group killed should this process die within the block.

    The system kills only the handler itself with its parent, not what the handler has started. So a guard waits for
    the end of a pipe that only this process holds open: it comes when the process dies, however it dies.
    """
    waiting, held = os.pipe()
    try:
        try:
            guard = await asyncio.create_subprocess_exec(
                *_GUARD, str(group), stdin=waiting, stdout=DEVNULL, stderr=DEVNULL, env={}, start_new_session=True
            )
        except OSError:
            # Without a shell the handler itself still dies with this process.
            guard = None
        finally:
            os.close(waiting)
        try:
            yield
        finally:
            if guard is not None:
                with suppress(ProcessLookupError):
                    guard.kill()
                await guard.wait()
    finally:
        os.close(held)


def _die_with_parent() -> Callable[[], None] | None:
    """Return what a new process does to be killed with the one that started it; None where the system cannot.

    Everything it needs is loaded before: between fork and exec nothing may be imported.
    """
    if sys.platform != "linux":
        return None
    import ctypes

    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def ask_for_death() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            # It died before it could be asked for.
            os.kill(os.getpid(), signal.SIGKILL)

    return ask_for_death


class StderrTail:
    """What a program writes to its standard error, however much that is: the end of it is kept."""

    def __init__(self) -> None:
        self.tail = bytearray()
        self.is_cut = False
        self._begin, self.end = os.pipe()
        self._open = {self._begin, self.end}

    def __enter__(self) -> StderrTail:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in tuple(self._open):
            self._close(descriptor)

    async def read(self) -> None:
        """Read until everybody who could write is gone."""
        # Ours would keep it open.
        self._close(self.end)
        reader = asyncio.StreamReader()
        self._open.discard(self._begin)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(self._begin, "rb", 0)
        )
        try:
            while chunk := await reader.read(65_536):
                self.tail += chunk
                self.is_cut = self.is_cut or len(self.tail) > _TAIL_BYTES
                del self.tail[:-_TAIL_BYTES]
        finally:
            transport.close()

    def _close(self, descriptor: int) -> None:
        self._open.discard(descriptor)
        os.close(descriptor)


def _described(what: str, complaints: StderrTail) -> str:
    text = bytes(complaints.tail).decode("utf-8", "replace").replace("\x00", "")
    if complaints.is_cut:
        # The first word is the end of one: if that was a secret, its end would not be known as one.
        text = text.lstrip()[len(text.lstrip().split(maxsplit=1)[0]) :] if text.strip() else ""
    lines = text.splitlines()
    said = "\n".join(line.rstrip() for line in lines[-_TAIL_LINES:]).strip()
    return f"{what}\n{said}" if said else what
