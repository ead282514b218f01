"""What happens to repositories and threads of the simulated GitHub: open, edit, push, close, merge.

Owns the effect of each on rows, commits, `updated_at` and the timeline. Refuses to know requests or what people say.
Invariant: every instant is the world's present unless `at_us` names another.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Literal

from tidelore_world.clock import SECOND_US, WorldClock
from tidelore_world.github.files import changed_files
from tidelore_world.github.hub import Hub
from tidelore_world.github.records import Event, FileChange, Pull, Thread, User, UserKind
from tidelore_world.github.references import closing_numbers, mentioned_numbers
from tidelore_world.github.repository import Repository
from tidelore_world.github.settings import GitHubSettings


class Hosting:
    """The events of repositories and threads. Repositories are named `owner/name`, people by login."""

    def __init__(self, hub: Hub, clock: WorldClock, rng: random.Random, settings: GitHubSettings | None = None) -> None:
        self.hub = hub
        self.settings = settings or GitHubSettings()
        self._clock = clock
        self._rng = rng

    @property
    def now_us(self) -> int:
        """The world's present."""
        return self._clock.now_us

    def new_sha(self) -> str:
        """The id of a new commit."""
        return self._sha()

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
        repo = Repository(self.hub.new_id("repository"), name, owner, at_s, at_s, at_s, description, private)
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
        files: Sequence[FileChange | str] = (),
        fork: str | None = None,
        at_us: int | None = None,
    ) -> Thread:
        """Open a pull request from a new branch with one commit on the default branch.

        `files` are what it changes, by default one file; `fork` is the login whose copy the branch is in.
        """
        repo, at_s = self.repository(full_name), self._second(at_us)
        base_sha = repo.graph.branches[repo.default_branch]
        ref = branch or f"change-{repo.next_number}"
        head = repo.graph.commit(self._sha(), (base_sha,), title, self.hub.user(author), at_s)
        repo.graph.branches[ref] = head.sha
        repo.pushed_s = max(repo.pushed_s, at_s)
        pull = Pull(
            id=self.hub.new_id(),
            head_ref=ref,
            head_sha=head.sha,
            base_ref=repo.default_branch,
            base_sha=base_sha,
            draft=draft,
            files=changed_files((), files),
            fork_owner=None if fork is None else self.hub.user(fork),
            fork_id=0 if fork is None else self.hub.new_id("repository"),
        )
        return self._open(repo, title, body, author, labels, at_s, pull)

    def edit_thread(
        self,
        full_name: str,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        labels: Sequence[str] | None = None,
        actor: str | None = None,
        at_us: int | None = None,
    ) -> Thread:
        """Edit an issue or pull request; a new title and changed labels stand in the timeline."""
        repo, at_s = self.repository(full_name), self._second(at_us)
        thread = repo.thread(number)
        who = thread.author if actor is None else self.hub.user(actor)
        edited = replace(
            thread,
            title=thread.title if title is None else title,
            body=thread.body if body is None else body,
            labels=thread.labels if labels is None else tuple(labels),
            updated_s=at_s,
        )
        repo.put_thread(edited)
        if edited.title != thread.title:
            self._record(repo, number, "renamed", who, at_s, before=thread.title, after=edited.title)
        self._record_labels(repo, thread, edited, who, at_s)
        if body is not None:
            self._cross_reference(repo, number, body, who, at_s)
        return edited

    def delete_issue(self, full_name: str, number: int) -> None:
        """Delete a thread with everything in it; its address answers 410 from then on."""
        repo = self.repository(full_name)
        is_issue = repo.thread(number).pull is None
        repo.remove_thread(number)
        if is_issue:
            repo.report("issues", "deleted", number)

    def push(
        self,
        full_name: str,
        number: int,
        *,
        commits: int = 1,
        force: bool = False,
        author: str | None = None,
        files: Sequence[FileChange | str] | None = None,
        at_us: int | None = None,
    ) -> str:
        """Push commits to a pull request's branch and return its new head; `force` rewrites the branch.

        Without `files` each commit changes one more file. With them, the review threads in these files become outdated.
        """
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
        before = () if force else pull.files
        given = files if files is not None else [f"src/module_{len(before) + index}.py" for index in range(commits)]
        repo.put_thread(thread.with_pull(at_s, head_sha=sha, commits=total, files=changed_files(before, given)))
        self._follow_head(repo, number, sha, {_name_of(file) for file in files or ()})
        if force:
            self._record(repo, number, "head_ref_force_pushed", who, at_s, commit=sha, before=pull.head_sha)
        return sha

    def close(
        self,
        full_name: str,
        number: int,
        actor: str = "octo",
        *,
        reason: Literal["completed", "not_planned", "duplicate"] = "completed",
        at_us: int | None = None,
    ) -> Thread:
        """Close an issue for a reason, or a pull request without merging it."""
        shown = reason if self.repository(full_name).thread(number).pull is None else None
        return self._set_state(full_name, number, "closed", shown, actor, self._second(at_us))

    def reopen(self, full_name: str, number: int, actor: str = "octo", *, at_us: int | None = None) -> Thread:
        """Reopen a thread; a merged pull request stays merged."""
        pull = self.repository(full_name).thread(number).pull
        if pull is not None and pull.merged_s is not None:
            raise ValueError("a merged pull request cannot be reopened")
        reason = "reopened" if pull is None else None
        return self._set_state(full_name, number, "open", reason, actor, self._second(at_us))

    def merge(self, full_name: str, number: int, actor: str = "octo", *, at_us: int | None = None) -> Thread:
        """Merge a pull request by a merge commit on the default branch; the issues it closes are closed."""
        repo, at_s = self.repository(full_name), self._second(at_us)
        thread = repo.thread(number)
        pull, who = thread.require_pull(), self.hub.user(actor)
        parents = (repo.graph.branches[pull.base_ref], pull.head_sha)
        made = repo.graph.commit(self._sha(), parents, f"Merge pull request #{number}", who, at_s)
        repo.graph.branches[pull.base_ref] = made.sha
        repo.pushed_s = max(repo.pushed_s, at_s)
        repo.put_thread(thread.with_pull(at_s, merged_s=at_s, merged_by=who, merge_sha=made.sha))
        self._record(repo, number, "merged", who, at_s, commit=made.sha)
        merged = self._set_state(full_name, number, "closed", None, actor, at_s)
        for issue in self.closing_issues(full_name, number):
            if issue.state == "open":
                self._set_state(full_name, issue.number, "closed", "completed", actor, at_s)
        return merged

    def closing_issues(self, full_name: str, number: int) -> list[Thread]:
        """The issues that merging a pull request closes: those its text names, and those linked by hand."""
        repo = self.repository(full_name)
        thread = repo.thread(number)
        thread.require_pull()
        numbers = dict.fromkeys((*closing_numbers(thread.body), *thread.linked_issues))
        return [issue for found in numbers if (issue := repo.find_thread(found)) is not None and issue.pull is None]

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
        self._record_labels(repo, replace(thread, labels=()), thread, who, at_s)
        self._cross_reference(repo, number, body, who, at_s)
        return thread

    def _set_state(
        self,
        full_name: str,
        number: int,
        state: Literal["open", "closed"],
        reason: str | None,
        actor: str,
        at_s: int,
    ) -> Thread:
        repo, who = self.repository(full_name), self.hub.user(actor)
        changed = replace(
            repo.thread(number),
            state=state,
            state_reason=reason,
            updated_s=at_s,
            closed_s=at_s if state == "closed" else None,
            closed_by=who if state == "closed" else None,
        )
        repo.put_thread(changed)
        kind = "closed" if state == "closed" else "reopened"
        self._record(repo, number, kind, who, at_s, state_reason=reason if state == "closed" else None)
        return changed

    def _record(self, repo: Repository, number: int, kind: str, actor: User | None, at_s: int, **details: Any) -> None:
        """Write what happened into a thread's timeline."""
        repo.events[number].append(Event(self.hub.new_id("event"), number, kind, actor, at_s, details))

    def _record_labels(self, repo: Repository, before: Thread, after: Thread, who: User, at_s: int) -> None:
        for name in after.labels:
            if name not in before.labels:
                self._record(repo, after.number, "labeled", who, at_s, label=name)
        for name in before.labels:
            if name not in after.labels:
                self._record(repo, after.number, "unlabeled", who, at_s, label=name)

    def _cross_reference(self, repo: Repository, number: int, text: str, who: User, at_s: int) -> None:
        """Tell every thread that a text mentions where it was mentioned, once for each place."""
        for mentioned in mentioned_numbers(text):
            target = repo.find_thread(mentioned)
            if target is None or mentioned == number:
                continue
            known = (event.details.get("source") for event in repo.events[mentioned])
            if (repo.id, number) not in known:
                self._record(repo, mentioned, "cross-referenced", who, at_s, source=(repo.id, number))

    def _follow_head(self, repo: Repository, number: int, sha: str, touched: Collection[str]) -> None:
        """Let review comments point at the new head, or become outdated where their file was pushed again."""
        for row in list(repo.review_comments.of(number)):
            if row.path in touched:
                repo.review_comments.put(replace(row, outdated=True))
            elif self.settings.comments_follow_head and not row.outdated:
                repo.review_comments.put(replace(row, commit_sha=sha))

    def _second(self, at_us: int | None) -> int:
        return (self._clock.now_us if at_us is None else at_us) // SECOND_US

    def _sha(self) -> str:
        return f"{self._rng.getrandbits(160):040x}"


def _name_of(file: FileChange | str) -> str:
    return file if isinstance(file, str) else file.filename
