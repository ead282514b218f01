"""Finds the stored item, thread or comment that a reply or a resolution is for. Writes nothing.

A thread is named by its id on the server as it is shown, or by its global id; a comment by its id on the server. A
thread of a topic is a comment with its replies, named like the fragment of its URL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from tidelore.core.references import Kind, sign_of
from tidelore.store.database.port import Database
from tidelore.store.mirror.kinds import PARENTS

TargetKind = Kind | Literal["topic"]


class ReplyTarget(Struct, frozen=True, kw_only=True):
    """An issue, merge request or topic, or a thread of it: its ids, its first comment, and whether it can be resolved.

    `thread` is the id by which it is shown; `first` the id of its first comment, None if there is none to reply to.
    """

    project_id: int
    project: str
    on: TargetKind
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
        sign = "#" if self.on == "topic" else sign_of(self.on, self.references_short)
        return self.references_full or f"{self.project}{sign}{self.number}"


_THREAD = (
    "d.remote_id, d.node_id, d.resolvable, d.resolved, (SELECT n.remote_id FROM notes n WHERE n.discussion_id = d.id"
    " AND n.is_system = 0 ORDER BY n.position, n.id LIMIT 1)"
)


def find_item(database: Database, on: Kind, row_id: int) -> ReplyTarget:
    """Return a stored issue or merge request."""
    ((project_id, project, number, full, short),) = database.read(
        f"SELECT p.id, p.path, t.iid, t.references_full, t.references_short FROM {PARENTS[on].table} t"
        " JOIN projects p ON p.id = t.project_id WHERE t.id = :id",
        {"id": row_id},
    )
    return ReplyTarget(
        project_id=project_id, project=project, on=on, number=number, references_full=full, references_short=short
    )


def find_topic(database: Database, row_id: int) -> ReplyTarget:
    """Return a stored topic."""
    ((project_id, project, number),) = database.read(
        "SELECT p.id, p.path, t.iid FROM topics t JOIN projects p ON p.id = t.project_id WHERE t.id = :id",
        {"id": row_id},
    )
    return _topic_target(project_id, project, number)


def find_topic_threads(database: Database, remote_id: int) -> list[ReplyTarget]:
    """Return the threads of topics that contain a comment or reply with this id, in any project."""
    rows = database.read(
        "SELECT p.id, p.path, t.iid, COALESCE(c.in_reply_to, c.remote_id) FROM topics t CROSS JOIN topic_comments c"
        " JOIN projects p ON p.id = t.project_id"
        " WHERE c.topic_id = t.id AND c.remote_id = :id AND t.deleted_at IS NULL ORDER BY c.id",
        {"id": remote_id},
    )
    return [_topic_target(*row) for row in rows]


def _topic_target(project_id: int, project: str, number: int, first: int | None = None) -> ReplyTarget:
    return ReplyTarget(
        project_id=project_id,
        project=project,
        on="topic",
        number=number,
        references_full=None,
        references_short=None,
        thread=None if first is None else f"discussioncomment-{first}",
        first=first,
    )


class TopicIds(Struct, frozen=True):
    """The global ids of a topic and of one of its comments; None of what is not stored."""

    topic: str | None
    comment: str | None


def find_topic_ids(database: Database, project_id: int, number: int, comment_id: int | None) -> TopicIds:
    """Return the global ids by which a topic and a comment of it are answered."""
    rows = database.read(
        "SELECT t.node_id, (SELECT c.node_id FROM topic_comments c WHERE c.topic_id = t.id AND c.remote_id = :comment)"
        " FROM topics t WHERE t.project_id = :project_id AND t.iid = :number AND t.deleted_at IS NULL",
        {"project_id": project_id, "number": number, "comment": comment_id},
    )
    return TopicIds(*rows[0]) if rows else TopicIds(None, None)


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
    column = PARENTS[on].column
    return _threads(database, f"d.{column} = :id AND d.resolvable = 1", {"id": row_id})


def _threads(database: Database, condition: str, params: dict[str, object]) -> list[ReplyTarget]:
    found: list[ReplyTarget] = []
    for on, parents in PARENTS.items():
        rows = database.read(
            f"SELECT p.id, p.path, t.iid, t.references_full, t.references_short, {_THREAD}"
            f" FROM projects p CROSS JOIN discussions d JOIN {parents.table} t ON t.id = d.{parents.column}"
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
