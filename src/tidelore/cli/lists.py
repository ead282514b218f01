"""List stored issues, merge requests, topics and posts: `lore list`.

Reads the local database only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from tidelore.app.listing import (
    POST_KINDS,
    IssueList,
    ListedIssue,
    ListedItem,
    ListedMergeRequest,
    ListedTopic,
    ListRequest,
    MergeRequestList,
    PostPage,
    PostRequest,
    TopicList,
    TopicRequest,
    list_issues,
    list_merge_requests,
    list_posts,
    list_topics,
)
from tidelore.app.wiring import App
from tidelore.cli import options
from tidelore.cli.command import Invocation, lore_command, lore_group
from tidelore.cli.output.render import Output, open_page, when
from tidelore.cli.output.table import Column, on_terminal, table_of, terminal_columns
from tidelore.core.text import one_line, shorten

_DISCUSSION_COUNTS = ("discussions", "unresolved")


_PAGE = options.combine(
    click.option("-n", "--limit", type=click.IntRange(1, 10_000), default=20, help="Number of items to show."),
    options.after_option,
    options.item_fields,
    options.json_option,
    options.open_first,
)
_SORT = options.combine(
    click.option("--sort", type=click.Choice(["updated", "created"]), default="updated", help="Sort by this time."),
    click.option("--asc", "ascending", is_flag=True, help="Show the oldest items first."),
)
AnyList = IssueList | MergeRequestList | TopicList | PostPage


@lore_command("posts", example="lore list posts --author alice.bsky.social --since 7d", answer=PostPage)
@click.option("--kind", type=click.Choice(POST_KINDS), help="Only posts of this kind.")
@options.post_filters
@_PAGE
def posts_command(invocation: Invocation, /, **wanted: Any) -> Output:
    """List Bluesky posts, newest first.

    Includes replies, quotes and reposts. A repost is listed under the account that reposted, at the time of the repost.
    """
    return _list(invocation, list_posts, PostRequest, _post_lines, wanted)


def _list(
    invocation: Invocation,
    read: Callable[[App, Any], AnyList],
    request: type[ListRequest | TopicRequest | PostRequest],
    lines: Callable[[Any], list[str]],
    wanted: dict[str, Any],
) -> Output:
    options.read_filters(wanted)
    in_browser = wanted.pop("in_browser")
    found = read(invocation.app(), request(**wanted))
    if in_browser:
        open_page(found.items[0].web_url if found.items else None)
    return Output(found, lines(found))


def _handle(author: str) -> str:
    """Return a handle; on a terminal of usual width its beginning, which leaves room for the text of the post."""
    return shorten(f"@{author}", _LONGEST_HANDLE) if on_terminal() and terminal_columns() < _WIDE else f"@{author}"


def _post_lines(found: PostPage) -> list[str]:
    if not found.items:
        return ["Posts: no matches"]
    head = [f"Posts (showing {len(found.items):,} of {found.total:,})"] if on_terminal() else []
    return head + table_of(
        found.items,
        Column("LISTED", lambda post: when(post.listed_at)),
        Column("KIND", lambda post: post.kind),
        Column("AUTHOR", lambda post: _handle(post.author), colour="cyan"),
        Column("TEXT", lambda post: post.text or "\n".join(post.alt_text), shrinks=True),
        Column("URI", lambda post: post.uri, optional=True),
    )


_LONGEST_HANDLE = 24
_WIDE = 120
"""From this width on, a terminal has room for a post and whole handles."""
_DRAFT_MARK = re.compile(r"^(\[draft\]|\(draft\)|draft:|wip:|\[wip\])\s*", re.IGNORECASE)


list_command = lore_group(
    "list", "List issues, merge requests, topics or posts.", example="lore list issues --state opened"
)


list_command.add_command(posts_command)


@list_command.command("issues", example="lore list issues --state opened --label bug --since 2w", answer=IssueList)
@options.issue_filters
@_SORT
@_PAGE
def issues_command(invocation: Invocation, /, **wanted: Any) -> Output:
    """List issues, most recently updated first."""
    return _list(invocation, list_issues, ListRequest, _lines, wanted | _talk(invocation, ListedIssue))


@list_command.command("mrs", example="lore list mrs --state opened --reviewer alice", answer=MergeRequestList)
@options.merge_request_filters
@_SORT
@_PAGE
def mrs_command(invocation: Invocation, /, **wanted: Any) -> Output:
    """List merge requests, most recently updated first.

    The state `locked` means that a merge is in progress.
    """
    return _list(invocation, list_merge_requests, ListRequest, _lines, wanted | _talk(invocation, ListedMergeRequest))


@list_command.command("topics", example="lore list topics --category Q&A --unanswered", answer=TopicList)
@options.topic_filters
@_SORT
@_PAGE
def topics_command(invocation: Invocation, /, **wanted: Any) -> Output:
    """List topics (GitHub Discussions), most recently updated first."""
    return _list(invocation, list_topics, TopicRequest, _lines, wanted)


def _talk(invocation: Invocation, shape: type[ListedItem]) -> dict[str, bool]:
    """Only robot output contains the counts of discussions, so only it reads them."""
    return {"with_talk": invocation.choices.robot and not invocation.fields(shape).isdisjoint(_DISCUSSION_COUNTS)}


_HEADINGS = {
    IssueList: ("Issues", "LABELS"),
    MergeRequestList: ("Merge Requests", "BRANCHES"),
    TopicList: ("Topics", "CATEGORY"),
}


def _lines(found: IssueList | MergeRequestList | TopicList) -> list[str]:
    title, middle = _HEADINGS[type(found)]
    if not found.items:
        return [f"{title}: no matches"]
    columns: list[Column[ListedItem | ListedTopic]] = [
        Column("PROJECT", lambda one: one.project, path=True),
        Column("NUMBER", lambda one: one.reference.removeprefix(one.project), colour="cyan"),
        Column("TITLE", _title, shrinks=True),
        Column("STATE", lambda one: one.state, state=True),
        Column("AUTHOR", lambda one: f"@{one.author}" if one.author else "-", optional=True),
        Column(middle, _middle, shrinks=True, optional=True),
        Column("UPDATED", lambda one: when(one.updated_at)),
    ]
    if not on_terminal():
        return table_of(found.items, *columns)
    # If all rows are of one project, its name is not repeated on every line.
    first = 0 if len({item.project for item in found.items}) > 1 else 1
    return [f"{title} (showing {len(found.items):,} of {found.total:,})", *table_of(found.items, *columns[first:])]


def _title(item: ListedItem | ListedTopic) -> str:
    title = one_line(item.title) if item.deleted_at is None else "(deleted)"
    draft = isinstance(item, ListedMergeRequest) and item.draft
    return f"[DRAFT] {_DRAFT_MARK.sub('', title)}" if draft else title


def _middle(item: ListedItem | ListedTopic) -> str:
    if isinstance(item, ListedMergeRequest):
        return f"{item.target_branch} <- {item.source_branch}"
    return item.category or "-" if isinstance(item, ListedTopic) else ", ".join(item.labels)
