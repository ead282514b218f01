"""One configured GitHub host: opens it (with a token, as an App, or without either) and provides its lists.

Each call is one request or one write; the callers make all decisions. A host that cannot be opened stores the reason;
every call raises it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from types import MappingProxyType
from urllib.parse import urlsplit

from tidelore.core.clock import Clock, describe_age
from tidelore.core.config import GitHubHost
from tidelore.core.errors import CredentialsMissing, RemoteNotFound, RemotePermanent, TideloreError
from tidelore.core.model import (
    ISSUE_COMMENT,
    REVIEW_COMMENT,
    ChildRecord,
    CommentRecord,
    EventRecord,
    FileChangeRecord,
    IssueRecord,
    ListedRecord,
    MergeRequestRecord,
    ProjectRecord,
    PullIssueRecord,
    PullRecord,
    RepositoryRecord,
    StatusRecord,
    TopicRecord,
    pull_of,
)
from tidelore.engine.ports import Lister, Pages, Parent
from tidelore.http.client import bearer
from tidelore.http.response import Response
from tidelore.sources.credentials import Token, find_token
from tidelore.sources.github import discussion_answers, forge_lists, mutations, surfaces
from tidelore.sources.github import hooks as hook_api
from tidelore.sources.github.app_token import InstallationIdentity, load_signer
from tidelore.sources.github.batches import BatchedList, BatchedReviews, GlancedComments, PullBatches
from tidelore.sources.github.client import GitHubClient, Repo, repo_path
from tidelore.sources.github.discussion_answers import DiscussionAnswers
from tidelore.sources.github.discussions import DiscussionList
from tidelore.sources.github.graphql import GraphQlClient
from tidelore.sources.hooks import InstalledHook, SentDelivery
from tidelore.sources.items import ThreadComments
from tidelore.sources.ports import TOPIC, AnswerPlace, Greeting, Resource, Wiring, WriteRequest, skew_of

BATCHED = frozenset({"comments", "reviews", "threads", "closes_issues"})
"""The kinds of children that one query shows for many parents."""


class GitHubSource:
    """One GitHub host. `signed_in`: with a token, as a GitHub App, or not at all."""

    kind = "github"
    resources: Mapping[str, Resource] = MappingProxyType(
        {
            # Pull requests first: the list of issues contains their issue side, which needs them.
            "merge_requests": Resource(
                ("comments", "reviews", "threads", "resource_events", "closes_issues", "diffs"),
                newest_first=True,
                keeps=("user_notes_count",),
                # A push changes the update time on GitHub.
                by_columns=("diffs",),
            ),
            "issues": Resource(("comments", "resource_events"), has_sides=True),
        }
    )
    feeds: Mapping[str, str] = MappingProxyType({"issue_comments": ISSUE_COMMENT, "review_comments": REVIEW_COMMENT})
    owns_names = True
    has_discussions = False

    def __init__(
        self,
        name: str,
        door: GitHubClient | TideloreError,
        clock: Clock,
        *,
        per_page: int = 100,
        signed_in: str = "token",
    ) -> None:
        self.name = name
        self.closed = door if isinstance(door, TideloreError) else None
        self._door = door
        self._clock = clock
        self._per_page = per_page
        self._signed_in = signed_in
        self._login: str | None = None
        self._graphql: GraphQlClient | None = None
        self._batches = PullBatches(lambda: self.graphql)

    @property
    def _client(self) -> GitHubClient:
        if isinstance(self._door, TideloreError):
            raise self._door
        return self._door

    @property
    def graphql(self) -> GraphQlClient:
        """The GraphQL interface of this host; it keeps its page sizes and its points."""
        if self._graphql is None:
            self._graphql = GraphQlClient(self._client, signed_in=self._signed_in != "no")
        return self._graphql

    @property
    def remaining(self) -> int | None:
        """Remaining requests of the rate limit, from the last response."""
        return self._client.governor.remaining

    @property
    def skew_ms(self) -> int | None:
        """How far the server's clock is ahead of ours, from the last response; None before the first."""
        return None if self.closed is not None else self._client.governor.skew_ms

    async def ask_clock(self) -> None:
        """Learn the server's clock by a request that does not count against the rate limit."""
        # A server without rate limits responds with 'not found', which contains the time too.
        with suppress(RemoteNotFound):
            await self._client.rate_limit()

    async def greet(self) -> Greeting:
        """Return our login, the scopes and expiry of the token, and the remaining requests of the rate limit."""
        response: Response
        if self._signed_in == "app":
            app, response = await self._client.app()
            # Only a request with the installation's token shows its rate limit, and that the installation exists.
            response = await self._client.reach()
            self._login = f"{app.slug}[bot]"
            parts = [f"signed in as {self._login}", "an installation of a GitHub App"]
        elif self._signed_in == "token":
            who, response = await self._viewer()
            parts = [f"signed in {who}", *describe_token(response)]
        else:
            response = await self._client.reach()
            parts = ["reachable without a token (which review threads, closing issues and Discussions need)"]
        if self._client.governor.remaining is not None:
            parts.append(f"{self._client.governor.remaining:,} requests left")
        return Greeting(", ".join(parts), skew_of(response, self._clock.now_ms()), self._login)

    async def login(self) -> str | None:
        """Return the login under which our comments appear, requested once; None if the server does not report it."""
        if self._login is None and self._signed_in == "app":
            app, _ = await self._client.app()
            self._login = f"{app.slug}[bot]"
        elif self._login is None and self._signed_in == "token":
            try:
                user, _ = await self._client.user()
            except RemotePermanent as error:
                # The token of an installation belongs to no user.
                if error.status != 403:
                    raise
                return None
            self._login = user.login
        return self._login

    async def _viewer(self) -> tuple[str, Response]:
        try:
            user, response = await self._client.user()
        except RemotePermanent as error:
            if error.status != 403:
                raise
            # The token of an installation (such as a workflow gets) is valid but belongs to no user.
            return "with the token of a GitHub App", await self._client.reach()
        self._login = user.login
        return f"as {user.login}", response

    async def resolve(self, configured: Repo) -> ProjectRecord:
        """Find a repository by its configured name or its id; the record has its current name."""
        return await self._client.repository(configured)

    def comment_feed(self, repo: Repo, kind: str, per_page: int | None = None) -> Lister[CommentRecord]:
        """Return all comments of one kind in a repository: by update time, with `since`, conditional."""
        return surfaces.comment_feed(self._client, repo, kind, per_page or self._per_page)

    def thread(self, remote_id: Repo, kind: str, number: int, per_page: int | None = None) -> Lister[CommentRecord]:
        """Return the comments of one kind in one thread: by id, with `since`, conditional."""
        return surfaces.thread(self._client, remote_id, kind, number, per_page or self._per_page)

    def reviews(self, repo: Repo, number: int) -> Pages[CommentRecord]:
        """Return the reviews of one pull request: by id, without `since`."""
        return surfaces.reviews(self._client, repo, number, self._per_page)

    def snapshot(self, remote_id: int, number: int) -> Lister[ListedRecord]:
        """Return one pull request as a list of one, which is conditional."""
        return forge_lists.PullSnapshot(self._client, remote_id, number)

    async def pull(self, remote_id: int, number: int) -> PullRecord:
        """Return the current state of one pull request."""
        page = await self.pull_list(remote_id).fetch_one(str(number))
        for rejected in page.rejected:
            raise RemotePermanent(f"could not parse pull request #{number}: {rejected.error}", reason="bad_shape")
        for item in page.items:
            return pull_of(item.record)
        raise RemoteNotFound(
            f"pull request #{number} does not exist",
            status=404,
            reason="not_found",
            fix="check the number of the pull request",
        )

    async def repository(self, repo: Repo) -> RepositoryRecord:
        """Return a repository with its global id and its features."""
        return await self._client.repository_record(repo)

    async def group(self, path: str) -> Sequence[ProjectRecord]:
        """Return every repository of an organisation."""
        return [record.project for record in await self.repositories(path)]

    def listing(
        self,
        resource: str,
        remote_id: int,
        *,
        by_creation: bool = False,
        keyset: bool = False,  # noqa: ARG002 - GitHub has no keyset pages
        backfill: bool = False,
    ) -> Lister[ListedRecord]:
        """Return the issues or the pull requests of a repository."""
        if resource == "issues":
            return self.issue_list(remote_id, by_creation=by_creation)
        return self.pull_list(remote_id, by_creation=by_creation, backfill=backfill)

    def feed(self, name: str, remote_id: int) -> Lister[CommentRecord]:
        """Return all comments of one kind in a repository, by update time."""
        return self.comment_feed(remote_id, self.feeds[name])

    def children(self, kind: str, resource: str, remote_id: int, parent: Parent) -> Sequence[Pages[ChildRecord]]:
        """Return the lists of one kind of children of an issue or a pull request."""
        number = parent.iid
        if kind == "comments":
            kinds = (ISSUE_COMMENT,) if resource == "issues" else (ISSUE_COMMENT, REVIEW_COMMENT)
            return [
                GlancedComments(
                    self._batches, each, resource, parent.node_id, ThreadComments(self.thread(remote_id, each, number))
                )
                for each in kinds
            ]
        if kind == "reviews":
            by_rest = ThreadComments(self.reviews(remote_id, number))
            return [BatchedReviews(self._batches, parent.node_id, by_rest)]
        if kind == "resource_events":
            return [self.timeline(remote_id, number)]
        if kind == "diffs":
            return [self.files(remote_id, number)]
        return [BatchedList(self._batches, kind, parent.node_id)]

    def announce(
        self,
        kind: str,
        resource: str,
        remote_id: int,  # noqa: ARG002 - a global id names the object by itself
        path: str,  # noqa: ARG002
        parents: Sequence[Parent],
    ) -> None:
        """Say whose comments, reviews, review threads or closing issues will be requested next."""
        self._batches.announce(kind, resource, [parent.node_id for parent in parents if parent.node_id is not None])

    def parents_per_request(self, kind: str) -> int:
        """Return how many parents one query reads or compares the children of; 1 where that takes REST."""
        return self._batches.parents_per_request if kind in BATCHED else 1

    def shared_requests(self, kind: str) -> str:
        """Return one name for all kinds that are read by the same queries."""
        return "conversations" if self.parents_per_request(kind) > 1 else kind

    async def hooks(self, remote_id: int) -> Sequence[InstalledHook]:
        """Return the webhooks of a project."""
        return await hook_api.list_hooks(self._client, remote_id)

    async def save_hook(self, remote_id: int, hook_id: int | None, url: str, secret: str) -> InstalledHook:
        """Create a webhook, or complete the one with this id."""
        return await hook_api.save_hook(self._client, remote_id, hook_id, url, secret)

    async def hook_deliveries(self, remote_id: int, hook_id: int) -> Sequence[SentDelivery]:
        """Return the last deliveries of a webhook, the newest first."""
        return await hook_api.list_deliveries(self._client, remote_id, hook_id)

    async def statuses(self, _path: str, _iids: Sequence[int]) -> Mapping[int, StatusRecord | None] | None:
        """Return None: issues of GitHub have no status."""
        return None

    async def repositories(self, org: str) -> list[RepositoryRecord]:
        """Return every repository of an organisation, forks and archived ones too."""
        return await forge_lists.repositories(self._client, org, self._per_page)

    def issue_list(
        self, repo_id: int, per_page: int | None = None, *, by_creation: bool = False
    ) -> Lister[IssueRecord | PullIssueRecord]:
        """Return the issues and the issue sides of pull requests: by update time with `since`, or by creation."""
        return forge_lists.issue_list(self._client, repo_id, per_page or self._per_page, by_creation=by_creation)

    def pull_list(
        self, repo_id: int, per_page: int | None = None, *, by_creation: bool = False, backfill: bool = False
    ) -> Lister[MergeRequestRecord]:
        """Return all pull requests as merge requests: the newest update first (page 1 is conditional), or by creation.

        With `backfill` pages are as large as possible.
        """
        size = per_page or self._per_page
        return forge_lists.pull_list(self._client, repo_id, size, by_creation=by_creation, backfill=backfill)

    def timeline(self, repo_id: int, number: int) -> Pages[EventRecord]:
        """Return the events of one issue or pull request."""
        return forge_lists.timeline(self._client, repo_id, number, self._per_page)

    def files(self, repo_id: int, number: int) -> Pages[FileChangeRecord]:
        """Return the files that one pull request changes, at most 3,000."""
        return forge_lists.files(self._client, repo_id, number, self._per_page)

    def topics(self, node_id: str, *, by_creation: bool = False) -> Lister[TopicRecord]:
        """Return the Discussions of a repository by its global id: the newest update first, or by creation."""
        return DiscussionList(self.graphql, node_id, by_creation=by_creation)

    async def compare(self, repo: Repo, base: str, head: str) -> str:
        """Return how a head relates to a base: "ahead", "behind", "diverged" or "identical"."""
        return await self._client.compare(repo, base, head)

    async def members(self, _remote_id: int) -> None:
        """Return None: each comment contains the association of its author."""

    def answers(self, place: AnswerPlace) -> Pages[CommentRecord]:
        """Return the comments among which an answer would be: in the conversation, on the diff, or of a Discussion."""
        if place.scope_kind == TOPIC:
            return DiscussionAnswers(self.graphql, place)
        return self.thread(place.repo, ISSUE_COMMENT if place.reply_to is None else REVIEW_COMMENT, place.number)

    def comment_lists(self, remote_id: int, number: int) -> Mapping[str, Pages[CommentRecord]]:
        """Return all comments of one pull request."""
        return {
            "pr_issue_comments": self.thread(remote_id, ISSUE_COMMENT, number),
            "pr_review_comments": self.thread(remote_id, REVIEW_COMMENT, number),
            "pr_review_summaries": self.reviews(remote_id, number),
        }

    def commands_in(self, _body: str) -> Sequence[str]:
        """Return nothing: GitHub runs no commands in comments."""
        return ()

    def answer_request(self, place: AnswerPlace, body: str) -> WriteRequest:
        """Return the request that `post_answer` sends."""
        if place.scope_kind == TOPIC:
            return discussion_answers.comment_request(self._client, place, body)
        path = _comment_path(place.number) if place.reply_to is None else _reply_path(place.number, place.reply_to)
        return WriteRequest("POST", self._client.address(f"{repo_path(place.repo)}/{path}"), {"body": body})

    async def post_answer(self, place: AnswerPlace, body: str) -> CommentRecord:
        """Comment on a thread or a Discussion, or reply to a review comment or a comment of a Discussion."""
        if place.scope_kind == TOPIC:
            return await discussion_answers.post_comment(self._client, place, body)
        if place.reply_to is None:
            return await self.post_comment(place.repo, place.number, body)
        return await self.post_reply(place.repo, place.number, place.reply_to, body)

    async def is_resolved(self, place: AnswerPlace) -> bool:
        """Return whether a review thread, given by its global id, is resolved."""
        return await mutations.read_resolved(self.graphql, place.discussion or "")

    def resolve_request(self, place: AnswerPlace, *, resolved: bool) -> WriteRequest:
        """Return the request that `set_resolved` sends."""
        return mutations.resolve_request(self._client, place.discussion or "", resolved=resolved)

    async def set_resolved(self, place: AnswerPlace, *, resolved: bool) -> bool:
        """Resolve or unresolve a review thread, without retries."""
        return await mutations.set_resolved(self._client, place.discussion or "", resolved=resolved)

    async def first_of_thread(self, place: AnswerPlace) -> int | None:
        """Return the first comment of the thread of a review comment; None if it is the first, or unknown."""
        page = await self.thread(place.repo, REVIEW_COMMENT, place.number).fetch_one(str(place.reply_to))
        return next((item.record.in_reply_to for item in page.items), None)

    async def post_comment(self, repo: Repo, number: int, body: str) -> CommentRecord:
        """Comment on a thread, without retries; after an error with the reason `unclear_write` it may be posted."""
        path = _comment_path(number)
        return await self._client.write(repo, path, {"body": body}, read=surfaces.COMMENTS.one, route="issues/post")

    async def post_reply(self, repo: Repo, number: int, comment_id: int, body: str) -> CommentRecord:
        """Reply to a review comment, without retries; after an error with the reason `unclear_write` it may exist."""
        path = _reply_path(number, comment_id)
        read = surfaces.REVIEW_COMMENTS.one
        return await self._client.write(repo, path, {"body": body}, read=read, route="pulls/post")


