"""The settings: the tables of the configuration file, and what follows from them for a host or a project.

Read once (`core/config_file.py`), immutable afterwards. Every command imports this module, so it imports little. The
hosts of a forge are tables under the name of the forge. Those of GitLab and GitHub are declared here; the shapes of
other forges are passed in, because they are declared with their sources, which this module must not import.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct, field

Positive = Annotated[float, Meta(gt=0, le=1e9)]
NotNegative = Annotated[float, Meta(ge=0, le=1e9)]
Count = Annotated[int, Meta(ge=0)]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Many = Annotated[int, Meta(ge=1, le=1000)]
Bytes = Annotated[int, Meta(ge=1_000_000, le=2**40)]
PageSize = Annotated[int, Meta(ge=1, le=100)]
Name = Annotated[str, Meta(min_length=1)]
# Texts, not types: a type would compile its pattern in every command, an annotation only if there is a file to check.
VARIABLE = r"^(?!gh[a-z]_|github_pat_)([A-Za-z_][A-Za-z0-9_]*)?$"
"""A variable name. Rejects tokens entered by mistake: GitHub tokens are also valid variable names."""
ASSOCIATION = "^(OWNER|MEMBER|COLLABORATOR|CONTRIBUTOR|FIRST_TIME_CONTRIBUTOR|FIRST_TIMER|MANNEQUIN|NONE)$"
"""An author's relation to a repository, as GitHub reports it."""
VARIABLES = r"^(?!gh[a-z]_|github_pat_)[A-Za-z_][A-Za-z0-9_]*\*?$"
"""A variable name; with a star at the end, every name with that prefix. Rejects tokens entered by mistake."""
ALLOWED_USERS = ("@owner", "@member", "@collaborator")
HANDLER_ENV = ("PATH", "HOME", "LANG", "TERM", "LORE_*")


class Section(Struct, frozen=True, kw_only=True):
    """A table of the configuration file."""


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
    """Overrides of `[sync]` for one project; None means not overridden."""

    project: Name
    cursor_rewind_seconds: NotNegative | None = None
    settle_seconds: NotNegative | None = None
    dependent_concurrency: Many | None = None
    use_keyset_pagination: bool | None = None
    verify_reviewers: bool | None = None
    fetch_resource_events: bool | None = None
    fetch_mr_closes_issues: bool | None = None
    fetch_mr_diffs: bool | None = None
    mirror_since: str | None = None


class ForgeHost(Struct, frozen=True):
    """What is mirrored of one configured host: its projects by name, and all projects of its groups.

    `web_url` is the address of its web pages. `kind` is the name of its forge, `sign` what it writes before the number
    of a merge request. Of the projects in `followed` only followed items are mirrored.
    """

    kind: str
    name: str
    base_url: str
    web_url: str
    projects: tuple[str, ...]
    groups: tuple[str, ...]
    include_archived: bool
    sign: str = "!"
    followed: frozenset[str] = frozenset()


class SyncUnit(Struct, frozen=True):
    """A part of a host that the service syncs by itself: one project at its own interval, or the whole host."""

    project: str | None = None
    interval_seconds: float | None = None


class Host(Section, frozen=True):
    """The settings that every host of a forge has. `kind` names its tables, `title` is the forge's name for people."""

    kind: ClassVar[str]
    title: ClassVar[str]

    name: Name
    base_url: Name
    token_env: Annotated[str, Meta(pattern=VARIABLE)] = ""
    login: str = ""
    include_archived: bool = False
    hook_secret_env: Annotated[str, Meta(pattern=VARIABLE)] = ""
    mirror_since: str = ""

    @property
    def configured(self) -> tuple[str, ...]:
        """The projects that are configured by name, whether they are mirrored or not."""
        raise NotImplementedError

    @property
    def mirrored(self) -> ForgeHost:
        """What is mirrored of this host."""
        raise NotImplementedError

    @property
    def units(self) -> tuple[SyncUnit, ...]:
        """The parts of this host that the service syncs separately."""
        return (SyncUnit(),)

    def check(self, where: str, file: str) -> None:
        """Raise ConfigError for what the types cannot express; `where` is the key of this table."""
        raise NotImplementedError


