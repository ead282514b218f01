"""The Discussions of a repository, read over GraphQL, each with all its comments and replies.

The REST API has none. A discussion whose comments or replies need more than one page is read to its end before it is
returned; one comment that cannot be parsed rejects its whole discussion, so that a part never replaces stored rows.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from tidelore.core.content import digest
from tidelore.core.errors import FeatureDisabled, RemotePermanent, RemoteTransient
from tidelore.core.model import (
    TOPIC_COMMENT,
    CommentRecord,
    Item,
    Rejected,
    TopicCommentRecord,
    TopicRecord,
    Version,
)
from tidelore.engine.ports import ListRequest, Page
from tidelore.sources.github.graphql import RATE_LIMIT, Actor, GraphQlClient, actor_login, hidden_as_missing
from tidelore.sources.github.payloads import Number
from tidelore.sources.graphql import NULL, Connection, GraphQlData, PageSize, PartialAnswer, decode, present
from tidelore.sources.items import instant, optional_instant, refuse_nul, reject

COMMENT = """fragment comment on DiscussionComment {
  id databaseId author { __typename login } authorAssociation body createdAt updatedAt deletedAt isAnswer upvoteCount
  url
}"""
_THREAD = (
    """fragment thread on DiscussionComment {
  ...comment
  replies(first: $inner) { pageInfo { hasNextPage endCursor } nodes { ...comment } }
}
"""
    + COMMENT
)
_TOPIC = (
    """fragment topic on Discussion {
  id databaseId number title body author { __typename login } authorAssociation createdAt updatedAt closedAt closed
  stateReason locked isAnswered answerChosenAt upvoteCount url category { name } answer { databaseId }
  comments(first: $inner) { pageInfo { hasNextPage endCursor } nodes { ...thread } }
}
"""
    + _THREAD
)
_LIMIT = RATE_LIMIT
TOPICS = (
    f"""query($id: ID!, $outer: Int!, $inner: Int!, $after: String, $order: DiscussionOrder!) {{
  {_LIMIT}
  node(id: $id) {{ ... on Repository {{ hasDiscussionsEnabled
    discussions(first: $outer, after: $after, orderBy: $order) {{
      pageInfo {{ hasNextPage endCursor }} nodes {{ ...topic }}
    }} }} }}
}}
"""
    + _TOPIC
)
TOPIC = (
    f"""query($id: ID!, $number: Int!, $inner: Int!) {{
  {_LIMIT}
  node(id: $id) {{ ... on Repository {{ hasDiscussionsEnabled discussion(number: $number) {{ ...topic }} }} }}
}}
"""
    + _TOPIC
)
COMMENTS = (
    f"""query($id: ID!, $outer: Int!, $inner: Int!, $after: String) {{
  {_LIMIT}
  node(id: $id) {{ ... on Discussion {{ children: comments(first: $outer, after: $after) {{
    pageInfo {{ hasNextPage endCursor }} nodes {{ ...thread }}
  }} }} }}
}}
"""
    + _THREAD
)
REPLIES = (
    f"""query($id: ID!, $outer: Int!, $after: String) {{
  {_LIMIT}
  node(id: $id) {{ ... on DiscussionComment {{ children: replies(first: $outer, after: $after) {{
    pageInfo {{ hasNextPage endCursor }} nodes {{ ...comment }}
  }} }} }}
}}
"""
    + COMMENT
)

_NEWEST_UPDATE_FIRST = {"field": "UPDATED_AT", "direction": "DESC"}
_OLDEST_FIRST = {"field": "CREATED_AT", "direction": "ASC"}
_TOPICS_SIZE = PageSize(10, 12)
"""The largest page that costs one point: a query pays for every page of replies that it might open."""
_COMMENTS_SIZE = PageSize(100, 20)
_REPLIES_SIZE = PageSize(100, 1)


class _Comment(Struct, frozen=True, rename="camel"):
    id: str
    database_id: Number
    body: str
    created_at: str
    updated_at: str
    is_answer: bool
    upvote_count: Number
    author: Actor | None = None
    author_association: str | None = None
    deleted_at: str | None = None
    url: str | None = None
    replies: Connection | None = None


class _Category(Struct, frozen=True):
    name: str


class _Answer(Struct, frozen=True, rename="camel"):
    database_id: Number | None = None


class _Topic(Struct, frozen=True, rename="camel"):
    id: str
    database_id: Number
    number: Number
    title: str
    body: str
    created_at: str
    updated_at: str
    closed: bool
    locked: bool
    upvote_count: Number
    category: _Category
    comments: Connection
    author: Actor | None = None
    author_association: str | None = None
    closed_at: str | None = None
    state_reason: str | None = None
    is_answered: bool | None = None
    answer_chosen_at: str | None = None
    answer: _Answer | None = None
    url: str | None = None


class _Repository(Struct, frozen=True, rename="camel"):
    has_discussions_enabled: bool
    discussions: Connection | None = None
    discussion: Raw = NULL


class _Home(Struct, frozen=True):
    node: _Repository | None = None


class _Children(Struct, frozen=True):
    children: Connection | None = None


class ChildrenAnswer(Struct, frozen=True):
    """An answer with a page of the comments of a Discussion, or of the replies to a comment."""

    node: _Children | None = None


_topic = msgspec.json.Decoder(_Topic)
_comment = msgspec.json.Decoder(_Comment)


class DiscussionList:
    """The Discussions of one repository, given by its global id, which does not change when it is renamed.

    They are listed with the newest update first, or `by_creation`, the oldest first; both are resumed by their token.
    """

    def __init__(self, graphql: GraphQlClient, repo_node_id: str, *, by_creation: bool = False) -> None:
        self._graphql = graphql
        self._repo = repo_node_id
        self._by_creation = by_creation

    async def fetch(self, request: ListRequest) -> Page[TopicRecord]:
        """Read one page. Raises FeatureDisabled where Discussions are switched off."""
        order = _OLDEST_FIRST if self._by_creation else _NEWEST_UPDATE_FIRST

        def variables(size: PageSize) -> dict[str, Any]:
            asked = {"id": self._repo, "outer": size.outer, "inner": size.inner}
            return {**asked, "after": request.token, "order": order}

        def read(answer: GraphQlData) -> tuple[list[bytes], str | None, int | None]:
            found = self._repository(answer).discussions
            if found is None:
                raise PartialAnswer("the list of discussions is null")
            nodes = present(found.nodes, answer.hidden, ("node", "discussions", "nodes"))
            for payload in nodes:
                _require_comments(payload)
            return nodes, found.page_info.following, answer.server_at

        payloads, following, server_at = await self._graphql.ask(
            TOPICS, variables, read, route="discussions", size=_TOPICS_SIZE
        )
        if following is not None and following == request.token:
            raise RemotePermanent("the pages of a query repeat", reason="graphql")
        return await self._page(payloads, following, server_at)

    async def fetch_one(self, locator: str) -> Page[TopicRecord]:
        """Read one discussion by its number; it is gone if the repository has Discussions and not this one."""

        def variables(size: PageSize) -> dict[str, Any]:
            return {"id": self._repo, "number": int(locator), "inner": size.inner}

        def read(answer: GraphQlData) -> tuple[list[bytes], int | None]:
            found = self._repository(answer).discussion
            if found != NULL:
                _require_comments(bytes(found))
                return [bytes(found)], answer.server_at
            if ("node", "discussion") in answer.hidden:
                return [], answer.server_at
            raise PartialAnswer("the discussion is null")

        size = PageSize(1, _COMMENTS_SIZE.inner)
        payloads, server_at = await self._graphql.ask(TOPIC, variables, read, route="discussions/one", size=size)
        return await self._page(payloads, None, server_at)

    def _repository(self, answer: GraphQlData) -> _Repository:
        home = decode(answer, _Home).node
        if home is None and ("node",) in answer.hidden:
            raise hidden_as_missing(f"repository {self._repo}")
        if home is None:
            raise PartialAnswer("the repository is null")
        if not home.has_discussions_enabled:
            raise FeatureDisabled(
                f"Discussions are switched off in repository {self._repo}",
                reason="feature_disabled",
                fix="switch them on in the settings of the repository; stored items are kept",
            )
        return home

    async def _page(self, payloads: list[bytes], following: str | None, server_at: int | None) -> Page[TopicRecord]:
        items: list[Item[TopicRecord]] = []
        rejected: list[Rejected] = []
        for payload in payloads:
            try:
                record = await self._record(payload)
                items.append(_item(payload, record, record.created_at if self._by_creation else record.updated_at))
            except (msgspec.DecodeError, ValueError, RecursionError) as error:
                rejected.append(reject(payload, str(error), "number"))
        return Page(items=items, rejected=rejected, next_token=following, server_at=server_at, anchored=False)

    async def _record(self, payload: bytes) -> TopicRecord:
        """Parse a discussion and read the comments and replies that are not in its payload."""
        parsed = _topic.decode(payload)
        comments: list[TopicCommentRecord] = []
        for raw in await self._all(parsed.comments, parsed.id, COMMENTS, "discussions/comments", _COMMENTS_SIZE):
            comment = _named(raw)
            comments.append(_comment_record(comment, raw, None))
            if comment.replies is None:
                raise ValueError(f"comment {comment.id}: replies are missing")
            replies = await self._all(comment.replies, comment.id, REPLIES, "discussions/replies", _REPLIES_SIZE)
            comments += [_comment_record(_named(reply), reply, comment.database_id) for reply in replies]
        return _topic_record(parsed, tuple(comments))

    async def _all(self, first: Connection, node_id: str, document: str, route: str, size: PageSize) -> list[bytes]:
        """Return the objects of a list whose first page is known."""
        found, after = [bytes(raw) for raw in first.nodes], first.page_info.following
        seen: set[str] = set()
        while after is not None:
            if after in seen:
                raise RemotePermanent("the pages of a query repeat", reason="graphql")
            seen.add(after)
            more, after = await self._more(node_id, after, document, route, size)
            found += more
        return found

    async def _more(
        self, node_id: str, after: str, document: str, route: str, size: PageSize
    ) -> tuple[list[bytes], str | None]:
        def variables(fitting: PageSize) -> dict[str, Any]:
            asked: dict[str, Any] = {"id": node_id, "outer": fitting.outer, "after": after}
            return asked | ({"inner": fitting.inner} if document is COMMENTS else {})

        def read(answer: GraphQlData) -> tuple[list[bytes], str | None]:
            holder = decode(answer, ChildrenAnswer).node
            if holder is None and ("node",) in answer.hidden:
                raise RemoteTransient("a discussion was deleted while it was read", reason="graphql")
            if holder is None or holder.children is None:
                raise PartialAnswer("a list of comments is null")
            nodes = present(holder.children.nodes, answer.hidden, ("node", "children", "nodes"))
            for payload in nodes:
                _require_replies(payload)
            return nodes, holder.children.page_info.following

        return await self._graphql.ask(document, variables, read, route=route, size=size)


def _item(payload: bytes, record: TopicRecord, at: int) -> Item[TopicRecord]:
    if b"\\u0000" in payload:
        refuse_nul(record)
    # The payloads of the comments depend on the size of the pages they were read in.
    plain = replace(record, comments=tuple(replace(comment, payload=b"") for comment in record.comments))
    version = Version(record.remote_id, record.updated_at, digest(msgspec.json.encode(plain)))
    return Item(version, at, payload, record)


class _Replied(Struct, frozen=True):
    replies: Connection | None = None


class _Commented(Struct, frozen=True):
    comments: Connection


def _require_comments(payload: bytes) -> None:
    """Raise PartialAnswer if a comment or a reply of a discussion is null; another wrong shape is left to the item."""
    try:
        comments = msgspec.json.decode(payload, type=_Commented).comments
    except msgspec.DecodeError:
        return
    for comment in present(comments.nodes, frozenset(), ()):
        _require_replies(comment)


def _require_replies(payload: bytes) -> None:
    try:
        replies = msgspec.json.decode(payload, type=_Replied).replies
    except msgspec.DecodeError:
        return
    if replies is not None:
        present(replies.nodes, frozenset(), ())


def _named(payload: bytes) -> _Comment:
    try:
        return _comment.decode(payload)
    except msgspec.DecodeError as error:
        raise ValueError(f"comment: {error}") from None


def _comment_record(comment: _Comment, payload: bytes, parent_id: int | None) -> TopicCommentRecord:
    where = f"comment {comment.database_id}: "
    record = TopicCommentRecord(
        remote_id=comment.database_id,
        node_id=comment.id,
        parent_id=parent_id,
        author=actor_login(comment.author),
        association=comment.author_association,
        body=comment.body,
        is_answer=comment.is_answer,
        upvotes=comment.upvote_count,
        created_at=instant(f"{where}createdAt", comment.created_at),
        updated_at=instant(f"{where}updatedAt", comment.updated_at),
        deleted_at=optional_instant(f"{where}deletedAt", comment.deleted_at),
        url=comment.url,
        payload=payload,
    )
    if b"\\u0000" in payload:
        refuse_nul(record)
    return record


def parse_comment(payload: bytes, number: int) -> CommentRecord:
    """Parse a comment or reply of a discussion, by the number of that, as a comment."""
    record = _comment_record(_named(payload), payload, None)
    return CommentRecord(
        remote_id=record.remote_id,
        kind=TOPIC_COMMENT,
        number=number,
        author=record.author,
        is_bot=False,
        body=record.body,
        url=record.url,
        created_at=record.created_at,
        updated_at=record.updated_at,
        association=record.association,
    )


def _topic_record(topic: _Topic, comments: tuple[TopicCommentRecord, ...]) -> TopicRecord:
    return TopicRecord(
        remote_id=topic.database_id,
        node_id=topic.id,
        iid=topic.number,
        title=topic.title,
        body=topic.body,
        author=actor_login(topic.author),
        association=topic.author_association,
        category=topic.category.name,
        is_answered=topic.is_answered,
        answer_id=None if topic.answer is None else topic.answer.database_id,
        answer_chosen_at=optional_instant("answerChosenAt", topic.answer_chosen_at),
        upvotes=topic.upvote_count,
        state="closed" if topic.closed else "opened",
        state_reason=None if topic.state_reason is None else topic.state_reason.lower(),
        locked=topic.locked,
        created_at=instant("createdAt", topic.created_at),
        updated_at=instant("updatedAt", topic.updated_at),
        closed_at=optional_instant("closedAt", topic.closed_at),
        url=topic.url,
        comments=comments,
    )
