"""The jobs for GitLab and for the copy itself: a sync for each host, documents, vectors, the ledger. Owns their wiring.

All hosts that are due are one sync, side by side as `lore sync` reads them, and each of them ends in its own way; one
that asks for a long pause is left alone instead of waited for. All that writes under the lease of syncs takes turns;
so that the first mirror of one host, which may take hours, keeps nobody waiting, a sync stops asking after an interval,
and goes on in a next one, beginning with what had no turn.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tidelore.core.extras import install_command
from tidelore.embedding.registry import missing_extra
from tidelore.service.outcome import Done, Job, batched, blame_for
from tidelore.service.rounds import Rounds
from tidelore.service.schedule import JobSpec, bound_of
from tidelore.service.worker_thread import aside

if TYPE_CHECKING:
    from tidelore.app import App
    from tidelore.core.errors import TideloreError
    from tidelore.sync.report import RunReport

_LOG = logging.getLogger(__name__)

COMMAND = "lore sync"
SYNC_TURN = "sync"
PATIENCE_SECONDS = 10.0
"""How long a sync of all waits for one host that asked for a pause; a longer one is a back-off of that host alone."""
SHORTEST_SLICE_SECONDS = 10.0
"""How long a sync may ask at least, however short the interval is: to begin one costs something."""
DOCUMENTS = "documents"
EMBEDDINGS = "embeddings"
LEDGER = "ledger"
COPY = "copy"
EMBEDDING = "embedding"
DOCUMENTS_SECONDS = 30.0
EMBEDDINGS_SECONDS = 300.0
LEDGER_SECONDS = 86_400.0
"""How often documents, vectors and the ledger are looked after when nothing has said that they are due. For the first,
a look is one row; they are marked by streams and commands too, which wake nobody."""


def forge_jobs(app: App) -> list[Job]:
    """Return a sync for each GitLab host that has something to read."""
    syncing = _Syncing(app)
    return [batched(spec, syncing.together) for spec in syncing.specs]


def copy_jobs(app: App) -> list[Job]:
    """Return what is done for the copy itself: documents, vectors if they are wanted, and the ledger's upkeep."""
    documents = JobSpec(DOCUMENTS, COPY, "documents", COPY, DOCUMENTS_SECONDS, turn=SYNC_TURN, asks=False)
    ledger = JobSpec(LEDGER, COPY, "upkeep", COPY, LEDGER_SECONDS, asks=False)
    jobs = [Job(documents, lambda: _make_documents(app)), Job(ledger, lambda: _keep_ledger(app))]
    extra = missing_extra(app.config.embedding)
    if extra is not None:
        fix = install_command(extra)
        told = {"event": "extra_missing", "missing": extra}
        _LOG.warning("embeddings are not computed: the extra %r is not installed (%s)", extra, fix, extra=told)
    elif app.config.embedding.provider != "none":
        spec = JobSpec(EMBEDDINGS, EMBEDDING, "embeddings", app.config.embedding.provider, EMBEDDINGS_SECONDS)
        jobs.append(Job(spec, _Embedding(app).run))
    return jobs


class _Syncing:
    """Syncs any number of hosts, and remembers what is left of them."""

    def __init__(self, app: App) -> None:
        self._app = replace(app, patience_seconds=PATIENCE_SECONDS)
        self._hosts = {f"gitlab:{host.name}": host for host in app.config.gitlab if host.projects or host.groups}
        self._rounds = Rounds()

    @property
    def specs(self) -> list[JobSpec]:
        interval = self._app.config.service.gitlab_interval_seconds
        bound = bound_of(interval)
        return [
            JobSpec(name, host.name, "sync", host.base_url, interval, bound, turn=SYNC_TURN, batch=SYNC_TURN)
            for name, host in self._hosts.items()
        ]

    async def together(self, names: Sequence[str]) -> dict[str, Done]:
        """Bring the hosts of these jobs up to date, in one sync."""
        from tidelore.core.errors import CredentialsMissing

        try:
            return await self._sync(names)
        except CredentialsMissing:
            if len(names) == 1:
                raise
        # Nobody has a token, and each is to be told which is his.
        found: dict[str, Done] = {}
        for name in names:
            try:
                found |= await self._sync([name])
            except CredentialsMissing as error:
                found[name] = Done(error=error)
        return found

    async def _sync(self, names: Sequence[str]) -> dict[str, Done]:
        from tidelore.app import mirror
        from tidelore.sources.ports import RESOURCES
        from tidelore.sync.mirror import MirrorRequest

        hosts = tuple(self._hosts[name] for name in names)
        app = replace(self._app, config=replace(self._app.config, gitlab=hosts))
        seconds = max(app.config.service.gitlab_interval_seconds, SHORTEST_SLICE_SECONDS)
        request = MirrorRequest(RESOURCES, documents=True, seconds=seconds, turns=self._rounds.turns)
        report = await mirror(app, request, COMMAND)
        behind, left = self._rounds.take(report), {scope.source for scope in report.scopes if scope.is_left}
        written = report.documents is not None and report.documents.regenerated
        wakes = (EMBEDDINGS,) if written else ()
        found: dict[str, Done] = {}
        for name, host in zip(names, hosts, strict=True):
            error = judge_sync(report, host.name)
            found[name] = Done(
                report.asked.get(host.name, 0),
                error,
                wakes=wakes,
                budget=report.budgets.get(host.name),
                again=host.name in left,
                # What could only be read in part has not been brought up to date.
                fresh=host.name not in behind and error is None,
            )
        return found


def judge_sync(report: RunReport, source: str) -> TideloreError | None:
    """Return what a sync of a source ends with. Where no list at all could be read it failed, whatever the reasons."""
    from tidelore.sync.report import run_verdict

    scopes = [scope for scope in report.scopes if scope.source == source]
    errors = [scope.error for scope in scopes if scope.error is not None]
    if errors and len(errors) == len(scopes):
        return next((error for error in errors if blame_for(error) == "source"), errors[0])
    return run_verdict(scopes, [scope for scope in report.scrubbed if scope.source == source])


async def _keep_ledger(app: App) -> Done:
    """Forget runs that are old enough."""
    from tidelore.store.work.runs import forget_runs

    database = app.open_store()
    try:
        forgotten = forget_runs(database, app.clock.now_ms(), app.config.service.keep_runs_days)
    finally:
        database.close()
    return Done(idle=not forgotten)


async def _make_documents(app: App) -> Done:
    from tidelore.app import document
    from tidelore.store.mirror.documents import due_sources

    database = app.open_store()
    try:
        waiting = bool(due_sources(database, 1))
    finally:
        database.close()
    if not waiting:
        return Done(idle=True)
    report = await aside(lambda: document(app, full=False, force=False))
    return Done(wakes=(EMBEDDINGS,) if report.regenerated else ())


class _Embedding:
    """Makes vectors. The first time it trusts no look: the model may be another one than that of the vectors."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._looked = False

    async def run(self) -> Done:
        done = await aside(self._embed)
        self._looked = True
        return done

    async def _embed(self) -> Done:
        from tidelore.app import embed
        from tidelore.store.reading.totals import lacks_vectors

        database = self._app.open_store()
        try:
            needed = lacks_vectors(database)
        finally:
            database.close()
        if self._looked and not needed:
            return Done(idle=True)
        made = await embed(self._app)
        return Done(error=made.error, idle=not made.embedded and made.error is None)
