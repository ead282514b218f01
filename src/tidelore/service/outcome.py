"""What a job brings back, and whose fault it is when it fails. Owns the reading of errors; pure.

A source is to blame for what concerns all that is asked of it: no answer, credentials, a rate limit. Anything else is
the job's own. A lease that another process holds is nobody's fault.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from tidelore.errors import (
    CredentialsMissing,
    CredentialsRejected,
    DatabaseUnusable,
    LockHeld,
    PartialSuccess,
    RateLimited,
    RemoteTransient,
    SchemaTooNew,
    TideloreError,
)
from tidelore.service.schedule import Blame, Ending, JobSpec


class Done(Struct, frozen=True):
    """A job that came to its end. `wakes` names jobs that have something to do now; `idle`: it had nothing to do."""

    requests: int = 0
    error: TideloreError | None = None
    idle: bool = False
    wakes: tuple[str, ...] = ()


class Job(Struct, frozen=True):
    """Something to do again and again."""

    spec: JobSpec
    run: Callable[[], Awaitable[Done]]


def blame_for(error: BaseException) -> Blame | None:
    """Return who is to blame; None for a part that failed, which its own report tells of."""
    if isinstance(error, PartialSuccess):
        return None
    if isinstance(error, LockHeld):
        return "nobody"
    if isinstance(error, CredentialsMissing | CredentialsRejected | RateLimited):
        return "source"
    # A server that answered is there, and may answer others better.
    unheard = isinstance(error, RemoteTransient) and error.status is None
    return "source" if unheard else "job"


def is_fatal(error: BaseException) -> bool:
    """Tell whether no job can do anything any more: the database is not ours to write."""
    return isinstance(error, DatabaseUnusable | SchemaTooNew)


def ending_of(done: Done) -> Ending:
    """Return what an end means for the schedule."""
    if done.error is None:
        return Ending(done.requests, idle=done.idle)
    return failure_of(done.error, done.requests)


def failure_of(error: BaseException, requests: int = 0) -> Ending:
    """Return what an error means for the schedule."""
    message = error.message if isinstance(error, TideloreError) else f"unexpected {type(error).__name__}: {error}"
    wait = error.retry_after_seconds if isinstance(error, RemoteTransient) else None
    return Ending(requests, message, blame_for(error), wait)
