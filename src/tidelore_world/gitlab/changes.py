"""What can happen to projects, and what every edit of an item does.

Owns project mutations and the shared machinery of edits: labels, milestones, states, system notes. Every one
of them moves `updated_at`. Refuses to serve requests. Invariant: a mutation is complete when it returns;
rows, indexes, events and system notes agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from tidelore_world.gitlab.records import ProjectRef, Records
from tidelore_world.gitlab.shelf import Shelf
from tidelore_world.gitlab.state import (
    DRAFT_MARK,
    Discussion,
    Event,
    Issue,
    Item,
    Kind,
    MergeRequest,
    Note,
    Project,
    State,
    User,
)
from tidelore_world.prose import Person

Who = User | Person | str | None

PLAIN_FIELDS = frozenset({"upvotes", "downvotes", "discussion_locked"})


class Changes(Records):
    """Mutations of projects, and the machinery of edits."""

    def create_project(self, path: str, *, description: str = "", at_us: int | None = None) -> Project:
        """Make an empty project; the namespace is everything before the last slash."""
        at = self.now(at_us)
        project = Project(self.new_id(), path, at, description, Shelf(), Shelf(), last_activity_at_us=at)
        self.register(path, project)
        return project

    def rename_project(self, project: ProjectRef, path: str) -> Project:
        """Rename or move a project; its number stays, its old path redirects to the number."""
        found = self.project(project)
        self.retire(found.path, found)
        found.path = path
        self.register(path, found)
        for item in (*found.issues, *found.merge_requests):
            item.encoded = None
        return found

    def archive_project(self, project: ProjectRef, *, archived: bool = True) -> None:
        """Make a project read-only."""
        self.project(project).archived = archived

    def forbid_project(self, project: ProjectRef, *, forbidden: bool = True) -> None:
        """Take the caller's right to read a project: it answers 403."""
        self.project(project).forbidden = forbidden

    def switch_off(self, project: ProjectRef, kind: Kind, *, off: bool = True) -> None:
        """Hide the issues or the merge requests of a project from everybody, in its settings."""
        hidden = self.project(project).hidden
        (hidden.add if off else hidden.discard)(kind)

    def set_member(self, project: ProjectRef, who: Who, access_level: int | None) -> None:
        """Give an account an access level in a project; None takes it away."""
        members, username = self.project(project).members, self.user(who).username
        members.pop(username, None)
        if access_level is not None:
            members[username] = access_level

    def delete_project(self, project: ProjectRef) -> None:
        """Remove a project and everything in it."""
        del self.projects[self.project(project).id]

    def _dress(
        self, item: Item, labels: Iterable[str], milestone: str | None, assignees: Iterable[Who], at: int
    ) -> None:
        item.assignees = [self.user(who) for who in assignees]
        self._relabel(item, labels, item.author, at)
        self._set_milestone(item, milestone, item.author, at)

    def _edit(self, item: Item, fields: dict[str, Any], plain: frozenset[str], by: Who, at_us: int | None) -> None:
        at, editor = self.now(at_us), self.user(by)
        changes = fields or {"description": self.world.prose.revise(item.description or "")}
        for name, value in changes.items():
            if name == "labels":
                self._relabel(item, value, editor, at)
            elif name == "milestone":
                self._set_milestone(item, value, editor, at)
            elif name == "assignees":
                item.assignees = [self.user(who) for who in value]
                names = " and ".join(f"@{user.username}" for user in item.assignees)
                self._system_note(item, f"assigned to {names}" if names else "removed assignees", editor, at)
            elif name == "reviewers" and isinstance(item, MergeRequest):
                item.reviewers = [self.user(who) for who in value]
            elif name == "draft" and isinstance(item, MergeRequest):
                item.title = mark(item.title, draft=value)
            elif name == "title":
                self._system_note(item, f"changed title from **{item.title}** to **{value}**", editor, at)
                item.title = value
            elif name == "description":
                self._system_note(item, "changed the description", editor, at)
                item.description = value
            else:
                set_plain(item, {name: value}, plain)
        self.touch(item, at)

    def _set_state(self, item: Item, state: State, by: Who, at_us: int | None) -> None:
        at, actor = self.now(at_us), self.user(by)
        if isinstance(item, Issue):
            item.project.open_issues += (state == "opened") - (item.state == "opened")
            item.status = None
        item.state = state
        item.closed_at_us, item.closed_by = (at, actor) if state == "closed" else (None, None)
        if state != "locked":
            action = "reopened" if state == "opened" else state
            item.events.append(Event(self.new_id(), "state", actor, at, action))
        self.touch(item, at)

    def _relabel(self, item: Item, names: Iterable[str], by: User, at: int) -> None:
        wanted = [self.label(item.project, name) for name in dict.fromkeys(names)]
        steps: list[tuple[Literal["add", "remove"], list[Any]]] = [
            ("remove", [label for label in item.labels if label not in wanted]),
            ("add", [label for label in wanted if label not in item.labels]),
        ]
        for action, labels in steps:
            for label in labels:
                item.events.append(Event(self.new_id(), "label", by, at, action, label=label))
        item.labels = wanted

    def _set_milestone(self, item: Item, title: str | None, by: User, at: int) -> None:
        before = item.milestone
        item.milestone = None if title is None else self.milestone(item.project, title, at)
        if before is not item.milestone:
            action = "remove" if item.milestone is None else "add"
            shown = item.milestone or before
            item.events.append(Event(self.new_id(), "milestone", by, at, action, milestone=shown))

    def _system_note(self, item: Item, body: str, by: User, at: int) -> Note:
        note = Note(self.new_id(), by, body, at, at, system=True)
        item.discussions.append(Discussion(self.world.prose.sha(), individual_note=True, notes=[note]))
        return note


def set_plain(item: Item, fields: dict[str, Any], allowed: frozenset[str]) -> None:
    """Set fields that have no consequences; refuse any other name."""
    for name, value in fields.items():
        if name not in allowed:
            raise TypeError(f"{item.kind} have no field {name!r} that can be set")
        setattr(item, name, value)


def mark(title: str, *, draft: bool) -> str:
    """A title with or without the mark of a draft."""
    plain = title.removeprefix(DRAFT_MARK)
    return f"{DRAFT_MARK}{plain}" if draft else plain
