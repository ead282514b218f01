"""What to run after a run that did not reach its end. Owns the answer for every run of the ledger; runs nothing."""

from __future__ import annotations

from tidelore.store.runs import UNFINISHED, RunRecord


def recovery_actions(run: RunRecord) -> list[str]:
    """Return the commands that bring about what a run did not; none for one that left nothing, or still runs."""
    before = {"failed": ["lore doctor"], "crashed": ["lore check"]}.get(run.status, [])
    if run.outcomes_json is not None and run.status != "running":
        from tidelore.pipeline.surgical_report import read_outcomes, suggest

        again = suggest(run.id, read_outcomes(run.outcomes_json), failed=run.status in UNFINISHED)
        return [*before, *again]
    if run.status not in UNFINISHED:
        return []
    # A position that was to be forgotten is named by arguments, which the ledger keeps in the note.
    return [*before, "lore cursors list" if run.command == "lore cursors reset" else run.command]
