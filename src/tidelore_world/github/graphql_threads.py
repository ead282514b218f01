"""Issues, pull requests, reviews and comments as GraphQL shows them.

Owns how each field's value is found. Refuses to read documents. Invariant: a value is the one REST shows, in GraphQL's
spelling; ids above 2**31 are null in `databaseId` and a text in `fullDatabaseId`.
"""

from __future__ import annotations

from typing import Any

from tidelore_world.github import payloads
from tidelore_world.github.files import hunk_at
from tidelore_world.github.graphql_people import (
    actor,
    comment_fields,
    identity,
    labels,
    maybe_actor,
    reaction_groups,
    url,
)
from tidelore_world.github.graphql_types import Arguments, Context, Node, fields, numbered, paged
from tidelore_world.github.payloads import instant, maybe_instant, node_id
from tidelore_world.github.records import Review, ReviewComment, ReviewThread, Thread
from tidelore_world.github.references import closing_numbers
from tidelore_world.github.repository import Repository
from tidelore_world.github.timeline import is_visible

_CHANGES = {"added": "ADDED", "removed": "DELETED", "renamed": "RENAMED", "copied": "COPIED", "changed": "CHANGED"}


def thread_node(repo: Repository, thread: Thread) -> Node:
    """An issue or a pull request."""
    return Node("Issue" if thread.pull is None else "PullRequest", thread, repo)


def review_comment_node(repo: Repository, row: ReviewComment) -> Node:
    """A review comment."""
    return Node("PullRequestReviewComment", row, repo)


def thread_comments(context: Context, repo: Repository, thread: ReviewThread) -> list[ReviewComment]:
    """The comments of a review thread that the viewer may see."""
    rows = (repo.review_comments.get(comment_id) for comment_id in thread.comments)
    return [row for row in rows if row is not None and _is_shown(context, row)]


def _is_shown(context: Context, row: ReviewComment) -> bool:
    return not row.pending or row.author.login.lower() == context.viewer.lower()


def _comments(context: Context, node: Node, given: Arguments) -> Node:  # noqa: ARG001
    rows = [Node("IssueComment", row, node.repo) for row in node.home.comments.of(node.row.number)]
    return paged("IssueCommentConnection", "comments", given, rows, lambda found: (0, found.row.id), repo=node.repo)


def _milestone(_c: Context, node: Node, _a: Arguments) -> Node | None:
    return None if node.row.milestone is None else Node("Milestone", node.row.milestone, node.repo)


def _assignees(_c: Context, node: Node, given: Arguments) -> Node:
    return numbered("UserConnection", "assignees", given, [actor(who) for who in node.row.assignees])


def _threads(context: Context, node: Node, given: Arguments) -> Node:
    rows = [
        Node("PullRequestReviewThread", thread, node.repo)
        for thread in node.home.threads_of(node.row.number)
        if thread_comments(context, node.home, thread)
    ]
    name = "PullRequestReviewThreadConnection"
    return paged(name, "reviewThreads", given, rows, lambda found: (0, found.row.id), repo=node.repo)


def _reviews(context: Context, node: Node, given: Arguments) -> Node:
    states = given.get("states")
    rows = [
        Node("PullRequestReview", review, node.repo)
        for review in node.home.reviews[node.row.number].values()
        if is_visible(review, context.viewer)
        and (not states or review.state in states)
        and (not given.get("author") or review.author.login.lower() == str(given["author"]).lower())
    ]
    name = "PullRequestReviewConnection"
    return paged(name, "reviews", given, rows, lambda found: (0, found.row.id), repo=node.repo)


def _closing(_c: Context, node: Node, given: Arguments) -> Node:
    named = () if given.get("userLinkedOnly") else closing_numbers(node.row.body)
    numbers = dict.fromkeys((*named, *node.row.linked_issues))
    found = (node.home.find_thread(number) for number in numbers)
    rows = [Node("Issue", issue, node.repo) for issue in found if issue is not None and issue.pull is None]
    return numbered("IssueConnection", "closingIssuesReferences", given, rows, node.repo)


def _closed_by(_c: Context, node: Node, given: Arguments) -> Node:
    rows = [
        Node("PullRequest", pull, node.repo)
        for pull in node.home.pulls
        if node.row.number in (*closing_numbers(pull.body), *pull.linked_issues)
        and (pull.state == "open" or pull.require_pull().merged_s is not None or given.get("includeClosedPrs"))
    ]
    return numbered("PullRequestConnection", "closedByPullRequestsReferences", given, rows, node.repo)


