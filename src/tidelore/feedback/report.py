"""What a poll did, repository by repository. Owns the shape of its report, the verdict over it, and which trouble is a
thread's own.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct, field

from tidelore.core.errors import (
    CredentialsRejected,
    IllegalTransition,
    PartialSuccess,
    RateLimited,
    RemoteError,
    RepositoryReplaced,
    TideloreError,
)


class SurfaceTally(Struct):
    """What reading one surface brought, over all its scopes."""

    requests: int = 0
    pages: int = 0
    fetched: int = 0
    new: int = 0
    replayed: int = 0


class RepoReport(Struct):
    """One repository. `effects` counts what became durable by its kind; `moved` names steps of pull requests.

    `ignored` counts comments that were left out because of who wrote them: by the reason, and the author.
    """

    source: str
    repo: str
    mode: str = ""
    surfaces: dict[str, SurfaceTally] = field(default_factory=dict)
    effects: Counter[str] = field(default_factory=Counter)
    ignored: dict[str, Counter[str]] = field(default_factory=dict)
    moved: list[str] = field(default_factory=list)
    tracked: list[int] = field(default_factory=list)
    unfinished: int = 0
    requests: int = 0
    failures: dict[str, TideloreError] = field(default_factory=dict)
    error: TideloreError | None = None

    def ignore(self, reason: str, author: str | None) -> None:
        """Count a comment that was left out."""
        self.ignored.setdefault(reason, Counter())[(author or "").casefold()] += 1

    def surface(self, name: str) -> SurfaceTally:
        """Return the tally of a surface."""
        return self.surfaces.setdefault(name, SurfaceTally())


_OF_ALL = (CredentialsRejected, RateLimited, RepositoryReplaced)


class Forgiving:
    """Keeps one thread's trouble its own. Credentials and rate limits are the host's, another repository under the name
    is the whole repository's: they go on up.
    """

    def __init__(self, report: RepoReport, what: str) -> None:
        self._report = report
        self._what = what
        self.failed = False

    def __enter__(self) -> Forgiving:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        # A step that somebody else made meanwhile is theirs: the next look is at what it led to.
        forgiven = isinstance(error, RemoteError | IllegalTransition)
        if not isinstance(error, TideloreError) or not forgiven or isinstance(error, _OF_ALL):
            return False
        self._report.failures[self._what] = error
        self.failed = True
        return True


class PollReport(Struct):
    """One poll over every repository that was due."""

    run_id: int
    repos: list[RepoReport] = field(default_factory=list)
    requests: int = 0
    seconds: float = 0.0


def verdict(report: PollReport) -> TideloreError | None:
    """Return what a command ends with: the error where all failed, partial success where some did."""
    failed = [repo for repo in report.repos if repo.error is not None]
    troubled = [repo for repo in report.repos if repo.failures]
    if failed and len(failed) == len(report.repos):
        return failed[0].error
    if not failed and not troubled:
        return None
    return PartialSuccess(
        f"{len(failed) + len(troubled)} of {len(report.repos)} repositories could not be fully read",
        fix="see the errors above; fetched data is stored and the next poll continues",
    )