def _comment_path(number: int) -> str:
    return f"issues/{number}/comments"


def _reply_path(number: int, comment_id: int) -> str:
    return f"pulls/{number}/comments/{comment_id}/replies"


def describe_token(response: Response) -> list[str]:
    """Return the scopes and the expiry of the token, from the headers of a response."""
    told = []
    scopes = response.headers.get("x-oauth-scopes")
    if scopes is not None:
        told.append(f"scopes {scopes}" if scopes.strip() else "no scopes")
    ends_at = parse_expiration(response.headers.get("github-authentication-token-expiration"))
    if ends_at is not None:
        left = ends_at - (ends_at if response.server_at is None else response.server_at)
        day = datetime.fromtimestamp(ends_at / 1000, UTC).strftime("%Y-%m-%d")
        told.append(f"expires in {describe_age(left / 1000)} ({day})" if left > 0 else f"expires on {day}")
    return told


def parse_expiration(text: str | None) -> int | None:
    """Return when a token expires, from either form of the header (`… UTC` or `… +0200`); None if it is missing."""
    if not text:
        return None
    written = text.strip().replace(" UTC", " +0000")
    try:
        return int(datetime.strptime(written, "%Y-%m-%d %H:%M:%S %z").timestamp() * 1000)
    except ValueError:
        return None


_HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}


@asynccontextmanager
async def open_github(host: GitHubHost, wiring: Wiring) -> AsyncIterator[GitHubSource]:
    """Open a GitHub host; its connections close with the block. Without credentials it is closed."""
    config, clock = wiring.config, wiring.clock
    try:
        sign = load_signer(host.private_key_file, "github.private_key_file") if host.app_id else None
        token = None if sign is not None else _find(host, wiring)
    except CredentialsMissing as error:
        yield GitHubSource(host.name, error, clock)
        return
    secret = token.value if token else None
    app = f"app {host.app_id} {host.installation_id}" if host.app_id else ""
    async with wiring.http_client(host.name, host.base_url, secret, bearer, _HEADERS, app) as http:
        identity = None
        if sign is not None:
            identity = InstallationIdentity(http, host.app_id, host.installation_id, sign, clock)
        signed_in = "app" if identity is not None else "token" if token is not None else "no"
        client = GitHubClient(http, identity)
        yield GitHubSource(host.name, client, clock, per_page=config.http.per_page, signed_in=signed_in)


def tool_host(base_url: str) -> str:
    """Return the host name that GitHub's command-line tool uses: that of the web pages, not of the API."""
    return (urlsplit(base_url).hostname or "").removeprefix("api.")


def _find(host: GitHubHost, wiring: Wiring) -> Token | None:
    tool = ("gh", "auth", "token", "--hostname", tool_host(host.base_url))
    return find_token(host.base_url, host.token_env, tool, wiring.environ, host.name)
