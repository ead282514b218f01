"""When refused parents mean that a whole project is refused. Pure: counts and pauses, nothing is asked or stored.

A server may refuse a kind of children for every parent of a project: the endpoint is newer than the server, a feature
is disabled, the token may not read it. Asking each parent in each run would never end.
"""

from __future__ import annotations

from tidelore.core.errors import RemoteError

IN_A_ROW = 3
"""How many refused parents in a row show that it is not a matter of the single parent."""
AFTER_SUCCESS = 10
"""The same, once the children of another parent could be read in the same run."""
_REFUSED = frozenset({403, 404, 405, 410})
_FIRST_PAUSE_MS = 3_600_000
_LONGEST_PAUSE_MS = 7 * 86_400_000


def is_refusal(error: RemoteError) -> bool:
    """Return whether the server does not offer what was asked for, which may hold for a whole project."""
    return error.status in _REFUSED


def pause_ms(attempts: int) -> int:
    """Return how long an unavailable kind is left alone after that many attempts: doubling, an hour to a week."""
    return min(_FIRST_PAUSE_MS << min(max(attempts, 1) - 1, 30), _LONGEST_PAUSE_MS)