def _files(_c: Context, node: Node, given: Arguments) -> Node:
    rows = [Node("PullRequestChangedFile", file, node.repo) for file in node.row.pull.files]
    return numbered("PullRequestChangedFileConnection", "files", given, rows, node.repo)


def _requests(_c: Context, node: Node, given: Arguments) -> Node:
    rows = [Node("ReviewRequest", (node, who), node.repo) for who in node.row.pull.requested_reviewers]
    return numbered("ReviewRequestConnection", "reviewRequests", given, rows, node.repo)


def _commit(sha: str | None, node: Node) -> Node | None:
    made = None if sha is None else node.home.graph.resolve(sha)
    return None if made is None else Node("Commit", made, node.repo)


def _pull_state(thread: Thread) -> str:
    merged = thread.pull is not None and thread.pull.merged_s is not None
    return "MERGED" if merged else thread.state.upper()


def _state_reason(_c: Context, node: Node, given: Arguments) -> str | None:
    """`DUPLICATE` is shown on request only; without it such an issue is NOT_PLANNED."""
    reason: str | None = node.row.state_reason
    if reason == "duplicate" and not given.get("enableDuplicate"):
        reason = "not_planned"
    return None if reason is None else reason.upper()


def _lock_reason(_c: Context, node: Node, _a: Arguments) -> str | None:
    reason: str | None = node.row.lock_reason
    return None if reason is None else reason.upper().replace("-", "_").replace(" ", "_")


_THREAD = {
    **comment_fields(),
    **identity(lambda row: row.id if row.pull is None else row.pull.id, full=True),
    **fields(
        activeLockReason=("REASON", _lock_reason),
        assignees=("UserConnection!", _assignees),
        closed=("Boolean!", lambda _c, node, _a: node.row.state == "closed"),
        closedAt=("DateTime", lambda _c, node, _a: maybe_instant(node.row.closed_s)),
        comments=("IssueCommentConnection!", _comments, "orderBy"),
        id=("ID!", lambda _c, node, _a: payloads.thread_node_id(node.row)),
        labels=("LabelConnection", labels, "orderBy"),
        locked=("Boolean!", lambda _c, node, _a: node.row.locked),
        milestone=("Milestone", _milestone),
        number=("Int!", lambda _c, node, _a: node.row.number),
        reactionGroups=("[ReactionGroup!]", reaction_groups),
        repository=("Repository!", lambda _c, node, _a: Node("Repository", node.repo, node.repo)),
        title=("String!", lambda _c, node, _a: node.row.title),
    ),
}

ISSUE = {
    **_THREAD,
    **url(lambda node: f"issues/{node.row.number}"),
    **fields(
        closedByPullRequestsReferences=(
            "PullRequestConnection",
            _closed_by,
            "includeClosedPrs orderByState userLinkedOnly",
        ),
        state=("STATE!", lambda _c, node, _a: node.row.state.upper()),
        stateReason=("STATE", _state_reason, "enableDuplicate"),
    ),
}


def _review_decision(_c: Context, node: Node, _a: Arguments) -> str | None:
    last = {row.author.login: row.state for row in node.home.reviews[node.row.number].values()}
    if "CHANGES_REQUESTED" in last.values():
        return "CHANGES_REQUESTED"
    return "APPROVED" if "APPROVED" in last.values() else None


PULL_REQUEST = {
    **_THREAD,
    **url(lambda node: f"pull/{node.row.number}"),
    **fields(
        additions=("Int!", lambda _c, node, _a: sum(file.additions for file in node.row.pull.files)),
        baseRefName=("String!", lambda _c, node, _a: node.row.pull.base_ref),
        baseRefOid=("GitObjectID!", lambda _c, node, _a: node.row.pull.base_sha),
        changedFiles=("Int!", lambda _c, node, _a: len(node.row.pull.files)),
        closingIssuesReferences=("IssueConnection", _closing, "orderBy userLinkedOnly"),
        deletions=("Int!", lambda _c, node, _a: sum(file.deletions for file in node.row.pull.files)),
        files=("PullRequestChangedFileConnection", _files),
        headRefName=("String!", lambda _c, node, _a: node.row.pull.head_ref),
        headRefOid=("GitObjectID!", lambda _c, node, _a: node.row.pull.head_sha),
        isCrossRepository=("Boolean!", lambda _c, node, _a: node.row.pull.fork_owner is not None),
        isDraft=("Boolean!", lambda _c, node, _a: node.row.pull.draft),
        mergeCommit=("Commit", lambda _c, node, _a: _commit(node.row.pull.merge_sha, node)),
        merged=("Boolean!", lambda _c, node, _a: node.row.pull.merged_s is not None),
        mergedAt=("DateTime", lambda _c, node, _a: maybe_instant(node.row.pull.merged_s)),
        mergedBy=("Actor", lambda _c, node, _a: maybe_actor(node.row.pull.merged_by)),
        reviewDecision=("DECISION", _review_decision),
        reviewRequests=("ReviewRequestConnection", _requests),
        reviewThreads=("PullRequestReviewThreadConnection!", _threads),
        reviews=("PullRequestReviewConnection", _reviews, "author states"),
        state=("STATE!", lambda _c, node, _a: _pull_state(node.row)),
        totalCommentsCount=("Int", lambda _c, node, _a: node.row.comments + node.row.pull.review_comments),
    ),
}

