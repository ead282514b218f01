"""The error tree. Owns every failure Tidelore reports; refuses to render: each face has one renderer.

Errors carry fields (`details`), a stable `code`, the process exit code and whether trying again can help.
They branch by who must act:

    TideloreError                      exit 1
    ├── UserError                      exit 2   the caller corrects the command or the configuration
    │   ├── ConfigError                exit 2   names the file, the key and the remedy
    │   ├── ExtraMissing               exit 2   an optional part of the package is not installed
    │   ├── CredentialsMissing         exit 4
    │   └── NotFound                   exit 6   asked for something the copy does not hold
    ├── RemoteError                    exit 1   the other side
    │   ├── RemoteTransient            exit 1   trying again can help
    │   │   └── RateLimited            exit 5
    │   └── RemotePermanent            exit 1   trying again cannot help
    │       ├── CredentialsRejected    exit 4
    │       ├── RemoteNotFound         exit 6
    │       ├── ForeignOrigin          exit 1   a link led away from the configured host
    │       └── ResponseTooLarge       exit 1
    ├── LockHeld                       exit 3   names the holder
    │   └── LeaseLost                  exit 3   somebody took the lease over while we worked
    ├── PartialSuccess                 exit 7   some scopes failed, the others are stored
    ├── SurgicalPreflightFailed        exit 1   4, 5 or 6 by what failed; nothing was changed
    ├── IntegrityError                 exit 8   ours: an invariant is broken; nothing was changed
    │   ├── SchemaTooNew               exit 8
    │   ├── IllegalTransition          exit 8
    │   └── DatabaseUnusable           exit 8
    ├── StorageFailed                  exit 1   disk full, no permission, database busy
    │   └── DatabaseUnreachable        exit 1   the server of the database does not answer
    └── Cancelled                      exit 130
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
"""Every exit code of the program with its meaning."""


class TideloreError(Exception):
    """Root of the tree: a message for people, fields for programs."""

    code: ClassVar[str] = "FAILURE"
    exit_code: int = 1
    retryable: bool = False

    def __init__(self, message: str, *, fix: str | None = None, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.details: dict[str, object] = {name: value for name, value in details.items() if value is not None}


class UserError(TideloreError):
    """The command cannot be carried out as it was given."""

    code = "USAGE"
    exit_code = 2


class ConfigError(UserError):
    """The configuration is wrong: `file`, `key` and, where one is near, the valid key."""

    code = "CONFIG_INVALID"


class ExtraMissing(UserError):
    """The command needs an optional part of the package that is not installed: `extra`."""

    code = "EXTRA_MISSING"


class CredentialsMissing(UserError):
    """No token could be found for a source that needs one."""

    code = "CREDENTIALS_MISSING"
    exit_code = 4


class NotFound(UserError):
    """The copy holds nothing by that name."""

    code = "NOT_FOUND"
    exit_code = 6


class RemoteError(TideloreError):
    """A remote system failed us. `url` is redacted before it gets here."""

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
    """Timeouts, dropped connections, 5xx, truncated or non-JSON bodies. `reason` tells which."""

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


class RateLimited(RemoteTransient):
    """The remote asked us to wait longer than this run may."""

    code = "RATE_LIMITED"
    exit_code = 5


class RemotePermanent(RemoteError):
    """400, 403, 405, 422: the same request will fail the same way."""

    code = "REMOTE_REFUSED"


class CredentialsRejected(RemotePermanent):
    """401: the whole source stops, with one clear error."""

    code = "CREDENTIALS_REJECTED"
    exit_code = 4


class RemoteNotFound(RemotePermanent):
    """404 or 410."""

    code = "REMOTE_NOT_FOUND"
    exit_code = 6


class ForeignOrigin(RemotePermanent):
    """A link or redirect leads to another origin, which would receive the token."""

    code = "FOREIGN_ORIGIN"


class ResponseTooLarge(RemotePermanent):
    """The answer exceeds the size limit."""

    code = "RESPONSE_TOO_LARGE"


class LockHeld(TideloreError):
    """Another process holds the lease; `holder` says who."""

    code = "LOCK_HELD"
    exit_code = 3
    retryable = True


class LeaseLost(LockHeld):
    """The lease was taken over while we worked: nothing more may be written by this process."""

    code = "LEASE_LOST"


class PartialSuccess(TideloreError):
    """Some scopes failed; what the others brought is stored."""

    code = "PARTIAL_SUCCESS"
    exit_code = 7
    retryable = True


class SurgicalPreflightFailed(TideloreError):
    """Some of the items that were asked for could not be fetched, and so none was stored.

    The exit code is that of the failures: all of them not found, credentials, a rate limit, or anything else.
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
    """An invariant of ours is broken: stop loudly, change nothing."""

    code = "INTEGRITY"
    exit_code = 8


class SchemaTooNew(IntegrityError):
    """The database was written by a newer program."""

    code = "SCHEMA_TOO_NEW"


class IllegalTransition(IntegrityError):
    """A run ledger row was asked to make a step that does not exist."""

    code = "ILLEGAL_TRANSITION"


class DatabaseUnusable(IntegrityError):
    """The database file is corrupt, or is not a Tidelore database."""

    code = "DATABASE_UNUSABLE"


class StorageFailed(TideloreError):
    """The database could not be opened or written; what is stored is intact."""

    code = "STORAGE_FAILED"
    retryable = True


class DatabaseUnreachable(StorageFailed):
    """The server that keeps the database does not answer, or the connection to it was cut."""

    code = "DATABASE_UNREACHABLE"


class Cancelled(TideloreError):
    """SIGINT or SIGTERM: the run row is finalised, everything committed stays."""

    code = "INTERRUPTED"
    exit_code = 130
    retryable = True


def every_error() -> list[type[TideloreError]]:
    """Return every class of the tree, the root first: the documentation is tested against it."""
    found: list[type[TideloreError]] = []
    pending: list[type[TideloreError]] = [TideloreError]
    while pending:
        current = pending.pop(0)
        found.append(current)
        pending.extend(current.__subclasses__())
    return found
