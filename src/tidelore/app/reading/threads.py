"""List review threads and discussions: where they stand, whether they are resolved, and who has to answer.

Reads the local database only. Replying and resolving are separate use-cases.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from tidelore.app.answers import Instant, answer_tokens, fitting, instant, means, page_token, parse_page_token
from tidelore.app.reading.lockdown import Lockdown, find_lockdown
from tidelore.app.reading.own_logins import own_logins, require_logins
from tidelore.app.reading.referring import find_thread, parse_any
from tidelore.app.wiring import App
from tidelore.core.errors import UserError
from tidelore.core.references import Kind, sign_of
from tidelore.core.text import excerpt
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import match_project
from tidelore.store.reading.threads import (
    ReviewRequest,
    ThreadFilter,
    ThreadMark,
    ThreadNote,
    ThreadRow,
    find_review_requests,
    find_threads,
    read_threads_page,
)

EXCERPT = 400
"""The longest quotation of a note in a list, in characters."""
ITEM_KINDS: dict[str, Kind] = {"issue": "issue", "merge_request": "mr"}
Waiting = Literal["me", "others"]
Reason = Literal["review thread", "mention", "reply", "own item"]
REASONS: tuple[Reason, ...] = get_args(Reason)
"""Why a thread waits for us, the most urgent first."""
SHOWN, SHOWN_WAITING = 20, 10
"""How many threads are listed if nothing is said: fewer of those that wait for us, because they are read every day."""
MOST_REQUESTS = 10
_NOUNS = {
    "review thread": ("unresolved review thread", "unresolved review threads"),
    "mention": ("mention", "mentions"),
    "reply": ("reply to you", "replies to you"),
    "own item": ("comment on your own item", "comments on your own items"),
}
_STALE_MS = 30 * 86_400_000
"""After this time without a note, a thread is less urgent than those of the last days."""


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
    why: Annotated[
        str | None,
        means(
            "why it waits for you: review thread (not resolved, on your item or with your notes), mention, reply (to"
            " you), own item; or null"
        ),
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


class RequestedReview(Struct, frozen=True, kw_only=True):
    """An open merge request that you are asked to review and wrote nothing in."""

    reference: Annotated[str, means("its full reference")]
    title: Annotated[str, means("its title", untrusted=True)]
    author: Annotated[str | None, means("who wrote it")]
    updated_at: Annotated[Instant, means("when it was last updated")]
    web_url: Annotated[str | None, means("its address")]


class ThreadPage(Struct, frozen=True, kw_only=True):
    """The answer of `lore threads`."""

    items: list[ListedThread]
    total: Annotated[int, means("number of matching threads")]
    next: Annotated[str | None, means("the token for --after, or null on the last page")]
    truncated: Annotated[bool, means("whether --max-tokens cut the page short")] = False
    review_requests: Annotated[
        list[RequestedReview],
        means("with --waiting-on me, on the first page: merge requests that wait for your review, at most 10"),
    ] = []
    review_requests_total: Annotated[int | None, means("number of these merge requests, or null")] = None
    notice: Annotated[str | None, means("with --waiting-on me: how many are not shown, and how to see them")] = None


class ThreadQuestion(Struct, frozen=True, kw_only=True):
    """Which threads to list. `state` is that of their items: without a reference, only open ones by default."""

    reference: str | None = None
    project: str | None = None
    state: str | None = None
    unresolved: bool = False
    mine: bool = False
    waiting_on: Waiting | None = None
    limit: int | None = None
    after: str | None = None
    max_tokens: int | None = None

    @property
    def most(self) -> int:
        """The number of threads on a page."""
        return self.limit or (SHOWN_WAITING if self.waiting_on == "me" else SHOWN)


def list_threads(app: App, question: ThreadQuestion) -> ThreadPage:
    """Return one page of threads, the one with the newest note first; of those that wait for us, by urgency first."""
    meant = None if question.reference is None else parse_any(question.reference)
    after = None if question.after is None else _parse_token(question.after)
    with app.reading() as database:
        logins = _logins(app, database, question)
        item = None
        if meant is not None:
            found = find_thread(database, meant, question.project, app.config.default_project)
            item = _item_of(found.type, found.id, meant.text)
        marks = find_threads(database, _filter(database, question, item, logins))
        places = {mark: _place_in(mark, question, app.clock.now_ms()) for mark in marks if _matches(mark, question)}
        matching = sorted(places, key=places.__getitem__, reverse=True)
        page = [mark for mark in matching if after is None or places[mark] < after][: question.most]
        read, lockdown = read_threads_page(database, page), find_lockdown(app, database)
        if lockdown is not None:
            read = [(mark, lockdown.listed(row)) for mark, row in read]
        requests = [] if after is not None else _requests(database, question, item, logins, lockdown)
    threads = [listed_thread(mark, row) for mark, row in read]
    return _page([(mark, places[mark]) for mark, _ in read], threads, matching, question, requests)


def _place_in(mark: ThreadMark, question: ThreadQuestion, now_ms: int) -> tuple[int, int, int]:
    """Return where a thread stands in the list, the greatest first: by urgency if it waits for us, and by time."""
    if question.waiting_on != "me":
        return 0, mark.last_at, mark.last_id
    rank = len(REASONS) - REASONS.index(reason_of(mark))
    is_recent = rank > 1 and now_ms - mark.last_at < _STALE_MS
    return rank + (len(REASONS) if is_recent else 0), mark.last_at, mark.last_id


def _token(place: tuple[int, int, int]) -> str:
    urgency, *key = place
    return f"{urgency}." * bool(urgency) + (page_token((key[0], key[1])) or "")


def _parse_token(text: str) -> tuple[int, int, int]:
    urgency, dot, rest = text.rpartition(".")
    if dot and not (urgency.isascii() and urgency.isdecimal() and len(urgency) < 3):
        raise UserError(f"invalid value for --after: {text!r}", fix="use `data.next` of the previous page", after=text)
    return int(urgency or 0), *parse_page_token(rest)


def _requests(
    database: Database,
    question: ThreadQuestion,
    item: tuple[Kind, int] | None,
    logins: dict[str, str],
    lockdown: Lockdown | None,
) -> list[RequestedReview]:
    if question.waiting_on != "me" or question.unresolved or question.state not in (None, "opened", "all"):
        return []
    project = match_project(database, question.project).id if question.project else None
    rows = find_review_requests(database, logins, project)
    return [_request(row, lockdown) for row in rows if item is None or item == ("mr", row.id)]


def _request(row: ReviewRequest, lockdown: Lockdown | None) -> RequestedReview:
    title = row.title if lockdown is None else lockdown.title(row.project_id, row.author, row.association, row.title)
    return RequestedReview(
        reference=row.references_full or f"{row.project}{sign_of('mr', row.references_short)}{row.iid}",
        title=title,
        author=row.author,
        updated_at=instant(row.updated_at),
        web_url=row.web_url,
    )


def _page(
    page: list[tuple[ThreadMark, tuple[int, int, int]]],
    threads: list[ListedThread],
    matching: list[ThreadMark],
    question: ThreadQuestion,
    requests: list[RequestedReview],
) -> ThreadPage:
    shown, wanted = requests[:MOST_REQUESTS], question.waiting_on == "me" and question.after is None
    empty = ThreadPage(
        items=[],
        total=len(matching),
        next="0" * 24,
        review_requests=shown,
        review_requests_total=len(requests) if wanted else None,
        notice="x" * 150 if wanted else None,
    )
    kept = fitting(threads, question.max_tokens, besides=answer_tokens(empty))
    is_last = not page or page[kept - 1][0] is matching[-1]
    following = None if is_last else _token(page[kept - 1][1])
    notice = _notice(matching, kept, question) if wanted else None
    return replace(empty, items=threads[:kept], next=following, truncated=kept < len(threads), notice=notice)


def _notice(matching: list[ThreadMark], shown: int, question: ThreadQuestion) -> str | None:
    """Return how many threads that wait for us are not shown, by urgency, and the call that shows them."""
    left = [reason_of(mark) for mark in matching[shown:]]
    if not left:
        return None
    parts = [f"{count:,} {_NOUNS[reason][count > 1]}" for reason in REASONS if (count := left.count(reason))]
    narrowed = f" -p {question.project}" if question.project else ""
    call = f"lore threads --waiting-on me{narrowed} --limit {min(len(matching), 1000)}"
    return f"{len(left):,} more not shown ({', '.join(parts)}): {call}"


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


def reason_of(mark: ThreadMark) -> Reason:
    """Return why a thread waits for us."""
    if mark.resolvable and mark.resolved != 1 and (mark.is_own_item or mark.has_our_note):
        return "review thread"
    if _mentions_us(mark):
        return "mention"
    return "reply" if mark.has_our_note else "own item"


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
        why=reason_of(mark) if waiting_on(mark) == "me" else None,
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
