"""What the simulated GitLab shows now: its options and the encoded bytes of its items.

Owns the options a test may turn. Refuses to parse requests (`routes`) or to change rows (`issues`,
`merge_requests`, `remarks`). Invariant: cached bytes are those of the payload under the present options.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from tidelore_world.gitlab import items
from tidelore_world.gitlab.records import Surroundings
from tidelore_world.gitlab.remarks import Remarks
from tidelore_world.gitlab.state import Issue, Item, MergeRequest

ENCODED_ITEMS_KEPT = 30_000
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class View(Remarks):
    """A GitLab instance without its routes: rows to change by the inherited methods, and options.

    `strip_headers`: lower-case header names never sent on list pages (`link`, `x-next-page`, ...).
    `foreign_next_link`: list pages that have a next page advertise this address instead.
    `caller`: the account every token belongs to.
    `rate_limit`: requests per world-minute; above it the answer is 429.
    `token`: the only token accepted; None accepts any caller.
    `lost_answers`: this many successful writes lose their connection before the response is sent.
    `ties_follow_sort`: rows of one instant come in the direction of the sort, not newest first.
    `list_omits_reviewers`: lists show no reviewers; `/reviewers` and the single form tell the truth.
    `statuses`: GraphQL knows work item statuses; without them the type is unknown to the schema.
    `statuses_licensed`: without it the schema knows statuses, but no work item carries the widget.
    `graphql_status`: the status of every answer of GraphQL, as of a server or a proxy that refuses it.
    `graphql_most_notes`: an answer with more notes takes too long: 503.
    `graphql_nulls`: the ids of notes that GraphQL shows as null.
    `graphql_fields_missing`: fields of notes that the schema of this server does not have.
    `graphql_kept`: answers to queries, by the request, until a row is touched; None keeps none. For benchmarks, where
    nobody else changes rows or options: their client is measured, and not how long this server composes an answer.
    """

    def __init__(self, world: Surroundings) -> None:
        super().__init__(world)
        self.caller = self.user(world.prose.people[0])
        self.strip_headers: frozenset[str] | set[str] = frozenset()
        self.foreign_next_link: str | None = None
        self.rate_limit: int | None = None
        self.token: str | None = None
        self.lost_answers = 0
        self.ties_follow_sort = False
        self.keyset_issues = True
        self.statuses = True
        self.statuses_licensed = True
        self.graphql_status = 200
        self.graphql_most_notes: int | None = None
        self.graphql_nulls: set[int] = set()
        self.graphql_fields_missing: frozenset[str] = frozenset()
        self.graphql_kept: dict[tuple[bytes, bool], bytes] | None = None
        self.spent: tuple[int, int] = (0, 0)
        self._old_server = False
        self._list_omits_reviewers = False
        self._kept: deque[Item] = deque()

    @property
    def old_server(self) -> bool:
        """Whether payloads carry only the names an old server knows."""
        return self._old_server

    @old_server.setter
    def old_server(self, value: bool) -> None:
        self._old_server = value
        self._drop_encoded()

    @property
    def list_omits_reviewers(self) -> bool:
        """Whether lists hide who reviews a merge request."""
        return self._list_omits_reviewers

    @list_omits_reviewers.setter
    def list_omits_reviewers(self, value: bool) -> None:
        self._list_omits_reviewers = value
        self._drop_encoded()

    def payload(self, item: Item) -> dict[str, Any]:
        """The list form of an item."""
        if isinstance(item, MergeRequest):
            shown = items.merge_request_payload(item, old_server=self._old_server)
            return shown | {"reviewers": []} if self._list_omits_reviewers else shown
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

    def forget_bytes(self, item: Item) -> None:
        super().forget_bytes(item)
        self._drop_answers()

    def touch(self, item: Item, at_us: int, event: str = "item") -> None:
        super().touch(item, at_us, event)
        self._drop_answers()

    def _drop_answers(self) -> None:
        if self.graphql_kept:
            self.graphql_kept.clear()

    def _drop_encoded(self) -> None:
        for item in self._kept:
            item.encoded = None


def closed_issues(request: MergeRequest) -> list[Issue]:
    """The issues a merge request says it closes and that still exist."""
    shelf = request.project.issues.by_iid
    return [shelf[number] for number in request.closes if number in shelf]


def encode(value: Any) -> bytes:
    """Compact JSON."""
    return _ENCODER.encode(value).encode()
