"""List what changed in the copy since a cursor or a time, grouped by item, newest first; and the digest for people.

A cursor names the last change that was seen. Changes are numbered in the order of commits, so the next call with it
lists every later change, each once: an item that changes again between two pages is not repeated there, but listed
after the next cursor. A time selects by what happened (updated, deleted), so that a first mirror is not all news. Reads
the local database only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from tidelore.app.answers import Instant, answer_tokens, fitting, instant, means
from tidelore.app.reading.lockdown import Lockdown, find_lockdown
from tidelore.app.reading.own_logins import own_logins
from tidelore.app.reading.threads import ListedThread, RequestedReview, ThreadQuestion, list_threads
from tidelore.app.wiring import App
from tidelore.core.errors import UserError
from tidelore.core.references import parse_since, sign_of
from tidelore.core.text import excerpt
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import match_project
from tidelore.store.reading.changes import (
    ChangedRow,
    ChangeKey,
    ChangeState,
    NewNote,
    changes_by_number,
    changes_by_time,
    new_notes,
    newest_change,
    read_changed,
)

_QUOTED = 200
_MOST_NOTES = 3
_DAY_MS = 86_400_000
_DAYS_AGO = {"today": 0, "yesterday": 1}
_LAG_MS = 15 * 60_000
_TYPES = {"issue": "issue", "merge_request": "mr", "topic": "topic", "post": "post"}


class ChangedNote(Struct, frozen=True):
    """A new or edited note of a changed item."""

    author: Annotated[str | None, means("who wrote it")]
    at: Annotated[Instant, means("when it was written or last edited")]
    place: Annotated[str | None, means("file and line it was written on, or null", untrusted=True)]
    text: Annotated[str, means("its beginning", untrusted=True)]


class ChangedItem(Struct, frozen=True, kw_only=True):
    """An item that changed."""

    reference: Annotated[str, means("its full reference; for a post, its address")]
    type: Annotated[str, means("issue, mr, topic or post")]
    change: Annotated[str, means("new, merged, closed, deleted, or updated")]
    title: Annotated[str, means("its title; for a post, its text", untrusted=True)]
    state: Annotated[str, means("its state; for a post, its kind")]
    author: Annotated[str | None, means("who wrote it")]
    updated_at: Annotated[Instant, means("when it was last updated on the server")]
    stored_at: Annotated[Instant, means("when the newest change was stored in the copy")]
    new_notes: Annotated[int, means("number of new or edited notes")]
    notes: Annotated[list[ChangedNote], means("the newest of them, at most three, the oldest first")]
    web_url: Annotated[str | None, means("its address")]


class ChangePage(Struct, frozen=True, kw_only=True):
    """The answer of `lore changes`."""

    items: list[ChangedItem]
    total: Annotated[int, means("number of changed items")]
    next: Annotated[str | None, means("the token for --after that lists the older of these changes, or null")]
    cursor: Annotated[str, means("the value for --since of the next visit: lists what changed after this answer")]
    truncated: Annotated[bool, means("whether --max-tokens cut the page short")] = False


class ChangeQuestion(Struct, frozen=True, kw_only=True):
    """What to list: `since` is a cursor or a time. `after` continues an earlier page and says since when by itself."""

    since: str = "1d"
    after: str | None = None
    project: str | None = None
    limit: int = 50
    max_tokens: int | None = None


class _Window(Struct, frozen=True):
    """The changes in question: since a number or an instant, until a number, and below a place on a later page."""

    until: int
    until_at: int
    since: int | None = None
    since_at: int = 0
    before: tuple[int, str, int] | None = None


class DigestCounts(Struct, frozen=True):
    """How many items changed, by what happened."""

    new: Annotated[int, means("new items")]
    merged: Annotated[int, means("merged")]
    closed: Annotated[int, means("closed")]
    deleted: Annotated[int, means("deleted")]
    updated: Annotated[int, means("otherwise updated")]
    notes: Annotated[int, means("new or edited notes")]


class Digest(Struct, frozen=True, kw_only=True):
    """The answer of `lore digest`."""

    since: Annotated[Instant, means("the beginning of the time in question")]
    counts: Annotated[DigestCounts, means("what happened to the listed items")]
    items: Annotated[list[ChangedItem], means("changed issues, merge requests and topics")]
    total: Annotated[int, means("number of changed items")]
    next: Annotated[str | None, means("the token for `lore changes --after` that lists older changes, or null")]
    review_requests: Annotated[
        list[RequestedReview], means("merge requests that wait for your review, the newest first, at most 10")
    ]
    waiting: Annotated[list[ListedThread], means("threads that wait for you, the most urgent first, at most five")]
    waiting_total: Annotated[int | None, means("number of threads that wait for you; null if your login is unknown")]
    waiting_notice: Annotated[str | None, means("how many of them are not shown, and the call that shows them")]
    cursor: Annotated[str, means("the value for --since of `lore changes` that lists what changed after this answer")]


def list_changes(app: App, question: ChangeQuestion) -> ChangePage:
    """Return one page of changed items, the newest change first."""
    now, after = app.clock.now_ms(), question.after
    window = _parse_since(question.since, now) if after is None else _parse_page(after)
    with app.reading() as database:
        if after is None:
            newest = newest_change(database)
            window = replace(window, until=newest.seq, until_at=newest.changed_at)
            _check_cursor(window, newest, question.since)
        project = match_project(database, question.project).id if question.project else None
        keys, total = _keys(database, window, project, question.limit + 1)
        page = keys[: question.limit]
        items = _items(database, page, window, find_lockdown(app, database))
    return _page(items, page, window, total, is_last=len(keys) <= question.limit, max_tokens=question.max_tokens)


def _page(
    items: list[ChangedItem],
    keys: Sequence[ChangeKey],
    window: _Window,
    total: int,
    *,
    is_last: bool,
    max_tokens: int | None,
) -> ChangePage:
    cursor = f"c{window.until}-{window.until_at}"
    empty = ChangePage(items=[], total=total, next="x" * 60, cursor=cursor)
    kept = fitting(items, max_tokens, besides=answer_tokens(empty))
    more = kept < len(items) or not is_last
    token = _page_token(window, keys[kept - 1]) if more and keys else None
    return replace(empty, items=items[:kept], next=token, truncated=kept < len(items))


def _parse_since(text: str, now_ms: int) -> _Window:
    if text.startswith("c"):
        seq, _, at = text[1:].partition("-")
        if _is_number(seq) and _is_number(at):
            return _Window(until=0, until_at=0, since=int(seq), since_at=int(at))
        raise UserError(f"invalid value for --since: {text!r}", fix="use `data.cursor` of an earlier call", since=text)
    return _Window(until=0, until_at=0, since_at=_instant_of(text, now_ms))


def _instant_of(text: str, now_ms: int) -> int:
    """Parse a time; `today` and `yesterday` begin at midnight UTC."""
    if text in _DAYS_AGO:
        return now_ms - now_ms % _DAY_MS - _DAYS_AGO[text] * _DAY_MS
    try:
        return parse_since(text, now_ms)
    except UserError as error:
        error.fix = f"{error.fix}; also `today`, `yesterday` or `data.cursor` of an earlier call"
        raise


def _check_cursor(window: _Window, newest: ChangeState, text: str) -> None:
    if window.since is not None and window.since > newest.seq:
        raise UserError(
            "the cursor is of another database: this one has fewer changes",
            fix="use a cursor of this database, or a time such as 1d",
            since=text,
        )


def _page_token(window: _Window, last: ChangeKey) -> str:
    since = "t" if window.since is None else str(window.since)
    parts = (since, window.since_at, window.until, window.until_at, last.seq, last.type, last.id)
    return ".".join(str(part) for part in parts)


def _parse_page(text: str) -> _Window:
    parts = text.split(".")
    numbers = [part for place, part in enumerate(parts) if place not in (0, 5)]
    is_whole = len(parts) == 7 and all(map(_is_number, numbers)) and (parts[0] == "t" or _is_number(parts[0]))
    if not is_whole or parts[5] not in _TYPES:
        raise UserError(f"invalid value for --after: {text!r}", fix="use `data.next` of the previous page", after=text)
    since_at, until, until_at, seq, row_id = map(int, numbers)
    since = None if parts[0] == "t" else int(parts[0])
    return _Window(until, until_at, since, since_at, (seq, parts[5], row_id))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19


def _keys(database: Database, window: _Window, project: int | None, limit: int) -> tuple[list[ChangeKey], int]:
    if window.since is not None:
        return changes_by_number(database, window.since, window.until, project, window.before, limit)
    found = changes_by_time(database, window.since_at, window.until, project)
    below = [key for key in found if window.before is None or key.place < window.before]
    return below[:limit], len(found)


def _items(
    database: Database, keys: Sequence[ChangeKey], window: _Window, lockdown: Lockdown | None
) -> list[ChangedItem]:
    rows: dict[tuple[str, int], ChangedRow] = {}
    notes: dict[tuple[str, int], list[NewNote]] = {}
    by_time = {"since_ms": window.since_at} if window.since is None else {"stored_after": window.since_at}
    for kind in _TYPES:
        ids = [key.id for key in keys if key.type == kind]
        if ids:
            rows |= {(kind, row_id): row for row_id, row in read_changed(database, kind, ids).items()}
            if kind != "post":
                found = new_notes(database, kind, ids, **by_time)
                notes |= {(kind, row_id): said for row_id, said in found.items()}
    return [_item(key, rows[key.type, key.id], notes.get((key.type, key.id), []), window, lockdown) for key in keys]


def _item(
    key: ChangeKey, row: ChangedRow, notes: Sequence[NewNote], window: _Window, lockdown: Lockdown | None
) -> ChangedItem:
    total = len(notes)
    if lockdown is not None:
        row, notes = lockdown.changed(row, notes)
    title, _ = excerpt(row.title, _QUOTED)
    return ChangedItem(
        reference=_reference(key.type, row),
        type=_TYPES[key.type],
        change=_change(key, row, window),
        title=title,
        state=row.state,
        author=row.author,
        updated_at=instant(row.updated_at),
        stored_at=instant(key.changed_at),
        new_notes=total,
        notes=[_note(note) for note in notes[-_MOST_NOTES:]],
        web_url=row.web_url,
    )


def _reference(kind: str, row: ChangedRow) -> str:
    if row.references_full:
        return row.references_full
    sign = sign_of("mr" if kind == "merge_request" else "issue", row.references_short)
    return f"{row.project}{sign}{row.iid}"


def _change(key: ChangeKey, row: ChangedRow, window: _Window) -> str:
    if row.deleted_at is not None:
        return "deleted"
    if window.since is not None and key.first_seq > window.since:
        return "new"
    if window.since is None and row.created_at >= window.since_at:
        return "new"
    # The time of a cursor is ours, and what is stored after it may have happened a little earlier.
    began = window.since_at - (0 if window.since is None else _LAG_MS)
    for word, at in (("merged", row.merged_at), ("closed", row.closed_at)):
        if at is not None and at >= began and row.state == word:
            return word
    return "updated"


def _note(note: NewNote) -> ChangedNote:
    place = note.path if note.path is None or note.line is None else f"{note.path}:{note.line}"
    return ChangedNote(note.author, instant(note.at), place, excerpt(note.body, _QUOTED)[0])


def read_digest(app: App, since: str, project: str | None = None, limit: int = 50) -> Digest:
    """Return what happened since a time, and what waits for us."""
    began = _instant_of(since, app.clock.now_ms())
    page = list_changes(app, ChangeQuestion(since=since, project=project, limit=limit))
    with app.reading() as database:
        is_known = bool(own_logins(app, database))
    waiting = list_threads(app, ThreadQuestion(waiting_on="me", project=project, limit=5)) if is_known else None
    kinds = [item.change for item in page.items]
    counts = {name: kinds.count(name) for name in DigestCounts.__struct_fields__ if name != "notes"}
    return Digest(
        since=instant(began),
        counts=DigestCounts(**counts, notes=sum(item.new_notes for item in page.items)),
        items=page.items,
        total=page.total,
        next=page.next,
        review_requests=[] if waiting is None else waiting.review_requests,
        waiting=[] if waiting is None else waiting.items,
        waiting_total=None if waiting is None else waiting.total,
        waiting_notice=None if waiting is None else waiting.notice,
        cursor=page.cursor,
    )
