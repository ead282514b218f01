"""Act on what polls stored: apply operator commands, send due answers, run handlers.

Every step works from committed rows, so the next poll completes what a crash left undone. A command's effect, result
and planned answer are written in one transaction, so it runs once and is answered once (invariant 8). Requests are made
before that transaction; if the server fails temporarily, the command stays pending. An error of one host or repository
is recorded and does not stop the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct, field

from tidelore.core.clock import Clock, format_instant
from tidelore.core.concurrency import gather
from tidelore.core.config import FeedbackHost, RepoSettings, repo_settings
from tidelore.core.errors import (
    CredentialsRejected,
    IllegalTransition,
    PartialSuccess,
    RateLimited,
    RemoteError,
    RemotePermanent,
    RemoteTransient,
    TideloreError,
    UserError,
)
from tidelore.core.model import NOTE
from tidelore.engine.crashpoint import Crashpoint
from tidelore.feedback.commands import help_text
from tidelore.feedback.context import pull_name
from tidelore.feedback.delivery import HandlerRunner
from tidelore.feedback.events import COMMAND_SOURCE, answer_below, command_token
from tidelore.feedback.lifecycle import HANDLER_FAILED, Lifecycle, PullSource
from tidelore.feedback.outbox import Outbox
from tidelore.feedback.report import COMMANDS_APPLIED
from tidelore.feedback.tokens import with_marker
from tidelore.sources.ports import FeedbackSource
from tidelore.store.database.port import Database, Transaction
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work import outbox, service_records
from tidelore.store.work.action_tokens import signing_secret
from tidelore.store.work.effects import find_comment
from tidelore.store.work.events import EventRow, PlannedReply, pending_counts, retry_now
from tidelore.store.work.followed_issues import find_issue
from tidelore.store.work.operator_commands import CommandRow, find_command, finish, pending
from tidelore.store.work.outbox import OutboxRow
from tidelore.store.work.tracked_pull_requests import (
    AWAITING,
    BLOCKED,
    TrackedPr,
    find_tracked,
    list_tracked,
    set_paused,
    set_scan_due,
)

Act = Callable[[Transaction], object]
_ATTEMPTS = 3


class CommandOutcome(Struct, frozen=True):
    """The outcome of a command: its result as text, and the changes to make in the transaction that records it."""

    result: str
    acts: Sequence[Act] = ()
    status: str = "applied"


class CommandRunner:
    """Applies the commands of one repository."""

    def __init__(
        self, database: Database, source: PullSource, project: ProjectRow, settings: FeedbackHost, clock: Clock
    ) -> None:
        self._database = database
        self._source = source
        self._project = project
        self._settings = repo_settings(settings, project.configured)
        self._clock = clock
        self._lifecycle = Lifecycle(database, source, project, settings, clock)

    async def apply_pending(self) -> list[CommandRow]:
        """Apply pending commands in the order they were written; return those applied by this call."""
        applied = []
        for command in pending(self._database, project_id=self._project.id):
            try:
                if await self._apply(command):
                    applied.append(command)
            except RemoteTransient:
                # The command stays pending, and later commands wait for it.
                break
        return applied

    async def _apply(self, command: CommandRow) -> bool:
        for _ in range(_ATTEMPTS):
            try:
                outcome = await self._decide(command)
            except CredentialsRejected:
                raise
            except (UserError, RemotePermanent) as error:
                outcome = CommandOutcome(f"Failed: {error.message}.", status="failed")
            try:
                return self._record(command, outcome)
            except IllegalTransition:
                # Another process changed the pull request after we read it: read it again.
                continue
        return self._record(
            command, CommandOutcome("Failed: the pull request kept changing. Try again.", status="failed")
        )

    def _record(self, command: CommandRow, outcome: CommandOutcome) -> bool:
        now, number = self._clock.now_ms(), command.issue_number
        kind, reply_to = self._answer_place(command)
        secret = signing_secret(self._database, now)
        place = (self._project.source, self._project.remote_id, kind)
        token = command_token(*place, number, command.command_key, secret)
        with self._database.transaction(durable=True) as tx:
            if not finish(tx, command.key, outcome.status, outcome.result, now):
                return False
            for act in outcome.acts:
                act(tx)
            if outcome.status == "applied":
                service_records.add_to_counter(tx, COMMANDS_APPLIED, {}, 1)
            outbox.plan(
                tx,
                self._project.id,
                self._project.path,
                PlannedReply(kind, number, reply_to, token, with_marker(outcome.result, token), COMMAND_SOURCE),
                now,
            )
        return True

    def _answer_place(self, command: CommandRow) -> tuple[str, int | None]:
        """Return whether a command is answered on an issue or a pull request, and the comment below which, if any."""
        note = None
        if not self._settings.shares_numbers:
            note = find_comment(self._database, self._project.id, NOTE, command.comment_id)
        if note is not None:
            return "pr" if note.on == "mr" else "issue", answer_below(note)
        tracked = find_tracked(self._database, self._project.id, command.issue_number)
        return "issue" if tracked is None else "pr", None

    async def _decide(self, command: CommandRow) -> CommandOutcome:
        match command.command:
            case "help":
                return CommandOutcome(help_text(self._settings.command_prefix))
            case "status":
                return self._status(command)
            case "unblock":
                return await self._unblock(command)
            case "retry":
                return self._retry(command)
            case "pause" | "resume":
                return self._pause(command, paused=command.command == "pause")
            case "sync":
                return self._sync(command)
            case unknown:
                raise UserError(f"unknown command {unknown!r}")

    def _status(self, command: CommandRow) -> CommandOutcome:
        waiting = {
            count.thread_number: count
            for count in pending_counts(self._database, self._clock.now_ms())
            if count.project_id == self._project.id
        }
        lines = []
        for row in self._meant(command):
            count = waiting.get(row.pr_number)
            events = f"{count.pending} pending events, {count.in_flight} in progress" if count else "no pending events"
            why = f" ({row.blocked_reason})" if row.blocked_reason else ""
            paused = ", paused" if row.paused else ""
            head = f", head {row.last_seen_head_sha[:12]}" if row.last_seen_head_sha else ""
            since = format_instant(row.entered_at)
            lines.append(
                f"- {pull_name(self._settings, row.pr_number)}: {row.status}{why} since {since}{paused}{head}; {events}"
            )
        return CommandOutcome("\n".join(lines) or "No tracked pull requests in this repository.")

    async def _unblock(self, command: CommandRow) -> CommandOutcome:
        row = self._only(command)
        head = await self._lifecycle.head_for_unblock(row, command.args.get("head_sha"))
        author = command.author or "operator"
        return CommandOutcome(
            f"Unblocked: {pull_name(self._settings, row.pr_number)} is tracked again from {head[:12]}.",
            (partial(self._lifecycle.unblock_in, row=row, head_sha=head, by=author),),
        )

    def _retry(self, command: CommandRow) -> CommandOutcome:
        threads = self._threads(command)
        rows = [find_tracked(self._database, self._project.id, number) for number in threads]
        tracked = {row.pr_number for row in rows if row is not None}
        failed = [
            row for row in rows if row is not None and row.status == BLOCKED and row.blocked_reason == HANDLER_FAILED
        ]
        author = command.author or "operator"
        acts: list[Act] = [partial(retry_now, project_id=self._project.id, thread_number=number) for number in threads]
        acts += [partial(self._lifecycle.unblock_in, row=row, head_sha=None, by=author) for row in failed]
        names = ", ".join(pull_name(self._settings, n) if n in tracked else f"#{n}" for n in threads)
        return CommandOutcome(f"Retrying: pending events of {names} are delivered again now.", acts)

    def _pause(self, command: CommandRow, *, paused: bool) -> CommandOutcome:
        rows, now = self._meant(command), self._clock.now_ms()
        names = ", ".join(pull_name(self._settings, row.pr_number) for row in rows)
        if not rows:
            raise UserError("no tracked pull requests in this repository")
        said = (
            "Paused: events of {} are collected but not delivered."
            if paused
            else "Resumed: events of {} are delivered."
        )
        acts = [partial(set_paused, tracked_id=row.id, paused=paused, now_ms=now) for row in rows]
        return CommandOutcome(said.format(names), acts)

    def _sync(self, command: CommandRow) -> CommandOutcome:
        rows = self._meant(command)
        if not rows:
            raise UserError("no tracked pull requests in this repository")
        names = ", ".join(pull_name(self._settings, row.pr_number) for row in rows)
        acts = [partial(set_scan_due, tracked_id=row.id, due=True) for row in rows]
        return CommandOutcome(f"Syncing: {names} will be fetched again from the beginning at the next poll.", acts)

    def _meant(self, command: CommandRow) -> list[TrackedPr]:
        """Return the pull requests of a command: the one it names, the one of its thread, or all open tracked ones."""
        if command.args.get("pr") or command.pr_number is not None:
            return [self._only(command)]
        return list_tracked(self._database, project_id=self._project.id, statuses=(AWAITING, BLOCKED))

    def _only(self, command: CommandRow) -> TrackedPr:
        named = command.args.get("pr")
        number = int(named) if named else command.pr_number
        if number is None:
            raise UserError(f"`{command.command}` needs a pull request: add pr=NUMBER")
        row = find_tracked(self._database, self._project.id, number)
        if row is None:
            raise UserError(f"{pull_name(self._settings, number)} is not tracked")
        if row.status not in {AWAITING, BLOCKED}:
            raise UserError(f"{pull_name(self._settings, number)} is {row.status}")
        return row

    def _threads(self, command: CommandRow) -> list[int]:
        named = command.args.get("issue")
        if not named:
            number = command.args.get("pr") or command.pr_number
            # On a source issue without a pull request, the events belong to the issue.
            return [int(number)] if number else [command.issue_number]
        issue = find_issue(self._database, self._project.id, int(named))
        if issue is None:
            raise UserError(f"issue #{named} is not tracked")
        return [int(named), *([] if issue.pr_number is None else [issue.pr_number])]


MOST_ANSWERS = 100
"""How many answers one poll sends to a host; the next poll sends the rest."""
SIDE_BY_SIDE = 4
"""For how many repositories of a host handlers run at a time."""

OnEvent = Callable[[EventRow], None]


class KnownRepo(Struct, frozen=True):
    """A stored repository with its settings."""

    project: ProjectRow
    settings: RepoSettings


class ActionFailure(Struct, frozen=True):
    """An error, and the repository or host where it occurred."""

    where: str
    error: TideloreError


class ActionReport(Struct):
    """The actions taken after a poll."""

    commands: list[CommandRow] = field(default_factory=list)
    sent: list[OutboxRow] = field(default_factory=list)
    handled: list[EventRow] = field(default_factory=list)
    troubles: list[ActionFailure] = field(default_factory=list)


class HostActions(Struct, frozen=True):
    """Applies commands, sends answers and runs handlers for one host."""

    database: Database
    source: FeedbackSource
    host: FeedbackHost
    clock: Clock
    seam: Crashpoint
    actions: ActionReport

    async def apply_and_send(self, repos: Sequence[KnownRepo]) -> None:
        """Apply commands, then send answers. Stop if the host rejects the credentials or limits the rate."""
        for repo in repos:
            operations = CommandRunner(self.database, self.source, repo.project, self.host, self.clock)
            try:
                applied = await operations.apply_pending()
            except RemoteError as error:
                self._note(repo.project.path, error)
                if isinstance(error, CredentialsRejected | RateLimited):
                    return
                continue
            found = [find_command(self.database, command.key) for command in applied]
            self.actions.commands += [command for command in found if command is not None]
        await self.send([repo.project.id for repo in repos])

    async def send(self, project_ids: Sequence[int]) -> None:
        """Send the answers that are due in these projects."""
        outbox = Outbox(self.database, self.source, self.host, self.clock, self.seam)
        try:
            self.actions.sent += await outbox.send_due(MOST_ANSWERS, project_ids)
        except RemoteError as error:
            self._note(self.source.name, error)

    async def handle(self, repos: Sequence[KnownRepo], on_event: OnEvent) -> None:
        """Run the configured handlers until no event is ready."""
        gate = asyncio.Semaphore(SIDE_BY_SIDE)

        def handled(event: EventRow) -> None:
            self.actions.handled.append(event)
            on_event(event)

        async def one(repo: KnownRepo) -> None:
            async with gate:
                try:
                    await HandlerRunner(self.database, repo.project, repo.settings, self.clock).run_all(handled)
                except TideloreError as error:
                    self._note(repo.project.path, error)

        await gather(one(repo) for repo in repos)

    def _note(self, where: str, error: TideloreError) -> None:
        self.actions.troubles.append(ActionFailure(where, error))


def overall_error(polled: TideloreError | None, actions: ActionReport) -> TideloreError | None:
    """Return the error a CLI command ends with: the only error, or a partial success that lists several."""
    errors = [*([] if polled is None else [polled]), *(trouble.error for trouble in actions.troubles)]
    if len(errors) < 2:
        return errors[0] if errors else None
    return PartialSuccess(
        f"{len(errors)} errors: " + "; ".join(dict.fromkeys(error.message for error in errors)),
        fix="fetched data is stored and the next poll continues",
    )
