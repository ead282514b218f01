"""The copy beside the truth, list by list. Owns what counts as missing, extra and different.

Only live parents and what hangs on them are compared: payloads where we keep them whole, else every column.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from tidelore.store.database.port import Database

Rows = dict[Hashable, Any]

PARENTS = ("issues", "merge_requests")
KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "notes": ("remote_id",),
        "state_events": ("remote_id",),
        "label_events": ("remote_id",),
        "milestone_events": ("remote_id",),
        "closed_issues": ("iid", "issue_key"),
        "files": ("iid", "old_path", "new_path"),
        "reviewers": ("iid", "username"),
    }
)
"""The plain children, and by which columns one is known within a project."""
OF_MERGE_REQUESTS = frozenset({"closed_issues", "files", "reviewers"})
LISTS = (*PARENTS, "statuses", "discussions", *KEYS)


class Difference(Struct):
    """How the copy of one list differs from the world."""

    list: str
    truth: int = 0
    copy: int = 0
    missing: int = 0
    extra: int = 0
    different: int = 0

    @property
    def faults(self) -> int:
        return self.missing + self.extra + self.different

    def add(self, truth: Rows, copy: Rows) -> None:
        """Count one project in."""
        self.truth += len(truth)
        self.copy += len(copy)
        self.missing += len(truth.keys() - copy.keys())
        self.extra += len(copy.keys() - truth.keys())
        self.different += sum(1 for key in truth.keys() & copy.keys() if truth[key] != copy[key])


def compare(database: Database, truth: Callable[[str, str], Rows], paths: Sequence[str]) -> list[Difference]:
    """Compare every list of these projects with the truth, which is asked for by list and path."""
    found = [Difference(name) for name in LISTS]
    for difference in found:
        for path in paths:
            difference.add(truth(difference.list, path), copied_rows(database, difference.list, path))
    return found


def copy_sizes(differences: Sequence[Difference]) -> dict[str, int]:
    """Return how much of each compared list the copy holds."""
    return {found.list: found.copy for found in differences}


def count_copies(database: Database, paths: Sequence[str]) -> dict[str, int]:
    """Return how much of each list the copy holds."""
    return {name: sum(len(copied_rows(database, name, path)) for path in paths) for name in LISTS}


def copied_rows(database: Database, name: str, path: str) -> Rows:
    """Return everything the copy holds of one list of a project."""
    from tidelore.store.mirror.kinds import ISSUE, MERGE_REQUEST
    from tidelore.store.mirror.parents import live_payloads
    from tidelore.store.reading.inventory import held_children, held_discussions, held_statuses

    if name in PARENTS:
        return {key: msgspec.json.decode(payload) for key, payload in live_payloads(database, name, path).items()}
    if name == "statuses":
        return dict(held_statuses(database, path).items())
    kinds = (MERGE_REQUEST,) if name in OF_MERGE_REQUESTS else (ISSUE, MERGE_REQUEST)
    if name == "discussions":
        return {
            (kind.table, *key): msgspec.json.decode(payload)
            for kind in kinds
            for key, payload in held_discussions(database, kind, path).items()
        }
    return keyed(name, (row for kind in kinds for row in held_children(database, name, kind, path)))


def keyed(name: str, rows: Iterable[dict[str, Any]]) -> Rows:
    """Return plain children by what one is known by."""
    return {tuple(row[column] for column in KEYS[name]): row for row in rows}
