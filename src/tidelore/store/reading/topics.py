"""Lists topics, resolves a reference to one, and reads it with its comments. Writes nothing."""

from __future__ import annotations

from msgspec import Struct

from tidelore.core.errors import NotFound
from tidelore.core.references import KINDS, NOUNS, Reference
from tidelore.store.database.port import Database
from tidelore.store.mirror.kinds import PARENTS, TOPICS
from tidelore.store.reading.conversations import candidates, choose_candidate, named_project
from tidelore.store.reading.lists import SHARED, SORTS, Listing, PageFilter, page_conditions, read_page


class TopicFilter(PageFilter, frozen=True, kw_only=True):
    """Filters for a list of topics."""

    category: str | None = None
    answered: bool | None = None


class TopicRow(Struct, frozen=True):
    """A topic, its project, and how many comments it has, replies included."""

    id: int
    project_id: int
    project: str
    iid: int
    title: str
    body: str | None
    state: str
    state_reason: str | None
    author: str | None
    association: str | None
    category: str | None
    is_answered: int | None
    answer_chosen_at: int | None
    upvotes: int
    locked: int
    created_at: int
    updated_at: int
    closed_at: int | None
    deleted_at: int | None
    web_url: str | None
    comments: int


class TopicCommentRow(Struct, frozen=True):
    """A comment of a topic. `in_reply_to` is the comment that a reply belongs to."""

    remote_id: int
    in_reply_to: int | None
    author: str | None
    association: str | None
    body: str
    is_answer: int
    upvotes: int
    created_at: int
    updated_at: int
    deleted_at: int | None
    url: str | None


_SELECT = (
    "SELECT t.id, p.id, p.path, t.iid, t.title, t.body, t.state, t.state_reason, t.author_username,"
    " t.author_association, t.category, t.is_answered, t.answer_chosen_at, t.upvotes, t.locked, t.created_at,"
    " t.updated_at, t.closed_at, t.deleted_at, t.web_url,"
    " (SELECT COUNT(*) FROM topic_comments c WHERE c.topic_id = t.id AND c.deleted_at IS NULL)"
)
_EQUAL = {**SHARED, "category": "category", "answered": "is_answered"}


def list_topics(database: Database, wanted: TopicFilter) -> Listing[TopicRow]:
    """Return one page of topics, the newest update first by default."""
    where, sort = page_conditions(wanted, _EQUAL), SORTS[wanted.sort]
    return read_page(database, _SELECT, TOPICS, TopicRow, wanted, where, sort=sort, ascending=wanted.ascending)


def resolve_topic(database: Database, reference: Reference, *, project: str | None = None, default: str = "") -> int:
    """Return the id of the referenced topic; `project` is a project named in addition to the reference."""
    named = named_project(database, reference, project)
    found = candidates(database, TOPICS, reference.iid, named)
    if found:
        return choose_candidate(found, f"#{reference.iid}", default)
    beside = "" if named is None else f" -p {named.path}"
    other = next((kind for kind in KINDS if candidates(database, PARENTS[kind].table, reference.iid, named)), None)
    raise NotFound(
        f"the local copy has no topic #{reference.iid}{'' if named is None else f' of {named.path}'}",
        fix="if it is new, fetch it with `lore sync`"
        if other is None
        else f"there is {NOUNS[other]} of that number: `lore show {other} {reference.iid}{beside}`",
        reference=f"#{reference.iid}",
        project=None if named is None else named.path,
    )


def read_topic(database: Database, row_id: int) -> tuple[TopicRow, list[TopicCommentRow]]:
    """Return a topic and its comments in order, each followed by its replies."""
    (row,) = database.read(
        f"{_SELECT} FROM topics t JOIN projects p ON p.id = t.project_id WHERE t.id = :id", {"id": row_id}
    )
    comments = database.read(
        "SELECT remote_id, in_reply_to, author_username, author_association, body, is_answer, upvotes, created_at,"
        " updated_at, deleted_at, url FROM topic_comments WHERE topic_id = :id ORDER BY position",
        {"id": row_id},
    )
    return TopicRow(*row), [TopicCommentRow(*comment) for comment in comments]
