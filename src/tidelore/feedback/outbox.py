"""Posting. Owns the way of one stored intent to the remote: claimed, attempted, posted once, observed.

An attempt is durable before the write it announces. Where the outcome is unknown (timeout, 5xx, a lost connection, a
dead process) nothing is written again until the write can no longer land; then the thread is read back by the mark,
and only if it is absent it is posted again. So a crash at any seam leaves exactly one comment. Refuses to repeat what
was refused for good, and keeps writes to one host apart, across processes too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Protocol

from tidelore.core.clock import Clock
from tidelore.core.config import GitHubHost, RepoSettings, repo_settings
from tidelore.core.errors import CredentialsRejected, LockHeld, RateLimited, RemoteError, RemotePermanent
from tidelore.core.model import CommentRecord
from tidelore.core.process import ProcessIdentity
from tidelore.engine.crashpoint import Crashpoint, Seam, no_seam
from tidelore.feedback.readback import Threads, find_posted
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import ProjectRow, list_projects
from tidelore.store.work import outbox as rows
from tidelore.store.work.outbox import OutboxRow, free_dead, new_claim

_LOG = logging.getLogger(__name__)

CLAIM_SECONDS = 60.0
"""How long a row stays claimed beyond its settling time by a process of which nobody here knows whether it lives."""
LONGEST_PAUSE_SECONDS = 300.0
_FIRST_PAUSE_SECONDS = 5.0
_LIMIT_PAUSE_SECONDS = 60.0


class Poster(Threads, Protocol):
    """The part of a source that answers are posted through."""

    name: str

    async def post_comment(self, repo: str | int, number: int, body: str) -> CommentRecord:
        """Comment on a thread, once."""
        ...

    async def post_reply(self, repo: str | int, number: int, comment_id: int, body: str) -> CommentRecord:
        """Answer a review comment, once."""
        ...


class Outbox:
    """The outbox of one host."""

    def __init__(
        self, database: Database, source: Poster, settings: GitHubHost, clock: Clock, seam: Crashpoint = no_seam
    ) -> None:
        self._database = database
        self._source = source
        self._host = settings
        self._clock = clock
        self._seam = seam

    async def send(self, outbox_id: int) -> OutboxRow:
        """Bring one intent as far as it comes now, and return how far that is.

        One that has come to its end, is not due, or is in the hands of another process is returned as it stands.
        """
        free_dead(self._database, self._clock.now_ms())
        row = self._claim(outbox_id)
        return rows.find_outbox(self._database, outbox_id) if row is None else await self._carry(row)

    async def send_due(self, limit: int, project_ids: Collection[int] | None = None) -> list[OutboxRow]:
        """Do the same for what is due in these projects, or in all of the host, the oldest first.

        A rate limit ends it; credentials that fail are raised.
        """
        free_dead(self._database, self._clock.now_ms())
        sent: list[OutboxRow] = []
        while len(sent) < limit and (row := self._claim(None, within=project_ids)) is not None:
            sent.append(await self._carry(row))
            if sent[-1].last_error == RateLimited.code:
                break
        return sent

    def _projects(self) -> dict[int, ProjectRow]:
        return {row.id: row for row in list_projects(self._database) if row.source == self._source.name}

    def _claim(
        self, outbox_id: int | None, claim_id: str | None = None, within: Collection[int] | None = None
    ) -> OutboxRow | None:
        held_ms = round((self._host.settle_write_seconds + CLAIM_SECONDS) * 1000)
        now, name = self._clock.now_ms(), claim_id or new_claim(ProcessIdentity.current())
        projects = [key for key in self._projects() if within is None or key in within]
        return rows.claim(self._database, outbox_id, now, held_ms, name, project_ids=projects)

    async def _carry(self, row: OutboxRow) -> OutboxRow:
        """Work on a claimed row, and give the claim back whatever happens short of our death."""
        assert row.claim_id is not None
        try:
            return await self._settle(row) if row.attempted_at is not None else await self._post(row)
        except LockHeld:
            return rows.find_outbox(self._database, row.id)
        finally:
            with self._database.transaction() as tx:
                rows.release(tx, row.id, row.claim_id)

    async def _settle(self, row: OutboxRow) -> OutboxRow:
        """Find out what became of an earlier attempt before there is another one."""
        settings = self._settings(row)
        settled_at = (row.attempted_at or 0) + round(settings.settle_write_seconds * 1000)
        if self._clock.now_ms() < settled_at:
            return self._postpone(row, settled_at, None)
        _tell("token_reconcile_timeout", row)
        overlap_ms = round(settings.comment_fetch_overlap_seconds * 1000)
        try:
            found = await find_posted(self._source, self._repo(row), row, overlap_ms, self._clock)
        except CredentialsRejected:
            raise
        except RemoteError as error:
            # Whatever keeps us from looking says nothing about the write.
            return self._wait(row, error)
        return await self._post(row) if found is None else self._observe(row, found)

    async def _post(self, row: OutboxRow) -> OutboxRow:
        settings = self._settings(row)
        attempted_at = await self._note_attempt(row)
        self._seam(Seam.BEFORE_POST)
        try:
            made = await self._write(row, settings)
        except CredentialsRejected:
            raise
        except RemotePermanent as error:
            return self._refused(row, error)
        except RemoteError as error:
            if error.reason != "unclear_write":
                return self._wait(row, error)
            made = None
        except (TimeoutError, ValueError):
            # Accepted, perhaps: the answer came too late, or says nothing we understand.
            made = None
        self._seam(Seam.AFTER_POST)
        if made is None:
            return self._postpone(row, attempted_at + round(settings.settle_write_seconds * 1000), "unclear_write")
        return self._observe(row, made)

    async def _note_attempt(self, row: OutboxRow) -> int:
        """Make the attempt durable when it is our turn to write to this host; return its instant."""
        interval_ms = round(self._host.write_interval_seconds * 1000)
        assert row.claim_id is not None
        while True:
            self._seam(Seam.BEFORE_COMMIT)
            now = self._clock.now_ms()
            early_ms = rows.note_attempt(
                self._database, row.id, row.claim_id, now, project_ids=self._projects(), interval_ms=interval_ms
            )
            if not early_ms:
                return now
            await self._clock.sleep(early_ms / 1000)
            if self._claim(row.id, row.claim_id) is None:
                raise LockHeld("another process is sending this reply", outbox_id=row.id)

    async def _write(self, row: OutboxRow, settings: RepoSettings) -> CommentRecord:
        # Whatever leaves us must be gone long before anybody may look whether it arrived.
        async with asyncio.timeout(settings.settle_write_seconds / 2 or None):
            repo = self._repo(row)
            if row.reply_to is None:
                return await self._source.post_comment(repo, row.scope_number, row.body)
            return await self._source.post_reply(repo, row.scope_number, row.reply_to, row.body)

    def _settings(self, row: OutboxRow) -> RepoSettings:
        """Return the settings of a repository under the name it was configured by."""
        project = self._projects().get(row.project_id)
        return repo_settings(self._host, row.repo_full_name if project is None else project.configured)

    def _repo(self, row: OutboxRow) -> str | int:
        """Return the repository by its number: its name may belong to another one by now."""
        project = self._projects().get(row.project_id)
        return row.repo_full_name if project is None else project.remote_id

    def _observe(self, row: OutboxRow, comment: CommentRecord) -> OutboxRow:
        now = self._clock.now_ms()
        with self._database.transaction() as tx:
            rows.mark_posted(tx, row.id, comment.remote_id, now)
            done = rows.mark_observed(tx, row.id, comment.remote_id, comment.updated_at, now)
            self._seam(Seam.INSIDE_COMMIT)
        self._seam(Seam.AFTER_COMMIT)
        _tell("token_observed", done)
        return done

    def _refused(self, row: OutboxRow, error: RemotePermanent) -> OutboxRow:
        if error.status is None:
            # No answer of the server: a certificate or a redirect that a person can put right.
            return self._wait(row, error)
        said = error.details.get("said")
        with self._database.transaction() as tx:
            return rows.mark_failed(
                tx, row.id, f"{error.message}: {said}" if said else error.message, self._clock.now_ms()
            )

    def _wait(self, row: OutboxRow, error: RemoteError) -> OutboxRow:
        now = self._clock.now_ms()
        if isinstance(error, RateLimited):
            pause = error.retry_after_seconds or _LIMIT_PAUSE_SECONDS
            return self._postpone(row, now + round(pause * 1000), RateLimited.code)
        # As long again as it has been tried so far: the pauses double, whether posting fails or looking.
        tried = 0.0 if row.attempted_at is None else (now - row.attempted_at) / 1000
        pause = min(LONGEST_PAUSE_SECONDS, max(_FIRST_PAUSE_SECONDS, tried))
        return self._postpone(row, now + round(pause * 1000), error.message)

    def _postpone(self, row: OutboxRow, until: int, error: str | None) -> OutboxRow:
        assert row.claim_id is not None
        with self._database.transaction() as tx:
            rows.postpone(tx, row.id, row.claim_id, until, error, self._clock.now_ms())
            return rows.get_outbox(tx, row.id)


def _tell(event: str, row: OutboxRow) -> None:
    where = f"{row.repo_full_name}#{row.scope_number}"
    fields = {"event": event, "repo": row.repo_full_name, "number": row.scope_number, "token": row.token}
    _LOG.info("%s %s %s", event, where, row.token, extra=fields | {"comment_id": row.comment_id})
