"""Refresh named items from their servers: a surgical sync of references of any kind, with progress.

`be_fresh` is for readers that accept only items of a greatest age: it refreshes older ones first, within a bound, and
says how old the oldest is. A refresh that fails or takes too long leaves the stored items to be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from tidelore.app.answers import means
from tidelore.app.reading.referring import find_thread, parse_any
from tidelore.app.reading.threads import ListedThread, ThreadQuestion, list_threads
from tidelore.app.wiring import App, run_until_signalled
from tidelore.core.errors import NotFound, TideloreError, UserError
from tidelore.core.progress import OnProgress, silent
from tidelore.core.references import Kind
from tidelore.store.mirror.projects import find_project
from tidelore.store.reading.item_events import current_at
from tidelore.store.reading.topics import read_topic

MOST_ITEMS = 20
MOST_THREADS = 5
_THREAD_TOKENS = 500
_KINDS: dict[str, Kind] = {"issue": "issue", "merge_request": "mr"}


class RefreshedItem(Struct, frozen=True):
    """What became of one item."""

    reference: Annotated[str, means("the item")]
    outcome: Annotated[str, means("stored, unchanged (the stored version is as new), or failed")]
    error: Annotated[str | None, means("why it failed, or null")]
    threads: Annotated[list[ListedThread], means("its unresolved threads, the first few")] = field(default_factory=list)


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
    topics = [text for text, kind in zip(references, kinds, strict=True) if kind == "topic"]
    began = app.clock.monotonic()
    refreshed = [await _refresh_topic(app, text, project, on_progress) for text in topics]
    items, requests = [item for item, _ in refreshed], sum(count for _, count in refreshed)
    asked = [read_asked(text, kind) for text, kind in zip(references, kinds, strict=True) if kind != "topic"]
    if not asked:
        return Refreshed(items=items, status="succeeded", requests=requests, seconds=app.clock.monotonic() - began)
    report = SurgicalReport()
    flags = SurgicalFlags(project=project, no_embed=app.config.embedding.provider == "none")
    await surgical_sync(app, asked, flags, report, force=False, wait_seconds=10.0, on_progress=on_progress)
    done = refreshed_items(report)
    for outcome in done.entity_outcomes:
        failure = next((one.message for one in outcome.failures), None)
        fate = "failed" if failure else "unchanged" if outcome.stale_skipped else "stored"
        items.append(RefreshedItem(outcome.reference, fate, failure))
    return Refreshed(
        items=items,
        status=done.completion_status,
        requests=requests + done.requests,
        seconds=app.clock.monotonic() - began,
    )


def with_open_threads(app: App, done: Refreshed) -> Refreshed:
    """Return a refresh with the unresolved threads of each item, so that they can be answered without another call."""
    items = []
    for item in done.items:
        question = ThreadQuestion(
            reference=item.reference, unresolved=True, limit=MOST_THREADS, max_tokens=_THREAD_TOKENS
        )
        # A topic has no threads of this kind, and a failed item may not be stored.
        with suppress(UserError):
            item = replace(item, threads=list_threads(app, question).items)
        items.append(item)
    return replace(done, items=items)


async def _refresh_topic(
    app: App, reference: str, project: str | None, on_progress: OnProgress
) -> tuple[RefreshedItem, int]:
    from tidelore.app.mirroring import refresh_topic

    with app.reading() as database:
        topic_id = find_thread(database, parse_any(reference), project, app.config.default_project).id
        topic, _ = read_topic(database, topic_id)
        home = find_project(database, topic.project_id)
    assert home is not None, "a stored topic has a project"
    done = await refresh_topic(app, topic_id, topic.iid, home, on_progress)
    outcome = "stored" if done.is_stored else "unchanged"
    return RefreshedItem(f"{topic.project}#{topic.iid}", outcome, None), done.requests


def _kinds_of(app: App, references: Sequence[str], project: str | None) -> list[Kind | Literal["topic"]]:
    """Return whether each reference means an issue, merge request or topic; a stored item decides what # means."""
    meanings = [parse_any(text) for text in references]
    kinds: list[Kind | Literal["topic"]] = []
    with app.reading() as database:
        for meant in meanings:
            try:
                found = find_thread(database, meant, project, app.config.default_project).type
            except NotFound:
                found = "merge_request" if "issue" not in meant.meanings else "issue"
            if found == "topic":
                kinds.append("topic")
                continue
            if found not in _KINDS:
                raise UserError(
                    f"{meant.text} is a {found}, which cannot be refreshed by itself",
                    fix="run `lore poll bluesky`",
                    reference=meant.text,
                )
            kinds.append(_KINDS[found])
    return kinds


class Freshness(Struct, frozen=True):
    """How old the oldest item was when it was read. `problem` is why a refresh failed, or None."""

    age_seconds: int | None
    refreshed: bool = False
    problem: str | None = None


def be_fresh(app: App, references: Sequence[str], project: str | None, max_age: float, max_wait: float) -> Freshness:
    """Refresh items that are older than `max_age` seconds or not stored, for at most `max_wait` seconds.

    Of more than MOST_ITEMS older ones, the first are refreshed.
    """
    import asyncio

    ages = [_age(app, reference, project) for reference in references]
    # Ages are whole seconds, and a greatest age of 0 accepts no stored version.
    is_young = [age is not None and 0 < max_age >= age for age in ages]
    older = [reference for reference, young in zip(references, is_young, strict=True) if not young]
    if not older:
        return Freshness(_oldest(ages))

    async def bounded() -> Refreshed:
        return await asyncio.wait_for(refresh_items(app, older[:MOST_ITEMS], project), max_wait)

    problem = None
    try:
        done = run_until_signalled(bounded(), "the stored item is unchanged")
        problem = next((item.error for item in done.items if item.error is not None), None)
    except TimeoutError:
        problem = f"not refreshed within {max_wait:g} seconds"
    except TideloreError as error:
        problem = error.message
    return Freshness(_oldest([_age(app, reference, project) for reference in references]), problem is None, problem)


def _oldest(ages: Sequence[int | None]) -> int | None:
    return max((age for age in ages if age is not None), default=None)


def _age(app: App, reference: str, project: str | None) -> int | None:
    """Return the age of a stored item in seconds; None if it is not stored, or is a topic or post."""
    meant = parse_any(reference)
    try:
        with app.reading() as database:
            found = find_thread(database, meant, project, app.config.default_project)
            if found.type not in _KINDS:
                return None
            at = current_at(database, _KINDS[found.type], found.id)
    except NotFound:
        return None
    return max((app.clock.now_ms() - at) // 1000, 0)
