"""Leave out the text of people without write access (`--lockdown`), and count what was left out.

Whether a person is trusted comes from the copy alone: the association that GitHub sends with each text, or the members
of the project where the forge sends none. An author whose association is not stored is not trusted. Of an item by such
an author the title, the description, the branch and the file names are left out. Logins, labels, states, numbers and
addresses stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec.structs import replace

from tidelore.app.wiring import App
from tidelore.search.passages import best_passage, mark_words
from tidelore.search.results import ThreadResult, read_snippet
from tidelore.store.database.port import Database
from tidelore.store.reading.changes import ChangedRow, NewNote
from tidelore.store.reading.conversations import Conversation, MergeRequestRow, NoteRow, Thread
from tidelore.store.reading.found_documents import DocumentText, read_document_texts, read_titles_of
from tidelore.store.reading.fulltext import Term
from tidelore.store.reading.posts import PostDetails, PostRow
from tidelore.store.reading.threads import ThreadNote, ThreadRow
from tidelore.store.reading.topics import TopicCommentRow, TopicRow
from tidelore.store.work.project_members import OWNER_LEVEL, WRITER_LEVEL, access_levels

LEFT_OUT = "[left out]"
"""Stands for a title or a quotation that is left out."""
_NO_PLACE = {"position_old_path": None, "position_new_path": None, "position_old_line": None, "position_new_line": None}


class Lockdown:
    """Decides whose text is shown, and removes the rest from rows before they become an answer."""

    def __init__(self, database: Database, trusted: Collection[str], on_left_out: Callable[[int], None]) -> None:
        self._database = database
        self._trusted = frozenset(trusted)
        self._on_left_out = on_left_out
        self._levels: dict[int, Mapping[str, int]] = {}

    def trusts(self, project_id: int | None, author: str | None, association: str | None) -> bool:
        """Return whether an author counts as a person with write access; False if that is not stored."""
        if author is None or project_id is None:
            return False
        if association is not None:
            return association.upper() in self._trusted
        if project_id not in self._levels:
            self._levels[project_id] = access_levels(self._database, project_id)
        level = self._levels[project_id].get(author.casefold(), 0)
        found = {"MEMBER", "COLLABORATOR"} if level >= WRITER_LEVEL else set[str]()
        return not self._trusted.isdisjoint(found | ({"OWNER"} if level >= OWNER_LEVEL else set()))

    def keeps(self, project_id: int | None, author: str | None, association: str | None, texts: int = 1) -> bool:
        """Return whether to keep texts of an author; count them if not."""
        is_kept = self.trusts(project_id, author, association)
        if not is_kept:
            self._on_left_out(texts)
        return is_kept

    def conversation(self, talk: Conversation, *, system: bool = False) -> Conversation:
        """Return the conversation of an item with the texts of trusted people; `system`: with system notes."""
        parent, home = talk.parent, talk.project_id
        is_kept = self.keeps(home, parent.author_username, parent.author_association)
        if not is_kept:
            parent = replace(parent, title=LEFT_OUT, description=None)
            if isinstance(parent, MergeRequestRow):
                parent = replace(parent, source_branch=None)
        closed_by = tuple(
            row
            if self.keeps(row.project_id, row.author_username, row.author_association)
            else replace(row, title=LEFT_OUT)
            for row in talk.closed_by
        )
        # Who wrote the title of a closed issue is not stored with it.
        self._on_left_out(sum(1 for row in talk.closes if row.title))
        return replace(
            talk,
            parent=parent,
            threads=tuple(self._thread(thread, home, with_places=is_kept, system=system) for thread in talk.threads),
            closes=tuple(replace(row, title=None) for row in talk.closes),
            closed_by=closed_by,
            files=talk.files if is_kept else (),
        )

    def _thread(self, thread: Thread, project_id: int, *, with_places: bool, system: bool) -> Thread:
        spoken = [note for note in thread.notes if system or not note.is_system]
        notes = [note for note in spoken if self._keeps_note(project_id, note)]
        return replace(
            thread,
            notes=tuple(note if with_places or not note.is_placed else replace(note, **_NO_PLACE) for note in notes),
        )

    def _keeps_note(self, project_id: int, note: NoteRow) -> bool:
        return self.keeps(project_id, note.author_username, note.author_association, 1 if note.body else 0)

    def listed(self, row: ThreadRow) -> ThreadRow:
        """Return a thread of a list with the texts of trusted people."""
        notes = {"first": self._quoted(row.project_id, row.first)}
        notes["last"] = notes["first"] if row.last.id == row.first.id else self._quoted(row.project_id, row.last)
        if self.keeps(row.project_id, row.item_author, row.item_association):
            return replace(row, **notes)
        return replace(row, title=LEFT_OUT, **{name: replace(note, **_NO_PLACE) for name, note in notes.items()})

    def _quoted(self, project_id: int, note: ThreadNote) -> ThreadNote:
        is_kept = self.keeps(project_id, note.author_username, note.author_association)
        return note if is_kept else replace(note, body=LEFT_OUT)

    def changed(self, row: ChangedRow, notes: Sequence[NewNote]) -> tuple[ChangedRow, list[NewNote]]:
        """Return a changed item with the texts of trusted people, and its notes by them."""
        kept = [note for note in notes if self.keeps(row.project_id, note.author, note.association)]
        if self.keeps(row.project_id, row.author, row.association):
            return row, kept
        return replace(row, title=LEFT_OUT), [note._replace(path=None, line=None) for note in kept]

    def topic(self, row: TopicRow, comments: Sequence[TopicCommentRow]) -> tuple[TopicRow, list[TopicCommentRow]]:
        """Return a topic and its comments with the texts of trusted people."""
        kept = [one for one in comments if self.keeps(row.project_id, one.author, one.association)]
        if not self.keeps(row.project_id, row.author, row.association):
            row = replace(row, title=LEFT_OUT, body=None)
        return row, kept

    def post(self, view: PostDetails) -> PostDetails:
        """Return a post without its text and without the posts around it: nothing says whether authors are trusted."""
        self._on_left_out(1 + len(view.replies) + sum(1 for one in (view.parent, view.quoted) if one is not None))

        def bare(row: PostRow) -> PostRow:
            return replace(row, text=LEFT_OUT, alt_text="", labels="", tags="")

        return replace(view, post=bare(view.post), links=(), parent=None, quoted=None, replies=())

    def title(self, project_id: int | None, author: str | None, association: str | None, title: str) -> str:
        """Return a title, or what stands for it."""
        return title if self.keeps(project_id, author, association) else LEFT_OUT


def find_lockdown(app: App, database: Database) -> Lockdown | None:
    """Return what leaves text out, or None if everything is shown."""
    if not app.config.lockdown:
        return None
    app.on_left_out(0)
    return Lockdown(database, app.config.trusted_associations, app.on_left_out)


def trusted_results(
    app: App, database: Database, threads: Sequence[ThreadResult], terms: Sequence[Term] = ()
) -> list[ThreadResult]:
    """Return search results with titles and passages of trusted people; passages are chosen from their texts alone."""
    lockdown = find_lockdown(app, database)
    if lockdown is None:
        return list(threads)
    ids = [thread.document_id for thread in threads]
    titles, texts = read_titles_of(database, ids), read_document_texts(database, ids)

    def keeps(text: DocumentText | None) -> bool:
        return lockdown.keeps(
            *((None, None, None) if text is None else (text.project_id, text.author, text.association))
        )

    shown = []
    for thread in threads:
        title, parts = titles.get(thread.document_id), texts.get(thread.document_id, [])
        changes: dict[str, object] = {} if keeps(title) else {"title": LEFT_OUT}
        kept = [part for part in parts if keeps(part)]
        if len(kept) < len(parts) or not parts:
            said = "\f".join(f"@{part.author}: {part.body}" for part in kept)
            passage = read_snippet(best_passage(mark_words(said, terms)).text)
            changes |= {"snippet": passage.text, "highlights": passage.highlights}
        # The labels of a post are its author's words.
        shown.append(replace(thread, **changes, **({"labels": ()} if title is None else {})))
    return shown
