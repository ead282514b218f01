"""What a job brings back, and whose fault it is when it fails. Owns the reading of errors; pure.

A source is to blame for what concerns all that is asked of it: no answer, credentials, a rate limit. Anything else is
the job's own. A lease that another process holds is nobody's fault.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.errors import (
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
from tidelore.http.limits import Budget, got_no_response
from tidelore.service.schedule import Blame, Ending, JobSpec


class Done(Struct, frozen=True):
    """A job that came to its end. `wakes` names jobs that have something to do now; `idle`: it had nothing to do.

    `budget` is what its source said is left of the rate limit, if it did. `again`: it left something, and goes on as
    soon as the others had their turn; unless it is `fresh`, what was left is what it is there for.
    """

    requests: int = 0
    error: TideloreError | None = None
    idle: bool = False
    wakes: tuple[str, ...] = ()
    budget: Budget | None = None
    again: bool = False
    fresh: bool = True


Together = Callable[[Sequence[str]], Awaitable[Mapping[str, Done]]]


class Job(Struct, frozen=True):
    """Something to do again and again. `together` does the jobs of a batch that are named in one go."""

    spec: JobSpec
    run: Callable[[], Awaitable[Done]]
    together: Together | None = None


def batched(spec: JobSpec, together: Together) -> Job:
    """Return a job of a batch; by itself it is a batch of one."""

    async def alone() -> Done:
        return (await together([spec.name]))[spec.name]

    return Job(spec, alone, together)


def blame_for(error: BaseException) -> Blame | None:
    """Return who is to blame; None for a part that failed, which its own report tells of."""
    if isinstance(error, PartialSuccess):
        return None
    if isinstance(error, LockHeld):
        return "nobody"
    if isinstance(error, CredentialsMissing | CredentialsRejected | RateLimited):
        return "source"
    # A server that answered is there, and may answer others better.
    return "source" if got_no_response(error) else "job"


def is_fatal(error: BaseException) -> bool:
    """Tell whether no job can do anything any more: the database is not ours to write."""
    return isinstance(error, DatabaseUnusable | SchemaTooNew)


def ending_of(done: Done) -> Ending:
    """Return what an end means for the schedule."""
    if done.error is None:
        return Ending(done.requests, idle=done.idle, again=done.again, fresh=done.fresh)
    return replace(failure_of(done.error, done.requests), again=done.again, fresh=done.fresh)


def endings_of(dones: Mapping[str, Done], sources: Mapping[str, str]) -> dict[str, Ending]:
    """Return the same for jobs that ran in one go. Who answered one of them is there: no answer is the job's own."""
    found = {name: ending_of(done) for name, done in dones.items()}
    answered = {sources[name] for name, ending in found.items() if ending.blame is None and ending.requests}
    for name, ending in found.items():
        if sources[name] in answered and got_no_response(dones[name].error):
            found[name] = replace(ending, blame="job")
    return found


def failure_of(error: BaseException, requests: int = 0) -> Ending:
    """Return what an error means for the schedule."""
    message = error.message if isinstance(error, TideloreError) else f"unexpected {type(error).__name__}: {error}"
    wait = error.retry_after_seconds if isinstance(error, RemoteTransient) else None
    return Ending(requests, message, blame_for(error), wait)
