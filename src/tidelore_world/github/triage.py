"""How people put the simulated GitHub in order: labels, assignees, milestones, locks, drafts, review requests.

Owns their effect on rows, `updated_at` and the timeline, and the switches of a whole repository. Refuses to know
requests. Invariant: an action that changes nothing leaves no event and moves no instant.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

from tidelore_world.clock import SECOND_US
from tidelore_world.github.hosting import Hosting
from tidelore_world.github.records import Milestone, Thread, User
from tidelore_world.github.repository import Repository

LockReason = Literal["off-topic", "too heated", "resolved", "spam"]


class Triage(Hosting):
    """What maintainers do to issues, pull requests and repositories."""

    def label(self, full_name: str, number: int, *names: str, actor: str = "octo", at_us: int | None = None) -> Thread:
        """Add labels."""
        thread = self.repository(full_name).thread(number)
        labels = (*thread.labels, *(name for name in names if name not in thread.labels))
        return self._relabel(full_name, thread, labels, actor, at_us)

    def unlabel(
        self, full_name: str, number: int, *names: str, actor: str = "octo", at_us: int | None = None
    ) -> Thread:
        """Take labels away."""
        thread = self.repository(full_name).thread(number)
        labels = tuple(name for name in thread.labels if name not in names)
        return self._relabel(full_name, thread, labels, actor, at_us)

    def assign(
        self, full_name: str, number: int, *logins: str, actor: str = "octo", at_us: int | None = None
    ) -> Thread:
        """Assign a thread to people."""
        thread = self.repository(full_name).thread(number)
        new = [who for who in map(self.hub.user, logins) if who not in thread.assignees]
        events = [("assigned", {"assignee": who}) for who in new]
        return self._change(full_name, thread, events, actor, at_us, assignees=(*thread.assignees, *new))

    def unassign(
        self, full_name: str, number: int, *logins: str, actor: str = "octo", at_us: int | None = None
    ) -> Thread:
        """Take a thread away from people."""
        thread = self.repository(full_name).thread(number)
        gone = [who for who in map(self.hub.user, logins) if who in thread.assignees]
        events = [("unassigned", {"assignee": who}) for who in gone]
        left = tuple(who for who in thread.assignees if who not in gone)
        return self._change(full_name, thread, events, actor, at_us, assignees=left)

    def rename_label(self, full_name: str, old: str, new: str) -> None:
        """Rename a label: every thread that has it shows that, no thread moves, and no timeline tells of it."""
        repo = self.repository(full_name)
        for thread in list(repo.threads):
            if old in thread.labels:
                labels = tuple(new if name == old else name for name in thread.labels)
                repo.put_thread(replace(thread, labels=labels))

    def create_milestone(
        self,
        full_name: str,
        title: str,
        description: str = "",
        creator: str = "octo",
        *,
        due_us: int | None = None,
        at_us: int | None = None,
    ) -> Milestone:
        """Create a milestone."""
        repo, at_s = self.repository(full_name), self._second(at_us)
        due_s = None if due_us is None else due_us // SECOND_US
        number = len(repo.milestones) + 1
        made = Milestone(self.hub.new_id(), number, title, self.hub.user(creator), at_s, at_s, description, due_s=due_s)
        repo.milestones[number] = made
        return made

    def edit_milestone(
        self,
        full_name: str,
        number: int,
        *,
        title: str | None = None,
        state: Literal["open", "closed"] | None = None,
        at_us: int | None = None,
    ) -> Milestone:
        """Rename, close or reopen a milestone: every thread of it shows that, and none of them moves."""
        repo, at_s = self.repository(full_name), self._second(at_us)
        old = repo.milestones[number]
        shown = state or old.state
        edited = replace(
            old,
            title=old.title if title is None else title,
            state=shown,
            closed_s=(old.closed_s or at_s) if shown == "closed" else None,
            updated_s=at_s,
        )
        repo.milestones[number] = edited
        for thread in list(repo.threads):
            if thread.milestone is not None and thread.milestone.number == number:
                repo.put_thread(replace(thread, milestone=edited))
        return edited

    def set_milestone(
        self, full_name: str, number: int, milestone: int | None, *, actor: str = "octo", at_us: int | None = None
    ) -> Thread:
        """Put a thread into a milestone, by the milestone's number, or take it out of its milestone."""
        repo = self.repository(full_name)
        thread = repo.thread(number)
        wanted = None if milestone is None else repo.milestones[milestone]
        events: list[tuple[str, dict[str, Any]]] = []
        if thread.milestone is not None and thread.milestone != wanted:
            events.append(("demilestoned", {"milestone": thread.milestone.title}))
        if wanted is not None and thread.milestone != wanted:
            events.append(("milestoned", {"milestone": wanted.title}))
        return self._change(full_name, thread, events, actor, at_us, milestone=wanted)

    def lock(
        self,
        full_name: str,
        number: int,
        reason: LockReason | None = None,
        *,
        actor: str = "octo",
        at_us: int | None = None,
    ) -> Thread:
        """Lock a conversation."""
        thread = self.repository(full_name).thread(number)
        events = [] if thread.locked else [("locked", {"lock_reason": reason})]
        return self._change(full_name, thread, events, actor, at_us, locked=True, lock_reason=reason)

    def unlock(self, full_name: str, number: int, *, actor: str = "octo", at_us: int | None = None) -> Thread:
        """Open a locked conversation again."""
        thread = self.repository(full_name).thread(number)
        events: list[tuple[str, dict[str, Any]]] = [("unlocked", {})] if thread.locked else []
        return self._change(full_name, thread, events, actor, at_us, locked=False, lock_reason=None)

    def convert_to_draft(
        self, full_name: str, number: int, *, actor: str | None = None, at_us: int | None = None
    ) -> Thread:
        """Turn a pull request into a draft."""
        return self._set_draft(full_name, number, "convert_to_draft", actor, at_us, draft=True)

    def ready_for_review(
        self, full_name: str, number: int, *, actor: str | None = None, at_us: int | None = None
    ) -> Thread:
        """Declare a draft ready."""
        return self._set_draft(full_name, number, "ready_for_review", actor, at_us, draft=False)

    def request_review(
        self,
        full_name: str,
        number: int,
        *logins: str,
        teams: Iterable[str] = (),
        actor: str | None = None,
        at_us: int | None = None,
    ) -> Thread:
        """Ask people, or teams by their slugs, for a review."""
        thread = self.repository(full_name).thread(number)
        pull = thread.require_pull()
        people = [who for who in map(self.hub.user, logins) if who not in pull.requested_reviewers]
        new_teams = [slug for slug in teams if slug not in pull.requested_teams]
        events: list[tuple[str, dict[str, Any]]] = [("review_requested", {"reviewer": who}) for who in people]
        events += [("review_requested", {"team": slug}) for slug in new_teams]
        changed = replace(
            pull,
            requested_reviewers=(*pull.requested_reviewers, *people),
            requested_teams=(*pull.requested_teams, *new_teams),
        )
        return self._change(full_name, thread, events, actor or thread.author.login, at_us, pull=changed)

    def cancel_review_request(
        self, full_name: str, number: int, *logins: str, actor: str | None = None, at_us: int | None = None
    ) -> Thread:
        """Take the request for a review back."""
        thread = self.repository(full_name).thread(number)
        pull = thread.require_pull()
        gone = [who for who in map(self.hub.user, logins) if who in pull.requested_reviewers]
        left = tuple(who for who in pull.requested_reviewers if who not in gone)
        events = [("review_request_removed", {"reviewer": who}) for who in gone]
        changed = replace(pull, requested_reviewers=left)
        return self._change(full_name, thread, events, actor or thread.author.login, at_us, pull=changed)

    def link_issue(self, full_name: str, pull: int, issue: int, *, actor: str = "octo") -> None:
        """Link an issue to a pull request by hand; merging closes it, and neither of the two moves."""
        repo, at_s, who = self.repository(full_name), self._second(None), self.hub.user(actor)
        thread = repo.thread(pull)
        repo.put_thread(replace(thread, linked_issues=(*thread.linked_issues, issue)))
        self._record(repo, pull, "connected", who, at_s)
        self._record(repo, issue, "connected", who, at_s)

    def transfer_issue(self, full_name: str, number: int, to: str, *, actor: str = "octo") -> Thread:
        """Move an issue with its comments to another repository; its old address leads there."""
        source, target, at_s = self.repository(full_name), self.repository(to), self._second(None)
        thread = source.thread(number)
        if thread.pull is not None:
            raise ValueError("a pull request cannot be transferred")
        comments = list(source.comments.of(number))
        new_number = target.next_number
        target.next_number += 1
        moved = replace(
            thread, id=self.hub.new_id(), number=new_number, milestone=None, labels=(), assignees=(), updated_s=at_s
        )
        target.put_thread(moved)
        source.remove_thread(number)
        source.deleted_numbers.discard(number)
        source.transferred[number] = (target.id, new_number)
        source.report("issues", "transferred", number)
        for row in comments:
            target.comments.put(replace(row, id=self.hub.new_id("comment"), number=new_number))
        target.count(new_number, None)
        self._record(target, new_number, "transferred", self.hub.user(actor), at_s)
        return target.thread(new_number)

    def react(self, full_name: str, number: int, content: str = "+1", count: int = 1) -> Thread:
        """React to an issue or pull request; a reaction moves no `updated_at`."""
        repo = self.repository(full_name)
        thread = repo.thread(number)
        counts = dict(thread.reactions)
        counts[content] = counts.get(content, 0) + count
        changed = replace(thread, reactions=tuple(counts.items()))
        repo.put_thread(changed)
        return changed

    def archive_repo(self, full_name: str, *, archived: bool = True) -> None:
        """Archive a repository: it can be read, and nothing can be written to it."""
        self.repository(full_name).archived = archived

    def switch_issues(self, full_name: str, *, on: bool) -> None:
        """Switch the Issues of a repository on or off; they are hidden, not lost."""
        self.repository(full_name).has_issues = on

    def switch_discussions(self, full_name: str, *, on: bool) -> None:
        """Switch the Discussions of a repository on or off; they are hidden, not lost."""
        self.repository(full_name).has_discussions = on

    def make_private(self, full_name: str, *readers: str) -> None:
        """Hide a repository from everybody but these logins: to others it answers 404."""
        repo = self.repository(full_name)
        repo.private, repo.readers = True, {login.lower() for login in readers}

    def make_public(self, full_name: str) -> None:
        """Show a repository to everybody again."""
        repo = self.repository(full_name)
        repo.private, repo.readers = False, None

    def delete_fork(self, full_name: str, number: int) -> None:
        """Delete the copy a pull request's branch is in: its head has no repository any more."""
        repo = self.repository(full_name)
        thread = repo.thread(number)
        repo.put_thread(thread.with_pull(thread.updated_s, fork_deleted=True))

    def _relabel(
        self, full_name: str, thread: Thread, labels: tuple[str, ...], actor: str, at_us: int | None
    ) -> Thread:
        if labels == thread.labels:
            return thread
        return self.edit_thread(full_name, thread.number, labels=labels, actor=actor, at_us=at_us)

    def _set_draft(
        self, full_name: str, number: int, event: str, actor: str | None, at_us: int | None, *, draft: bool
    ) -> Thread:
        thread = self.repository(full_name).thread(number)
        pull = thread.require_pull()
        events: list[tuple[str, dict[str, Any]]] = [] if pull.draft == draft else [(event, {})]
        changed = replace(pull, draft=draft)
        return self._change(full_name, thread, events, actor or thread.author.login, at_us, pull=changed)

    def _change(
        self,
        full_name: str,
        thread: Thread,
        events: Iterable[tuple[str, dict[str, Any]]],
        actor: str,
        at_us: int | None,
        **changes: Any,
    ) -> Thread:
        """Change a thread, move its `updated_at` and record the events; without events nothing happens."""
        events = list(events)
        if not events:
            return thread
        repo, at_s, who = self.repository(full_name), self._second(at_us), self.hub.user(actor)
        changed = replace(thread, updated_s=at_s, **changes)
        repo.put_thread(changed)
        self._record_all(repo, thread.number, events, who, at_s)
        return changed

    def _record_all(
        self, repo: Repository, number: int, events: Iterable[tuple[str, dict[str, Any]]], who: User, at_s: int
    ) -> None:
        for kind, details in events:
            self._record(repo, number, kind, who, at_s, **details)
