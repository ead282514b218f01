"""What can happen to merge requests.

Owns the mutations of merge requests. Edits and state changes move `updated_at`; a push does not, and a
deletion leaves no trace. Refuses to serve requests. Invariant: a merge request always has a latest version,
and its diff is the diff of that version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from tidelore_world.gitlab.changes import PLAIN_FIELDS, Who, mark, set_plain
from tidelore_world.gitlab.issues import Issues
from tidelore_world.gitlab.patches import make_diffs
from tidelore_world.gitlab.records import ProjectRef
from tidelore_world.gitlab.state import FileDiff, MergeRequest, Version
from tidelore_world.prose import Topic

_FIELDS = PLAIN_FIELDS | {"has_conflicts", "squash", "target_branch", "closes"}


class MergeRequests(Issues):
    """Mutations of merge requests."""

    def create_merge_request(
        self,
        project: ProjectRef,
        *,
        title: str | None = None,
        description: str | None = None,
        author: Who = None,
        labels: Iterable[str] = (),
        milestone: str | None = None,
        assignees: Iterable[Who] = (),
        reviewers: Iterable[Who] = (),
        closes: Sequence[int] = (),
        source_branch: str | None = None,
        diffs: Sequence[FileDiff] | None = None,
        draft: bool | None = None,
        topic: Topic | None = None,
        at_us: int | None = None,
        **fields: Any,
    ) -> MergeRequest:
        """Open a merge request with one version of its diff; `draft` rewrites the title's mark."""
        home, at, prose = self.project(project), self.now(at_us), self.world.prose
        topic = topic or prose.topic()
        home.last_iid["merge_requests"] += 1
        title = prose.change_title(topic) if title is None else title
        request = MergeRequest(
            id=self.new_id(),
            iid=home.last_iid["merge_requests"],
            project=home,
            title=title if draft is None else mark(title, draft=draft),
            description=_refer(prose.change_body(topic), closes) if description is None else description,
            author=self.user(author),
            created_at_us=at,
            updated_at_us=at,
            topic=topic,
            source_branch=prose.branch(topic) if source_branch is None else source_branch,
            closes=list(closes),
            reviewers=[self.user(who) for who in reviewers],
            diffs=make_diffs(self.world.rng, topic.paths) if diffs is None else list(diffs),
        )
        self._add_version(request, at)
        self._dress(request, labels, milestone, assignees, at)
        set_plain(request, fields, _FIELDS)
        home.merge_requests.add(request)
        home.last_activity_at_us = max(home.last_activity_at_us, at)
        self._link_closed_issues(request, at)
        self.report("item", request)
        return request

    def edit_merge_request(
        self, project: ProjectRef, iid: int, *, by: Who = None, at_us: int | None = None, **fields: Any
    ) -> MergeRequest:
        """Edit a merge request; without fields its description is revised as a person would."""
        request = self.merge_request(project, iid)
        self._edit(request, fields, _FIELDS, by, at_us)
        return request

    def close_merge_request(
        self, project: ProjectRef, iid: int, *, by: Who = None, at_us: int | None = None
    ) -> MergeRequest:
        """Close a merge request without merging it."""
        request = self.merge_request(project, iid)
        self._set_state(request, "closed", by, at_us)
        return request

    def reopen_merge_request(
        self, project: ProjectRef, iid: int, *, by: Who = None, at_us: int | None = None
    ) -> MergeRequest:
        """Reopen a merge request."""
        request = self.merge_request(project, iid)
        self._set_state(request, "opened", by, at_us)
        return request

    def lock_merge_request(
        self, project: ProjectRef, iid: int, *, by: Who = None, at_us: int | None = None
    ) -> MergeRequest:
        """Put a merge request into `locked`, the state it has while GitLab merges it."""
        request = self.merge_request(project, iid)
        self._set_state(request, "locked", by, at_us)
        return request

    def merge_merge_request(
        self, project: ProjectRef, iid: int, *, by: Who = None, at_us: int | None = None
    ) -> MergeRequest:
        """Merge, and close the issues the merge request says it closes."""
        request, merger, at = self.merge_request(project, iid), self.user(by), self.now(at_us)
        request.merged_at_us, request.merge_user = at, merger
        request.title = mark(request.title, draft=False)
        request.merge_commit_sha = self.world.prose.sha()
        self._set_state(request, "merged", merger, at)
        for number in request.closes:
            issue = request.project.issues.by_iid.get(number)
            if issue is not None and issue.state == "opened":
                self._set_state(issue, "closed", merger, at)
        return request

    def push(
        self,
        project: ProjectRef,
        iid: int,
        *,
        by: Who = None,
        diffs: Sequence[FileDiff] | None = None,
        forced: bool = False,
        at_us: int | None = None,
    ) -> MergeRequest:
        """Push to the source branch: new head, new version, new diff, and `updated_at` stays where it is."""
        request, at = self.merge_request(project, iid), self.now(at_us)
        paths = request.topic.paths if request.topic else ("README.md",)
        request.diffs = make_diffs(self.world.rng, paths) if diffs is None else list(diffs)
        self._add_version(request, at, forced=forced)
        self._system_note(request, f"added 1 commit\n\n{request.sha[:8]}", self.user(by or request.author), at)
        self.forget_bytes(request)
        self.report("push", request)
        return request

    def delete_merge_request(self, project: ProjectRef, iid: int) -> None:
        """Delete a merge request: nothing reports it, later requests answer 404."""
        request = self.merge_request(project, iid)
        request.project.merge_requests.remove(request)

    def _add_version(self, request: MergeRequest, at: int, *, forced: bool = False) -> None:
        sha = self.world.prose.sha
        base = request.versions[-1].base_sha if request.versions else sha()
        request.versions.append(Version(self.new_id(), sha(), base, base, at, len(request.diffs), forced))

    def _link_closed_issues(self, request: MergeRequest, at: int) -> None:
        """Note the mention on each issue. It shows in the issue's own list row, so it counts as an edit."""
        for number in request.closes:
            issue = request.project.issues.by_iid.get(number)
            if issue is not None:
                issue.merge_requests_count += 1
                self._system_note(issue, f"mentioned in merge request !{request.iid}", request.author, at)
                self.touch(issue, at)


def _refer(text: str, closes: Sequence[int]) -> str:
    """Make the first issue reference of a drawn text the issue it really closes."""
    return re.sub(r"#\d+", f"#{closes[0]}", text, count=1) if closes else text
