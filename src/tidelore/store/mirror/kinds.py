"""The two kinds of parents (issues, merge requests) and the kinds of children each can have.

Data only; other modules build SQL from it. A source has some of the kinds of children (`ParentKind.having`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.references import Kind


class ParentKind(Struct, frozen=True):
    """A kind of parent: its table, the name used in its indexes, and the column of the children that refers to it.

    `label_table` links its labels; `people` maps a field of the record to the table that links those people.
    `children` maps each kind of children to the columns of the parent that show a change in them even if `updated_at`
    does not change: a deleted note changes the count, a push changes the head. `asides` are read for many parents at
    once, separately from the other children. `by_columns` are kinds that change only if those columns do, so that a new
    version of the parent alone does not make them due. `on_demand` are kinds that are due only when other children were
    stored without something: the line ranges of notes, which only one way of reading them shows.
    """

    table: str
    short: str
    column: str
    noteable_type: str
    label_table: str
    people: Mapping[str, str]
    children: Mapping[str, tuple[str, ...]]
    asides: tuple[str, ...] = ()
    by_columns: tuple[str, ...] = ()
    on_demand: tuple[str, ...] = ()

    def having(
        self, children: Collection[str], asides: tuple[str, ...] = (), by_columns: tuple[str, ...] = ()
    ) -> ParentKind:
        """Return this kind with only these kinds of children, as one source has them."""
        kept = MappingProxyType({name: tells for name, tells in self.children.items() if name in children})
        return replace(self, children=kept, asides=asides, by_columns=by_columns)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Everything that is read separately from the parent itself."""
        return (*self.children, *self.asides)


TOPICS = "topics"
"""The table of topics, which are neither."""
POSITIONS = "positions"
"""The line ranges of notes that were read without them."""

ISSUE = ParentKind(
    "issues",
    "issues",
    "issue_id",
    "Issue",
    "issue_labels",
    MappingProxyType({"assignees": "issue_assignees"}),
    MappingProxyType(
        {
            "discussions": ("user_notes_count", "state"),
            "comments": ("user_notes_count",),
            "resource_events": ("state",),
        }
    ),
    asides=("status",),
)
MERGE_REQUEST = ParentKind(
    "merge_requests",
    "mrs",
    "merge_request_id",
    "MergeRequest",
    "mr_labels",
    MappingProxyType({"assignees": "mr_assignees", "reviewers": "mr_reviewers"}),
    MappingProxyType(
        {
            "discussions": ("user_notes_count", "head_sha", "state"),
            "comments": ("user_notes_count",),
            "reviews": ("head_sha", "state"),
            "threads": ("user_notes_count", "head_sha", "state"),
            "resource_events": ("state",),
            "closes_issues": ("head_sha",),
            "diffs": ("head_sha", "target_branch"),
            # Every upsert replaces the reviewers with those in the list, which may not include them.
            "reviewers": ("content_hash",),
            POSITIONS: (),
        }
    ),
    on_demand=(POSITIONS,),
)
PARENT_KINDS: Mapping[str, ParentKind] = MappingProxyType({kind.table: kind for kind in (ISSUE, MERGE_REQUEST)})
PARENTS: Mapping[Kind, ParentKind] = MappingProxyType({"issue": ISSUE, "mr": MERGE_REQUEST})
"""The kinds of parents as references name them."""
EVENT_TABLES: Mapping[str, str] = MappingProxyType(
    {
        **{kind: f"resource_{kind}_events" for kind in ("state", "label", "milestone")},
        "timeline": "timeline_events",
    }
)
"""The table of each kind of events."""
