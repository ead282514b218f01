"""Progress of a run: what a stage reports while it works, the sum per phase, and the results of the last two stages.

`DocumentReport` and `EmbedReport` are defined here because `sync` reports what `documents` did, and the two do not
import each other. No ledger, no clock and no output here.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from tidelore.core.errors import TideloreError


class RunProgress(Struct, frozen=True):
    """How far a run is, in the columns of the ledger. Without a total it is unknown how much there is."""

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


class Progress(Struct, frozen=True):
    """How far one stage of one project is. Without a total it is unknown how much there is."""

    project: str
    stage: str
    done: int
    total: int | None
    note: str


OnProgress = Callable[[Progress], None]


def silent(_progress: Progress) -> None:
    """Ignore progress."""


class DocumentReport(Struct):
    """What became of the marked sources. `document_ids` were written anew: what has to be embedded."""

    regenerated: int = 0
    unchanged: int = 0
    removed: int = 0
    failed: int = 0
    document_ids: list[int] = field(default_factory=list)


class EmbedReport(Struct):
    """What became of the documents without vectors. `failed` still have none; `error` says why the stage stopped."""

    model: str | None = None
    embedded: int = 0
    chunks: int = 0
    unchanged: int = 0
    removed: int = 0
    failed: int = 0
    notice: str | None = None
    error: TideloreError | None = None
    seconds: float = 0.0
