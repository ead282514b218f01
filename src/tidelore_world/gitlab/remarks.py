"""What can happen in the conversation under an item: notes added, edited, deleted, threads resolved.

Owns GitLab's silent spots. Adding or editing a note moves the parent's `updated_at` only by the throttled
touch; deleting a note or resolving a thread never moves it. Refuses to serve requests. Invariant:
`user_notes_count` is the number of notes people wrote, whatever `updated_at` says.
"""

from __future__ import annotations

from tidelore_world.gitlab.changes import Who
from tidelore_world.gitlab.merge_requests import MergeRequests
from tidelore_world.gitlab.records import NotHere
from tidelore_world.gitlab.state import Discussion, Item, MergeRequest, Note, Position


class Remarks(MergeRequests):
    """Mutations of discussions and notes."""

    def add_note(
        self,
        parent: Item,
        body: str | None = None,
        *,
        discussion: Discussion | str | None = None,
        thread: bool = False,
        position: Position | None = None,
        author: Who = None,
        system: bool = False,
        internal: bool = False,
        at_us: int | None = None,
    ) -> Note:
        """Write a note: a plain comment, the start of a thread, a remark on a diff, or a reply."""
        at = self.now(at_us)
        home = self.discussion(parent, discussion) if discussion is not None else None
        if home is None:
            home = Discussion(self.world.prose.sha(), individual_note=not (thread or position))
            parent.discussions.append(home)
        note = Note(self.new_id(), self.user(author), self._body(parent, body), at, at, system=system)
        note.position = home.notes[0].position if home.notes else position
        # A reply in an internal thread is internal, whatever was asked for.
        note.internal = home.notes[0].internal if home.notes else internal
        was_resolved = _is_resolved(home)
        home.notes.append(note)
        _settle_types(home, parent)
        if was_resolved and note.resolvable:
            # A reply in a resolved thread is resolved by its author (Notes::BuildService of GitLab).
            note.resolved_by, note.resolved_at_us = note.author, at
        parent.user_notes_count += not system
        self.touch_by_note(parent, at)
        return note

    def edit_note(self, parent: Item, note: Note | int, body: str | None = None, *, at_us: int | None = None) -> Note:
        """Change a note's text; the note's own `updated_at` always moves, the parent's only if it is old."""
        found, at = self.note(parent, note)[1], self.now(at_us)
        found.body = self.world.prose.revise(found.body) if body is None else body
        found.updated_at_us = at
        self.touch_by_note(parent, at)
        return found

    def delete_note(self, parent: Item, note: Note | int) -> None:
        """Delete a note; an emptied thread goes with it, the parent's `updated_at` stays."""
        home, found = self.note(parent, note)
        home.notes.remove(found)
        if not home.notes:
            parent.discussions.remove(home)
        parent.user_notes_count -= not found.system
        self.forget_bytes(parent)

    def resolve(
        self,
        parent: MergeRequest,
        discussion: Discussion | str,
        *,
        resolved: bool = True,
        by: Who = None,
        at_us: int | None = None,
    ) -> Discussion:
        """Resolve or reopen a thread; neither its notes nor the merge request get a new `updated_at`."""
        home = self.discussion(parent, discussion)
        actor, at = self.user(by), self.now(at_us)
        for note in home.notes:
            # As the real service: only notes that are not in that state yet are changed.
            if note.resolvable and resolved != (note.resolved_at_us is not None):
                note.resolved_by, note.resolved_at_us = (actor, at) if resolved else (None, None)
        self.forget_bytes(parent)
        return home

    def discussion(self, parent: Item, discussion: Discussion | str) -> Discussion:
        """Find a thread by itself or its id."""
        for candidate in parent.discussions:
            if candidate is discussion or candidate.id == discussion:
                return candidate
        raise NotHere(f"no such discussion under {parent.kind} {parent.iid}")

    def note(self, parent: Item, note: Note | int) -> tuple[Discussion, Note]:
        """Find a note and its thread."""
        for home in parent.discussions:
            for candidate in home.notes:
                if candidate is note or candidate.id == note:
                    return home, candidate
        raise NotHere(f"no such note under {parent.kind} {parent.iid}")

    def _body(self, parent: Item, body: str | None) -> str:
        if body is not None:
            return body
        prose = self.world.prose
        return prose.comment(parent.topic or prose.topic()).body


def _is_resolved(home: Discussion) -> bool:
    states = [note.resolved_at_us is not None for note in home.notes if note.resolvable]
    return bool(states) and all(states)


def _settle_types(home: Discussion, parent: Item) -> None:
    """A reply turns a plain comment into a thread; threads on merge requests can be resolved."""
    if home.individual_note and len(home.notes) == 1:
        return
    home.individual_note = False
    for note in home.notes:
        note.type = "DiffNote" if note.position is not None else "DiscussionNote"
        note.resolvable = isinstance(parent, MergeRequest) and not note.system
