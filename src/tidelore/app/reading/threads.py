"""List review threads and discussions: where they stand, whether they are resolved, and who has to answer.

Reads the local database only. Replying and resolving are separate use-cases.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from msgspec import Struct
from msgspec.structs import replace

from tidelore.app.answers import Instant, answer_tokens, fitting, instant, means, page_token, parse_page_token
from tidelore.app.reading.lockdown import find_lockdown
from tidelore.app.reading.own_logins import own_logins, require_logins
from tidelore.app.reading.referring import find_thread, parse_any
from tidelore.app.wiring import App
from tidelore.core.errors import UserError
from tidelore.core.references import Kind, sign_of
from tidelore.core.text import excerpt
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import match_project
from tidelore.store.reading.threads import (
    ThreadFilter,
    ThreadMark,
    ThreadNote,
    ThreadRow,
    find_threads,
    read_threads_page,
)

EXCERPT = 400
"""The longest quotation of a note in a list, in characters."""
ITEM_KINDS: dict[str, Kind] = {"issue": "issue", "merge_request": "mr"}
Waiting = Literal["me", "others"]


class ListedThread(Struct, frozen=True, kw_only=True):
    """A thread in a list."""

    id: Annotated[str, means("id on the server; for comments outside a thread, the reference of their item")]
    kind: Annotated[str, means("review (on a place in a diff), discussion, or comments (those outside a thread)")]
    reference: Annotated[str, means("reference of its issue or merge request")]
    title: Annotated[str, means("title of the issue or merge request", untrusted=True)]
    item_state: Annotated[str, means("state of the issue or merge request")]
    path: Annotated[str | None, means("file it was written on, or null", untrusted=True)]
    line: Annotated[int | None, means("line in that file, or null")]
    outdated: Annotated[bool | None, means("whether the lines have changed since, or null if unknown")]
    state: Annotated[str | None, means("unresolved, resolved or unknown; null for a thread that cannot be resolved")]
    resolved_by: Annotated[str | None, means("who resolved it, or null")]
    waiting_on: Annotated[
        str | None, means("me or others, who has to answer; null if it is neither, or your login is unknown")
    ]
    notes: Annotated[int, means("number of notes, without system notes")]
    started_by: Annotated[str | None, means("author of the first note")]
    started_at: Annotated[Instant, means("when the first note was written")]
    opening: Annotated[str, means("beginning of the first note", untrusted=True)]
    last_by: Annotated[str | None, means("author of the last note")]
    last_at: Annotated[Instant, means("when the last note was written")]
    last: Annotated[str | None, means("beginning of the last note, or null if it is the first", untrusted=True)]
    truncated: Annotated[bool, means("whether a text was shortened; `lore show` has all of it")]
    url: Annotated[str | None, means("address of the last note or of the item")]

    @property
    def place(self) -> str | None:
        """The place in the diff as text, such as `src/login.ts:45`."""
        return self.path if self.path is None or self.line is None else f"{self.path}:{self.line}"


class ThreadPage(Struct, frozen=True, kw_only=True):
    """The answer of `lore threads`."""

    items: list[ListedThread]
    total: Annotated[int, means("number of matching threads")]
    next: Annotated[str | None, means("the token for --after, or null on the last page")]
    truncated: Annotated[bool, means("whether --max-tokens cut the page short")] = False


class ThreadQuestion(Struct, frozen=True, kw_only=True):
    """Which threads to list. `state` is that of their items: without a reference, only open ones by default."""

    reference: str | None = None
    project: str | None = None
    state: str | None = None
    unresolved: bool = False
    mine: bool = False
    waiting_on: Waiting | None = None
    limit: int = 20
    after: str | None = None
    max_tokens: int | None = None


def list_threads(app: App, question: ThreadQuestion) -> ThreadPage:
    """Return one page of threads, the one with the newest note first."""
    meant = None if question.reference is None else parse_any(question.reference)
    after = None if question.after is None else parse_page_token(question.after)
    with app.reading() as database:
        logins = _logins(app, database, question)
        item = None
        if meant is not None:
            found = find_thread(database, meant, question.project, app.config.default_project)
            item = _item_of(found.type, found.id, meant.text)
        marks = find_threads(database, _filter(database, question, item, logins))
        matching = [mark for mark in marks if _matches(mark, question)]
        page = [mark for mark in matching if after is None or (mark.last_at, mark.last_id) < after][: question.limit]
        read = read_threads_page(database, page)
        if (lockdown := find_lockdown(app, database)) is not None:
            read = [(mark, lockdown.listed(row)) for mark, row in read]
    threads = [listed_thread(mark, row) for mark, row in read]
    return _page([mark for mark, _ in read], threads, matching, question)


def _page(
    page: list[ThreadMark], threads: list[ListedThread], matching: list[ThreadMark], question: ThreadQuestion
) -> ThreadPage:
    empty = ThreadPage(items=[], total=len(matching), next="0" * 24)
    kept = fitting(threads, question.max_tokens, besides=answer_tokens(empty))
    is_last = not page or page[kept - 1] is matching[-1]
    following = None if is_last else page_token((page[kept - 1].last_at, page[kept - 1].last_id))
    return replace(empty, items=threads[:kept], next=following, truncated=kept < len(threads))


def _logins(app: App, database: Database, question: ThreadQuestion) -> dict[str, str]:
    purpose = f"--waiting-on {question.waiting_on}" if question.waiting_on else "--mine" if question.mine else None
    found = own_logins(app, database) if purpose is None else require_logins(app, database, purpose)
    return {source: login.lower() for source, login in found.items()}


def _item_of(kind: str, row_id: int, reference: str) -> tuple[Kind, int]:
    if kind not in ITEM_KINDS:
        raise UserError(
            f"{reference} is a {kind}, which has no review threads",
            fix=f"use `lore show {kind} '{reference}'`",
            reference=reference,
        )
    return ITEM_KINDS[kind], row_id


def _filter(
    database: Database, question: ThreadQuestion, item: tuple[Kind, int] | None, logins: dict[str, str]
) -> ThreadFilter:
    state = question.state or ("all" if item else "opened")
    project = match_project(database, question.project).id if question.project and item is None else None
    return ThreadFilter(
        item=item,
        project_id=project,
        state=None if state == "all" else state,
        unresolved=question.unresolved,
        logins=logins,
    )


def _matches(mark: ThreadMark, question: ThreadQuestion) -> bool:
    if question.mine and not _concerns_us(mark):
        return False
    return question.waiting_on is None or waiting_on(mark) == question.waiting_on


def _concerns_us(mark: ThreadMark) -> bool:
    return bool(mark.is_own_item or mark.has_our_note or _mentions_us(mark))


def _mentions_us(mark: ThreadMark) -> bool:
    if mark.mention is None:
        return False
    return re.search(rf"(?<![\w@./-])@{re.escape(mark.login)}(?![\w-])", mark.mention, re.IGNORECASE) is not None


def waiting_on(mark: ThreadMark) -> Waiting | None:
    """Return who has to answer: `others` if our note is the last one, `me` if the last one concerns us."""
    if mark.resolved == 1 or not mark.login:
        return None
    if mark.is_ours_last:
        return "others"
    return "me" if _concerns_us(mark) else None


def listed_thread(mark: ThreadMark, row: ThreadRow) -> ListedThread:
    """Return a thread as it is listed."""
    reference = row.references_full or f"{row.project}{sign_of(row.kind, row.references_short)}{row.iid}"
    path, line = _place(row.first)
    opening, cut = excerpt(row.first.body, EXCERPT)
    last, last_cut = (None, False) if row.first.id == row.last.id else excerpt(row.last.body, EXCERPT)
    return ListedThread(
        id=row.remote_id or reference,
        kind="comments" if row.remote_id is None else "review" if path else "discussion",
        reference=reference,
        title=row.title,
        item_state=row.item_state,
        path=path,
        line=line,
        outdated=None if row.is_outdated is None else bool(row.is_outdated),
        state=thread_state(row.resolvable, row.resolved),
        resolved_by=row.resolved_by,
        waiting_on=waiting_on(mark),
        notes=row.notes,
        started_by=row.first.author_username,
        started_at=instant(row.first.created_at),
        opening=opening,
        last_by=row.last.author_username,
        last_at=instant(row.last.created_at),
        last=last,
        truncated=cut or last_cut,
        url=row.last.url or row.web_url,
    )


def thread_state(resolvable: int, resolved: int | None) -> str | None:
    """Return the state of a thread; None for one that cannot be resolved."""
    if not resolvable:
        return None
    return {None: "unknown", 0: "unresolved"}.get(resolved, "resolved")


def _place(note: ThreadNote) -> tuple[str | None, int | None]:
    """Return the file and line of a note; a removed line is one of the old file."""
    if note.position_new_line is None and note.position_old_line is not None:
        return note.position_old_path or note.position_new_path, note.position_old_line
    return note.position_new_path or note.position_old_path, note.position_new_line
