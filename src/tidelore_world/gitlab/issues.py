"""What can happen to issues.

Owns the mutations of issues. All but a deletion move `updated_at`; a deletion leaves no trace at all.
Refuses to serve requests. Invariant: the project's count of open issues is the number of its open issues.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidelore_world.gitlab.changes import PLAIN_FIELDS, Changes, Who, set_plain
from tidelore_world.gitlab.records import ProjectRef
from tidelore_world.gitlab.state import Issue
from tidelore_world.gitlab.statuses import status_named
from tidelore_world.prose import Topic

_FIELDS = PLAIN_FIELDS | {"confidential", "due_date", "issue_type"}


class Issues(Changes):
    """Mutations of issues."""

    def create_issue(
        self,
        project: ProjectRef,
        *,
        title: str | None = None,
        description: str | None = None,
        author: Who = None,
        labels: Iterable[str] = (),
        milestone: str | None = None,
        assignees: Iterable[Who] = (),
        topic: Topic | None = None,
        at_us: int | None = None,
        **fields: Any,
    ) -> Issue:
        """Open an issue. Texts that are not given come from the world's prose."""
        home, at, prose = self.project(project), self.now(at_us), self.world.prose
        topic = topic or prose.topic()
        home.last_iid["issues"] += 1
        issue = Issue(
            id=self.new_id(),
            iid=home.last_iid["issues"],
            project=home,
            title=prose.issue_title(topic) if title is None else title,
            description=prose.issue_body(topic) if description is None else description,
            author=self.user(author),
            created_at_us=at,
            updated_at_us=at,
            topic=topic,
        )
        self._dress(issue, labels, milestone, assignees, at)
        set_plain(issue, fields, _FIELDS)
        home.issues.add(issue)
        home.open_issues += 1
        home.last_activity_at_us = max(home.last_activity_at_us, at)
        self.report("item", issue)
        return issue

    def edit_issue(
        self, project: ProjectRef, iid: int, *, by: Who = None, at_us: int | None = None, **fields: Any
    ) -> Issue:
        """Edit an issue; without fields its description is revised as a person would."""
        issue = self.issue(project, iid)
        self._edit(issue, fields, _FIELDS, by, at_us)
        return issue

    def close_issue(self, project: ProjectRef, iid: int, *, by: Who = None, at_us: int | None = None) -> Issue:
        """Close an issue."""
        issue = self.issue(project, iid)
        self._set_state(issue, "closed", by, at_us)
        return issue

    def reopen_issue(self, project: ProjectRef, iid: int, *, by: Who = None, at_us: int | None = None) -> Issue:
        """Reopen an issue."""
        issue = self.issue(project, iid)
        self._set_state(issue, "opened", by, at_us)
        return issue

    def set_status(
        self, project: ProjectRef, iid: int, name: str, *, by: Who = None, at_us: int | None = None
    ) -> Issue:
        """Give an issue a status; one of the other state closes or reopens the issue, as in GitLab."""
        issue, status = self.issue(project, iid), status_named(name)
        actor, at = self.user(by), self.now(at_us)
        if issue.state != status.state:
            self._set_state(issue, status.state, actor, at)
        issue.status = status.name
        self._system_note(issue, f"set status to **{status.name}**", actor, at)
        self.touch(issue, at)
        return issue

    def delete_issue(self, project: ProjectRef, iid: int) -> None:
        """Delete an issue: nothing reports it, later requests answer 404."""
        issue = self.issue(project, iid)
        issue.project.open_issues -= issue.state == "opened"
        issue.project.issues.remove(issue)