class FeedbackHost(Host, frozen=True):
    """A host whose merge or pull requests can be followed for feedback."""

    incremental: bool = True
    shadow_sample: Annotated[float, Meta(ge=0, le=1)] = 0.01
    comment_fetch_overlap_seconds: NotNegative = 5
    comment_fetch_safe_backfill_seconds: Positive = 86_400
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
    handler_env: tuple[Annotated[str, Meta(pattern=VARIABLES)], ...] = ()
    event_lease_seconds: Positive = 600
    settle_write_seconds: NotNegative = 30
    write_interval_seconds: NotNegative = 1


class ProjectHost(FeedbackHost, frozen=True):
    """A host whose projects and groups are configured by their paths. A new forge derives its own table from this."""

    projects: tuple[Name, ...] = ()
    groups: tuple[Name, ...] = ()
    overrides: tuple[ProjectOverride, ...] = ()

    @property
    def configured(self) -> tuple[str, ...]:
        return self.projects

    @property
    def web_url(self) -> str:
        """The address of its web pages, with which the URLs of its items begin."""
        return self.base_url

    @property
    def mirrored(self) -> ForgeHost:
        return ForgeHost(
            self.kind, self.name, self.base_url, self.web_url, self.projects, self.groups, self.include_archived
        )

    def check(self, where: str, file: str) -> None:
        from tidelore.core.config_checks import check_allowed_users, check_overrides, check_paths

        check_paths(self.projects, f"{where}.projects", "group/project", file)
        check_paths(self.groups, f"{where}.groups", "group", file)
        check_overrides(self, f"{where}.overrides", file)
        check_allowed_users(self.allowed_users, f"{where}.allowed_users", file)


class GitLabHost(ProjectHost, frozen=True):
    kind = "gitlab"
    title = "GitLab"

    name: Name = "gitlab"
    base_url: Name = "https://gitlab.com"
    token_env: Annotated[str, Meta(pattern=VARIABLE)] = "GITLAB_TOKEN"  # noqa: S105 - the name of a variable, not a token
    graphql: Literal["auto", "off"] = "auto"

    def check(self, where: str, file: str) -> None:
        from tidelore.core.config_checks import check_api_path, check_nested

        check_api_path(self.base_url, "/api/v4", f"{where}.base_url", file)
        super().check(where, file)
        check_nested(self.projects, where, file)


class GitHubRepo(Section, frozen=True):
    """Overrides of the host's settings for one repository; None means not overridden."""

    name: Name
    poll_interval_seconds: Positive | None = None
    fetch: Literal["auto", "repo", "thread"] | None = None
    incremental: bool | None = None
    shadow_sample: Annotated[float, Meta(ge=0, le=1)] | None = None
    comment_fetch_overlap_seconds: NotNegative | None = None
    comment_fetch_safe_backfill_seconds: Positive | None = None
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
    handler_env: tuple[Annotated[str, Meta(pattern=VARIABLES)], ...] | None = None
    event_lease_seconds: Positive | None = None
    settle_write_seconds: NotNegative | None = None
    mirror: Literal["all", "followed"] | None = None
    mirror_since: str | None = None


