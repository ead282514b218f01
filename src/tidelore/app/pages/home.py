"""The first page: what changed recently, which reviews wait, and how old each source is.

Composed of the answers of other use-cases; each part is a field of `HomePage`. Reads the local database only.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from tidelore.app.answers import Instant, copy_fields, means
from tidelore.app.listing import (
    ListedItem,
    ListedMergeRequest,
    ListedPost,
    ListedTopic,
    ListRequest,
    PostAuthors,
    PostRequest,
    TopicRequest,
    list_issues,
    list_merge_requests,
    list_posts_with_authors,
    list_topics,
)
from tidelore.app.positions import SourceOverview, dashboard
from tidelore.app.reading.threads import ListedThread, RequestedReview, ThreadQuestion, list_threads
from tidelore.app.wiring import App
from tidelore.core.errors import NotFound, UserError

RECENT = 20
MOST_WAITING = 100
RECENT_POSTS = 5
OPEN_REVIEWS = 100
"""How many open merge requests are looked at for unresolved threads, the last updated first."""


class RecentChange(Struct, frozen=True, kw_only=True):
    """An issue, merge request or topic that changed."""

    type: Annotated[str, means("issue, mr or topic")]
    project: Annotated[str, means("the project's path")]
    iid: Annotated[int, means("its number in the project")]
    reference: Annotated[str, means("its full reference")]
    title: Annotated[str, means("its title")]
    state: Annotated[str, means("its state")]
    draft: Annotated[bool, means("whether it is a draft of a merge request")]
    author: Annotated[str | None, means("who wrote it")]
    created_at: Annotated[Instant, means("when it was created")]
    updated_at: Annotated[Instant, means("when it was last updated")]
    web_url: Annotated[str | None, means("its address")]


class HomePage(Struct, frozen=True, kw_only=True):
    """What the first page shows."""

    recent: Annotated[list[RecentChange], means("what changed last, the newest first")]
    unresolved: Annotated[
        list[ListedMergeRequest],
        means("open merge requests with unresolved threads among the last updated ones, the oldest first"),
    ]
    posts: Annotated[list[ListedPost], means("the newest posts")]
    authors: Annotated[PostAuthors, means("their authors")]
    sources: Annotated[list[SourceOverview], means("the sources and how old each is")]


class WaitingThreads(Struct, frozen=True, kw_only=True):
    """What waits for the reader."""

    items: Annotated[list[ListedThread], means("the threads, the most urgent first, at most 100")]
    total: Annotated[int, means("number of threads that wait for you")]
    review_requests: Annotated[list[RequestedReview], means("merge requests that wait for your review, at most 10")]
    review_requests_total: Annotated[int, means("number of these merge requests")] = 0
    unknown: Annotated[str | None, means("how to say who you are, if your login is not known; or null")] = None


def read_waiting(app: App) -> WaitingThreads:
    """Return the threads and merge requests that wait for the reader. Not a part of Home: it reads all open threads."""
    try:
        page = list_threads(app, ThreadQuestion(waiting_on="me", limit=MOST_WAITING))
    except UserError as error:
        if isinstance(error, NotFound) and error.has_no_copy:
            raise
        return WaitingThreads(items=[], total=0, review_requests=[], unknown=error.fix)
    return WaitingThreads(
        items=page.items,
        total=page.total,
        review_requests=page.review_requests,
        review_requests_total=page.review_requests_total or 0,
    )


def read_home(app: App) -> HomePage:
    """Return what changed recently, which reviews wait, and how old each source is."""
    newest = ListRequest(limit=RECENT, with_total=False)
    recent = [
        *(_change("issue", item) for item in list_issues(app, newest).items),
        *(_change("mr", item) for item in list_merge_requests(app, newest).items),
        *(_change("topic", item) for item in list_topics(app, TopicRequest(limit=RECENT, with_total=False)).items),
    ]
    unresolved = ListRequest(state="opened", limit=OPEN_REVIEWS, with_talk=True, with_total=False)
    reviews = list_merge_requests(app, unresolved).items
    posts, authors = list_posts_with_authors(app, PostRequest(limit=RECENT_POSTS, with_total=False))
    return HomePage(
        recent=sorted(recent, key=lambda one: one.updated_at, reverse=True)[:RECENT],
        unresolved=sorted((one for one in reviews if one.unresolved), key=lambda one: one.updated_at),
        posts=posts.items,
        authors=authors,
        sources=dashboard(app).sources,
    )


def _change(kind: str, item: ListedItem | ListedTopic) -> RecentChange:
    return copy_fields(RecentChange, item, type=kind, draft=isinstance(item, ListedMergeRequest) and item.draft)
