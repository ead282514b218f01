"""What follows a poll. Owns the order: stored commands are applied, due answers sent, waiting events handled.

Each step works from rows that are durable, so that whatever a crash leaves undone is done by the next poll. Trouble
of one host or one repository is noted and leaves the others alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from tidelore.core.clock import Clock
from tidelore.core.concurrency import gather
from tidelore.core.config import GitHubHost, RepoSettings
from tidelore.core.errors import CredentialsRejected, PartialSuccess, RateLimited, RemoteError, TideloreError
from tidelore.engine.crashpoint import Crashpoint
from tidelore.feedback.handler import HandlerRunner
from tidelore.feedback.operations import Operations
from tidelore.feedback.outbox import Outbox
from tidelore.sources.github.source import GitHubSource
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.events import EventRow
from tidelore.store.work.operator_commands import CommandRow, find_command
from tidelore.store.work.outbox import OutboxRow

MOST_ANSWERS = 100
"""How many answers one poll sends to a host; the next one goes on."""
SIDE_BY_SIDE = 4
"""How many repositories of a host have their handlers run at a time."""

OnEvent = Callable[[EventRow], None]


class Stop(Struct, frozen=True):
    """A repository of a host, with its row and its settings."""

    project: ProjectRow
    settings: RepoSettings


class Trouble(Struct, frozen=True):
    """What could not be done, and where."""

    where: str
    error: TideloreError


class Deeds(Struct):
    """What was done after a poll."""

    commands: list[CommandRow] = field(default_factory=list)
    sent: list[OutboxRow] = field(default_factory=list)
    handled: list[EventRow] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)


class Duties(Struct, frozen=True):
    """The duties towards one host."""

    database: Database
    source: GitHubSource
    host: GitHubHost
    clock: Clock
    seam: Crashpoint
    deeds: Deeds

    async def talk(self, stops: Sequence[Stop]) -> None:
        """Apply commands and send answers. What the whole host refuses ends it."""
        for stop in stops:
            operations = Operations(self.database, self.source, stop.project, self.host, self.clock)
            try:
                applied = await operations.apply_pending()
            except RemoteError as error:
                self._note(stop.project.path, error)
                if isinstance(error, CredentialsRejected | RateLimited):
                    return
                continue
            found = [find_command(self.database, command.key) for command in applied]
            self.deeds.commands += [command for command in found if command is not None]
        await self.send([stop.project.id for stop in stops])

    async def send(self, project_ids: Sequence[int]) -> None:
        """Send the answers that are due in these projects."""
        outbox = Outbox(self.database, self.source, self.host, self.clock, self.seam)
        try:
            self.deeds.sent += await outbox.send_due(MOST_ANSWERS, project_ids)
        except RemoteError as error:
            self._note(self.source.name, error)

    async def handle(self, stops: Sequence[Stop], on_event: OnEvent) -> None:
        """Run the configured handlers until no event is ready."""
        gate = asyncio.Semaphore(SIDE_BY_SIDE)

        def handled(event: EventRow) -> None:
            self.deeds.handled.append(event)
            on_event(event)

        async def one(stop: Stop) -> None:
            async with gate:
                try:
                    await HandlerRunner(self.database, stop.project, stop.settings, self.clock).run_all(handled)
                except TideloreError as error:
                    self._note(stop.project.path, error)

        await gather(one(stop) for stop in stops)

    def _note(self, where: str, error: TideloreError) -> None:
        self.deeds.troubles.append(Trouble(where, error))


def overall(polled: TideloreError | None, deeds: Deeds) -> TideloreError | None:
    """Return what a command ends with: the one thing that went wrong, or that several did."""
    errors = [*([] if polled is None else [polled]), *(trouble.error for trouble in deeds.troubles)]
    if len(errors) < 2:
        return errors[0] if errors else None
    return PartialSuccess(
        f"{len(errors)} errors: " + "; ".join(dict.fromkeys(error.message for error in errors)),
        fix="fetched data is stored and the next poll continues",
    )
