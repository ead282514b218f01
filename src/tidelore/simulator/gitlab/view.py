"""What the simulated GitLab shows now: its options, its truth, and the encoded bytes of its items.

Owns the options a test may turn and the truth it compares with. Refuses to parse requests (`routes`) or to
change rows (`issues`, `merge_requests`, `remarks`). Invariant: the truth and the API encode the same payload
of the same row.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from tidelore.simulator.gitlab import items, threads
from tidelore.simulator.gitlab.records import ProjectRef, Surroundings
from tidelore.simulator.gitlab.remarks import Remarks
from tidelore.simulator.gitlab.state import Issue, Item, Kind, MergeRequest

ENCODED_ITEMS_KEPT = 30_000
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class View(Remarks):
    """A GitLab instance without its routes: rows to change by the inherited methods, and options.

    `strip_headers`: lower-case header names never sent on list pages (`link`, `x-next-page`, ...).
    `foreign_next_link`: list pages that have a next page advertise this address instead.
    `caller`: the account every token belongs to.
    `rate_limit`: requests per world-minute; above it the answer is 429.
    `token`: the only token accepted; None accepts any caller.
    `ties_follow_sort`: rows of one instant come in the direction of the sort, not newest first.
    """

    def __init__(self, world: Surroundings) -> None:
        super().__init__(world)
        self.caller = self.user(world.prose.people[0])
        self.strip_headers: frozenset[str] | set[str] = frozenset()
        self.foreign_next_link: str | None = None
        self.rate_limit: int | None = None
        self.token: str | None = None
        self.ties_follow_sort = False
        self.keyset_issues = True
        self.spent: tuple[int, int] = (0, 0)
        self._old_server = False
        self._kept: deque[Item] = deque()

    @property
    def old_server(self) -> bool:
        """Whether payloads carry only the names an old server knows."""
        return self._old_server

    @old_server.setter
    def old_server(self, value: bool) -> None:
        self._old_server = value
        for item in self._kept:
            item.encoded = None

    def payload(self, item: Item) -> dict[str, Any]:
        """The list form of an item."""
        if isinstance(item, MergeRequest):
            return items.merge_request_payload(item, old_server=self._old_server)
        assert isinstance(item, Issue)
        return items.issue_payload(item, old_server=self._old_server)

    def encoded(self, item: Item) -> bytes:
        """The list form of an item as bytes, kept until the item changes or newer ones crowd it out."""
        if item.encoded is None:
            item.encoded = encode(self.payload(item))
            self._kept.append(item)
            if len(self._kept) > ENCODED_ITEMS_KEPT:
                self._kept.popleft().encoded = None
        return item.encoded

    def truth_issues(self, project: ProjectRef) -> list[dict[str, Any]]:
        """Every issue of a project as its list would show it now, by number."""
        return [self.payload(issue) for issue in sorted(self.project(project).issues, key=_iid)]

    def truth_merge_requests(self, project: ProjectRef) -> list[dict[str, Any]]:
        """Every merge request of a project as its list would show it now, by number."""
        return [self.payload(request) for request in sorted(self.project(project).merge_requests, key=_iid)]

    def truth_discussions(self, kind: Kind, project: ProjectRef, iid: int) -> list[dict[str, Any]]:
        """Every discussion under an item."""
        item = self.item(kind, project, iid)
        return [threads.discussion_payload(discussion, item) for discussion in item.discussions]

    def truth_events(self, kind: Kind, project: ProjectRef, iid: int, family: str) -> list[dict[str, Any]]:
        """Every `state`, `label` or `milestone` event of an item."""
        item = self.item(kind, project, iid)
        return [threads.event_payload(event, item) for event in item.events if event.family == family]

    def truth_diffs(self, project: ProjectRef, iid: int) -> list[dict[str, Any]]:
        """Every changed file of a merge request."""
        return [threads.diff_payload(diff) for diff in self.merge_request(project, iid).diffs]

    def truth_closes(self, project: ProjectRef, iid: int) -> list[dict[str, Any]]:
        """The issues a merge request closes, as lists show them."""
        return [self.payload(issue) for issue in closed_issues(self.merge_request(project, iid))]


def closed_issues(request: MergeRequest) -> list[Issue]:
    """The issues a merge request says it closes and that still exist."""
    shelf = request.project.issues.by_iid
    return [shelf[number] for number in request.closes if number in shelf]


def encode(value: Any) -> bytes:
    """Compact JSON."""
    return _ENCODER.encode(value).encode()


def _iid(item: Item) -> int:
    return item.iid
