"""Settings of GitHub hosts and their repositories: every key is taken, and a repository's own lie over its host's."""

from __future__ import annotations

import tomllib
import types
import typing
from typing import Any

import msgspec
import pytest

from tidelore.core.config import (
    GitHubHost,
    GitHubRepo,
    RepoSettings,
    SyncUnit,
    feedback_settings,
    only_units,
    repo_settings,
)
from tidelore.core.config_file import parse_config
from tidelore.core.errors import ConfigError

SHARED = """
poll_interval_seconds = 61
fetch = "repo"
incremental = false
comment_fetch_overlap_seconds = 6
comment_fetch_safe_backfill_seconds = 3600
shadow_sample = 0.5
track_authors = ["mira"]
track_labels = ["agent"]
allowed_users = ["a"]
operator_logins = ["b"]
command_prefix = "/x"
operations_issue = 1
handler = ["run", "me"]
handler_timeout_seconds = 601
handler_max_attempts = 6
handler_backoff_seconds = 31
handler_concurrency = 3
handler_env = ["PATH", "MY_*"]
event_lease_seconds = 602
settle_write_seconds = 32
mirror = "followed"
mirror_since = "365d"
"""
HOST = f"""
[[github]]
name = "hub"
base_url = "https://ghe.example.com/api/v3"
token_env = "HUB_TOKEN"
login = "mira"
app_id = 7
installation_id = 8
private_key_file = "~/app.pem"
write_interval_seconds = 2
orgs = ["harborline"]
include_archived = true
hook_secret_env = "HUB_HOOKS"
{SHARED}
[[github.repos]]
name = "owner/plain"
[[github.repos]]
name = "owner/repo"
fetch = "thread"
allowed_users = []
handler_max_attempts = 1
"""


def host_of(text: str) -> GitHubHost:
    (host,) = parse_config(tomllib.loads(text), "here.toml").github
    return host


def test_every_key_of_a_github_host_is_read() -> None:
    (table,) = tomllib.loads(HOST)["github"]
    host, plain = host_of(HOST), GitHubHost()
    assert set(table) == set(GitHubHost.__struct_fields__)
    for name, value in table.items():
        if name != "repos":
            found = getattr(host, name)
            assert (list(found) if isinstance(found, tuple) else found) == value, name
            assert found != getattr(plain, name), name


def test_every_key_of_a_repository_is_read() -> None:
    table = tomllib.loads(SHARED)
    (repo,) = host_of(f'[[github]]\n[[github.repos]]\nname = "o/r"\n{SHARED}').repos
    assert {"name", *table} == set(GitHubRepo.__struct_fields__)
    for name, value in table.items():
        found = getattr(repo, name)
        assert (list(found) if isinstance(found, tuple) else found) == value, name


def shape(annotation: Any) -> Any:
    """A type without its bounds and without None."""
    if typing.get_origin(annotation) is typing.Annotated:
        return shape(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in {typing.Union, types.UnionType}:
        return shape(next(a for a in typing.get_args(annotation) if a is not types.NoneType))
    if typing.get_origin(annotation) is tuple:
        return types.GenericAlias(tuple, (shape(typing.get_args(annotation)[0]), ...))
    return annotation


def test_host_repository_and_settings_agree_on_names_and_types() -> None:
    def fields(of: type[msgspec.Struct]) -> dict[str, Any]:
        return {info.name: shape(info.type) for info in msgspec.structs.fields(of)}

    host, settings = fields(GitHubHost), fields(RepoSettings)
    assert settings.pop("shares_numbers") is bool, "derived from the kind of the host"
    assert fields(GitHubRepo) == settings
    assert {name: host[name] for name in settings} == settings
    alone = {
        "base_url",
        "token_env",
        "login",
        "app_id",
        "installation_id",
        "private_key_file",
        "write_interval_seconds",
    }
    assert set(host) - set(settings) == alone | {"repos", "orgs", "include_archived", "hook_secret_env"}


def test_repository_settings_override_those_of_the_host() -> None:
    host = host_of(HOST)
    settings = repo_settings(host, "owner/repo")
    assert (settings.fetch, settings.allowed_users, settings.handler_max_attempts) == ("thread", (), 1)
    assert (settings.command_prefix, settings.operations_issue) == ("/x", 1)
    assert settings.name == "owner/repo"


@pytest.mark.parametrize("name", ["owner/plain", "owner/unheard-of"])
def test_a_repository_without_settings_inherits_those_of_its_host(name: str) -> None:
    host = host_of(HOST)
    settings = repo_settings(host, name)
    assert settings.name == name
    assert settings.shares_numbers
    for key in RepoSettings.__struct_fields__:
        if key not in ("name", "shares_numbers"):
            assert getattr(settings, key) == getattr(host, key), key


def test_a_project_of_gitlab_has_the_feedback_settings_of_its_host() -> None:
    config = parse_config({"gitlab": [{"track_labels": ["agent"], "shadow_sample": 0.25, "projects": ["a/b"]}]})
    settings = feedback_settings(config, "gitlab", "a/b")
    assert settings is not None
    assert (settings.track_labels, settings.shadow_sample) == (("agent",), 0.25)
    assert (settings.mirror, settings.shares_numbers) == ("all", False)
    assert feedback_settings(config, "elsewhere", "a/b") is None


def test_each_repository_is_synced_at_its_interval_and_a_host_with_organisations_also_as_a_whole() -> None:
    host = host_of('[[github]]\nrepos = ["o/one", {name = "o/two", poll_interval_seconds = 7}]')
    assert host.units == (SyncUnit("o/one", 60), SyncUnit("o/two", 7))
    assert host_of(HOST).units[-1] == SyncUnit()


def test_a_configuration_can_be_narrowed_to_single_repositories() -> None:
    text = '[[github]]\norgs = ["o"]\nrepos = ["o/one", "o/two"]\n[[gitlab]]\nprojects = ["a/b"]'
    config = parse_config(tomllib.loads(text))
    (one,) = only_units(config, {("github", "o/two")}).github
    assert ([repo.name for repo in one.repos], one.orgs) == (["o/two"], ())
    assert only_units(config, {("github", "o/two")}).gitlab == ()
    whole = only_units(config, {("github", None), ("github", "o/two"), ("gitlab", None)})
    assert (whole.github, whole.gitlab) == (config.github, config.gitlab)


def test_repository_names_are_case_insensitive() -> None:
    assert repo_settings(host_of(HOST), "Owner/Repo").fetch == "thread"


@pytest.mark.parametrize("name", ["repo", "/repo", "owner/", "a/b/c", "owner/my repo", "https://github.com/owner/repo"])
def test_an_invalid_repository_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="as a repository") as caught:
        parse_config({"github": [{"repos": [{"name": name}]}]}, "here.toml")
    assert caught.value.details == {"file": "here.toml", "key": "github[0].repos[0].name"}


