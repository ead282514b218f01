"""Who is asked no more within a run. Owns when one scope's trouble becomes that of all scopes of its source.

Rejected credentials and an exhausted rate limit do so at once. A server that does not answer does so when it was silent
to two scopes in a row: one list that never answers keeps nobody from the others, and a host that is gone costs one
round of waiting, however many scopes it has. Refuses to ask; remembers nothing beyond its run.
"""

from __future__ import annotations

from tidelore.core.errors import CredentialsRejected, RateLimited, RemoteError, RemoteTransient

SILENCES = 2


def is_unheard(error: BaseException | None) -> bool:
    """Tell whether nobody answered at all."""
    return isinstance(error, RemoteTransient) and not isinstance(error, RateLimited) and error.status is None


class Attendance:
    """How the sources of one run answer."""

    def __init__(self) -> None:
        self._absent: dict[str, RemoteError] = {}
        self._silences: dict[str, int] = {}

    def absence(self, source: str) -> RemoteError | None:
        """Return why a source is asked no more, or None."""
        return self._absent.get(source)

    def answered(self, source: str) -> None:
        """Note that a scope could be read."""
        self._silences.pop(source, None)

    def failed(self, source: str, error: RemoteError) -> None:
        """Note that a scope could not."""
        if is_unheard(error):
            self._silences[source] = self._silences.get(source, 0) + 1
        if isinstance(error, CredentialsRejected | RateLimited) or self._silences.get(source, 0) >= SILENCES:
            self._absent[source] = error
