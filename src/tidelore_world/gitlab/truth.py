"""The truth of the simulated GitLab: what a faithful mirror of it holds, computed from the rows.

Owns what a test compares a mirror with: per item, and per project as `{iid: [payloads]}` with an entry for
every item, also for those that have nothing. Refuses to page or to encode. Invariant: the truth and the API
shape the same row by the same function, options included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from tidelore_world.gitlab import threads
from tidelore_world.gitlab.records import ProjectRef
from tidelore_world.gitlab.state import Issue, Item, Kind
from tidelore_world.gitlab.statuses import shown_status
from tidelore_world.gitlab.view import View, closed_issues

Payloads = list[dict[str, Any]]
Family = Literal["state", "label", "milestone"]


class Truth(View):
    """A GitLab instance that can tell everything it shows, without its routes."""

    def truth_issues(self, project: ProjectRef) -> Payloads:
        """Every issue of a project as its list would show it now, by number."""
        return [self.payload(issue) for issue in sorted(self.project(project).issues, key=_iid)]

    def truth_merge_requests(self, project: ProjectRef) -> Payloads:
        """Every merge request of a project as its list would show it now, by number."""
        return [self.payload(request) for request in sorted(self.project(project).merge_requests, key=_iid)]

    def truth_discussions(self, kind: Kind, project: ProjectRef, iid: int) -> Payloads:
        """Every discussion under an item, with its notes."""
        item = self.item(kind, project, iid)
        return [threads.discussion_payload(discussion, item) for discussion in item.discussions]

    def truth_events(self, kind: Kind, project: ProjectRef, iid: int, family: str) -> Payloads:
        """Every `state`, `label` or `milestone` event of an item."""
        item = self.item(kind, project, iid)
        return [threads.event_payload(event, item) for event in item.events if event.family == family]

    def truth_diffs(self, project: ProjectRef, iid: int) -> Payloads:
        """Every changed file of a merge request."""
        return [threads.diff_payload(diff) for diff in self.merge_request(project, iid).diffs]

    def truth_closes(self, project: ProjectRef, iid: int) -> Payloads:
        """The issues a merge request closes, as lists show them."""
        return [self.payload(issue) for issue in closed_issues(self.merge_request(project, iid))]

    def truth_reviewers(self, project: ProjectRef, iid: int) -> Payloads:
        """The reviewers of a merge request, whatever its list shows."""
        request = self.merge_request(project, iid)
        return [threads.reviewer_payload(user, request) for user in request.reviewers]

    def truth_all_discussions(self, kind: Kind, project: ProjectRef) -> dict[int, Payloads]:
        """The discussions under every item of one kind."""
        return self._by_iid(kind, project, lambda item: self.truth_discussions(kind, item.project, item.iid))

    def truth_all_events(self, kind: Kind, project: ProjectRef, family: Family) -> dict[int, Payloads]:
        """The events of one family of every item of one kind."""
        return self._by_iid(kind, project, lambda item: self.truth_events(kind, item.project, item.iid, family))

    def truth_all_diffs(self, project: ProjectRef) -> dict[int, Payloads]:
        """The changed files of every merge request."""
        return self._by_iid("merge_requests", project, lambda item: self.truth_diffs(item.project, item.iid))

    def truth_all_closes(self, project: ProjectRef) -> dict[int, Payloads]:
        """The issues every merge request closes."""
        return self._by_iid("merge_requests", project, lambda item: self.truth_closes(item.project, item.iid))

    def truth_all_reviewers(self, project: ProjectRef) -> dict[int, Payloads]:
        """The reviewers of every merge request."""
        return self._by_iid("merge_requests", project, lambda item: self.truth_reviewers(item.project, item.iid))

    def truth_statuses(self, project: ProjectRef) -> dict[int, dict[str, str] | None]:
        """The status of every issue; None where the server shows none."""
        offered = self.statuses and self.statuses_licensed and not self.old_server
        issues = sorted(self.project(project).issues, key=_iid)
        return {issue.iid: _status(issue) if offered else None for issue in issues}

    def _by_iid(self, kind: Kind, project: ProjectRef, read: Callable[[Item], Payloads]) -> dict[int, Payloads]:
        return {item.iid: read(item) for item in sorted(self.project(project).shelf(kind), key=_iid)}


def _iid(item: Item) -> int:
    return item.iid


def _status(issue: Issue) -> dict[str, str] | None:
    status = shown_status(issue)
    if status is None:
        return None
    return {
        "name": status.name,
        "category": status.category,
        "color": status.color,
        "icon_name": status.icon_name,
    }
