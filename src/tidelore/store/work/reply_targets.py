"""Finds the stored item, thread or comment that a reply or a resolution is for. Writes nothing.

A thread is named by its id on the server as it is shown, or by its global id; a comment by its id on the server.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from tidelore.core.references import Kind, sign_of
from tidelore.store.database.port import Database
from tidelore.store.reading.conversations import FAMILIES


class ReplyTarget(Struct, frozen=True, kw_only=True):
    """An issue or merge request, or a thread of it: its ids, its first comment, and whether it can be resolved.

    `thread` is the id by which it is shown; `first` the id of its first comment, None if there is none to reply to.
    """

    project_id: int
    project: str
    on: Kind
    number: int
    references_full: str | None
    references_short: str | None
    thread: str | None = None
    node_id: str | None = None
    resolvable: int = 0
    resolved: int | None = None
    first: int | None = None

    @property
    def reference(self) -> str:
        """The reference of the item, as lists show it."""
        return self.references_full or f"{self.project}{sign_of(self.on, self.references_short)}{self.number}"


_THREAD = (
    "d.remote_id, d.node_id, d.resolvable, d.resolved, (SELECT n.remote_id FROM notes n WHERE n.discussion_id = d.id"
    " AND n.is_system = 0 ORDER BY n.position, n.id LIMIT 1)"
)


def find_item(database: Database, on: Kind, row_id: int) -> ReplyTarget:
    """Return a stored issue or merge request."""
    ((project_id, project, number, full, short),) = database.read(
        f"SELECT p.id, p.path, t.iid, t.references_full, t.references_short FROM {FAMILIES[on].table} t"
        " JOIN projects p ON p.id = t.project_id WHERE t.id = :id",
        {"id": row_id},
    )
    return ReplyTarget(
        project_id=project_id, project=project, on=on, number=number, references_full=full, references_short=short
    )


def find_threads_named(database: Database, name: str) -> list[ReplyTarget]:
    """Return the threads with this id, in any project."""
    found = _threads(database, "d.remote_id = :name", {"name": name})
    return found or _threads(database, "d.node_id = :name", {"name": name})


def find_threads_of_comment(database: Database, remote_id: int, kinds: Sequence[str]) -> list[ReplyTarget]:
    """Return the threads that contain a comment with this id, of one of these kinds, in any project."""
    inside = (
        "d.id IN (SELECT n.discussion_id FROM projects p CROSS JOIN notes n WHERE n.project_id = p.id"
        f" AND n.kind {database.among('kinds')} AND n.remote_id = :id AND n.is_system = 0)"
    )
    return _threads(database, inside, {"id": remote_id, "kinds": database.texts(kinds)})


def find_threads_on(database: Database, on: Kind, row_id: int) -> list[ReplyTarget]:
    """Return the threads of an item that can be resolved."""
    column = FAMILIES[on].parent_column
    return _threads(database, f"d.{column} = :id AND d.resolvable = 1", {"id": row_id})


def _threads(database: Database, condition: str, params: dict[str, object]) -> list[ReplyTarget]:
    found: list[ReplyTarget] = []
    for on, family in FAMILIES.items():
        rows = database.read(
            f"SELECT p.id, p.path, t.iid, t.references_full, t.references_short, {_THREAD}"
            f" FROM projects p CROSS JOIN discussions d JOIN {family.table} t ON t.id = d.{family.parent_column}"
            f" WHERE d.project_id = p.id AND t.deleted_at IS NULL AND {condition} ORDER BY d.id",
            params,
        )
        found += [
            ReplyTarget(
                project_id=project_id,
                project=project,
                on=on,
                number=number,
                references_full=full,
                references_short=short,
                thread=thread,
                node_id=node_id,
                resolvable=resolvable,
                resolved=resolved,
                first=first,
            )
            for project_id, project, number, full, short, thread, node_id, resolvable, resolved, first in rows
        ]
    return found
