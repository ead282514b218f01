"""The tables of the configuration file. Owns their keys, types, ranges and defaults; a leaf that decides nothing.

Refuses values out of range. Every command pays for this module, so it imports little.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

Positive = Annotated[float, Meta(gt=0, le=1e9)]
NotNegative = Annotated[float, Meta(ge=0, le=1e9)]
Count = Annotated[int, Meta(ge=0)]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Many = Annotated[int, Meta(ge=1, le=1000)]
Bytes = Annotated[int, Meta(ge=1_000_000, le=2**40)]
PageSize = Annotated[int, Meta(ge=1, le=100)]
Name = Annotated[str, Meta(min_length=1)]
# So that no token is taken for one: GitHub's are shaped like names.
Variable = Annotated[str, Meta(pattern=r"^(?!gh[a-z]_|github_pat_)([A-Za-z_][A-Za-z0-9_]*)?$")]


# A name, or with a star at its end every name that begins so.
VariablePattern = Annotated[str, Meta(pattern=r"^(?!gh[a-z]_|github_pat_)[A-Za-z_][A-Za-z0-9_]*\*?$")]
ASSOCIATIONS = ("@owner", "@member", "@collaborator", "@contributor", "@author")
ALLOWED_USERS = ("@owner", "@member", "@collaborator")
HANDLER_ENV = ("PATH", "HOME", "LANG", "TERM", "LORE_*")


class Section(Struct, frozen=True, kw_only=True):
    """A table of the file."""


class Storage(Section, frozen=True):
    path: str = ""
    compress_raw_payloads: bool = True
    lock_timeout_seconds: Positive = 45
    statement_timeout_seconds: Positive = 600
    idle_in_transaction_timeout_seconds: Positive = 30


class Http(Section, frozen=True):
    timeout_seconds: Positive = 30
    max_retries: Annotated[int, Meta(ge=0, le=20)] = 3
    retry_backoff_seconds: NotNegative = 1
    ca_file: str = ""
    proxy: str = ""
    per_page: PageSize = 100


class Sync(Section, frozen=True):
    cursor_rewind_seconds: NotNegative = 2
    settle_seconds: NotNegative = 75
    scrub_share: Annotated[float, Meta(ge=0, le=1)] = 0.02
    dependent_concurrency: Many = 10
    max_children_bytes: Bytes = 268_435_456
    rate_limit_rps: NotNegative = 0
    use_keyset_pagination: bool = False
    verify_reviewers: bool = False
    fetch_resource_events: bool = True
    fetch_mr_closes_issues: bool = True
    fetch_mr_diffs: bool = True
    surgical_entity_timeout_seconds: Positive = 30
    stale_lock_minutes: Positive = 10
    heartbeat_interval_seconds: Positive = 30


class ProjectOverride(Section, frozen=True):
    """What one project has otherwise than `[sync]`; None where it has not."""

    project: Name
    cursor_rewind_seconds: NotNegative | None = None
    settle_seconds: NotNegative | None = None
    dependent_concurrency: Many | None = None
    use_keyset_pagination: bool | None = None
    verify_reviewers: bool | None = None
    fetch_resource_events: bool | None = None
    fetch_mr_closes_issues: bool | None = None
    fetch_mr_diffs: bool | None = None


class GitLabHost(Section, frozen=True):
    name: Name = "gitlab"
    base_url: Name = "https://gitlab.com"
    token_env: Variable = "GITLAB_TOKEN"  # noqa: S105 - the name of a variable, not a token
    projects: tuple[Name, ...] = ()
    groups: tuple[Name, ...] = ()
    include_archived: bool = False
    overrides: tuple[ProjectOverride, ...] = ()


class GitHubRepo(Section, frozen=True):
    """What one repository has otherwise than its host; None where it has not."""

    name: Name
    poll_interval_seconds: Positive | None = None
    fetch: Literal["auto", "repo", "thread"] | None = None
    incremental: bool | None = None
    comment_fetch_overlap_seconds: NotNegative | None = None
    comment_fetch_safe_backfill_seconds: Positive | None = None
    bootstrap_pages_per_poll: Many | None = None
    track_authors: tuple[Name, ...] | None = None
    track_labels: tuple[Name, ...] | None = None
    allowed_users: tuple[Name, ...] | None = None
    operator_logins: tuple[Name, ...] | None = None
    command_prefix: Name | None = None
    operations_issue: Count | None = None
    handler: tuple[Name, ...] | None = None
    handler_timeout_seconds: Positive | None = None
    handler_max_attempts: Many | None = None
    handler_backoff_seconds: NotNegative | None = None
    handler_concurrency: Many | None = None
    handler_env: tuple[VariablePattern, ...] | None = None
    event_lease_seconds: Positive | None = None
    settle_write_seconds: NotNegative | None = None


class GitHubHost(Section, frozen=True):
    name: Name = "github"
    base_url: Name = "https://api.github.com"
    token_env: Variable = "GITHUB_TOKEN"  # noqa: S105 - the name of a variable, not a token
    app_id: Number = 0
    installation_id: Number = 0
    private_key_file: str = ""
    poll_interval_seconds: Positive = 60
    fetch: Literal["auto", "repo", "thread"] = "auto"
    incremental: bool = True
    comment_fetch_overlap_seconds: NotNegative = 5
    comment_fetch_safe_backfill_seconds: Positive = 86_400
    bootstrap_pages_per_poll: Many = 10
    track_authors: tuple[Name, ...] = ()
    track_labels: tuple[Name, ...] = ()
    allowed_users: tuple[Name, ...] = ()
    operator_logins: tuple[Name, ...] = ()
    command_prefix: Name = "/lore"
    operations_issue: Count = 0
    handler: tuple[Name, ...] = ()
    handler_timeout_seconds: Positive = 600
    handler_max_attempts: Many = 5
    handler_backoff_seconds: NotNegative = 30
    handler_concurrency: Many = 4
    handler_env: tuple[VariablePattern, ...] = ()
    event_lease_seconds: Positive = 600
    settle_write_seconds: NotNegative = 30
    write_interval_seconds: NotNegative = 1
    repos: tuple[GitHubRepo, ...] = ()


class RepoSettings(Struct, frozen=True, kw_only=True):
    """How one repository is followed: its host's settings, with its own laid over them."""

    name: str
    poll_interval_seconds: float
    fetch: Literal["auto", "repo", "thread"]
    incremental: bool
    comment_fetch_overlap_seconds: float
    comment_fetch_safe_backfill_seconds: float
    bootstrap_pages_per_poll: int
    track_authors: tuple[str, ...]
    track_labels: tuple[str, ...]
    allowed_users: tuple[str, ...]
    operator_logins: tuple[str, ...]
    command_prefix: str
    operations_issue: int
    handler: tuple[str, ...]
    handler_timeout_seconds: float
    handler_max_attempts: int
    handler_backoff_seconds: float
    handler_concurrency: int
    handler_env: tuple[str, ...]
    event_lease_seconds: float
    settle_write_seconds: float