ISSUE_COMMENT = {
    **comment_fields(),
    **identity(lambda row: row.id, full=True),
    **url(lambda node: f"{_kind(node)}/{node.row.number}#issuecomment-{node.row.id}"),
    **fields(
        id=("ID!", lambda _c, node, _a: node_id("IC", node.row.id)),
        isMinimized=("Boolean!", lambda _c, _n, _a: False),
        issue=("Issue!", lambda _c, node, _a: Node("Issue", node.home.thread(node.row.number), node.repo)),
        pullRequest=("PullRequest", lambda _c, node, _a: _pull_of(node)),
        reactionGroups=("[ReactionGroup!]", reaction_groups),
        repository=("Repository!", lambda _c, node, _a: Node("Repository", node.repo, node.repo)),
    ),
}


def _kind(node: Node) -> str:
    return "issues" if node.home.thread(node.row.number).pull is None else "pull"


def _pull_of(node: Node) -> Node | None:
    thread = node.home.thread(node.row.number)
    return None if thread.pull is None else Node("PullRequest", thread, node.repo)


def _review_comments(context: Context, node: Node, given: Arguments) -> Node:
    rows = [
        review_comment_node(node.home, row)
        for row in node.home.review_comments.of(node.row.number)
        if row.review_id == node.row.id and _is_shown(context, row)
    ]
    return _connect_comments(given, rows, node.home)


def _connect_comments(given: Arguments, rows: list[Node], repo: Repository) -> Node:
    name = "PullRequestReviewCommentConnection"
    return paged(name, "comments", given, rows, lambda found: (0, found.row.id), repo=repo)


def _review_created(review: Review) -> int:
    return review.created_s or review.submitted_s


REVIEW = {
    **comment_fields(created=_review_created, updated=lambda row: row.updated_s or row.submitted_s),
    **identity(lambda row: row.id, full=True),
    **url(lambda node: f"pull/{node.row.number}#pullrequestreview-{node.row.id}"),
    **fields(
        comments=("PullRequestReviewCommentConnection!", _review_comments),
        commit=("Commit", lambda _c, node, _a: _commit(node.row.commit_sha, node)),
        id=("ID!", lambda _c, node, _a: node_id("PRR", node.row.id)),
        isMinimized=("Boolean!", lambda _c, _n, _a: False),
        pullRequest=("PullRequest!", lambda _c, node, _a: _pull_of(node)),
        repository=("Repository!", lambda _c, node, _a: Node("Repository", node.repo, node.repo)),
        state=("STATE!", lambda _c, node, _a: node.row.state),
        submittedAt=("DateTime", lambda _c, node, _a: maybe_instant(node.row.shown_s)),
    ),
}


def _review_of(_c: Context, node: Node, _a: Arguments) -> Node | None:
    review = node.home.reviews[node.row.number].get(node.row.review_id)
    return None if review is None else Node("PullRequestReview", review, node.repo)


def _reply_to(_c: Context, node: Node, _a: Arguments) -> Node | None:
    first = None if node.row.in_reply_to is None else node.home.review_comments.get(node.row.in_reply_to)
    return None if first is None else review_comment_node(node.home, first)


def _present(value: str) -> Any:
    """A value of the present diff, which an outdated comment has lost."""
    return lambda _c, node, _a: None if node.row.outdated else getattr(node.row, value)


def _hunk(row: ReviewComment) -> str:
    return hunk_at(row.path, row.line) if row.diff_hunk is None else row.diff_hunk


