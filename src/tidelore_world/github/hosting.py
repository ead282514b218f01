"""What happens to repositories and threads of the simulated GitHub: open, edit, push, close, merge.

Owns the effect of each event on rows, commits and `updated_at`. Refuses to know requests or what people say.
Invariant: every instant is the world's present unless `at_us` names another.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from tidelore_world.clock import SECOND_US, WorldClock
from tidelore_world.github.hub import Hub
from tidelore_world.github.records import Pull, Thread, UserKind
from tidelore_world.github.repository import Repository


class Hosting:
    """The events of repositories and threads. Repositories are named `owner/name`, people by login."""

    def __init__(self, hub: Hub, clock: WorldClock, rng: random.Random) -> None:
        self.hub = hub
        self._clock = clock
        self._rng = rng

    def repository(self, full_name: str) -> Repository:
        """The repository of this name; LookupError when there is none."""
        repo = self.hub.named(full_name)
        if repo is None:
            raise LookupError(f"no repository {full_name}")
        return repo

    def create_repo(
        self,
        full_name: str,
        *,
        description: str = "",
        owner_kind: UserKind = "Organization",
        private: bool = False,
        at_us: int | None = None,
    ) -> Repository:
        """Create a repository with one commit on its default branch."""
        at_s = self._second(at_us)
        login, _, name = full_name.partition("/")
        owner = self.hub.user(login, owner_kind)
        repo = Repository(self.hub.new_id(), name, owner, at_s, at_s, at_s, description, private)
        self.hub.add(repo)
        first = repo.graph.commit(self._sha(), (), "Initial commit", owner, at_s)
        repo.graph.branches[repo.default_branch] = first.sha
        return repo

    def rename_repo(self, full_name: str, new_full_name: str) -> None:
        """Rename or transfer a repository; the old name redirects."""
        self.hub.rename(self.repository(full_name), new_full_name)

    def create_issue(
        self,
        full_name: str,
        title: str = "An issue",
        body: str = "",
        author: str = "octo",
        *,
        labels: Sequence[str] = (),
        at_us: int | None = None,
    ) -> Thread:
        """Open an issue."""
        return self._open(self.repository(full_name), title, body, author, labels, self._second(at_us), None)

    def create_pull(
        self,
        full_name: str,
        title: str = "A change",
        body: str = "",
        author: str = "octo",
        *,
        branch: str | None = None,
        labels: Sequence[str] = (),
        draft: bool = False,
        at_us: int | None = None,
    ) -> Thread:
        """Open a pull request from a new branch with one commit on the default branch."""
        repo, at_s = self.repository(full_name), self._second(at_us)
        base_sha = repo.graph.branches[repo.default_branch]
        ref = branch or f"change-{repo.next_number}"
        head = repo.graph.commit(self._sha(), (base_sha,), title, self.hub.user(author), at_s)
        repo.graph.branches[ref] = head.sha
        repo.pushed_s = max(repo.pushed_s, at_s)
        pull = Pull(self.hub.new_id(), ref, head.sha, repo.default_branch, base_sha, draft)
        return self._open(repo, title, body, author, labels, at_s, pull)

    def edit_thread(
        self,
        full_name: str,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        labels: Sequence[str] | None = None,
        at_us: int | None = None,
    ) -> Thread:
        """Edit an issue or pull request."""
        repo = self.repository(full_name)
        thread = repo.thread(number)
        edited = replace(
            thread,
            title=thread.title if title is None else title,
            body=thread.body if body is None else body,
            labels=thread.labels if labels is None else tuple(labels),
            updated_s=self._second(at_us),
        )
        repo.put_thread(edited)
        return edited

    def delete_issue(self, full_name: str, number: int) -> None:
        """Delete a thread with everything in it; its address answers 410 from then on."""
        self.repository(full_name).remove_thread(number)

    def push(
        self,
        full_name: str,
        number: int,
        *,
        commits: int = 1,
        force: bool = False,
        author: str | None = None,
        at_us: int | None = None,
    ) -> str:
        """Push commits to a pull request's branch and return its new head; `force` rewrites the branch."""
        repo, at_s = self.repository(full_name), self._second(at_us)
        thread = repo.thread(number)
        pull = thread.require_pull()
        who = thread.author if author is None else self.hub.user(author)
        sha = pull.base_sha if force else pull.head_sha
        for index in range(commits):
            message = f"{thread.title} ({pull.commits + index + 1})"
            sha = repo.graph.commit(self._sha(), (sha,), message, who, at_s).sha
        repo.graph.branches[pull.head_ref] = sha
        repo.pushed_s = max(repo.pushed_s, at_s)
        total = commits if force else pull.commits + commits
        repo.put_thread(thread.with_pull(at_s, head_sha=sha, commits=total))
        return sha

    def close(self, full_name: str, number: int, actor: str = "octo", *, at_us: int | None = None) -> Thread:
        """Close an issue or a pull request without merging it."""
        reason = "completed" if self.repository(full_name).thread(number).pull is None else None
        return self._set_state(full_name, number, "closed", reason, actor, self._second(at_us))

    def reopen(self, full_name: str, number: int, *, at_us: int | None = None) -> Thread:
        """Reopen a thread; a merged pull request stays merged."""
        pull = self.repository(full_name).thread(number).pull
        if pull is not None and pull.merged_s is not None:
            raise ValueError("a merged pull request cannot be reopened")
        reason = "reopened" if pull is None else None
        return self._set_state(full_name, number, "open", reason, None, self._second(at_us))

    def merge(self, full_name: str, number: int, actor: str = "octo", *, at_us: int | None = None) -> Thread:
        """Merge a pull request by a merge commit on the default branch."""
        repo, at_s = self.repository(full_name), self._second(at_us)
        thread = repo.thread(number)
        pull, who = thread.require_pull(), self.hub.user(actor)
        parents = (repo.graph.branches[pull.base_ref], pull.head_sha)
        made = repo.graph.commit(self._sha(), parents, f"Merge pull request #{number}", who, at_s)
        repo.graph.branches[pull.base_ref] = made.sha
        repo.pushed_s = max(repo.pushed_s, at_s)
        repo.put_thread(thread.with_pull(at_s, merged_s=at_s, merged_by=who, merge_sha=made.sha))
        return self._set_state(full_name, number, "closed", None, actor, at_s)

    def _open(
        self,
        repo: Repository,
        title: str,
        body: str,
        author: str,
        labels: Sequence[str],
        at_s: int,
        pull: Pull | None,
    ) -> Thread:
        row_id, number = self.hub.new_id(), repo.next_number
        who = self.hub.user(author)
        thread = Thread(row_id, number, title, body, who, at_s, at_s, tuple(labels), pull=pull)
        repo.next_number += 1
        repo.put_thread(thread)
        return thread

    def _set_state(
        self,
        full_name: str,
        number: int,
        state: Literal["open", "closed"],
        reason: str | None,
        actor: str | None,
        at_s: int,
    ) -> Thread:
        repo = self.repository(full_name)
        changed = replace(
            repo.thread(number),
            state=state,
            state_reason=reason,
            updated_s=at_s,
            closed_s=at_s if state == "closed" else None,
            closed_by=None if actor is None else self.hub.user(actor),
        )
        repo.put_thread(changed)
        return changed

    def _second(self, at_us: int | None) -> int:
        return (self._clock.now_us if at_us is None else at_us) // SECOND_US

    def _sha(self) -> str:
        return f"{self._rng.getrandbits(160):040x}"
