"""Progress of a run: what a stage reports while it works, the sum per phase, and the results of the last two stages.

`DocumentReport` and `EmbedReport` are defined here because `sync` reports what `documents` did, and the two do not
import each other. No ledger, no clock and no output here.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from tidelore.core.errors import TideloreError


class RunProgress(Struct, frozen=True):
    """The progress of a run, in the columns of the ledger. Without a total the amount of work is unknown."""

    progress_done: int | None = None
    progress_total: int | None = None
    progress_note: str | None = None


class PhaseProgress:
    """Sums the progress of all stages in the current phase of a run. Updates take constant time."""

    def __init__(self) -> None:
        self._enter("")

    def tell(self, phase: str, subject: str, stage: str, done: int, total: int | None, note: str) -> None:
        """Set the progress of one stage of one subject, replacing its previous value."""
        if phase != self._phase:
            self._enter(phase)
        before_done, before_total = self._stages.get((subject, stage), (0, 0))
        self._stages[subject, stage] = done, total
        self._done += done - before_done
        self._total += (total or 0) - (before_total or 0)
        self._endless += (total is None) - (before_total is None)
        self._note = f"{subject} {stage.replace('_', ' ')}: {note}"

    def at(self, phase: str) -> RunProgress:
        """Return the progress of a phase; empty if nothing was reported for it."""
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
    """The progress of one stage of one project. Without a total the amount of work is unknown."""

    project: str
    stage: str
    done: int
    total: int | None
    note: str


OnProgress = Callable[[Progress], None]


def page_count(pages: int) -> str:
    """Return a number of pages in words."""
    return f"{pages:,} page{'' if pages == 1 else 's'}"


def silent(_progress: Progress) -> None:
    """Ignore progress."""


class DocumentReport(Struct):
    """Counts for the marked sources. `document_ids` are the documents that were written and must be embedded."""

    regenerated: int = 0
    unchanged: int = 0
    removed: int = 0
    failed: int = 0
    document_ids: list[int] = field(default_factory=list)


class EmbedReport(Struct):
    """Counts for the documents without vectors. `failed` still have none; `error` is why the stage stopped."""

    model: str | None = None
    embedded: int = 0
    chunks: int = 0
    unchanged: int = 0
    removed: int = 0
    failed: int = 0
    notice: str | None = None
    error: TideloreError | None = None
    seconds: float = 0.0
