"""The switches of the simulated GitHub: where reports about the real one disagree, a test picks a side.

Owns the settings only. Each default is the documented behaviour of the real service.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class GitHubSettings:
    """Behaviour a test may change at any moment, also between two pages of one walk."""

    since_exclusive: bool = False
    """`since` leaves out the named second itself."""

    numeric_links_from_page: int | None = None
    """From this page on, `Link` addresses are written as `/repositories/<id>/...`."""

    gateway_since_days: float | None = None
    """A `since` older than this many days answers 502 when the page is larger than `gateway_per_page`."""

    gateway_per_page: int = 50

    deep_offset: int = 40_000
    """Pages that reach past this many rows answer 422."""

    primary_limit: int | None = 5000
    """Requests an hour with a token; None lifts the limit."""

    anonymous_limit: int | None = 5000
    """Requests an hour without a token. The real service grants 60; clients of 127.0.0.1 need none."""

    primary_status: int = 403
    """What an exhausted primary limit answers; the real service uses 403 and 429."""

    content_per_minute: int = 80
    content_per_hour: int = 500
    """Content-creating requests before the secondary limit strikes."""

    require_token: bool = False
    """Answer 401 to `/user` and to writes that carry no token."""

    bad_tokens: set[str] = field(default_factory=set)
    """Tokens answered with 401 Bad credentials."""

    viewer: str = "tidelore-agent"
    """Whom a request acts for when its token is not in `tokens`."""

    tokens: dict[str, str] = field(default_factory=dict)
    """Logins by token."""

    scopes: str | None = "repo"
    """What `x-oauth-scopes` tells of a token; None for one with fine-grained permissions, which has no such header."""

    token_expires_us: int | None = None
    """When tokens end, as `github-authentication-token-expiration` tells it; None for never."""

    token_expiration_offset: bool = False
    """Write that instant with an offset, as is seen of some tokens, and not with `UTC`."""

    installation_token_seconds: float = 3600
    """How long the token of an App's installation lives."""

    lost_answers: int = 0
    """So many writes take effect although their answer never arrives."""

    late_writes: int = 0
    """So many new comments are accepted, get no answer, and appear only after `late_seconds`."""

    late_seconds: float = 20.0

    trailing_share: float = 0.0
    """Share of posted comments whose `updated_at` is a second after `created_at` without an edit."""

    comments_follow_head: bool = True
    """`commit_id` of a review comment that is not outdated moves to the new head at a push; `updated_at` does not."""

    edits_move_the_parent: bool = False
    """Editing a comment moves the `updated_at` of its thread. Reports say so; nothing documents it."""

    deletions_move_the_parent: bool = False
    """Deleting a comment moves the `updated_at` of its thread. Neither documented nor verified."""

    review_deletions_in_timeline: bool = False
    """A deleted review comment leaves `comment_deleted` too. Neither documented nor verified."""

    line_comments_in_timeline: bool = False
    """Review comments stand in the timeline as `line-commented` entries, which are documented and rarely seen."""

    issues_cursor_links: bool = True
    """The `Link` of the list of issues carries `after` and `before` cursors beside `page`."""

    issues_page_rows: int = 1000
    """Pages of the list of issues that reach past this many rows by `page` alone answer 422."""

    pulls_lose_issue_side: bool = True
    """While Issues are switched off, `/issues/{n}` of a pull request answers 410 too; its comments can be read."""

    enterprise: bool = False
    """Answer as GitHub Enterprise Server: GraphQL under `/api/graphql`. REST under `/api/v3` works always."""

    rate_limits: bool = True
    """Off as an Enterprise Server has it by default: `/rate_limit` is not found, headers and GraphQL tell no limit."""

    graphql_limit: int | None = 5000
    """Points an hour for GraphQL; None lifts the limit."""

    graphql_limited_type: str = "RATE_LIMITED"
    """The error type of an exhausted GraphQL limit; `RATE_LIMIT` has been seen too."""

    graphql_resources: int | None = None
    """So many objects one query may read; the rest of its lists is null, with RESOURCE_LIMITS_EXCEEDED."""

    graphql_slow_nodes: int | None = None
    """A query that may reach more nodes than this takes too long and answers `graphql_slow_status`."""

    graphql_slow_status: int = 502

    graphql_slow_points: int = 10
    """What a query that took too long costs on top."""

    graphql_forbidden: set[str] = field(default_factory=set)
    """Fields the token has no right to read, such as `PullRequest.reviewThreads`: null, with FORBIDDEN."""

    graphql_lacks: set[str] = field(default_factory=set)
    """Fields that an old Enterprise Server does not have, such as `Issue.fullDatabaseId`: the query is refused."""
