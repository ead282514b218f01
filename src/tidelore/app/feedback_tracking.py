"""Use-cases of tracking: track, untrack, unblock and resume pull requests and issues; post a reply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from tidelore.app.sources import find_followed, open_hub
from tidelore.core.errors import NotFound
from tidelore.feedback.lifecycle import Lifecycle
from tidelore.feedback.repositories import ConfiguredRepo
from tidelore.store.database.port import Database

if TYPE_CHECKING:
    from tidelore.app.wiring import App
    from tidelore.core.model import PullRecord
    from tidelore.feedback.outbox import AnswerRequest, PostedAnswer
    from tidelore.store.work.followed_issues import IssueCursor
    from tidelore.store.work.tracked_pull_requests import TrackedPr


class Followed(Struct, frozen=True):
    """The result of tracking: a pull request, its source issue, or both."""

    pull: TrackedPr | None
    issue: IssueCursor | None


async def track(app: App, place: ConfiguredRepo, *, pr: int | None, issue: int | None) -> Followed:
    """Track a pull request, optionally with its source issue; or a source issue without a pull request yet."""
    from tidelore.engine.ports import ListRequest
    from tidelore.store.work.followed_issues import find_issue, follow_issue

    async with open_hub(app, [place]) as hub:
        project = await hub.project(place)
        if issue is not None:
            # Only checks that the issue exists: there are no comments since the current time.
            thread = hub.source(place).thread(project.remote_id, "issue_comment", issue)
            await thread.fetch(ListRequest(since=app.clock.now_ms()))
        if pr is not None:
            pull = await (await hub.lifecycle(place, project)).track(pr, issue_number=issue)
            kept = None if pull.issue_number is None else find_issue(hub.database, project.id, pull.issue_number)
            return Followed(pull, kept)
        assert issue is not None
        with hub.database.transaction() as tx:
            return Followed(None, follow_issue(tx, project.id, project.path, issue, now_ms=app.clock.now_ms()))


async def resume(app: App, place: ConfiguredRepo, pr: int, head_sha: str | None) -> TrackedPr:
    """Resume tracking a closed pull request that is open again on the remote."""
    async with open_hub(app, [place], create=False) as hub:
        return await (await hub.lifecycle(place)).resume(pr, head_sha=head_sha)


async def unblock(app: App, place: ConfiguredRepo, pr: int, head_sha: str | None) -> TrackedPr:
    """Unblock a pull request and resume tracking it."""
    async with open_hub(app, [place], create=False) as hub:
        return await (await hub.lifecycle(place)).unblock(pr, head_sha=head_sha)


def untrack(app: App, database: Database, place: ConfiguredRepo, *, pr: int | None, issue: int | None) -> Followed:
    """Stop tracking a pull request or a source issue; sends no requests."""
    from tidelore.store.mirror.cursors import forget_thread
    from tidelore.store.work.followed_issues import find_issue, unfollow_issue

    project = find_followed(database, place)
    if pr is not None:
        row = Lifecycle(database, Unasked(place.host.name), project, place.host, app.clock).untrack(pr)
        return Followed(row, None)
    assert issue is not None
    found = find_issue(database, project.id, issue)
    if found is None:
        raise NotFound(
            f"issue {project.path}#{issue} is not tracked",
            fix="`lore feedback list` shows tracked pull requests and issues",
        )
    with database.transaction() as tx:
        unfollow_issue(tx, project.id, issue)
        forget_thread(tx, place.host.name, project.path, issue)
    return Followed(None, found)


class Unasked:
    """A host without a connection, because untracking needs only its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def pull(self, repo: str | int, number: int) -> PullRecord:
        raise AssertionError(f"{self.name} was asked for {repo}#{number}")


async def post_answer(app: App, place: ConfiguredRepo, answering: AnswerRequest) -> PostedAnswer:
    """Store a reply and send it; if it could not be confirmed, the next poll settles it."""
    from tidelore.feedback.outbox import post

    async with open_hub(app, [place]) as hub:
        project = await hub.project(place)
        return await post(hub.database, hub.source(place), project, place.host, answering, app.clock, app.seam)
