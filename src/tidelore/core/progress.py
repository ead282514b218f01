"""Progress of a run: how far its stages are, summed up per phase.

No ledger, no clock and no output here. The sum starts anew with each phase, and what is done never exceeds the total.
"""

from __future__ import annotations

from msgspec import Struct


class RunProgress(Struct, frozen=True):
    """How far a run is, in the ledger's own columns; without a total nobody knows how much there is."""

    progress_done: int | None = None
    progress_total: int | None = None
    progress_note: str | None = None


class PhaseProgress:
    """One run's way through its phases. Telling costs the same however many stages are under way."""

    def __init__(self) -> None:
        self._enter("")

    def tell(self, phase: str, subject: str, stage: str, done: int, total: int | None, note: str) -> None:
        """Take in how far one stage of one subject is; what it said before is forgotten."""
        if phase != self._phase:
            self._enter(phase)
        before_done, before_total = self._stages.get((subject, stage), (0, 0))
        self._stages[subject, stage] = done, total
        self._done += done - before_done
        self._total += (total or 0) - (before_total or 0)
        self._endless += (total is None) - (before_total is None)
        self._note = f"{subject} {stage}: {note}"

    def at(self, phase: str) -> RunProgress:
        """Return how far a phase is; nothing is known of one of which nobody told."""
        if phase != self._phase or not self._stages:
            return RunProgress()
        total = None if self._endless else max(self._total, self._done)
        return RunProgress(self._done, total, self._note)

    def _enter(self, phase: str) -> None:
        self._phase = phase
        self._stages: dict[tuple[str, str], tuple[int, int | None]] = {}
        self._done = self._total = self._endless = 0
        self._note = ""
