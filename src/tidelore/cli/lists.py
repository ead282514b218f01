"""List stored issues, merge requests, topics and posts: `lore list`.

Reads the local database only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from tidelore.app.answers import parse_page_token
from tidelore.app.listing import (
    POST_KINDS,
    IssueList,
    ListedIssue,
    ListedItem,
    ListedMergeRequest,
    ListedPost,
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
from tidelore.cli.command import Invocation, lore_command, lore_group
from tidelore.cli.output.render import Output, choose_fields, only_fields, open_page, when
from tidelore.cli.output.table import Column, on_terminal, table_of
from tidelore.core.clock import SystemClock
from tidelore.core.references import parse_since
from tidelore.core.text import one_line, shorten

_DISCUSSION_COUNTS = ("discussions", "unresolved")


@lore_command("posts", example="lore list posts --author alice.bsky.social --since 7d", answer=PostPage)
@click.option("--author", metavar="HANDLE", help="Only posts of this account (handle or DID).")
@click.option("--kind", type=click.Choice(POST_KINDS), help="Only posts of this kind.")
@click.option("--since", metavar="WHEN", help="Only posts since: 12h, 7d, 2w or 2026-03-01.")
@click.option("-n", "--limit", type=click.IntRange(1, 10_000), default=20, help="Number of items to show.")
@click.option("--after", metavar="TOKEN", help="Continue after the page that returned this `data.next`.")
@click.option("--deleted", is_flag=True, help="Show deleted items instead.")
@click.option("--fields", metavar="A,B", help="Only these fields of the items in JSON.")
@click.option("--json", "as_json", is_flag=True, help="Same as --robot.")
@click.option("--open", "in_browser", is_flag=True, help="Open the first item in the browser.")
def posts_command(invocation: Invocation, /, **wanted: Any) -> Output:
    """List Bluesky posts, newest first.

    Includes replies, quotes and reposts. A repost is listed under the account that reposted, at the time of the repost.
    """
    chosen, in_browser = _prepare(invocation, wanted, ListedPost)
    found = list_posts(invocation.app(), PostRequest(**wanted))
    return _output(found, chosen, _post_lines(found), in_browser=in_browser)


def _prepare(
    invocation: Invocation, wanted: dict[str, Any], shape: type[ListedItem | ListedTopic | ListedPost]
) -> tuple[frozenset[str], bool]:
    """Parse the options of a list in place; return the fields of the items, and whether to open the first item."""
    invocation.choices.robot |= wanted.pop("as_json")
    chosen = choose_fields(wanted.pop("fields"), shape)
    wanted["since"] = parse_since(wanted["since"], SystemClock().now_ms()) if wanted["since"] else None
    wanted["after"] = parse_page_token(wanted["after"]) if wanted["after"] else None
    return chosen, wanted.pop("in_browser")


def _output(
    found: IssueList | MergeRequestList | TopicList | PostPage,
    chosen: frozenset[str],
    lines: list[str],
    *,
    in_browser: bool,
) -> Output:
    if in_browser:
        open_page(found.items[0].web_url if found.items else None)
    items = [only_fields(item, chosen) for item in found.items]
    return Output({"items": items, "total": found.total, "next": found.next}, lines)


def _handle(author: str) -> str:
    """Return a handle; on a terminal its beginning, which leaves room for the text of the post."""
    return shorten(f"@{author}", _LONGEST_HANDLE) if on_terminal() else f"@{author}"


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
_DRAFT_MARK = re.compile(r"^(\[draft\]|\(draft\)|draft:|wip:|\[wip\])\s*", re.IGNORECASE)


list_command = lore_group(
    "list", "List issues, merge requests, topics or posts.", example="lore list issues --state opened"
)


list_command.add_command(posts_command)


def _shared_options(function: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.option("--author", metavar="USER", help="Only items written by this user."),
        click.option("--assignee", metavar="USER", help="Only items assigned to this user."),
        click.option(
            "--label", "labels", multiple=True, metavar="NAME", help="Only items with this label (repeatable)."
        ),
        click.option("--milestone", metavar="TITLE", help="Only items in this milestone."),
        click.option("-p", "--project", metavar="PATH", help="Only this project (path or unambiguous ending)."),
        click.option("--since", metavar="WHEN", help="Only items updated since: 12h, 7d, 2w or 2026-03-01."),
        click.option("--sort", type=click.Choice(["updated", "created"]), default="updated", help="Sort by this time."),
        click.option("--asc", "ascending", is_flag=True, help="Show the oldest items first."),
        click.option("-n", "--limit", type=click.IntRange(1, 10_000), default=20, help="Number of items to show."),
        click.option("--after", metavar="TOKEN", help="Continue after the page that returned this `data.next`."),
        click.option("--deleted", is_flag=True, help="Show deleted items instead."),
        click.option("--fields", metavar="A,B", help="Only these fields of the items in JSON."),
        click.option("--json", "as_json", is_flag=True, help="Same as --robot."),
        click.option("--open", "in_browser", is_flag=True, help="Open the first item in the browser."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@list_command.command("issues", example="lore list issues --state opened --label bug --since 2w", answer=IssueList)
@click.option(
    "--state", type=click.Choice(["opened", "closed", "all"]), default="all", help="Only items in this state."
)
@click.option("--status", metavar="NAME", help="Only issues with this work item status.")
@_shared_options
def issues_command(invocation: Invocation, /, **wanted: Any) -> Output:
    """List issues, most recently updated first."""
    return _list(invocation, list_issues, ListedIssue, wanted)


@list_command.command("mrs", example="lore list mrs --state opened --reviewer alice", answer=MergeRequestList)
@click.option(
    "--state",
    type=click.Choice(["opened", "merged", "closed", "locked", "all"]),
    default="all",
    help="Only items in this state.",
)
@click.option("--draft/--no-draft", default=None, help="Only drafts, or only non-drafts.")
@click.option("--reviewer", metavar="USER", help="Only merge requests with this reviewer.")
@click.option("--target-branch", metavar="NAME", help="Only merge requests into this branch.")
@click.option("--source-branch", metavar="NAME", help="Only merge requests from this branch.")
@_shared_options
def mrs_command(invocation: Invocation, /, **wanted: Any) -> Output:
    """List merge requests, most recently updated first.

    The state `locked` means that a merge is in progress.
    """
    return _list(invocation, list_merge_requests, ListedMergeRequest, wanted)


@list_command.command("topics", example="lore list topics --category Q&A --unanswered", answer=TopicList)
@click.option(
    "--state", type=click.Choice(["opened", "closed", "all"]), default="all", help="Only topics in this state."
)
@click.option("--answered/--unanswered", default=None, help="Only topics with an answer, or only those without one.")
@click.option("--category", metavar="NAME", help="Only topics in this category.")
@click.option("--author", metavar="USER", help="Only topics written by this user.")
@click.option("-p", "--project", metavar="PATH", help="Only this project (path or unambiguous ending).")
@click.option("--since", metavar="WHEN", help="Only topics updated since: 12h, 7d, 2w or 2026-03-01.")
@click.option("--sort", type=click.Choice(["updated", "created"]), default="updated", help="Sort by this time.")
@click.option("--asc", "ascending", is_flag=True, help="Show the oldest topics first.")
@click.option("-n", "--limit", type=click.IntRange(1, 10_000), default=20, help="Number of topics to show.")
@click.option("--after", metavar="TOKEN", help="Continue after the page that returned this `data.next`.")
@click.option("--deleted", is_flag=True, help="Show deleted topics instead.")
@click.option("--fields", metavar="A,B", help="Only these fields of the items in JSON.")
@click.option("--json", "as_json", is_flag=True, help="Same as --robot.")
@click.option("--open", "in_browser", is_flag=True, help="Open the first topic in the browser.")
def topics_command(invocation: Invocation, /, **wanted: Any) -> Output:
    """List topics (GitHub Discussions), most recently updated first."""
    chosen, in_browser = _prepare(invocation, wanted, ListedTopic)
    wanted["state"] = None if wanted["state"] == "all" else wanted["state"]
    found = list_topics(invocation.app(), TopicRequest(**wanted))
    return _output(found, chosen, _lines(found), in_browser=in_browser)


def _list(
    invocation: Invocation,
    read: Callable[[App, ListRequest], IssueList | MergeRequestList],
    shape: type[ListedItem],
    wanted: dict[str, Any],
) -> Output:
    chosen, in_browser = _prepare(invocation, wanted, shape)
    wanted["state"] = None if wanted["state"] == "all" else wanted["state"]
    # Only robot output contains the counts of discussions, so only it reads them.
    wanted["with_talk"] = invocation.choices.robot and not chosen.isdisjoint(_DISCUSSION_COUNTS)
    found = read(invocation.app(), ListRequest(**wanted))
    return _output(found, chosen, _lines(found), in_browser=in_browser)


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
