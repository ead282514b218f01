"""The types of the simulated GitHub's GraphQL interface: repositories, discussions, the roots and the table of all.

Owns which types there are, which interfaces they have, and how a global id becomes an object. Names and nullability
are those of the real schema, of which this is a part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tidelore_world.clock import SECOND_US, parse_iso
from tidelore_world.github import graphql_people as people
from tidelore_world.github import graphql_threads as threads
from tidelore_world.github import payloads
from tidelore_world.github.graphql_people import comment_fields, identity, labels, maybe_actor, reaction_groups, url
from tidelore_world.github.graphql_types import (
    PAGE_INFO,
    Arguments,
    Context,
    FieldFailure,
    FieldType,
    Node,
    Page,
    connection_fields,
    edges,
    fields,
    numbered,
    paged,
    read_cut,
)
from tidelore_world.github.payloads import instant, maybe_instant, node_id
from tidelore_world.github.records import Discussion, DiscussionComment, Thread
from tidelore_world.github.repository import Repository
from tidelore_world.github.shelf import Order, Shelf, key_of

_ORDERS: Mapping[str, Order] = {"CREATED_AT": "created", "UPDATED_AT": "updated"}


# Discussions


def _discussion_comments(_c: Context, node: Node, given: Arguments) -> Node:
    rows = node.home.discussion_comments.of(node.row.number)
    return _connect_comments("comments", given, [row for row in rows if row.reply_to is None], node.home)


def _replies(_c: Context, node: Node, given: Arguments) -> Node:
    rows = node.home.discussion_comments.of(node.row.number)
    return _connect_comments("replies", given, [row for row in rows if row.reply_to == node.row.id], node.home)


def _connect_comments(name: str, given: Arguments, rows: list[DiscussionComment], repo: Repository) -> Node:
    nodes = [Node("DiscussionComment", row, repo) for row in rows]
    return paged("DiscussionCommentConnection", name, given, nodes, lambda node: (0, node.row.id), repo=repo)


def _discussion_comment(repo: Repository, comment_id: int | None) -> Node | None:
    row = None if comment_id is None else repo.discussion_comments.get(comment_id)
    return None if row is None else Node("DiscussionComment", row, repo)


def _is_answered(_c: Context, node: Node, _a: Arguments) -> bool | None:
    """Whether there is an answer; null in a category that has none."""
    return node.row.answer_id is not None if node.row.category.answerable else None


def _author(_c: Context, node: Node, _a: Arguments) -> Node | None:
    return None if node.row.deleted_s is not None else maybe_actor(node.row.author)


_DISCUSSION = {
    **comment_fields(),
    **identity(lambda row: row.id),
    **url(lambda node: f"discussions/{node.row.number}"),
    **fields(
        activeLockReason=("REASON", lambda _c, node, _a: node.row.lock_reason),
        answer=("DiscussionComment", lambda _c, node, _a: _discussion_comment(node.home, node.row.answer_id)),
        answerChosenAt=("DateTime", lambda _c, node, _a: maybe_instant(node.row.answer_s)),
        answerChosenBy=("Actor", lambda _c, node, _a: maybe_actor(node.row.answer_by)),
        category=("DiscussionCategory!", lambda _c, node, _a: Node("DiscussionCategory", node.row.category, node.repo)),
        closed=("Boolean!", lambda _c, node, _a: node.row.closed_s is not None),
        closedAt=("DateTime", lambda _c, node, _a: maybe_instant(node.row.closed_s)),
        comments=("DiscussionCommentConnection!", _discussion_comments),
        id=("ID!", lambda _c, node, _a: node_id("D", node.row.id)),
        isAnswered=("Boolean", _is_answered),
        labels=("LabelConnection", labels, "orderBy"),
        locked=("Boolean!", lambda _c, node, _a: node.row.locked),
        number=("Int!", lambda _c, node, _a: node.row.number),
        reactionGroups=("[ReactionGroup!]", reaction_groups),
        repository=("Repository!", lambda _c, node, _a: Node("Repository", node.repo, node.repo)),
        stateReason=("REASON", lambda _c, node, _a: node.row.state_reason),
        title=("String!", lambda _c, node, _a: node.row.title),
        upvoteCount=("Int!", lambda _c, node, _a: node.row.upvotes),
    ),
}

_DISCUSSION_COMMENT = {
    **comment_fields(),
    **identity(lambda row: row.id),
    **url(lambda node: f"discussions/{node.row.number}#discussioncomment-{node.row.id}"),
    **fields(
        author=("Actor", _author),
        deletedAt=("DateTime", lambda _c, node, _a: maybe_instant(node.row.deleted_s)),
        discussion=("Discussion", lambda _c, node, _a: _discussion(node.home, node.row.number)),
        id=("ID!", lambda _c, node, _a: node_id("DC", node.row.id)),
        isAnswer=("Boolean!", lambda _c, node, _a: node.home.discussion(node.row.number).answer_id == node.row.id),
        isMinimized=("Boolean!", lambda _c, _n, _a: False),
        reactionGroups=("[ReactionGroup!]", reaction_groups),
        replies=("DiscussionCommentConnection!", _replies),
        replyTo=("DiscussionComment", lambda _c, node, _a: _discussion_comment(node.home, node.row.reply_to)),
        upvoteCount=("Int!", lambda _c, node, _a: node.row.upvotes),
    ),
}

_CATEGORY = fields(
    createdAt=("DateTime!", lambda _c, node, _a: instant(node.row.created_s)),
    description=("String", lambda _c, _n, _a: None),
    emoji=("String!", lambda _c, node, _a: node.row.emoji),
    id=("ID!", lambda _c, node, _a: node_id("DIC", node.row.id)),
    isAnswerable=("Boolean!", lambda _c, node, _a: node.row.answerable),
    name=("String!", lambda _c, node, _a: node.row.name),
    slug=("String!", lambda _c, node, _a: node.row.slug),
    updatedAt=("DateTime!", lambda _c, node, _a: instant(node.row.created_s)),
)


def _discussion(repo: Repository, number: int) -> Node:
    return Node("Discussion", repo.discussion(number), repo)


# Repositories


def _shelved(
    type_name: str,
    name: str,
    given: Arguments,
    shelf: Shelf[Any],
    made: Callable[[Any], Node],
    repo: Repository,
    default: tuple[str, str],
    keep: Callable[[Any], bool] | None = None,
    floor_s: int | None = None,
) -> Node:
    """A page of rows that are kept in order: a page costs the page."""
    wanted = given.get("orderBy") or {"field": default[0], "direction": default[1]}
    order, descending = _ORDERS.get(str(wanted["field"]), "created"), str(wanted["direction"]) == "DESC"
    cut = read_cut(name, given)
    if cut.backwards or cut.before is not None or cut.counted_only:
        rows, _ = shelf.page(order, 0, len(shelf), descending=descending, keep=keep, floor_s=floor_s)
        nodes = [made(row) for row in rows]
        return paged(
            type_name, name, given, nodes, lambda node: key_of(order, node.row), descending=descending, repo=repo
        )
    rows, total = shelf.page(order, 0, cut.size + 1, descending=descending, keep=keep, floor_s=floor_s, after=cut.after)
    shown = rows[: cut.size]
    page = Page(
        nodes=[made(row) for row in shown],
        keys=[key_of(order, row) for row in shown],
        total=total,
        has_next=len(rows) > len(shown),
        has_previous=cut.after is not None,
    )
    return Node(type_name, page, repo)


def _pulls(_c: Context, node: Node, given: Arguments) -> Node:
    states, names = given.get("states"), given.get("labels")

    def keep(thread: Thread) -> bool:
        pull = thread.require_pull()
        state = "MERGED" if pull.merged_s is not None else thread.state.upper()
        return (
            (not states or state in states)
            and (not names or bool(set(names) & set(thread.labels)))
            and given.get("headRefName") in (None, pull.head_ref)
            and given.get("baseRefName") in (None, pull.base_ref)
        )

    filtered = any(given.get(name) for name in ("states", "labels", "headRefName", "baseRefName"))
    return _shelved(
        "PullRequestConnection",
        "pullRequests",
        given,
        node.home.pulls,
        partial(threads.thread_node, node.home),
        node.home,
        ("CREATED_AT", "ASC"),
        keep if filtered else None,
    )


def _issues(_c: Context, node: Node, given: Arguments) -> Node:
    """The issues of a repository, without pull requests; none while Issues are switched off."""
    wanted = given.get("filterBy") or {}
    states = given.get("states") or wanted.get("states")
    since = wanted.get("since")

    def keep(thread: Thread) -> bool:
        shown = node.home.has_issues and thread.pull is None
        return shown and (not states or thread.state.upper() in states)

    return _shelved(
        "IssueConnection",
        "issues",
        given,
        node.home.threads,
        partial(threads.thread_node, node.home),
        node.home,
        ("CREATED_AT", "ASC"),
        keep,
        None if since is None else -(-parse_iso(str(since)) // SECOND_US),
    )


def _discussions(_c: Context, node: Node, given: Arguments) -> Node:
    states, category, answered = given.get("states"), given.get("categoryId"), given.get("answered")

    def keep(row: Discussion) -> bool:
        state = "OPEN" if row.closed_s is None else "CLOSED"
        return (
            node.home.has_discussions
            and (not states or state in states)
            and (not category or node_id("DIC", row.category.id) == category)
            and (answered is None or (row.answer_id is not None) == answered)
        )

    return _shelved(
        "DiscussionConnection",
        "discussions",
        given,
        node.home.discussions,
        lambda row: Node("Discussion", row, node.repo),
        node.home,
        ("UPDATED_AT", "DESC"),
        keep,
    )


def _numbered_thread(kind: str, _c: Context, node: Node, given: Arguments) -> Node:
    thread = node.home.find_thread(int(given["number"]))
    hidden = kind == "Issue" and not node.home.has_issues
    if thread is None or (thread.pull is None) != (kind == "Issue") or hidden:
        raise FieldFailure("NOT_FOUND", f"Could not resolve to {_article(kind)} with the number of {given['number']}.")
    return Node(kind, thread, node.repo)


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "AEIOU" else f"a {kind}"


def _numbered_discussion(_c: Context, node: Node, given: Arguments) -> Node:
    try:
        if node.home.has_discussions:
            return _discussion(node.home, int(given["number"]))
    except LookupError:
        pass
    raise FieldFailure("NOT_FOUND", f"Could not resolve to a Discussion with the number of {given['number']}.")


def _categories(_c: Context, node: Node, given: Arguments) -> Node:
    rows = [Node("DiscussionCategory", row, node.repo) for row in node.home.categories.values()]
    return numbered("DiscussionCategoryConnection", "discussionCategories", given, rows, node.repo)


_REPOSITORY = fields(
    archivedAt=("DateTime", lambda _c, node, _a: instant(node.home.updated_s) if node.home.archived else None),
    createdAt=("DateTime!", lambda _c, node, _a: instant(node.home.created_s)),
    databaseId=("Int", lambda _c, node, _a: node.home.id if node.home.id < 2**31 else None),
    description=("String", lambda _c, node, _a: node.home.description or None),
    discussion=("Discussion", _numbered_discussion, "number!"),
    discussionCategories=("DiscussionCategoryConnection!", _categories, "filterByAssignable"),
    discussions=("DiscussionConnection!", _discussions, "answered categoryId orderBy states"),
    hasDiscussionsEnabled=("Boolean!", lambda _c, node, _a: node.home.has_discussions),
    hasIssuesEnabled=("Boolean!", lambda _c, node, _a: node.home.has_issues),
    id=("ID!", lambda _c, node, _a: node_id("R", node.home.id)),
    isArchived=("Boolean!", lambda _c, node, _a: node.home.archived),
    isDisabled=("Boolean!", lambda _c, node, _a: node.home.disabled),
    isFork=("Boolean!", lambda _c, node, _a: node.home.fork),
    isPrivate=("Boolean!", lambda _c, node, _a: node.home.private),
    issue=("Issue", partial(_numbered_thread, "Issue"), "number!"),
    issues=("IssueConnection!", _issues, "filterBy labels orderBy states"),
    name=("String!", lambda _c, node, _a: node.home.name),
    nameWithOwner=("String!", lambda _c, node, _a: node.home.full_name),
    owner=("RepositoryOwner!", lambda _c, node, _a: people.actor(node.home.owner)),
    pullRequest=("PullRequest", partial(_numbered_thread, "PullRequest"), "number!"),
    pullRequests=("PullRequestConnection!", _pulls, "baseRefName headRefName labels orderBy states"),
    pushedAt=("DateTime", lambda _c, node, _a: instant(node.home.pushed_s)),
    updatedAt=("DateTime!", lambda _c, node, _a: instant(node.home.updated_s)),
    url=("URI!", lambda context, node, _a: f"{payloads.web(context.origin)}/{node.home.full_name}"),
)


# The root


def find_node(context: Context, text: str) -> Node | None:
    """The object with a global id, if the viewer may see it."""
    read = payloads.read_node_id(text)
    if read is None:
        return None
    prefix, row_id = read
    for repo in context.hub.repositories.values():
        found = _node_in(repo, prefix, row_id)
        if found is not None:
            return found if context.hub.may_read(repo, context.viewer) else None
    return None


def _node_in(repo: Repository, prefix: str, row_id: int) -> Node | None:
    if prefix == "R":
        return Node("Repository", repo, repo) if repo.id == row_id else None
    if prefix == "PR":
        thread = repo.pull_by_id(row_id)
        return None if thread is None else Node("PullRequest", thread, repo)
    if prefix == "PRR":
        reviews = (kept[row_id] for kept in repo.reviews.values() if row_id in kept)
        review = next(reviews, None)
        return None if review is None else Node("PullRequestReview", review, repo)
    shelves: Mapping[str, tuple[str, Any]] = {
        "I": ("Issue", repo.threads),
        "IC": ("IssueComment", repo.comments),
        "PRRC": ("PullRequestReviewComment", repo.review_comments),
        "PRRT": ("PullRequestReviewThread", repo.review_threads),
        "D": ("Discussion", repo.discussions if repo.has_discussions else {}),
        "DC": ("DiscussionComment", repo.discussion_comments if repo.has_discussions else {}),
    }
    type_name, shelf = shelves.get(prefix, ("", {}))
    row = shelf.get(row_id)
    return None if row is None or getattr(row, "pull", None) is not None else Node(type_name, row, repo)


def require_node(context: Context, text: str) -> Node:
    """The object with a global id; NOT_FOUND when there is none."""
    found = find_node(context, text)
    if found is None:
        raise FieldFailure("NOT_FOUND", f"Could not resolve to a node with the global id of '{text}'")
    return found


def _nodes(context: Context, _n: Node, given: Arguments) -> list[Node | FieldFailure]:
    found: list[Node | FieldFailure] = []
    for text in given["ids"]:
        try:
            found.append(require_node(context, str(text)))
        except FieldFailure as failure:
            found.append(failure)
    return found


def _repository(context: Context, _n: Node, given: Arguments) -> Node:
    full_name = f"{given['owner']}/{given['name']}"
    repo = context.hub.named(full_name)
    if repo is None and given.get("followRenames", True):
        repo = context.hub.formerly(full_name)
    if repo is None or not context.hub.may_read(repo, context.viewer):
        raise FieldFailure("NOT_FOUND", f"Could not resolve to a Repository with the name '{full_name}'.")
    return Node("Repository", repo, repo)


def _rate(name: str) -> Callable[[Context, Node, Arguments], Any]:
    return lambda context, _n, _a: context.rate_limit[name]


def _rate_limit(context: Context, _n: Node, _a: Arguments) -> Node | None:
    return Node("RateLimit", None) if context.settings.rate_limits else None


_QUERY = fields(
    node=("Node", lambda context, _n, given: require_node(context, str(given["id"])), "id!"),
    nodes=("[Node]!", _nodes, "ids!"),
    rateLimit=("RateLimit", _rate_limit, "dryRun"),
    repository=("Repository", _repository, "owner! name! followRenames"),
    viewer=("User!", lambda context, _n, _a: people.actor(context.hub.user(context.viewer))),
)
_RATE_LIMIT = fields(
    cost=("Int!", _rate("cost")),
    limit=("Int!", _rate("limit")),
    nodeCount=("Int!", _rate("nodeCount")),
    remaining=("Int!", _rate("remaining")),
    resetAt=("DateTime!", _rate("resetAt")),
    used=("Int!", _rate("used")),
)

_CONNECTED = (
    "Discussion",
    "DiscussionCategory",
    "DiscussionComment",
    "Issue",
    "IssueComment",
    "Label",
    "PullRequest",
    "PullRequestChangedFile",
    "PullRequestReview",
    "PullRequestReviewComment",
    "PullRequestReviewThread",
    "ReviewRequest",
    "User",
)


def _connection(name: str) -> dict[str, dict[str, FieldType]]:
    edge = f"{name}Edge"
    return {
        f"{name}Connection": connection_fields()
        | fields(
            nodes=(f"[{name}]", lambda _c, node, _a: node.row.nodes),
            edges=(f"[{edge}]", lambda _c, node, _a: edges(node, edge)),
        ),
        edge: fields(
            cursor=("String!", lambda _c, node, _a: node.row[1]),
            node=(name, lambda _c, node, _a: node.row[0]),
        ),
    }


TYPES: dict[str, Mapping[str, FieldType]] = {
    "Query": _QUERY,
    "RateLimit": _RATE_LIMIT,
    "PageInfo": PAGE_INFO,
    "Node": {"id": people.OWNER["id"]},
    "Actor": people.ACTOR,
    "RepositoryOwner": people.OWNER,
    "RequestedReviewer": {},
    "Bot": people.BOT,
    "User": people.USER,
    "Organization": people.ORGANIZATION,
    "Label": people.LABEL,
    "Milestone": people.MILESTONE,
    "ReactionGroup": people.REACTION_GROUP,
    "Commit": people.COMMIT,
    "Repository": _REPOSITORY,
    "Issue": threads.ISSUE,
    "PullRequest": threads.PULL_REQUEST,
    "IssueComment": threads.ISSUE_COMMENT,
    "PullRequestReview": threads.REVIEW,
    "PullRequestReviewComment": threads.REVIEW_COMMENT,
    "PullRequestReviewThread": threads.REVIEW_THREAD,
    "PullRequestChangedFile": threads.CHANGED_FILE,
    "ReviewRequest": threads.REVIEW_REQUEST,
    "Discussion": _DISCUSSION,
    "DiscussionComment": _DISCUSSION_COMMENT,
    "DiscussionCategory": _CATEGORY,
    "Comment": comment_fields() | {"id": people.OWNER["id"]},
    **{name: made for inner in _CONNECTED for name, made in _connection(inner).items()},
}

INTERFACES: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("Bot", "User"), frozenset({"Node", "Actor", "RepositoryOwner", "RequestedReviewer"})),
    "Organization": frozenset({"Node", "Actor", "RepositoryOwner"}),
    **dict.fromkeys(
        (
            "Issue",
            "PullRequest",
            "IssueComment",
            "PullRequestReview",
            "PullRequestReviewComment",
            "Discussion",
            "DiscussionComment",
        ),
        frozenset({"Node", "Comment"}),
    ),
    **dict.fromkeys(
        ("Repository", "Label", "Milestone", "Commit", "PullRequestReviewThread", "ReviewRequest"), frozenset({"Node"})
    ),
    "DiscussionCategory": frozenset({"Node"}),
}
