"""The truth of a simulated GitHub and Bluesky in the shape of our copy: what is followed, said and posted.

Written from what the two promise, independently of the code that reads them. Of comments the present version counts: an
event of an earlier one, or of a comment that is gone, was true when it was stored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tidelore_world.demo.comparison import Difference, Rows

if TYPE_CHECKING:
    from tidelore.store.database.port import Database
    from tidelore_world.bluesky import BlueskyForge
    from tidelore_world.github import GitHubForge

Payload = Mapping[str, Any]

TALK = ("pull_requests", "issue_comments", "review_comments", "review_summaries")
_SURFACES = {
    "issue_comments": "issue_comment",
    "review_comments": "review_comment",
    "review_summaries": "review_summary",
}
_COLLECTIONS = ("app.bsky.feed.post", "app.bsky.feed.repost")
_EVERY = 10_000_000


def compare_talk(
    database: Database, github: GitHubForge, bluesky: BlueskyForge, listened_to: Collection[str], prefix: str
) -> list[Difference]:
    """Compare what is followed and what was said there, and what everybody posted, with the truth.

    `listened_to` are the logins whose words become events, `prefix` is what makes a command of them.
    """
    found = {name: Difference(name) for name in TALK}
    for repo in github.truth_repos():
        pulls = {int(pull["number"]) for pull in github.truth_pulls(repo) if pull["state"] == "open"}
        found["pull_requests"].add(dict.fromkeys(pulls), dict.fromkeys(_followed(database, repo)))
        for name, kind in _SURFACES.items():
            shown = {row["id"]: row for number in pulls for row in _shown(github, repo, number, kind)}
            said = {key: row["body"] for key, row in shown.items() if _is_heard(row, listened_to, prefix)}
            found[name].add(dict(said), _heard(database, repo, pulls, kind, shown))
    return [*found.values(), compare_posts(database, bluesky)]


def compare_posts(database: Database, bluesky: BlueskyForge) -> Difference:
    """Compare what everybody posted with the truth."""
    found = Difference("posts")
    for actor in bluesky.truth_accounts():
        posts = [row for collection in _COLLECTIONS for row in bluesky.truth_records(actor, collection)]
        found.add({row["uri"]: row["cid"] for row in posts}, _posted(database, actor))
    return found


def count_talk(database: Database) -> dict[str, int]:
    """Return how much the copy holds of what is said: pull requests that are followed, events, answers, posts."""
    from tidelore.store.reading.posts import count_posts
    from tidelore.store.work.events import list_events
    from tidelore.store.work.outbox import list_outbox
    from tidelore.store.work.tracked_pull_requests import list_tracked

    pulls = list_tracked(database)
    return {
        "pull_requests": len(pulls),
        "events": sum(len(list_events(database, pull.project_id, pull.pr_number)) for pull in pulls),
        "answers": len(list_outbox(database, statuses=("posted", "observed"))),
        "posts": sum(count_posts(database).values()),
    }


def _shown(github: GitHubForge, repo: str, number: int, kind: str) -> Iterator[Payload]:
    if kind == "issue_comment":
        yield from github.truth_comments(repo, number)
    elif kind == "review_comment":
        yield from github.truth_review_comments(repo, number)
    else:
        # One that only wraps its comments says nothing itself.
        yield from (row for row in github.truth_reviews(repo, number) if row["body"] or row["state"] != "COMMENTED")


def _is_heard(row: Payload, listened_to: Collection[str], prefix: str) -> bool:
    body = row["body"]
    is_command = body.split("\n", 1)[0].split(" ", 1)[0] == prefix
    return row["user"]["login"] in listened_to and not is_command and "<!-- lore-action:" not in body


def _followed(database: Database, repo: str) -> set[int]:
    from tidelore.store.work.tracked_pull_requests import AWAITING, list_tracked

    return {pull.pr_number for pull in list_tracked(database, repo=repo, statuses=(AWAITING,))}


def _heard(database: Database, repo: str, pulls: Collection[int], kind: str, shown: Collection[int]) -> Rows:
    """Return the newest words the copy holds of each comment that is still there."""
    from tidelore.store.work.events import list_events
    from tidelore.store.work.tracked_pull_requests import list_tracked

    events = [
        event
        for pull in list_tracked(database, repo=repo)
        if pull.pr_number in pulls
        for event in list_events(database, pull.project_id, pull.pr_number)
        if event.kind == kind and event.comment_id in shown
    ]
    return {event.comment_id: event.body for event in sorted(events, key=lambda one: (one.updated_at, one.id))}


def _posted(database: Database, actor: str) -> Rows:
    from tidelore.store.reading.posts import PostFilter, list_posts

    return {post.uri: post.cid for post in list_posts(database, PostFilter(author=actor, limit=_EVERY)).items}
