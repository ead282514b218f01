"""Progress for the ledger. Owns that whatever a stage tells reaches the row of its run, without the stage knowing."""

from __future__ import annotations

from collections.abc import Callable

from tidelore.pipeline.report import OnProgress, Progress
from tidelore.session import Session


def also_to_ledger(session: Session, on_progress: OnProgress, asked: Callable[[], int] | None = None) -> OnProgress:
    """Return what tells the ledger and then whoever watches; `asked` counts the run's requests from here on."""
    session.asked = session.asked if asked is None else asked

    def tell(progress: Progress) -> None:
        session.tell(progress.project, progress.stage, progress.done, progress.total, progress.note)
        on_progress(progress)

    return tell
