"""Posts comments on Discussions and replies to their comments by GraphQL, and finds them again.

REST has neither. A reply names the comment at the top of its thread: GitHub refuses a reply to a reply. A mutation is
sent once, without retries; see `mutations` for its errors.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from tidelore.core.content import digest
from tidelore.core.errors import RemoteNotFound
from tidelore.core.model import CommentRecord, Item, Rejected, Version
from tidelore.core.redaction import redact
from tidelore.engine.ports import ListRequest, Page
from tidelore.http.failures import unclear_write
from tidelore.sources.github.client import GitHubClient
from tidelore.sources.github.discussions import COMMENT, REPLIES, ChildrenAnswer, parse_comment
from tidelore.sources.github.graphql import GraphQlClient, hidden_as_missing
from tidelore.sources.github.mutations import WriteKind, read_mutation
from tidelore.sources.graphql import NULL, GraphQlData, PageSize, PartialAnswer, decode, present
from tidelore.sources.items import reject
from tidelore.sources.ports import AnswerPlace, WriteRequest

ADD_COMMENT = (
    """mutation($discussion: ID!, $body: String!) {
  addDiscussionComment(input: {discussionId: $discussion, body: $body}) { comment { ...comment } }
}
"""
    + COMMENT
)
ADD_REPLY = (
    """mutation($discussion: ID!, $parent: ID!, $body: String!) {
  addDiscussionComment(input: {discussionId: $discussion, replyToId: $parent, body: $body}) { comment { ...comment } }
}
"""
    + COMMENT
)
COMMENTS = (
    """query($id: ID!, $outer: Int!, $after: String) { rateLimit { cost remaining resetAt }
  node(id: $id) { ... on Discussion { children: comments(first: $outer, after: $after) {
    pageInfo { hasNextPage endCursor } nodes { ...comment }
  } } }
}
"""
    + COMMENT
)
_SIZE = PageSize(100, 1)
_COMMENTING = WriteKind("comment on Discussions", "Discussion or comment", "give the token write access to Discussions")


class _Made(Struct, frozen=True):
    comment: Raw = NULL


class _MadeBy(Struct, frozen=True, rename="camel"):
    add_discussion_comment: _Made | None = None


def comment_request(client: GitHubClient, place: AnswerPlace, body: str) -> WriteRequest:
    """Return the request that comments on a Discussion, or replies to one of its comments."""
    variables = {"discussion": place.discussion, "body": body}
    document = ADD_COMMENT
    if place.reply_to is not None:
        document, variables = ADD_REPLY, variables | {"parent": place.parent}
    return WriteRequest("POST", client.graphql_address, {"query": document, "variables": variables})


async def post_comment(client: GitHubClient, place: AnswerPlace, body: str) -> CommentRecord:
    """Post a comment or reply and return it; after an error with the reason `unclear_write` it may be posted."""
    request = comment_request(client, place, body)
    response = await client.mutate(request.content, route="graphql/comment")
    made = read_mutation(client, response, _MadeBy, _COMMENTING).add_discussion_comment
    try:
        if made is not None and made.comment != NULL:
            return parse_comment(bytes(made.comment), place.number)
    except (msgspec.DecodeError, ValueError):
        pass
    raise unclear_write(redact(response.url), response.status)


class DiscussionAnswers:
    """The comments among which an answer would be: those on a Discussion, or the replies to one of its comments.

    They have no filter by time and are read from the first one on.
    """

    def __init__(self, graphql: GraphQlClient, place: AnswerPlace) -> None:
        self._graphql = graphql
        self._number = place.number
        self._node = (place.discussion if place.reply_to is None else place.parent) or ""
        self._document = COMMENTS if place.reply_to is None else REPLIES

    async def fetch(self, request: ListRequest) -> Page[CommentRecord]:
        """Read one page."""
        if not self._node:
            raise RemoteNotFound("the discussion or comment it belongs to was deleted", status=404, reason="not_found")

        def variables(size: PageSize) -> dict[str, Any]:
            return {"id": self._node, "outer": size.outer, "after": request.token}

        def read(answer: GraphQlData) -> tuple[list[bytes], str | None, int | None]:
            holder = decode(answer, ChildrenAnswer).node
            if holder is None and ("node",) in answer.hidden:
                raise hidden_as_missing("the discussion or comment")
            if holder is None or holder.children is None:
                raise PartialAnswer("a list of comments is null")
            nodes = present(holder.children.nodes, answer.hidden, ("node", "children", "nodes"))
            return nodes, holder.children.page_info.following, answer.server_at

        payloads, following, server_at = await self._graphql.ask(
            self._document, variables, read, route="discussions/answers", size=_SIZE
        )
        items: list[Item[CommentRecord]] = []
        rejected: list[Rejected] = []
        for payload in payloads:
            try:
                record = parse_comment(payload, self._number)
            except (msgspec.DecodeError, ValueError, RecursionError) as error:
                rejected.append(reject(payload, str(error), "databaseId"))
                continue
            version = Version(record.remote_id, record.updated_at, digest(payload))
            items.append(Item(version, record.created_at, payload, record))
        return Page(items=items, rejected=rejected, next_token=following, server_at=server_at)