class GitHubHost(FeedbackHost, frozen=True):
    kind = "github"
    title = "GitHub"

    name: Name = "github"
    base_url: Name = "https://api.github.com"
    token_env: Annotated[str, Meta(pattern=VARIABLE)] = "GITHUB_TOKEN"  # noqa: S105 - the name of a variable, not a token
    app_id: Number = 0
    installation_id: Number = 0
    private_key_file: str = ""
    poll_interval_seconds: Positive = 60
    fetch: Literal["auto", "repo", "thread"] = "auto"
    orgs: tuple[Name, ...] = ()
    mirror: Literal["all", "followed"] = "all"
    repos: tuple[GitHubRepo, ...] = ()

    @property
    def configured(self) -> tuple[str, ...]:
        return tuple(repo.name for repo in self.repos)

    @property
    def mirrored(self) -> ForgeHost:
        repos = tuple(repo.name for repo in self.repos)
        followed = frozenset(repo.name for repo in self.repos if (repo.mirror or self.mirror) == "followed")
        web_url = _web_address(self.base_url)
        return ForgeHost(
            self.kind, self.name, self.base_url, web_url, repos, self.orgs, self.include_archived, "#", followed
        )

    @property
    def units(self) -> tuple[SyncUnit, ...]:
        repos = [SyncUnit(repo.name, repo.poll_interval_seconds or self.poll_interval_seconds) for repo in self.repos]
        return (*repos, *([SyncUnit()] if self.orgs else []))

    def check(self, where: str, file: str) -> None:
        from tidelore.core.config_checks import (
            allowed_users,
            check_allowed_users,
            check_app,
            check_repos,
            check_web_address,
        )

        check_web_address(self.base_url, "github.com", "https://api.github.com", f"{where}.base_url", file)
        check_repos(self, f"{where}.repos", file)
        check_app(self, where, file)
        for key, listed in allowed_users(self, where):
            check_allowed_users(listed, key, file)


class RepoSettings(Struct, frozen=True, kw_only=True):
    """The effective settings of one repository: those of its host, with the repository's overrides.

    `shares_numbers`: issues and pull requests share their numbers.
    """

    name: str
    poll_interval_seconds: float = 60
    fetch: Literal["auto", "repo", "thread"] = "repo"
    mirror: Literal["all", "followed"] = "all"
    mirror_since: str = ""
    shares_numbers: bool = False
    incremental: bool
    shadow_sample: float
    comment_fetch_overlap_seconds: float
    comment_fetch_safe_backfill_seconds: float
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
    """An empty text or zero means the provider's default, None the value measured for the provider."""

    provider: Literal["local", "minilm", "ollama", "openai", "none"] = "local"
    model: str = ""
    base_url: str = ""
    api_key_env: Annotated[str, Meta(pattern=VARIABLE)] = ""
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


class Hooks(Section, frozen=True):
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    address: Name = "127.0.0.1"
    max_age_seconds: Positive = 300
    keep_days: Annotated[float, Meta(ge=1, le=365)] = 7
    poll_interval_seconds: Positive = 1800
    silent_minutes: Positive = 1440


class Log(Section, frozen=True):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"
    file: str = ""
    max_megabytes: Annotated[float, Meta(gt=0, le=100_000)] = 10
    keep: Many = 5


class Config(Section, frozen=True):
    """The whole configuration, with defaults filled in. `others` are the hosts of all forges that have no field."""

    default_project: str = ""
    lockdown: bool = False
    trusted_associations: tuple[Annotated[str, Meta(pattern=ASSOCIATION)], ...] = ("OWNER", "MEMBER", "COLLABORATOR")
    storage: Storage = field(default_factory=Storage)
    http: Http = field(default_factory=Http)
    sync: Sync = field(default_factory=Sync)
    gitlab: tuple[GitLabHost, ...] = ()
    github: tuple[GitHubHost, ...] = ()
    bluesky: Bluesky = field(default_factory=Bluesky)
    embedding: Embedding = field(default_factory=Embedding)
    service: Service = field(default_factory=Service)
    hooks: Hooks = field(default_factory=Hooks)
    log: Log = field(default_factory=Log)
    others: tuple[Host, ...] = ()


H = TypeVar("H", bound=Host)


def all_hosts(config: Config) -> tuple[Host, ...]:
    """Return every configured host of a forge."""
    return (*config.gitlab, *config.github, *config.others)


def feedback_hosts(config: Config) -> tuple[FeedbackHost, ...]:
    """Return every configured host of which merge or pull requests can be followed."""
    return (*config.github, *config.gitlab)


def find_host(config: Config, source: str) -> Host | None:
    """Return the host with this name, or None."""
    return next((host for host in all_hosts(config) if host.name == source), None)


def forge_hosts(config: Config) -> list[ForgeHost]:
    """Return the hosts of all forges of which something is mirrored."""
    hosts = [host.mirrored for host in all_hosts(config)]
    return [host for host in hosts if host.projects or host.groups]


def names_something(config: Config) -> bool:
    """Return whether there is something to sync: a project, a group or an account."""
    return bool(forge_hosts(config) or config.bluesky.accounts)


