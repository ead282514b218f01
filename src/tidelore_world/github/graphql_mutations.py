"""What GraphQL can change on the simulated GitHub: review threads, replies, comments, issues.

Owns the mutations and their payloads. Refuses to change rows itself: the same events serve REST.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tidelore_world.github.graphql_schema import require_node
from tidelore_world.github.graphql_types import Arguments, Context, FieldFailure, FieldType, Node, fields

if TYPE_CHECKING:
    from tidelore_world.github.discussing import Discussing

Input = Mapping[str, Any]
Change = Callable[["Discussing", Context, Input], Mapping[str, Any]]


def _writable(context: Context, given: Input, name: str, *types: str) -> Node:
    """The object an input names, if it is of a fitting type and can be written to."""
    node = require_node(context, str(given.get(name)))
    if node.type_name not in types:
        raise FieldFailure("NOT_FOUND", f"Could not resolve to a node with the global id of '{given.get(name)}'")
    if node.home.archived:
        raise FieldFailure("UNPROCESSABLE", "Repository was archived so is read-only.")
    return node


def _text(given: Input) -> str:
    body = given.get("body")
    if not isinstance(body, str) or not body.strip():
        raise FieldFailure("UNPROCESSABLE", "Body can't be blank")
    return body


def _resolve(events: Discussing, context: Context, given: Input) -> Mapping[str, Any]:
    node = _writable(context, given, "threadId", "PullRequestReviewThread")
    changed = events.resolve_thread(node.home.full_name, node.row.id, context.viewer)
    return {"thread": Node(node.type_name, changed, node.repo)}


def _unresolve(events: Discussing, context: Context, given: Input) -> Mapping[str, Any]:
    node = _writable(context, given, "threadId", "PullRequestReviewThread")
    changed = events.unresolve_thread(node.home.full_name, node.row.id)
    return {"thread": Node(node.type_name, changed, node.repo)}


def _reply(events: Discussing, context: Context, given: Input) -> Mapping[str, Any]:
    node = _writable(context, given, "pullRequestReviewThreadId", "PullRequestReviewThread")
    row = events.review_comment(
        node.home.full_name, node.row.number, _text(given), context.viewer, in_reply_to=node.row.comments[0]
    )
    return {"comment": Node("PullRequestReviewComment", row, node.repo)}


def _discuss(events: Discussing, context: Context, given: Input) -> Mapping[str, Any]:
    node = _writable(context, given, "discussionId", "Discussion")
    parent = None
    if given.get("replyToId") is not None:
        above = _writable(context, given, "replyToId", "DiscussionComment").row
        if above.reply_to is not None:
            # As the real service says it: github/accessibility-alt-text-bot pull request 17.
            raise FieldFailure("UNPROCESSABLE", "Parent comment is already in a thread, cannot reply to it")
        parent = above.id
    row = events.comment_discussion(node.home.full_name, node.row.number, _text(given), context.viewer, reply_to=parent)
    return {"comment": Node("DiscussionComment", row, node.repo)}


def _comment(events: Discussing, context: Context, given: Input) -> Mapping[str, Any]:
    node = _writable(context, given, "subjectId", "Issue", "PullRequest")
    row = events.comment(node.home.full_name, node.row.number, _text(given), context.viewer)
    made = Node("IssueComment", row, node.repo)
    subject = Node(node.type_name, node.home.thread(node.row.number), node.repo)
    return {"commentEdge": Node("IssueCommentEdge", (made, ""), node.repo), "subject": subject}


def _edit(events: Discussing, context: Context, given: Input) -> Mapping[str, Any]:
    node = _writable(context, given, "id", "IssueComment")
    row = events.edit_comment(node.row.id, _text(given), kind="comment")
    return {"issueComment": Node("IssueComment", row, node.repo)}


def _close(events: Discussing, context: Context, given: Input) -> Mapping[str, Any]:
    node = _writable(context, given, "issueId", "Issue")
    reason = str(given.get("stateReason") or "COMPLETED").lower()
    row = events.close(node.home.full_name, node.row.number, context.viewer, reason=reason)  # type: ignore[arg-type]
    return {"issue": Node("Issue", row, node.repo)}


_MUTATIONS: Mapping[str, tuple[Change, Mapping[str, str]]] = {
    "addComment": (_comment, {"commentEdge": "IssueCommentEdge", "subject": "Node"}),
    "addDiscussionComment": (_discuss, {"comment": "DiscussionComment"}),
    "addPullRequestReviewThreadReply": (_reply, {"comment": "PullRequestReviewComment"}),
    "closeIssue": (_close, {"issue": "Issue"}),
    "resolveReviewThread": (_resolve, {"thread": "PullRequestReviewThread"}),
    "unresolveReviewThread": (_unresolve, {"thread": "PullRequestReviewThread"}),
    "updateIssueComment": (_edit, {"issueComment": "IssueComment"}),
}


def mutation_types(events: Discussing) -> dict[str, Mapping[str, FieldType]]:
    """The root of mutations and the types of their payloads, bound to the hub they change."""
    types: dict[str, Mapping[str, FieldType]] = {"Mutation": {}}
    roots: dict[str, FieldType] = {}
    for name, (change, shown) in _MUTATIONS.items():
        payload = f"{name[0].upper()}{name[1:]}Payload"

        def run(context: Context, _n: Node, given: Arguments, change: Change = change, payload: str = payload) -> Node:
            wanted = given["input"]
            return Node(
                payload, {**change(events, context, wanted), "clientMutationId": wanted.get("clientMutationId")}
            )

        roots |= fields(**{name: (payload, run, "input!")})
        declared = {**shown, "clientMutationId": "String"}
        types[payload] = fields(**{key: (inner, _member(key)) for key, inner in declared.items()})
    types["Mutation"] = roots
    return types


def _member(key: str) -> Callable[[Context, Node, Arguments], Any]:
    return lambda _c, node, _a: node.row[key]
