"""Refresh named items from their servers: a surgical sync of references of any kind, with progress.

For callers that run an event loop (`refresh_items`) and for those that do not (`refresh_now`). How old a stored item
is, and whether a reader who asked for a greatest age gets a refresh first, is decided here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Struct

from tidelore.app.answers import means
from tidelore.app.reading.referring import find_thread, parse_any
from tidelore.app.wiring import App
from tidelore.core.errors import NotFound, UserError
from tidelore.core.progress import OnProgress, silent
from tidelore.core.references import Kind

MOST_ITEMS = 20
_KINDS: dict[str, Kind] = {"issue": "issue", "merge_request": "mr"}


class RefreshedItem(Struct, frozen=True):
    """What became of one item."""

    reference: Annotated[str, means("the item")]
    outcome: Annotated[str, means("stored, unchanged (the stored version is newer), or failed")]
    error: Annotated[str | None, means("why it failed, or null")]


class Refreshed(Struct, frozen=True, kw_only=True):
    """The result of a refresh."""

    items: list[RefreshedItem]
    status: Annotated[str, means("succeeded, succeeded_with_warnings, failed or cancelled")]
    requests: Annotated[int, means("requests sent")]
    seconds: Annotated[float, means("duration in seconds")]


async def refresh_items(
    app: App, references: Sequence[str], project: str | None = None, on_progress: OnProgress = silent
) -> Refreshed:
    """Fetch these items with everything that belongs to them, and store them."""
    from tidelore.app.mirroring import surgical_sync
    from tidelore.app.reports import refreshed_items
    from tidelore.sync.report import SurgicalReport
    from tidelore.sync.surgical_preflight import SurgicalFlags, read_asked

    if not 0 < len(references) <= MOST_ITEMS:
        raise UserError(f"{len(references)} references given", fix=f"name 1 to {MOST_ITEMS} items")
    kinds = _kinds_of(app, references, project)
    asked = [read_asked(text, kind) for text, kind in zip(references, kinds, strict=True)]
    report = SurgicalReport()
    flags = SurgicalFlags(project=project, no_embed=app.config.embedding.provider == "none")
    await surgical_sync(app, asked, flags, report, force=False, wait_seconds=10.0, on_progress=on_progress)
    done = refreshed_items(report)
    items = []
    for outcome in done.entity_outcomes:
        failure = next((one.message for one in outcome.failures), None)
        fate = "failed" if failure else "unchanged" if outcome.stale_skipped else "stored"
        items.append(RefreshedItem(outcome.reference, fate, failure))
    return Refreshed(items=items, status=done.completion_status, requests=done.requests, seconds=done.seconds)


def _kinds_of(app: App, references: Sequence[str], project: str | None) -> list[Kind]:
    """Return whether each reference means an issue or a merge request; a stored item decides what # means."""
    meanings = [parse_any(text) for text in references]
    kinds: list[Kind] = []
    with app.reading() as database:
        for meant in meanings:
            try:
                found = find_thread(database, meant, project, app.config.default_project).type
            except NotFound:
                found = "merge_request" if "issue" not in meant.meanings else "issue"
            if found not in _KINDS:
                raise UserError(
                    f"{meant.text} is a {found}, which cannot be refreshed by itself",
                    fix="run `lore sync`, or `lore poll bluesky` for posts",
                    reference=meant.text,
                )
            kinds.append(_KINDS[found])
    return kinds
