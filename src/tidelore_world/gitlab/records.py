"""The instance's registry: who exists, which projects exist, and how a row is found, touched or forgotten.

Owns identifiers, users, projects and the two ways `updated_at` can move: `touch` (an edit) and
`touch_by_note` (GitLab's throttled touch). Refuses to know routes and payloads. Invariant: ids are unique
and increase over the whole instance, and every change of a row drops its cached bytes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol

from tidelore_world.clock import MINUTE_US, WorldClock
from tidelore_world.gitlab.shelf import Shelf
from tidelore_world.gitlab.state import Issue, Item, Kind, Label, MergeRequest, Milestone, Project, User
from tidelore_world.installed_hooks import InstalledHooks
from tidelore_world.prose import Person, Prose

TOUCH_INTERVAL_US = MINUTE_US
LABEL_COLORS = ("#1f75cb", "#108548", "#ab6100", "#dd2b0e", "#7b58cf", "#737278")

ProjectRef = Project | str | int


class Surroundings(Protocol):
    """What a forge takes from its world."""

    rng: random.Random
    clock: WorldClock

    @property
    def prose(self) -> Prose:
        """The world's texts."""


class NotHere(LookupError):
    """The instance has no such project, item or note."""


class Records:
    """Rows and how to reach them."""

    def __init__(self, world: Surroundings) -> None:
        self.world = world
        self.projects: dict[int, Project] = {}
        self.groups: set[str] = set()
        self._by_path: dict[str, int] = {}
        self._old_paths: dict[str, int] = {}
        self._users: dict[str, User] = {}
        self._last_id = 4_100
        self.hooks = InstalledHooks()
        self.on_event: Callable[[str, Item], None] | None = None
        """Told of what a webhook reports: `note`, `push` (to a merge request), or `item` for any other change of it."""

    def new_id(self) -> int:
        """The next identifier of this instance."""
        self._last_id += 1
        return self._last_id

    def now(self, at_us: int | None) -> int:
        """The given instant, or the world's."""
        return self.world.clock.now_us if at_us is None else at_us

    def project(self, ref: ProjectRef) -> Project:
        """Find a project by itself, its number or its present path."""
        if isinstance(ref, Project):
            return ref
        number = ref if isinstance(ref, int) else self._by_path.get(ref, -1)
        if number not in self.projects:
            raise NotHere(f"no project {ref!r}")
        return self.projects[number]

    def moved_from(self, path: str) -> Project | None:
        """The project that once had this path, if nobody took it since."""
        number = self._old_paths.get(path)
        return None if number is None else self.projects.get(number)

    def issue(self, project: ProjectRef, iid: int) -> Issue:
        """Find an issue."""
        found = self.project(project).issues.by_iid.get(iid)
        if found is None:
            raise NotHere(f"no issue #{iid} in {project!r}")
        return found

    def merge_request(self, project: ProjectRef, iid: int) -> MergeRequest:
        """Find a merge request."""
        found = self.project(project).merge_requests.by_iid.get(iid)
        if found is None:
            raise NotHere(f"no merge request !{iid} in {project!r}")
        return found

    def item(self, kind: Kind, project: ProjectRef, iid: int) -> Item:
        """Find an item of either kind."""
        return self.issue(project, iid) if kind == "issues" else self.merge_request(project, iid)

    def user(self, who: User | Person | str | None = None) -> User:
        """The account of a person; somebody of the cast when nobody is named."""
        if isinstance(who, User):
            return who
        if who is None:
            who = self.world.rng.choice(self.world.prose.people)
        username = who if isinstance(who, str) else who.username
        if username not in self._users:
            names = {person.username: person.name for person in self.world.prose.people}
            name = names.get(username, username.replace(".", " ").replace("-", " ").title())
            self._users[username] = User(self.new_id(), username, name)
        return self._users[username]

    def label(self, project: Project, name: str) -> Label:
        """The project's label of that name, made on first use."""
        if name not in project.labels:
            color = LABEL_COLORS[len(project.labels) % len(LABEL_COLORS)]
            project.labels[name] = Label(self.new_id(), name, color)
        return project.labels[name]

    def milestone(self, project: Project, title: str, at_us: int) -> Milestone:
        """The project's milestone of that title, made on first use."""
        if title not in project.milestones:
            iid = len(project.milestones) + 1
            project.milestones[title] = Milestone(self.new_id(), iid, title, at_us)
        return project.milestones[title]

    def touch(self, item: Item, at_us: int, event: str = "item") -> None:
        """Move `updated_at`, as every edit of the item itself does."""
        shelf_of(item).move(item, at_us)
        item.encoded = None
        item.project.last_activity_at_us = max(item.project.last_activity_at_us, at_us)
        self.report(event, item)

    def touch_by_note(self, item: Item, at_us: int) -> None:
        """Move `updated_at` only if it is more than a minute old; the note count changes either way."""
        if at_us - item.updated_at_us > TOUCH_INTERVAL_US:
            self.touch(item, at_us, "note")
        else:
            self.forget_bytes(item)
            self.report("note", item)

    def report(self, event: str, item: Item) -> None:
        """Tell the sender of webhooks, if there is one."""
        if self.on_event is not None:
            self.on_event(event, item)

    def forget_bytes(self, item: Item) -> None:
        """Drop cached bytes after a change that leaves `updated_at` alone."""
        item.encoded = None
        shelf_of(item).changed()

    def register(self, path: str, project: Project) -> None:
        """Make a project answer to a path, and to no other."""
        self._by_path = {known: number for known, number in self._by_path.items() if number != project.id}
        self._by_path[path] = project.id
        self._old_paths.pop(path, None)
        self.projects[project.id] = project
        self.found_group(path.rpartition("/")[0])

    def found_group(self, path: str) -> None:
        """Make a group and the groups around it exist; a group outlives its last project."""
        while path:
            self.groups.add(path)
            path = path.rpartition("/")[0]

    def retire(self, path: str, project: Project) -> None:
        """Remember a path a project had, so that it redirects."""
        self._old_paths[path] = project.id


def shelf_of(item: Item) -> Shelf[Any]:
    """The shelf an item stands on."""
    return item.project.shelf(item.kind)