REVIEW_COMMENT = {
    **comment_fields(),
    **identity(lambda row: row.id, full=True),
    **url(lambda node: f"pull/{node.row.number}#discussion_r{node.row.id}"),
    **fields(
        commit=("Commit", lambda _c, node, _a: _commit(node.row.commit_sha, node)),
        diffHunk=("String!", lambda _c, node, _a: _hunk(node.row)),
        draftedAt=("DateTime!", lambda _c, node, _a: instant(node.row.created_s)),
        id=("ID!", lambda _c, node, _a: node_id("PRRC", node.row.id)),
        isMinimized=("Boolean!", lambda _c, _n, _a: False),
        line=("Int", _present("line")),
        originalCommit=("Commit", lambda _c, node, _a: _commit(node.row.original_commit_sha, node)),
        originalLine=("Int", lambda _c, node, _a: node.row.line),
        originalPosition=("Int!", lambda _c, node, _a: node.row.position or 1),
        originalStartLine=("Int", lambda _c, node, _a: node.row.start_line),
        outdated=("Boolean!", lambda _c, node, _a: node.row.outdated),
        path=("String!", lambda _c, node, _a: node.row.path),
        position=("Int", _present("position")),
        pullRequest=("PullRequest!", lambda _c, node, _a: _pull_of(node)),
        pullRequestReview=("PullRequestReview", _review_of),
        reactionGroups=("[ReactionGroup!]", reaction_groups),
        replyTo=("PullRequestReviewComment", _reply_to),
        repository=("Repository!", lambda _c, node, _a: Node("Repository", node.repo, node.repo)),
        startLine=("Int", _present("start_line")),
        state=("STATE!", lambda _c, node, _a: "PENDING" if node.row.pending else "SUBMITTED"),
        subjectType=("TYPE!", lambda _c, node, _a: node.row.subject.upper()),
    ),
}


def _first(node: Node) -> ReviewComment:
    """The comment a review thread takes its place from: its first one, or the oldest that is left."""
    row = node.home.review_comments.get(node.row.comments[0])
    assert row is not None
    return row


def _thread_page(context: Context, node: Node, given: Arguments) -> Node:
    rows = [review_comment_node(node.home, row) for row in thread_comments(context, node.home, node.row)]
    return _connect_comments(given, rows[int(given.get("skip") or 0) :], node.home)


REVIEW_THREAD = fields(
    comments=("PullRequestReviewCommentConnection!", _thread_page, "skip"),
    diffSide=("SIDE!", lambda _c, node, _a: _first(node).side),
    id=("ID!", lambda _c, node, _a: node_id("PRRT", node.row.id)),
    isCollapsed=("Boolean!", lambda _c, node, _a: node.row.resolved or _first(node).outdated),
    isOutdated=("Boolean!", lambda _c, node, _a: _first(node).outdated),
    isResolved=("Boolean!", lambda _c, node, _a: node.row.resolved),
    line=("Int", lambda _c, node, _a: None if _first(node).outdated else _first(node).line),
    originalLine=("Int", lambda _c, node, _a: _first(node).line),
    originalStartLine=("Int", lambda _c, node, _a: _first(node).start_line),
    path=("String!", lambda _c, node, _a: _first(node).path),
    pullRequest=("PullRequest!", lambda _c, node, _a: _pull_of(node)),
    repository=("Repository!", lambda _c, node, _a: Node("Repository", node.repo, node.repo)),
    resolvedBy=("User", lambda _c, node, _a: maybe_actor(node.row.resolved_by)),
    startDiffSide=("SIDE", lambda _c, node, _a: _first(node).start_side),
    startLine=("Int", lambda _c, node, _a: None if _first(node).outdated else _first(node).start_line),
    subjectType=("TYPE!", lambda _c, node, _a: _first(node).subject.upper()),
    viewerCanReply=("Boolean!", lambda _c, _n, _a: True),
    viewerCanResolve=("Boolean!", lambda _c, node, _a: not node.row.resolved),
    viewerCanUnresolve=("Boolean!", lambda _c, node, _a: node.row.resolved),
)

CHANGED_FILE = fields(
    additions=("Int!", lambda _c, node, _a: node.row.additions),
    changeType=("TYPE!", lambda _c, node, _a: _CHANGES.get(node.row.status, "MODIFIED")),
    deletions=("Int!", lambda _c, node, _a: node.row.deletions),
    path=("String!", lambda _c, node, _a: node.row.filename),
    viewerViewedState=("STATE!", lambda _c, _n, _a: "UNVIEWED"),
)

REVIEW_REQUEST = fields(
    asCodeOwner=("Boolean!", lambda _c, _n, _a: False),
    id=("ID!", lambda _c, node, _a: node_id("RR", node.row[0].row.pull.id + node.row[1].id)),
    pullRequest=("PullRequest!", lambda _c, node, _a: node.row[0]),
    requestedReviewer=("RequestedReviewer", lambda _c, node, _a: actor(node.row[1])),
)
