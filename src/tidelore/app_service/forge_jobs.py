"""The jobs for GitLab and for the copy itself: a sync for each host, documents, vectors. Owns their wiring.

A sync of the service is a sync of one host by itself: the same requests, and one host's trouble is its own. All that
writes under the lease of syncs takes turns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tidelore.service.aside import aside
from tidelore.service.outcome import Done, Job, blame_for
from tidelore.service.schedule import JobSpec, bound_of

if TYPE_CHECKING:
    from tidelore.app import App
    from tidelore.config import GitLabHost
    from tidelore.errors import TideloreError
    from tidelore.pipeline.report import RunReport

COMMAND = "lore sync"
SYNC_TURN = "sync"
DOCUMENTS = "documents"
EMBEDDINGS = "embeddings"
COPY = "copy"
EMBEDDING = "embedding"
DOCUMENTS_SECONDS = 30.0
EMBEDDINGS_SECONDS = 300.0
"""How often documents and vectors are looked after when nothing has said that they are due. For the first, a look is
one row; they are marked by streams and commands too, which wake nobody."""


def forge_jobs(app: App) -> list[Job]:
    """Return a sync for each GitLab host that has something to read."""
    return [_sync_job(app, host) for host in app.config.gitlab if host.projects or host.groups]


def copy_jobs(app: App) -> list[Job]:
    """Return what is made of the copy: documents, and vectors if they are wanted."""
    documents = JobSpec(DOCUMENTS, COPY, "documents", COPY, DOCUMENTS_SECONDS, turn=SYNC_TURN, asks=False)
    jobs = [Job(documents, lambda: _make_documents(app))]
    if app.config.embedding.provider != "none":
        spec = JobSpec(EMBEDDINGS, EMBEDDING, "embeddings", app.config.embedding.provider, EMBEDDINGS_SECONDS)
        jobs.append(Job(spec, _Embedding(app).run))
    return jobs


def _sync_job(app: App, host: GitLabHost) -> Job:
    interval = app.config.service.gitlab_interval_seconds
    own = replace(app, config=replace(app.config, gitlab=(host,)))
    spec = JobSpec(
        f"gitlab:{host.name}", host.name, "sync", host.base_url, interval, bound_of(interval), turn=SYNC_TURN
    )
    return Job(spec, lambda: _sync(own))


async def _sync(app: App) -> Done:
    from tidelore.app import mirror
    from tidelore.pipeline.mirror import MirrorRequest
    from tidelore.sources.registry import RESOURCES

    report = await mirror(app, MirrorRequest(RESOURCES, documents=True), COMMAND)
    written = report.documents is not None and report.documents.regenerated
    return Done(report.requests, judge_sync(report), wakes=(EMBEDDINGS,) if written else ())


def judge_sync(report: RunReport) -> TideloreError | None:
    """Return what a sync ends with. Where no list at all could be read it is a failure, whatever the reasons are."""
    from tidelore.pipeline.report import verdict

    errors = [scope.error for scope in report.scopes if scope.error is not None]
    if errors and len(errors) == len(report.scopes):
        return next((error for error in errors if blame_for(error) == "source"), errors[0])
    return verdict(report.scopes)


async def _make_documents(app: App) -> Done:
    from tidelore.app import document
    from tidelore.store.dirty import due_sources

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
        from tidelore.store.totals import lacks_vectors

        database = self._app.open_store()
        try:
            needed = lacks_vectors(database)
        finally:
            database.close()
        if self._looked and not needed:
            return Done(idle=True)
        made = await embed(self._app)
        return Done(error=made.error, idle=not made.embedded and made.error is None)
