"""Accounts, labels and what all comments have in common, as GraphQL shows them.

Owns the fields that many types share. Refuses to know issues, pull requests or discussions.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from tidelore_world.github import payloads
from tidelore_world.github.graphql_types import Arguments, Context, FieldType, Node, fields, numbered
from tidelore_world.github.payloads import GHOST, association, instant, maybe_instant, node_id
from tidelore_world.github.records import User

_LARGEST_INT = 2**31 - 1
_REACTIONS = {
    "THUMBS_UP": "+1",
    "THUMBS_DOWN": "-1",
    "LAUGH": "laugh",
    "HOORAY": "hooray",
    "CONFUSED": "confused",
    "HEART": "heart",
    "ROCKET": "rocket",
    "EYES": "eyes",
}


def actor(account: User) -> Node:
    """An account, of the type it is."""
    return Node(account.kind, account)


def maybe_actor(account: User | None) -> Node | None:
    """An account that may be missing or deleted."""
    return None if account is None or account.login == GHOST else actor(account)


def identity(row_id: Callable[[Any], int], *, full: bool = False) -> dict[str, FieldType]:
    """The number of an object: `databaseId` has 32 bits and is null beyond, `fullDatabaseId` is a text."""

    def small(_c: Context, node: Node, _a: Arguments) -> int | None:
        found = row_id(node.row)
        return found if found <= _LARGEST_INT else None

    made = fields(databaseId=("Int", small))
    if full:
        made |= fields(fullDatabaseId=("BigInt", lambda _c, node, _a: str(row_id(node.row))))
    return made


def url(path: Callable[[Node], str]) -> dict[str, FieldType]:
    """The address of an object for people, below its repository."""

    def resource(_c: Context, node: Node, _a: Arguments) -> str:
        return f"/{node.home.full_name}/{path(node)}"

    return fields(
        resourcePath=("URI!", resource),
        url=("URI!", lambda context, node, given: f"{payloads.web(context.origin)}{resource(context, node, given)}"),
    )


def comment_fields(
    created: Callable[[Any], int] = lambda row: row.created_s, updated: Callable[[Any], int] = lambda row: row.updated_s
) -> dict[str, FieldType]:
    """What GraphQL's interface `Comment` has."""

    def edited(node: Node) -> int | None:
        marked: int | None = getattr(node.row, "edited_s", None)
        return marked

    return fields(
        author=("Actor", lambda _c, node, _a: maybe_actor(node.row.author)),
        authorAssociation=("ASSOCIATION!", lambda _c, node, _a: association(node.home, node.row.author)),
        body=("String!", lambda _c, node, _a: node.row.body),
        bodyHTML=("HTML!", lambda _c, node, _a: f"<p>{escape(node.row.body)}</p>"),
        bodyText=("String!", lambda _c, node, _a: node.row.body),
        createdAt=("DateTime!", lambda _c, node, _a: instant(created(node.row))),
        createdViaEmail=("Boolean!", lambda _c, _n, _a: False),
        editor=("Actor", lambda _c, node, _a: None if edited(node) is None else maybe_actor(node.row.author)),
        includesCreatedEdit=("Boolean!", lambda _c, node, _a: edited(node) is not None),
        lastEditedAt=("DateTime", lambda _c, node, _a: maybe_instant(edited(node))),
        publishedAt=("DateTime", lambda _c, node, _a: instant(created(node.row))),
        updatedAt=("DateTime!", lambda _c, node, _a: instant(updated(node.row))),
        viewerDidAuthor=(
            "Boolean!",
            lambda context, node, _a: node.row.author.login.lower() == context.viewer.lower(),
        ),
    )


def reaction_groups(_c: Context, node: Node, _a: Arguments) -> list[Node]:
    """How often each reaction was given."""
    counts = dict(node.row.reactions)
    return [Node("ReactionGroup", (name, counts.get(short, 0))) for name, short in _REACTIONS.items()]


def labels(_c: Context, node: Node, given: Arguments) -> Node:
    """The labels of a thread or a discussion."""
    rows = [Node("Label", name, node.repo) for name in node.row.labels]
    return numbered("LabelConnection", "labels", given, rows, node.repo)


def _label(node: Node) -> dict[str, Any]:
    return payloads.label("", node.row)


_ACCOUNT = fields(
    avatarUrl=("URI!", lambda context, node, _a: f"{context.origin}/avatars/u/{node.row.id}?v=4", "size"),
    databaseId=("Int", lambda _c, node, _a: node.row.id if node.row.id <= _LARGEST_INT else None),
    id=("ID!", lambda _c, node, _a: payloads.user_node_id(node.row)),
    login=("String!", lambda _c, node, _a: node.row.login.removesuffix("[bot]")),
    resourcePath=("URI!", lambda _c, node, _a: f"/{node.row.login}"),
    url=("URI!", lambda context, node, _a: f"{payloads.web(context.origin)}/{node.row.login}"),
)
BOT = _ACCOUNT
USER = _ACCOUNT | fields(name=("String", lambda _c, node, _a: node.row.name))
ORGANIZATION = USER
ACTOR = {name: USER[name] for name in ("avatarUrl", "login", "resourcePath", "url")}
OWNER = {name: USER[name] for name in ("avatarUrl", "id", "login", "resourcePath", "url")}

LABEL = fields(
    color=("String!", lambda _c, node, _a: _label(node)["color"]),
    description=("String", lambda _c, node, _a: _label(node)["description"]),
    id=("ID!", lambda _c, node, _a: _label(node)["node_id"]),
    isDefault=("Boolean!", lambda _c, _n, _a: False),
    name=("String!", lambda _c, node, _a: node.row),
)

REACTION_GROUP = fields(
    content=("CONTENT!", lambda _c, node, _a: node.row[0]),
    viewerHasReacted=("Boolean!", lambda _c, _n, _a: False),
)

MILESTONE = url(lambda node: f"milestone/{node.row.number}") | fields(
    closed=("Boolean!", lambda _c, node, _a: node.row.state == "closed"),
    closedAt=("DateTime", lambda _c, node, _a: maybe_instant(node.row.closed_s)),
    createdAt=("DateTime!", lambda _c, node, _a: instant(node.row.created_s)),
    creator=("Actor", lambda _c, node, _a: maybe_actor(node.row.creator)),
    description=("String", lambda _c, node, _a: node.row.description or None),
    dueOn=("DateTime", lambda _c, node, _a: maybe_instant(node.row.due_s)),
    id=("ID!", lambda _c, node, _a: node_id("MI", node.row.id)),
    number=("Int!", lambda _c, node, _a: node.row.number),
    state=("STATE!", lambda _c, node, _a: node.row.state.upper()),
    title=("String!", lambda _c, node, _a: node.row.title),
    updatedAt=("DateTime!", lambda _c, node, _a: instant(node.row.updated_s)),
)

COMMIT = fields(
    abbreviatedOid=("String!", lambda _c, node, _a: node.row.sha[:7]),
    committedDate=("DateTime!", lambda _c, node, _a: instant(node.row.at_s)),
    id=("ID!", lambda _c, node, _a: f"C_kwDO{node.row.sha[:20]}"),
    message=("String!", lambda _c, node, _a: node.row.message),
    messageHeadline=("String!", lambda _c, node, _a: node.row.message.partition("\n")[0]),
    oid=("GitObjectID!", lambda _c, node, _a: node.row.sha),
)
