"""The two kinds of parents (issues, merge requests) and the kinds of children each has.

Facts only; other modules build SQL from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct


class ParentKind(Struct, frozen=True):
    """Whose children are kept: the table, how its indexes are named, the column of the children that refers to it.

    `children` maps each kind of children to the columns of the parent that tell of a change in them although
    `updated_at` stands still: a deleted note shows in the count, a push in the head. `asides` are read for many parents
    at once, beside their children.
    """

    table: str
    short: str
    column: str
    noteable_type: str
    children: Mapping[str, tuple[str, ...]]
    asides: tuple[str, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """All that is read apart from the parent itself."""
        return (*self.children, *self.asides)


ISSUE = ParentKind(
    "issues",
    "issues",
    "issue_id",
    "Issue",
    MappingProxyType({"discussions": ("user_notes_count", "state"), "resource_events": ("state",)}),
    asides=("status",),
)
MERGE_REQUEST = ParentKind(
    "merge_requests",
    "mrs",
    "merge_request_id",
    "MergeRequest",
    MappingProxyType(
        {
            "discussions": ("user_notes_count", "head_sha", "state"),
            "resource_events": ("state",),
            "closes_issues": ("head_sha",),
            "diffs": ("head_sha", "target_branch"),
            # Every upsert links the reviewers of the list anew, which may not show them.
            "reviewers": ("content_hash",),
        }
    ),
)
PARENT_KINDS: Mapping[str, ParentKind] = MappingProxyType({kind.table: kind for kind in (ISSUE, MERGE_REQUEST)})