class Bluesky(Section, frozen=True):
    base_url: Name = "https://public.api.bsky.app"
    plc_url: Name = "https://plc.directory"
    jetstream_url: Name = "wss://jetstream2.us-east.bsky.network/subscribe"
    mode: Literal["feed", "records"] = "feed"
    accounts: tuple[Name, ...] = ()
    interval_minutes: Positive = 15
    posts_per_page: PageSize = 50
    initial_lookback_hours: Positive = 24
    max_retries: Count = 3
    retry_backoff_ms: Count = 1000
    max_pages_per_user: Many = 100
    max_concurrent: Many = 10
    max_staleness_minutes: Positive = 240
    stream: bool = False


class Embedding(Section, frozen=True):
    """An empty text and a zero stand for the provider's own default, None for the weight measured for it."""

    provider: Literal["local", "minilm", "ollama", "openai", "none"] = "local"
    model: str = ""
    base_url: str = ""
    api_key_env: Variable = ""
    dimensions: Annotated[int, Meta(ge=0, le=65_536)] = 0
    batch_size: Annotated[int, Meta(ge=0, le=2048)] = 0
    timeout_seconds: Annotated[float, Meta(gt=0, le=3600)] = 60
    chunk_words: Annotated[int, Meta(ge=20, le=10_000)] = 180
    chunk_overlap: Annotated[int, Meta(ge=0, le=5000)] = 30
    fusion_weight: Annotated[float, Meta(ge=0, le=100)] | None = None
    rrf_k: Many | None = None
    min_similarity: Annotated[float, Meta(ge=0, le=1)] | None = None


class Service(Section, frozen=True):
    gitlab_interval_seconds: Positive = 300
    keep_runs_days: Annotated[float, Meta(ge=1, le=36_500)] = 30
    metrics_port: Annotated[int, Meta(ge=0, le=65535)] = 9464
    web_port: Annotated[int, Meta(ge=0, le=65535)] = 8765


class Log(Section, frozen=True):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"
    file: str = ""
    max_megabytes: Annotated[float, Meta(gt=0, le=100_000)] = 10
    keep: Many = 5


class Config(Section, frozen=True):
    """The whole file, defaults filled in."""

    default_project: str = ""
    storage: Storage = field(default_factory=Storage)
    http: Http = field(default_factory=Http)
    sync: Sync = field(default_factory=Sync)
    gitlab: tuple[GitLabHost, ...] = ()
    github: tuple[GitHubHost, ...] = ()
    bluesky: Bluesky = field(default_factory=Bluesky)
    embedding: Embedding = field(default_factory=Embedding)
    service: Service = field(default_factory=Service)
    log: Log = field(default_factory=Log)
