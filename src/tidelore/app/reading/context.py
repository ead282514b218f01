"""Collect what an agent needs to know about one item into one answer within a token budget.

The answer has the item, its decisive notes, its unresolved threads, linked items, changed files and events. Each part
gets a share of the budget; what one part does not use goes to the others in order of rank. What does not fit is
counted in `left_out`, with the call that brings it. Reads the local database only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tidelore.app.answers import (
    ENVELOPE_TOKENS,
    Instant,
    answer_tokens,
    copy_fields,
    instant,
    means,
    require_fit,
)
from tidelore.app.reading.lockdown import Lockdown, find_lockdown
from tidelore.app.reading.referring import find_thread, parse_any
from tidelore.app.reading.threads import ITEM_KINDS, ListedThread, listed_thread
from tidelore.app.showing import ShownIssue, ShownItem, ShownMergeRequest, ShownNote, read_item, read_shown_topic
from tidelore.app.wiring import App
from tidelore.core.errors import UserError
from tidelore.core.references import Kind, read_reference, sign_of
from tidelore.core.text import event_words, excerpt
from tidelore.core.words import decision_words
from tidelore.store.database.port import Database
from tidelore.store.reading.item_events import LinkedRow, find_numbered, read_events
from tidelore.store.reading.threads import ThreadFilter, find_threads, read_threads_page

DEFAULT_TOKENS = 2000
_QUOTED = 600
"""The longest quotation of a note, in characters."""
_MOST_MENTIONS = 30
_MENTION = re.compile(r"(?<![\w/&])((?:[\w.-]+/)*[\w.-]+)?([#!])(\d{1,9})\b|https?://[^\s<>()\"']+", re.ASCII)
_INSIDERS = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})


class ContextItem(Struct, frozen=True, kw_only=True):
    """The item itself."""

    reference: Annotated[str, means("its full reference")]
    type: Annotated[str, means("issue, mr or topic")]
    title: Annotated[str, means("its title", untrusted=True)]
    state: Annotated[str, means("its state")]
    author: Annotated[str | None, means("who wrote it")]
    labels: Annotated[tuple[str, ...], means("its labels", untrusted=True)]
    updated_at: Annotated[Instant, means("when it was last updated")]
    merged_by: Annotated[str | None, means("who merged it, or null")]
    target_branch: Annotated[str | None, means("the branch it goes to, or null", untrusted=True)]
    web_url: Annotated[str | None, means("its address")]
    description: Annotated[str | None, means("beginning of its description", untrusted=True)]
    truncated: Annotated[bool | None, means("true if the description was shortened, or null")] = None


class ContextNote(Struct, frozen=True, kw_only=True):
    """A note that was chosen because it decides something."""

    author: Annotated[str | None, means("who wrote it")]
    at: Annotated[Instant, means("when it was written")]
    place: Annotated[str | None, means("file and line it was written on, or null", untrusted=True)]
    why: Annotated[str, means("why it was chosen: answer, approved, changes requested, resolved, decides or newest")]
    body: Annotated[str, means("its text, or the beginning of it", untrusted=True)]
    truncated: Annotated[bool | None, means("true if the text was shortened, or null")] = None


class LinkedItem(Struct, frozen=True):
    """An item that this one closes, is closed by, or mentions."""

    relation: Annotated[str, means("closes, closed by, or mentions")]
    reference: Annotated[str, means("its full reference")]
    title: Annotated[str | None, means("its title, or null if it is not stored", untrusted=True)]
    state: Annotated[str | None, means("its state, or null if it is not stored")]


class ContextEvent(Struct, frozen=True):
    """A change of state, label or milestone."""

    at: Annotated[Instant, means("when it happened")]
    by: Annotated[str | None, means("who did it")]
    what: Annotated[str, means("what happened, such as closed or label add bug", untrusted=True)]


class LeftOut(Struct, frozen=True):
    """What did not fit into the budget."""

    what: Annotated[str, means("the part: notes, threads, linked, files or events")]
    count: Annotated[int, means("how many entries of it are missing")]
    call: Annotated[str, means("the command that shows them")]


class Context(Struct, frozen=True, kw_only=True):
    """The answer of `lore context`."""

    item: ContextItem
    notes: Annotated[list[ContextNote], means("decisive notes in the order in which they were written")]
    threads: Annotated[list[ListedThread], means("threads that are not resolved, the newest first")]
    linked: Annotated[list[LinkedItem], means("linked items")]
    files: Annotated[list[str], means("changed files", untrusted=True)]
    events: Annotated[list[ContextEvent], means("events, the oldest first")]
    left_out: Annotated[list[LeftOut], means("parts of which something did not fit")]
    fresh: Annotated[bool, means("whether the notes are up to date with this version of the item")]
    truncated: Annotated[bool, means("whether anything was shortened or did not fit")]


class ContextQuestion(Struct, frozen=True, kw_only=True):
    """The item and the budget."""

    reference: str
    project: str | None = None
    max_tokens: int = DEFAULT_TOKENS


class Material(NamedTuple):
    """Everything that could be said about an item, each part with the most important entries first."""

    item: ContextItem
    notes: list[ContextNote]
    threads: list[ListedThread]
    linked: list[LinkedItem]
    files: list[str]
    events: list[ContextEvent]
    is_fresh: bool


def read_context(app: App, question: ContextQuestion) -> Context:
    """Return what is known about an item, cut to the budget by rank."""
    meant = parse_any(question.reference)
    with app.reading() as database:
        found = find_thread(database, meant, question.project, app.config.default_project)
        if found.type == "post":
            raise UserError(
                "a post has no context of this kind",
                fix=f"use `lore show post '{question.reference}'`",
                reference=question.reference,
            )
        longest, lockdown = max(question.max_tokens, 200), find_lockdown(app, database)
        if found.type == "topic":
            material = _topic_material(database, found.id, longest, lockdown)
        else:
            material = item_material(database, ITEM_KINDS[found.type], found.id, longest, lockdown)
    return _fit(material, question.max_tokens)


def item_material(
    database: Database, kind: Kind, row_id: int, longest: int, lockdown: Lockdown | None = None
) -> Material:
    """Return everything that could be said about an issue or merge request; its description at most `longest`."""
    shown = read_item(database, kind, row_id, system=True, lockdown=lockdown)
    marks = find_threads(database, ThreadFilter(item=(kind, row_id), unresolved=True))
    read = read_threads_page(database, marks)
    threads = [listed_thread(mark, row if lockdown is None else lockdown.listed(row)) for mark, row in read]
    return Material(
        item=_item(shown, kind, longest),
        notes=_decisive(shown),
        threads=threads,
        linked=_linked(database, shown, lockdown),
        files=[file.new_path for file in shown.files] if isinstance(shown, ShownMergeRequest) else [],
        events=[
            ContextEvent(
                instant(event.created_at), event.actor, " ".join(_event_words(event.kind, event.action, event.subject))
            )
            for event in reversed(read_events(database, kind, row_id))
        ],
        is_fresh=shown.discussions_fresh,
    )


def _event_words(kind: str, what: str, subject: str | None) -> Iterable[str]:
    if kind == "state":
        return [what]
    if kind == "timeline":
        return [event_words(what), *([subject] if subject else ())]
    return [kind, what, subject or "(deleted)"]


def _item(shown: ShownIssue | ShownMergeRequest, kind: Kind, longest: int) -> ContextItem:
    description, is_cut = excerpt(shown.description or "", longest)
    request = shown if isinstance(shown, ShownMergeRequest) else None
    return copy_fields(
        ContextItem,
        shown,
        reference=shown.reference or f"{shown.project}{sign_of(kind, None)}{shown.iid}",
        type=kind,
        merged_by=None if request is None else request.merged_by,
        target_branch=None if request is None else request.target_branch,
        description=description or None,
        truncated=True if is_cut else None,
    )


def _topic_material(database: Database, row_id: int, longest: int, lockdown: Lockdown | None) -> Material:
    topic = read_shown_topic(database, row_id, lockdown)
    body, is_cut = excerpt(topic.body or "", longest)
    item = copy_fields(
        ContextItem,
        topic,
        type="topic",
        labels=(),
        merged_by=None,
        target_branch=None,
        description=body or None,
        truncated=True if is_cut else None,
    )
    ranked = [
        (_rank(comment.body, comment.association, "answer" if comment.answer else None), comment)
        for comment in topic.thread
        if comment.body
    ]
    newest = max((comment.created_at for _, comment in ranked), default=0)
    notes = [
        _context_note(comment.author, comment.created_at, None, why or "newest", comment.body)
        for (_, why), comment in sorted(ranked, key=lambda one: (one[0][0], one[1].created_at), reverse=True)
        if why or comment.created_at == newest
    ]
    texts = [topic.body or "", *(comment.body for comment in topic.thread)]
    linked = _mentioned(database, texts, topic.project, {topic.reference}, lockdown)
    return Material(item, notes, [], linked, [], [], is_fresh=True)


def _decisive(shown: ShownItem) -> list[ContextNote]:
    """Return the notes that decide something, the most decisive first, and the newest note."""
    ranked: list[tuple[int, int, ContextNote]] = []
    spoken = [note for thread in shown.discussions for note in thread.notes if not note.system]
    newest = max(spoken, key=lambda note: (note.created_at, note.id), default=None)
    for thread in shown.discussions:
        for note in thread.notes:
            if note.system:
                continue
            is_end = thread.resolved is True and note is _last_spoken(thread.notes)
            rank, why = _rank(note.body, note.association, _said_by_state(note) or ("resolved" if is_end else None))
            if note is newest:
                rank, why = max(rank, 2), why or "newest"
            if why is not None and note.body:
                made = _context_note(note.author, note.created_at, note.place, why, note.body)
                ranked.append((rank, note.created_at, made))
    return [made for _, _, made in sorted(ranked, key=lambda one: one[:2], reverse=True)]


def _last_spoken(notes: Sequence[ShownNote]) -> ShownNote | None:
    return next((note for note in reversed(notes) if not note.system), None)


def _said_by_state(note: ShownNote) -> str | None:
    return {"APPROVED": "approved", "CHANGES_REQUESTED": "changes requested"}.get(note.review_state or "")


def _rank(body: str, association: str | None, why: str | None) -> tuple[int, str | None]:
    """Return how decisive a text is, and why; None if it decides nothing."""
    decides = len(decision_words().findall(body[:4000]))
    rank = {"answer": 6, "changes requested": 4, "approved": 4, "resolved": 3}.get(why or "", 0)
    rank += min(decides, 3) * 2 + (1 if association in _INSIDERS else 0)
    if why is None and decides:
        why = "decides"
    return rank, why


def _context_note(author: str | None, at: int, place: str | None, why: str, body: str) -> ContextNote:
    text, is_cut = excerpt(body, _QUOTED)
    shortened = True if is_cut else None
    return ContextNote(author=author, at=Instant(at), place=place, why=why, body=text, truncated=shortened)


def _linked(database: Database, shown: ShownIssue | ShownMergeRequest, lockdown: Lockdown | None) -> list[LinkedItem]:
    found: list[LinkedItem] = []
    if isinstance(shown, ShownMergeRequest):
        found += [_closing(database, one.reference or one.key, one.title, lockdown) for one in shown.closes_issues]
    else:
        found += [LinkedItem("closed by", one.reference, one.title, one.state) for one in shown.closed_by]
    known = {shown.reference or "", *(one.reference for one in found)}
    bodies = [note.body for thread in shown.discussions for note in thread.notes]
    return [*found, *_mentioned(database, [shown.description or "", *bodies], shown.project, known, lockdown)]


def _closing(database: Database, reference: str, title: str | None, lockdown: Lockdown | None) -> LinkedItem:
    path, _, number = reference.rpartition("#")
    stored = find_numbered(database, path, int(number)) if number.isdecimal() and path else []
    issue = next((row for row in stored if row.kind == "issue"), None)
    if issue is None:
        return LinkedItem("closes", reference, title, None)
    return LinkedItem("closes", reference, _title(issue, lockdown), issue.state)


def _title(row: LinkedRow, lockdown: Lockdown | None) -> str:
    return row.title if lockdown is None else lockdown.title(row.project_id, row.author, row.association, row.title)


def _mentioned(
    database: Database, texts: Sequence[str], project: str, known: set[str], lockdown: Lockdown | None
) -> list[LinkedItem]:
    """Return the stored items that texts mention, in the order of their mention."""
    wanted: dict[tuple[str, str, int], None] = {}
    for text in texts:
        for match in _MENTION.finditer(text):
            named = _named(match, project)
            if named is not None and len(wanted) < _MOST_MENTIONS:
                wanted[named] = None
    found: dict[str, LinkedItem] = {}
    for path, sign, number in wanted:
        for row in find_numbered(database, path, number):
            reference = _reference_of(row)
            # On GitHub # names merge requests and topics too, which then are written with # as well.
            if reference not in known and reference not in found and (sign in reference or not sign):
                found[reference] = LinkedItem("mentions", reference, _title(row, lockdown), row.state)
    return list(found.values())


def _named(match: re.Match[str], project: str) -> tuple[str, str, int] | None:
    """Return the project, sign and number of a mention; the sign of a URL is empty."""
    if match[3]:
        return match[1] or project, match[2], int(match[3])
    found = read_reference(match[0].rstrip(".,;:!?"))
    if found is None or found[1].project is None:
        return None
    return found[1].project, "", found[1].iid


def _reference_of(row: LinkedRow) -> str:
    if row.references_full:
        return row.references_full
    sign = "#" if row.kind != "mr" else sign_of("mr", row.references_short)
    return f"{row.project}{sign}{row.iid}"


_SHARES = (("notes", 35), ("threads", 35), ("linked", 10), ("events", 6), ("files", 8))
"""The parts by rank, and the share of the budget in percent that each may use before the others had their turn."""


_LEAST_QUOTED = 60
"""How many characters of the description are kept in the smallest budget."""


def _fit(material: Material, max_tokens: int) -> Context:
    """Return what fits, at least the item with the beginning of its description; raise UserError if that does not."""

    def shortest() -> Context:
        text, is_cut = excerpt(material.item.description or "", _LEAST_QUOTED)
        item = replace(material.item, description=text or None, truncated=material.item.truncated or is_cut or None)
        return _fit_parts(material._replace(item=item), 0)

    return require_fit(_fit_parts(material, max_tokens), max_tokens, material.item.reference, shortest)


def _fit_parts(material: Material, max_tokens: int) -> Context:
    item = material.item
    room = max_tokens - ENVELOPE_TOKENS - answer_tokens(item) - 30
    taken = {name: 0 for name, _ in _SHARES}
    sizes = {name: [answer_tokens(entry) + 1 for entry in getattr(material, name)] for name, _ in _SHARES}
    # A line about what is missing is reserved for every part that has entries.
    room -= sum(25 for name in taken if sizes[name])
    for shares in (_SHARES, tuple((name, 100) for name, _ in _SHARES)):
        whole = room
        for name, share in shares:
            allowed = min(whole * share // 100, room)
            while taken[name] < len(sizes[name]) and sizes[name][taken[name]] <= allowed:
                allowed -= sizes[name][taken[name]]
                room -= sizes[name][taken[name]]
                taken[name] += 1
    chosen: dict[str, list[Any]] = {name: getattr(material, name)[:count] for name, count in taken.items()}
    missing = {name: len(sizes[name]) - count for name, count in taken.items()}
    left_out = [LeftOut(name, count, _call(name, item)) for name, count in missing.items() if count]
    is_short = any(entry.truncated for entry in (item, *chosen["notes"], *chosen["threads"]))
    return Context(
        item=item,
        notes=sorted(chosen["notes"], key=lambda note: note.at),
        threads=chosen["threads"],
        linked=chosen["linked"],
        files=chosen["files"],
        events=chosen["events"][::-1],
        left_out=left_out,
        fresh=material.is_fresh,
        truncated=bool(left_out or is_short),
    )


def _call(name: str, item: ContextItem) -> str:
    """Return the command that shows what is missing of a part."""
    if name == "threads":
        return f"lore threads '{item.reference}' --unresolved"
    if name == "events":
        return f"lore context '{item.reference}' --max-tokens 20000"
    fields = {"notes": "", "linked": " --fields closes_issues", "files": " --files --fields files"}[name]
    if name == "linked" and item.type != "mr":
        return f"lore context '{item.reference}' --max-tokens 20000"
    return f"lore show {item.type} '{item.reference}'{fields}"
