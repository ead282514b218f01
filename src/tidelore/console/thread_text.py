"""A thread as it is read on screen. Owns the layout of conversations and posts; pure.

Whatever others wrote is made harmless first: nothing in it steers the terminal.
"""

from __future__ import annotations

from rich.text import Text

from tidelore.console.words import fields, moment, remote
from tidelore.core.text import harmless
from tidelore.search.results import ThreadResult
from tidelore.store.reading.conversations import Conversation, MergeRequestRow, NoteRow, Thread, place
from tidelore.store.reading.posts import PostDetails, PostRow

_STEP = "    "


def thread_text(thread: Conversation | PostDetails, columns: int = 0, *, titled: bool = True) -> Text:
    """Return a whole thread, for so many columns; without its title where that has been told."""
    return _conversation(thread, columns, titled) if isinstance(thread, Conversation) else _post(thread, columns)


def result_text(found: ThreadResult) -> Text:
    """Return why a thread was found: its best place, with the hits marked."""
    text = Text()
    text.append(f"{found.reference}\n", "bold")
    text.append(f"{remote(found.title)}\n\n")
    seen = 0
    # Piece by piece: what is taken out of it would shift the places of the hits.
    for begin, end in found.highlights:
        text.append(harmless(found.snippet[seen:begin]))
        text.append(harmless(found.snippet[begin:end]), "bold reverse")
        seen = end
    text.append(harmless(found.snippet[seen:]))
    more = f" and {found.further:,} more places" if found.further else ""
    text.append(f"\n\nin {_kind(found.found_in)}{more}\n", "dim")
    return text


def _conversation(talk: Conversation, columns: int, titled: bool) -> Text:  # noqa: FBT001
    parent = talk.parent
    is_merge = isinstance(parent, MergeRequestRow)
    sign = "!" if is_merge else "#"
    text = Text()
    if titled:
        text.append(f"{talk.project}{sign}{parent.iid}  {remote(parent.title)}\n\n", "bold")
    facts: list[tuple[str, str | None]] = [
        ("State", parent.state if parent.deleted_at is None else f"{parent.state}, deleted"),
        ("Author", _person(parent.author_username)),
        ("Assignees", ", ".join(map(_person, talk.assignees))),
        ("Reviewers", ", ".join(map(_person, talk.reviewers))),
        ("Labels", remote(", ".join(talk.labels))),
        ("Milestone", remote(parent.milestone_title)),
        ("Created", moment(parent.created_at)),
        ("Updated", moment(parent.updated_at)),
        ("Page", remote(parent.web_url)),
    ]
    if isinstance(parent, MergeRequestRow):
        facts.insert(1, ("Branch", remote(f"{parent.source_branch} → {parent.target_branch}")))
        facts.append(("Files", f"{len(talk.files):,} changed" if talk.files else None))
    text.append_text(fields(facts, columns))
    text.append(f"\n{harmless(parent.description or '(no description)').strip()}\n")
    spoken = [thread for thread in talk.threads if any(not note.is_system for note in thread.notes)]
    text.append(f"\n{len(spoken):,} discussions\n", "bold")
    if not parent.discussions_read:
        text.append("not fetched yet\n", "dim")
    for thread in spoken:
        text.append("\n")
        text.append_text(_discussion(thread))
    return text


def _discussion(thread: Thread) -> Text:
    text = Text()
    notes = [note for note in thread.notes if not note.is_system]
    for at, note in enumerate(notes):
        text.append_text(_note(note, _STEP if at else "", resolved=bool(thread.resolved) and not at))
    return text


def _note(note: NoteRow, indent: str, *, resolved: bool) -> Text:
    text = Text(indent)
    text.append(_person(note.author_username), "bold")
    text.append(f"  {moment(note.created_at)[:16]}", "dim")
    if note.is_internal:
        text.append("  [internal]", "bold")
    where = place(note)
    if where and not indent:
        text.append(f"  {remote(where)}", "italic")
    if resolved:
        text.append("  ✔ resolved", "bold")
    body = "\n".join(f"{indent}{line}" for line in harmless(note.body).strip().split("\n"))
    text.append(f"\n{body}\n")
    return text


def _post(view: PostDetails, columns: int) -> Text:
    post = view.post
    text = Text()
    text.append(f"{post.kind.capitalize()} by @{remote(post.author)}\n\n", "bold")
    text.append_text(
        fields(
            [
                ("Address", post.uri),
                ("Page", remote(post.url)),
                ("Written", moment(post.created_at)),
                ("Edited", moment(post.edited_at)),
                ("Deleted", moment(post.deleted_at)),
                ("Answers", _named(view.parent, post.reply_parent)),
                ("Quotes", _named(view.quoted, post.quoted_uri)),
                ("Reposts", ", ".join(f"@{remote(name)}" for name in view.reposters)),
                ("Labels", remote(post.labels)),
                ("Tags", remote(post.tags)),
            ],
            columns,
        )
    )
    text.append(f"\n{harmless(post.text or '(no text)')}\n")
    if post.alt_text:
        text.append(f"\n{harmless(post.alt_text)}\n", "italic")
    for link in view.links:
        text.append(f"\n→ {remote(link.url, 300)}  {remote(link.title) if link.title else ''}")
    if view.replies_total:
        text.append(f"\n\n{view.replies_total:,} replies\n", "bold")
    for reply in view.replies:
        text.append(f"\n@{remote(reply.author)}", "bold")
        text.append(f"  {moment(reply.created_at)[:16]}\n", "dim")
        text.append(f"{harmless(reply.text)}\n")
    return text


def _named(row: PostRow | None, uri: str | None) -> str | None:
    return uri if row is None else f"@{remote(row.author)}: {remote(row.text, 120)}"


def _person(username: str | None) -> str:
    return f"@{remote(username)}" if username else "unknown"


def _kind(found_in: str) -> str:
    return {"mr": "the merge request", "issue": "the issue", "discussion": "a discussion"}.get(
        found_in, f"a {found_in}"
    )