def only_hosts(config: Config, names: Collection[str]) -> Config:
    """Return the configuration with only these hosts of the forges."""
    tables = {"gitlab": config.gitlab, "github": config.github, "others": config.others}
    kept = {table: tuple(host for host in hosts if host.name in names) for table, hosts in tables.items()}
    return msgspec.structs.replace(config, **kept)


def only_units(config: Config, units: Collection[tuple[str, str | None]]) -> Config:
    """Return the configuration with only these parts of hosts: single projects, or hosts as a whole (None)."""
    chosen = only_hosts(config, {host for host, _ in units})

    def part(host: GitHubHost) -> GitHubHost:
        repos = tuple(repo for repo in host.repos if (host.name, repo.name) in units)
        return host if (host.name, None) in units else msgspec.structs.replace(host, orgs=(), repos=repos)

    return msgspec.structs.replace(chosen, github=tuple(map(part, chosen.github)))


def only_forge(config: Config, kind: str) -> Config:
    """Return the configuration with only the mirrored hosts of one forge."""
    return only_hosts(config, {host.name for host in forge_hosts(config) if host.kind == kind})


def forge_host(config: Config, source: str) -> ForgeHost | None:
    """Return the mirrored host with this name, or None."""
    return next((host for host in forge_hosts(config) if host.name == source), None)


def _web_address(api_url: str) -> str:
    """Return the address of GitHub's web pages, from that of its API."""
    plain = api_url.rstrip("/")
    return plain.removesuffix("/api/v3") if plain.endswith("/api/v3") else plain.replace("://api.", "://", 1)


def sync_settings(config: Config, source: str, project: str) -> Sync:
    """Return the settings for mirroring one project: `[sync]` with the project's overrides."""
    host = find_host(config, source)
    overrides = host.overrides if isinstance(host, ProjectHost) else ()
    laid_over = {
        name: value
        for entry in overrides
        if entry.project == project
        for name in entry.__struct_fields__
        if name in Sync.__struct_fields__ and (value := getattr(entry, name)) is not None
    }
    return msgspec.structs.replace(config.sync, **laid_over)


def override_sync(config: Config, **settings: Any) -> Config:
    """Return the configuration with these settings of `[sync]` for every project."""

    def changed(hosts: tuple[H, ...]) -> tuple[H, ...]:
        return tuple(_override(host, settings) if isinstance(host, ProjectHost) else host for host in hosts)

    sync = msgspec.structs.replace(config.sync, **settings)
    return msgspec.structs.replace(config, sync=sync, gitlab=changed(config.gitlab), others=changed(config.others))


def _override(host: H, settings: Mapping[str, Any]) -> H:
    assert isinstance(host, ProjectHost), "only such a host has overrides"
    overrides = tuple(msgspec.structs.replace(entry, **settings) for entry in host.overrides)
    return msgspec.structs.replace(host, overrides=overrides)


def feedback_settings(config: Config, source: str, project: str) -> RepoSettings | None:
    """Return the settings for the feedback of one project, or None if its host has none."""
    host = find_host(config, source)
    return repo_settings(host, project) if isinstance(host, FeedbackHost) else None


def default_settings() -> RepoSettings:
    """Return the settings for the feedback of a project that is not configured any more."""
    return repo_settings(GitHubHost(), "")


def repo_settings(host: FeedbackHost, repo_name: str) -> RepoSettings:
    """Return the settings for one repository: those of the host, with the repository's overrides.

    Repository names are case-insensitive: `Owner/Repo` and `owner/repo` are the same.
    """
    own_keys = set(host.__struct_fields__)
    settings = {name: getattr(host, name) for name in RepoSettings.__struct_fields__ if name in own_keys}
    settings |= {"name": repo_name, "shares_numbers": isinstance(host, GitHubHost)}
    for repo in host.repos if isinstance(host, GitHubHost) else ():
        if repo.name.casefold() == repo_name.casefold():
            own = {name: getattr(repo, name) for name in repo.__struct_fields__ if name != "name"}
            settings |= {name: value for name, value in own.items() if value is not None}
    return RepoSettings(**settings)
