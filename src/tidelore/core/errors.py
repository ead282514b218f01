"""The error tree: every failure that Tidelore reports. Rendering is up to the faces.

An error has a message, a remedy (`fix`), fields (`details`), a stable `code` and an exit code, and says whether a retry
can help. The tree branches by who has to act:

    TideloreError                      exit 1
    ├── UserError                      exit 2   the caller corrects the command or the configuration
    │   ├── ConfigError                exit 2   names the file, the key and the remedy
    │   ├── ExtraMissing               exit 2   an optional part of the package is not installed
    │   ├── CredentialsMissing         exit 4
    │   └── NotFound                   exit 6   not in the local copy or the configuration
    ├── RemoteError                    exit 1   a remote system failed
    │   ├── RemoteTransient            exit 1   a retry can help
    │   │   ├── RateLimited            exit 5
    │   │   │   └── BudgetSpent        exit 5   the requests given to a run are used up
    │   │   └── QueryLimited           exit 5
    │   └── RemotePermanent            exit 1   a retry cannot help
    │       ├── CredentialsRejected    exit 4
    │       ├── RemoteNotFound         exit 6
    │       ├── RepositoryReplaced     exit 1   a name belongs to another repository now
    │       ├── FeatureDisabled        exit 1   the repository has this feature switched off
    │       ├── AccessRefused          exit 1   the token may not read this part
    │       ├── ForeignOrigin          exit 1   a link points to another host
    │       └── ResponseTooLarge       exit 1
    ├── LockHeld                       exit 3   names the holder
    │   └── LeaseLost                  exit 3   another process took over the lock
    ├── PartialSuccess                 exit 7   some lists failed, the rest is stored
    ├── SurgicalPreflightFailed        exit 1   or 4, 5, 6, depending on the failures
    ├── IntegrityError                 exit 8   an invariant is broken
    │   ├── SchemaTooNew               exit 8
    │   ├── IllegalTransition          exit 8
    │   ├── DatabaseUnusable           exit 8
    │   └── MoveIncomplete             exit 8   `lore move` into this database was interrupted
    ├── StorageFailed                  exit 1   disk full, no permission, database busy
    │   └── DatabaseUnreachable        exit 1   the database server does not respond
    └── Cancelled                      exit 130
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import ClassVar

EXIT_CODES: Mapping[int, str] = MappingProxyType(
    {
        0: "ok",
        1: "failure",
        2: "usage or configuration",
        3: "lock held",
        4: "credentials",
        5: "rate-limited",
        6: "not found",
        7: "partial success",
        8: "integrity",
        130: "interrupted",
    }
)
"""Every exit code with its meaning."""


class TideloreError(Exception):
    """An unexpected failure."""

    code: ClassVar[str] = "FAILURE"
    exit_code: int = 1
    retryable: bool = False

    def __init__(self, message: str, *, fix: str | None = None, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.details: dict[str, object] = {name: value for name, value in details.items() if value is not None}


class UserError(TideloreError):
    """The command line is invalid or cannot be executed in this state."""

    code = "USAGE"
    exit_code = 2


class ConfigError(UserError):
    """The configuration is invalid; `file` and `key` say where."""

    code = "CONFIG_INVALID"


class ExtraMissing(UserError):
    """The command needs an optional part of the package that is not installed: `extra`."""

    code = "EXTRA_MISSING"


class CredentialsMissing(UserError):
    """No token was found for a host that needs one."""

    code = "CREDENTIALS_MISSING"
    exit_code = 4


class NotFound(UserError):
    """The item is not in the local copy or in the configuration; `has_no_copy`: there is no local copy at all."""

    code = "NOT_FOUND"
    exit_code = 6

    def __init__(self, message: str, *, fix: str | None = None, has_no_copy: bool = False, **details: object) -> None:
        super().__init__(message, fix=fix, **details)
        self.has_no_copy = has_no_copy


class RemoteError(TideloreError):
    """A remote system failed. `url` contains no secrets."""

    code = "REMOTE_FAILED"

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        url: str | None = None,
        reason: str | None = None,
        fix: str | None = None,
        **details: object,
    ) -> None:
        super().__init__(message, fix=fix, status=status, url=url, reason=reason, **details)
        self.status = status
        self.url = url
        self.reason = reason


class RemoteTransient(RemoteError):
    """The server timed out, dropped the connection, or sent a 5xx status or a damaged response; see `reason`."""

    code = "REMOTE_UNAVAILABLE"
    retryable = True

    def __init__(
        self,
        message: str,
        *,
        retry_after_seconds: float | None = None,
        status: int | None = None,
        url: str | None = None,
        reason: str | None = None,
        fix: str | None = None,
        **details: object,
    ) -> None:
        super().__init__(
            message,
            status=status,
            url=url,
            reason=reason,
            fix=fix,
            retry_after_seconds=retry_after_seconds,
            **details,
        )
        self.retry_after_seconds = retry_after_seconds


def retry_advice(seconds: float | None) -> str:
    """Return when to repeat a command that a rate limit ended, rounded up to minutes or hours."""
    if seconds is None:
        when = "later"
    elif (minutes := -int(-seconds // 60)) < 120:
        when = f"in {minutes} minute{'' if minutes == 1 else 's'}"
    else:
        when = f"in {-(-minutes // 60)} hours"
    return f"run the command again {when}; it continues where it stopped"


class RateLimited(RemoteTransient):
    """The server asked for a longer pause than a run may wait."""

    code = "RATE_LIMITED"
    exit_code = 5


class BudgetSpent(RateLimited):
    """The run has used up the requests it was given; the next run continues where it stopped."""

    code = "BUDGET_SPENT"


class QueryLimited(RemoteTransient):
    """The limit for queries is exhausted. Other requests have a limit of their own and go on."""

    code = "QUERY_LIMITED"
    exit_code = 5


class RemotePermanent(RemoteError):
    """The server refused the request (400, 403, 405, 422); a retry will not help."""

    code = "REMOTE_REFUSED"


class CredentialsRejected(RemotePermanent):
    """The server rejected the token (401)."""

    code = "CREDENTIALS_REJECTED"
    exit_code = 4


class RemoteNotFound(RemotePermanent):
    """The server has no such item, or does not show it to this token (404, 410)."""

    code = "REMOTE_NOT_FOUND"
    exit_code = 6


class RepositoryReplaced(RemotePermanent):
    """Another repository has taken over the name of a known one; nothing was read or written."""

    code = "REPOSITORY_REPLACED"


class FeatureDisabled(RemotePermanent):
    """Issues or Discussions are switched off in this repository. Its items are hidden, not deleted."""

    code = "FEATURE_DISABLED"


class AccessRefused(RemotePermanent):
    """The token may not read this part of the repository; what it would show stays unknown."""

    code = "ACCESS_REFUSED"


class ForeignOrigin(RemotePermanent):
    """A link or redirect points to another origin, which must not receive the token."""

    code = "FOREIGN_ORIGIN"


class ResponseTooLarge(RemotePermanent):
    """The response exceeds the size limit."""

    code = "RESPONSE_TOO_LARGE"


class LockHeld(TideloreError):
    """Another process is writing to this database; `holder` names it."""

    code = "LOCK_HELD"
    exit_code = 3
    retryable = True


class LeaseLost(LockHeld):
    """Another process took over the lock; this one wrote nothing more."""

    code = "LEASE_LOST"


class PartialSuccess(TideloreError):
    """Some lists could not be read; the rest is stored."""

    code = "PARTIAL_SUCCESS"
    exit_code = 7
    retryable = True


class SurgicalPreflightFailed(TideloreError):
    """Some of the requested items could not be fetched; nothing was stored.

    The exit code is 6 if all of them were not found, 4 for credentials, 5 for a rate limit, otherwise 1.
    """

    code = "SURGICAL_PREFLIGHT_FAILED"

    def __init__(
        self,
        message: str,
        *,
        run_id: int | None = None,
        total: int | None = None,
        failures: Sequence[Mapping[str, object]] = (),
        fix: str | None = None,
        **details: object,
    ) -> None:
        told = {"run_id": run_id, "total": total, "entity_failures": list(failures) or None}
        super().__init__(message, fix=fix, **told, **details)
        self.run_id = run_id
        self.total = total
        self.failures = failures
        codes = {failure["code"] for failure in failures}
        self.exit_code = _preflight_exit(codes)
        self.retryable = bool(codes & {"RATE_LIMITED", "TIMEOUT", "FETCH_ERROR"})


def _preflight_exit(codes: set[object]) -> int:
    if codes == {"NOT_FOUND"}:
        return RemoteNotFound.exit_code
    if "AUTH_FAILED" in codes:
        return CredentialsRejected.exit_code
    return RateLimited.exit_code if "RATE_LIMITED" in codes else TideloreError.exit_code


class IntegrityError(TideloreError):
    """An invariant of the database is broken; nothing was changed."""

    code = "INTEGRITY"
    exit_code = 8


class SchemaTooNew(IntegrityError):
    """The database was written by a newer version."""

    code = "SCHEMA_TOO_NEW"


class IllegalTransition(IntegrityError):
    """A run or pull request was moved to a state it cannot reach."""

    code = "ILLEGAL_TRANSITION"


class DatabaseUnusable(IntegrityError):
    """The database is corrupt, or belongs to another program."""

    code = "DATABASE_UNUSABLE"


class MoveIncomplete(IntegrityError):
    """The database is the target of a `lore move` that was interrupted; it lacks rows until the move is repeated."""

    code = "MOVE_INCOMPLETE"


class StorageFailed(TideloreError):
    """The database or a file could not be opened or written; stored data is intact."""

    code = "STORAGE_FAILED"
    retryable = True


class DatabaseUnreachable(StorageFailed):
    """The database server does not respond, or the connection was lost; stored data is intact."""

    code = "DATABASE_UNREACHABLE"


class Cancelled(TideloreError):
    """The command was interrupted by SIGINT or SIGTERM; committed data is kept."""

    code = "INTERRUPTED"
    exit_code = 130
    retryable = True


def every_error() -> list[type[TideloreError]]:
    """Return every class of the tree, the root first."""
    found: list[type[TideloreError]] = []
    pending: list[type[TideloreError]] = [TideloreError]
    while pending:
        current = pending.pop(0)
        found.append(current)
        pending.extend(current.__subclasses__())
    return found


@contextmanager
def keep_failure(failures: dict[str, TideloreError], what: str) -> Iterator[None]:
    """Keep the error of one thread under its name, so that the others continue.

    Errors that concern the host (credentials, rate limits) or the repository (replaced by another one) are raised.
    """
    try:
        yield
    except (CredentialsRejected, RateLimited, RepositoryReplaced):
        raise
    except (RemoteError, IllegalTransition) as error:
        # IllegalTransition: another process changed the status meanwhile; the next poll starts from the new one.
        failures[what] = error
