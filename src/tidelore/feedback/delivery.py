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
from tidelore.core.redaction import redact
from tidelore.feedback.events import batch_event
from tidelore.feedback.lifecycle import HANDLER_FAILED, block_pull
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
    """Lease the oldest ready event in these projects; None if there is none."""
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
    """Mark an event, given by its lease or its id, as processed."""
    return ack(database, handle, now_ms)


def fail(database: Database, handle: int | str, error: str, settings: RepoSettings, now_ms: int) -> EventRow:
    """Record that processing an event failed: retry it later or, after the last attempt, block its pull request."""
    text = redact(error, _secrets(os.environ)).strip()[-_LONGEST_ERROR:] or "no error message given"
    before = find_event(database, handle if isinstance(handle, int) else int(handle.partition("-")[0] or 0))
    exhausted = before.attempts + 1 >= settings.handler_max_attempts
    # If there is no pull request to block, the event itself is paused.
    pause = (
        LONGEST_PAUSE_SECONDS
        if exhausted
        else event_pause_seconds(before.attempts + 1, settings.handler_backoff_seconds)
    )
    event = nack(database, handle, error=text, next_attempt_at=now_ms + round(pause * 1000))
    if event.processed_at is None and event.attempts >= settings.handler_max_attempts and event.pr_number is not None:
        row = find_tracked(database, event.project_id, event.pr_number)
        if row is not None and row.status == AWAITING:
            # If another process changed its status meanwhile, that change takes precedence.
            with suppress(IllegalTransition):
                block_pull(database, row, HANDLER_FAILED, text, now_ms)
    return event


def _secrets(environ: Mapping[str, str]) -> list[str]:
    """Return the values of variables whose names suggest a secret; programs may print them in their errors."""
    return [value for name, value in environ.items() if _SECRET_NAME.search(name)]


def event_pause_seconds(attempts: int, first_seconds: float) -> float:
    """Return the pause after the 1st, 2nd, … failure of an event: doubling, up to an hour."""
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
    """The result of a handler; without an error, the event was processed."""

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

        Up to `handler_concurrency` threads are handled concurrently. Within one thread the lease keeps the order: the
        next event is leased only after the previous one was handled.
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

    async def run_next(self) -> EventRow | None:
        """Handle the oldest ready event and return its new state; None if there is no event or no handler."""
        command = self._settings.handler
        if not command:
            return None
        # Looked up in our own PATH: the handler may get a different one, or none.
        program = shutil.which(command[0])
        if program is None:
            raise ConfigError(
                f"cannot run the handler {command[0]!r}: not an executable program",
                fix="set `handler` of this repository to a program and its arguments, without a shell",
                key="github.handler",
            )
        # The lease is longer than the timeout: no other process gets the event while the handler runs.
        lease_seconds = max(
            self._settings.event_lease_seconds, self._settings.handler_timeout_seconds + _MARGIN_SECONDS
        )
        event = next_event(self._database, [self._project], self._clock.now_ms(), lease_seconds, self._holder)
        return None if event is None else await self._handle(event, (program, *command[1:]))

    async def _handle(self, event: EventRow, command: Sequence[str]) -> EventRow:
        assert event.lease_id is not None
        try:
            document = msgspec.json.encode(event_document(event, self._project.source)) + b"\n"
            environ = handler_environ(self._settings.handler_env or HANDLER_ENV, os.environ)
            ending = await run_handler(command, document, self._settings.handler_timeout_seconds, environ)
        except asyncio.CancelledError:
            # Not a failure of the handler: the event is ready again at once, and its pull request is not blocked.
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
            return fail(self._database, event.lease_id, error, self._settings, self._clock.now_ms())
        except LockHeld:
            # Another process holds the event by now, and will record its outcome.
            return event


def event_document(event: EventRow, source: str) -> Mapping[str, object]:
    """Return an event as it is passed to a handler."""
    document: dict[str, object] = {"source": source}
    for name in EventRow.__struct_fields__:
        if name not in _PRIVATE:
            value = getattr(event, name)
            document[name] = format_instant(value) if name in _INSTANTS else value
    return document


def handler_environ(names: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that a handler gets: those in `names`, where a trailing `*` matches any
    ending.
    """
    exact = {name for name in names if not name.endswith("*")}
    beginnings = tuple(name.removesuffix("*") for name in names if name.endswith("*"))
    return {
        name: value for name, value in environ.items() if name in exact or (beginnings and name.startswith(beginnings))
    }


async def run_handler(
    command: Sequence[str], document: bytes, timeout_seconds: float, environ: Mapping[str, str] | None = None
) -> HandlerResult:
    """Run a program until it exits or times out.

    It runs in a separate process group, which is killed when this process dies. Without an `environ` it gets the
    default variables.
    """
    environ = handler_environ(HANDLER_ENV, os.environ) if environ is None else environ
    # Do not use asyncio's pipes: it waits until they are closed, and a grandchild may keep them open forever.
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
            # Also after success: background processes of the handler must not outlive its event.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            # A process that left the group may keep the pipe open: do not wait for it.
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
    """Ensure that a process group is killed if this process dies within the block.

    The system kills only the handler itself with its parent, not the processes the handler has started. So a guard
    process waits for the end of a pipe that only this process holds open: it closes whenever this process dies.
    """
    waiting, held = os.pipe()
    try:
        try:
            guard = await asyncio.create_subprocess_exec(
                *_GUARD, str(group), stdin=waiting, stdout=DEVNULL, stderr=DEVNULL, env={}, start_new_session=True
            )
        except OSError:
            # Without a shell, at least the handler itself is killed with this process.
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
    """Return a pre-exec function that has the new process killed with its parent; None if unsupported.

    Everything it needs is loaded here, because nothing may be imported between fork and exec.
    """
    if sys.platform != "linux":
        return None
    import ctypes

    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def ask_for_death() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            # The parent died before the request took effect.
            os.kill(os.getpid(), signal.SIGKILL)

    return ask_for_death


class StderrTail:
    """Reads the standard error of a program and keeps only its end, so memory is bounded."""

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
        """Read until all writers have closed the pipe."""
        # Our own end would keep the pipe open.
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
        # The first word may be the rest of a cut secret, which redaction would not recognise: drop it.
        text = text.lstrip()[len(text.lstrip().split(maxsplit=1)[0]) :] if text.strip() else ""
    lines = text.splitlines()
    said = "\n".join(line.rstrip() for line in lines[-_TAIL_LINES:]).strip()
    return f"{what}\n{said}" if said else what
