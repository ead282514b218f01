"""A sync that takes several turns. Owns who had a turn when, and when all lists of a host were read; asks nobody.

Remembered as long as the service lives: a new one begins with whoever was not heard of for the longest time. Upholds
that a host counts as up to date only when every list of it was read to its end since it last did.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelore.sync.report import RunReport, ScopeKey


class Rounds:
    """What is left of the rounds under way. `turns` is the number of the run in which each list last had a turn."""

    def __init__(self) -> None:
        self.turns: Mapping[ScopeKey, int] = {}
        self._read: dict[str, set[ScopeKey]] = {}

    def take(self, report: RunReport) -> set[str]:
        """Take a run in, and return the hosts whose round it did not complete; a list that was refused had its turn.

        Lists that a host does not have any more are forgotten.
        """
        sources = {scope.source for scope in report.scopes}
        self.turns = {key: run for key, run in self.turns.items() if key[0] not in sources} | {
            scope.key: report.run_id if scope.had_turn else self.turns.get(scope.key, 0) for scope in report.scopes
        }
        for source in sources:
            scopes = [scope for scope in report.scopes if scope.source == source]
            keys = {scope.key for scope in scopes}
            read = self._read.pop(source, set()) & keys | {scope.key for scope in scopes if not scope.list_left}
            if read != keys:
                self._read[source] = read
        return sources & self._read.keys()
