"""Poll all configured repositories concurrently, under one lease.

A failing repository is reported and the others continue. A host that rejects us, or repeatedly does not respond, gets
no further requests and one error (`SourceOutages`). A transport error never changes what is tracked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct

from tidelore.core.concurrency import gather
from tidelore.core.config import RepoSettings
from tidelore.core.errors import RemoteError, TideloreError
from tidelore.feedback.repo_poll import RepoPoll
from tidelore.feedback.report import FeedbackPollReport, RepoReport
from tidelore.http.limits import SourceOutages
from tidelore.sources.github.source import GitHubSource
from tidelore.store.mirror.projects import ProjectRow, find_configured, store_repository
from tidelore.store.work.session import Session, Workshop, open_session

LEASE = "github"
SIDE_BY_SIDE = 4


class RepoTarget(Struct, frozen=True):
    """One repository to poll. `failure` is why it cannot be read at all."""

    source: GitHubSource
    settings: RepoSettings
    own_login: str | None = None
    failure: TideloreError | None = None


async def poll(
    shop: Workshop,
    targets: Sequence[RepoTarget],
    *,
    force: bool = False,
    full: bool = False,
    on_repo: Callable[[RepoReport], None] = lambda _report: None,
    asked: Callable[[], int] | None = None,
) -> FeedbackPollReport:
    """Read what is new in every repository, under the lease of GitHub polls.

    `asked` returns the number of requests sent, including those that belong to no list; it is recorded in the ledger.
    """
    began = shop.clock.monotonic()
    async with open_session(shop, force=force, lease=LEASE, note="full scan" if full else None) as session:
        report = FeedbackPollReport(session.run.id)
        gates = {target.source.name: asyncio.Semaphore(SIDE_BY_SIDE) for target in targets}
        outages = SourceOutages()
        met: list[RepoReport] = []
        done: list[RepoReport] = []
        session.asked = asked or (lambda: sum(_spent(repo) for repo in met))
        session.tell("github", "repositories", 0, len(targets), _stored(met))

        async def one(target: RepoTarget) -> RepoReport:
            found = RepoReport(target.source.name, target.settings.name)
            met.append(found)
            async with gates[target.source.name]:
                found.error = target.failure or target.source.closed or outages.reason(target.source.name)
                if found.error is None:
                    await _poll_one(session, target, found, outages, full=full)
            done.append(found)
            session.tell("github", "repositories", len(done), len(targets), _stored(met))
            on_repo(found)
            return found

        report.repos = await gather(one(target) for target in targets)
        report.requests = session.tallied().requests
        errors = [repo.error for repo in report.repos if repo.error is not None]
        session.warnings = len(errors) + sum(len(repo.failures) for repo in report.repos)
        if errors and len(errors) == len(report.repos):
            session.error = errors[0].message
    report.seconds = shop.clock.monotonic() - began
    return report


async def _poll_one(
    session: Session, target: RepoTarget, found: RepoReport, outages: SourceOutages, *, full: bool
) -> None:
    try:
        project = await resolve_repository(session, target.source, target.settings.name)
        found.repo = project.path
        poll_of = RepoPoll(
            session, target.source, project, target.settings, found, own_login=target.own_login, full=full
        )
        await poll_of.run()
        if any(tally.requests for tally in found.surfaces.values()):
            outages.answered(target.source.name)
    except RemoteError as error:
        outages.failed(target.source.name, error)
        found.error = error
    finally:
        found.requests = _spent(found)


def _spent(repo: RepoReport) -> int:
    return max(repo.requests, sum(tally.requests for tally in repo.surfaces.values()))


def _stored(repos: Sequence[RepoReport]) -> str:
    new = sum(tally.new for repo in repos for tally in repo.surfaces.values())
    return f"{new:,} comments stored"


async def resolve_repository(session: Session, source: GitHubSource, name: str) -> ProjectRow:
    """Return the repository with a configured name; it is fetched once, and its id is compared by every poll."""
    database = session.shop.database
    known = find_configured(database, source.name, name)
    if known is not None:
        return known
    record = await source.resolve(name)
    with session.writing() as tx:
        return store_repository(tx, database, source.name, name, record, session.shop.clock.now_ms())