def test_two_tables_for_one_repository_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'O/R' is already listed in github\[0\]\.repos\[0\]") as caught:
        parse_config({"github": [{"repos": [{"name": "o/r"}, {"name": "O/R"}]}]})
    assert caught.value.details["key"] == "github[0].repos[1].name"


@pytest.mark.parametrize(
    ("table", "missing"),
    [
        ({"app_id": 1}, "installation_id"),
        ({"installation_id": 1}, "app_id"),
        ({"private_key_file": "x"}, "app_id"),
        ({"app_id": 1, "installation_id": 2}, "private_key_file"),
        ({"app_id": 1, "private_key_file": "x"}, "installation_id"),
    ],
)
def test_an_incomplete_github_app_is_refused_naming_the_missing_key(table: dict[str, Any], missing: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config({"github": [table]})
    assert caught.value.details["key"] == f"github[0].{missing}"


@pytest.mark.parametrize(
    "line",
    [
        "shadow_sample = 1.5",
        "shadow_sample = -0.5",
        "handler_max_attempts = 0",
        "event_lease_seconds = 0",
        "handler_timeout_seconds = 0",
        "write_interval_seconds = -1",
        "settle_write_seconds = -1",
        "app_id = -1",
        "app_id = 9223372036854775808",
        "track_labels = ['']",
        "token_env = 'ghp_0123456789'",
    ],
)
def test_a_value_out_of_range_is_refused(line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(tomllib.loads(f"[[github]]\n{line}\n"))
    assert str(caught.value.details["key"]).startswith(f"github[0].{line.partition(' ')[0]}")


def test_an_allowed_user_with_an_at_sign_that_is_no_association_is_refused() -> None:
    for text in (
        '[[github]]\nallowed_users = ["@alice"]',
        '[[github]]\n[[github.repos]]\nname = "o/r"\nallowed_users = ["bob", "@alice"]',
    ):
        with pytest.raises(ConfigError, match="'@alice' is not an association") as caught:
            host_of(text)
        assert "@collaborator" in str(caught.value.fix)
    assert host_of('[[github]]\nallowed_users = ["*", "@Member", "x[bot]"]').allowed_users == ("*", "@Member", "x[bot]")


def test_repositories_are_given_as_plain_names_or_as_tables() -> None:
    plain = host_of('[[github]]\nrepos = ["owner/one", {name = "owner/two", fetch = "thread"}]')
    tables = host_of(
        '[[github]]\n[[github.repos]]\nname = "owner/one"\n[[github.repos]]\nname = "owner/two"\nfetch = "thread"'
    )
    assert plain == tables


@pytest.mark.parametrize("repos", ['["nonsense"]', '[""]', "[7]", '"owner/one"', '["owner/one", "Owner/One"]'])
def test_an_invalid_list_of_repositories_is_refused_with_its_key(repos: str) -> None:
    with pytest.raises(ConfigError, match=r"github\[0\]\.repos"):
        host_of(f"[[github]]\nrepos = {repos}")
