"""What to run after a run that did not reach its end. Owns the answer for every run of the ledger; runs nothing."""

from __future__ import annotations

from collections.abc import Iterable

from tidelore.store.work.runs import UNFINISHED, RunRecord
from tidelore.store.work.service_records import JobRow

_KINDS = {
    "lore sync": ("sync", ""),
    "lore ingest": ("sync", ""),
    "lore poll github": ("poll", "github:"),
    "lore poll bluesky": ("poll", "bluesky:"),
    "lore stream bluesky": ("stream", "bluesky:"),
    "lore generate-docs": ("documents", ""),
    "lore embed": ("embeddings", ""),
}
"""The jobs that do what a command does: their kind, and how their names begin."""


def recovery_actions(run: RunRecord) -> list[str]:
    """Return the commands that bring about what a run did not; none for one that left nothing, or still runs."""
    before = {"failed": ["lore doctor"], "crashed": ["lore check"]}.get(run.status, [])
    if run.outcomes_json is not None and run.status != "running":
        from tidelore.sync.report import read_outcomes, suggest

        again = suggest(run.id, read_outcomes(run.outcomes_json), failed=run.status in UNFINISHED)
        return [*before, *again]
    if run.status not in UNFINISHED:
        return []
    # A position that was to be forgotten is named by arguments, which the ledger keeps in the note.
    return [*before, "lore cursors list" if run.command == "lore cursors reset" else run.command]


def jobs_again(run: RunRecord, jobs: Iterable[JobRow]) -> list[str]:
    """Return the jobs of a service that bring about what a run did not; a run of single items is no job's."""
    if run.status not in UNFINISHED or run.mode != "standard":
        return []
    known = next((known for command, known in _KINDS.items() if f"{run.command} ".startswith(f"{command} ")), None)
    if known is None:
        return []
    kind, prefix = known
    return [job.name for job in jobs if job.kind == kind and job.name.startswith(prefix)]
