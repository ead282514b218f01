"""Somebody who looks at the run ledger from outside, over a connection of their own, while a run works."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.properties.inprocess import Reaper

from tidelore.engine.crashpoint import Seam
from tidelore.engine.ledger import PROGRESS_SECONDS
from tidelore.store.database.opening import open_database
from tidelore.store.work.runs import RunView, list_runs


class Witness(Reaper):
    """Holds the run after each commit, lets time pass, and reads its row; kills nobody."""

    def __init__(self, address: str | Path, let_pass: Callable[[float], None]) -> None:
        super().__init__()
        self._address = str(address)
        self._let_pass = let_pass
        self.saw: list[RunView] = []

    def __call__(self, seam: Seam) -> None:
        super().__call__(seam)
        if seam is Seam.AFTER_COMMIT:
            self._let_pass(PROGRESS_SECONDS)
            self.saw.append(self.look())

    def look(self) -> RunView:
        """The newest run, as anybody sees it."""
        database = open_database(self._address)
        try:
            (run,) = list_runs(database, 1)
            return run
        finally:
            database.close()

    def during(self, phase: str) -> list[RunView]:
        """What was seen of a phase, as far as it was said how far it is."""
        return [run for run in self.saw if run.phase == phase and run.progress_done is not None]


def done(runs: list[RunView]) -> list[int]:
    """How far they were."""
    return [run.progress_done for run in runs if run.progress_done is not None]


def grows(numbers: list[int]) -> bool:
    """Whether they never shrink, and are not all the same."""
    return numbers == sorted(numbers) and numbers[0] < numbers[-1]
