"""Settings: every documented key is taken, everything else is refused by name, and the order of places holds."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tidelore.core.config import Config
from tidelore.core.config_file import config_path, database_address, load_config, parse_config
from tidelore.core.errors import ConfigError

EVERYTHING = """
default_project = "group/project"

[storage]
path = "copy/lore.db"
compress_raw_payloads = false
lock_timeout_seconds = 5
statement_timeout_seconds = 6
idle_in_transaction_timeout_seconds = 7

[http]
timeout_seconds = 31
max_retries = 4
retry_backoff_seconds = 1.5
ca_file = "/etc/ca.pem"
proxy = "http://127.0.0.1:3128"
per_page = 99

[sync]
cursor_rewind_seconds = 3
settle_seconds = 76
scrub_share = 0.5
dependent_concurrency = 11
max_children_bytes = 1000000
rate_limit_rps = 2.5
use_keyset_pagination = true
verify_reviewers = true
fetch_resource_events = false
fetch_mr_closes_issues = false
fetch_mr_diffs = false
surgical_entity_timeout_seconds = 31
stale_lock_minutes = 11
heartbeat_interval_seconds = 31

[[gitlab]]
name = "work"
base_url = "https://gitlab.example.com/gitlab"
token_env = "WORK_TOKEN"
projects = ["group/project"]
groups = ["group"]
include_archived = true
mirror_since = "52w"

[[gitlab.overrides]]
project = "group/project"
cursor_rewind_seconds = 5
settle_seconds = 80
dependent_concurrency = 12
use_keyset_pagination = false
verify_reviewers = false
fetch_resource_events = true
fetch_mr_closes_issues = true
fetch_mr_diffs = true
mirror_since = ""

[[gitlab]]
name = "home"
base_url = "http://127.0.0.1:8080"

[[github]]
name = "hub"
base_url = "https://api.github.example.com"
token_env = "HUB_TOKEN"
poll_interval_seconds = 61
fetch = "repo"
incremental = false
comment_fetch_overlap_seconds = 6
comment_fetch_safe_backfill_seconds = 3600
allowed_users = ["a"]
operator_logins = ["b"]
command_prefix = "/x"
operations_issue = 1
mirror_since = "365d"
handler = ["run", "me"]
[[github.repos]]
name = "owner/repo"
poll_interval_seconds = 5
fetch = "thread"
incremental = true
comment_fetch_overlap_seconds = 1
comment_fetch_safe_backfill_seconds = 2
allowed_users = []
operator_logins = []
command_prefix = "/y"
operations_issue = 2
mirror_since = "2025-01-01"
handler = []

[bluesky]
base_url = "https://a.example.com"
plc_url = "https://b.example.com"
jetstream_url = "wss://c.example.com"
mode = "records"
accounts = ["alice.bsky.social"]
interval_minutes = 16
posts_per_page = 51
initial_lookback_hours = 25
max_retries = 4
retry_backoff_ms = 1001
max_pages_per_user = 101
max_concurrent = 11
max_staleness_minutes = 241
stream = true

[embedding]
provider = "ollama"
model = "all-minilm"
base_url = "http://127.0.0.1:11434"
api_key_env = "MODEL_KEY"
dimensions = 256
batch_size = 16
timeout_seconds = 61
chunk_words = 100
chunk_overlap = 10
fusion_weight = 0.5
rrf_k = 60
min_similarity = 0.3
[service]
gitlab_interval_seconds = 301
keep_runs_days = 7
metrics_port = 1
web_port = 2
[log]
level = "debug"
format = "json"
file = "lore.log"
max_megabytes = 11
keep = 6
"""


def flat(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {k: v for key, inner in value.items() for k, v in flat(inner, f"{path}.{key}").items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return {k: v for i, inner in enumerate(value) for k, v in flat(inner, f"{path}[{i}]").items()}
    return {path: value}


def at(config: Config, path: str) -> Any:
    found: Any = config
    for step in path.removeprefix(".").replace("[", ".[").split("."):
        found = found[int(step.strip("[]"))] if step.startswith("[") else getattr(found, step)
    return list(found) if isinstance(found, tuple) else found


def test_every_documented_config_key_is_read() -> None:
    tree = tomllib.loads(EVERYTHING)
    config = parse_config(tree)
    for path, value in flat(tree).items():
        assert at(config, path) == value, path


def test_the_complete_example_config_differs_from_every_default() -> None:
    # Otherwise a key that is read and thrown away would go unseen above.
    defaults = Config()
    sections = ("storage", "http", "sync", "bluesky", "embedding", "service", "log")
    tree = tomllib.loads(EVERYTHING)
    for section in sections:
        table = getattr(defaults, section)
        assert set(tree[section]) == set(table.__struct_fields__)
        assert all(at(defaults, f".{section}.{key}") != value for key, value in tree[section].items())


def test_settings_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Config().http.per_page = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "key", "nearest"),
    [
        ("defualt_project = 'x'", "defualt_project", "default_project"),
        ("[htp]\n", "htp", "http"),
        ("[http]\ntimeout_second = 1", "http.timeout_second", "http.timeout_seconds"),
        ("[[gitlab]]\nproject = ['a']", "gitlab[0].project", "gitlab[0].projects"),
        ("[[gitlab]]\n[[gitlab]]\nbaseurl = 'x'", "gitlab[1].baseurl", "gitlab[1].base_url"),
        (
            "[[github]]\n[[github.repos]]\nname='a/b'\nfetsh = 'x'",
            "github[0].repos[0].fetsh",
            "github[0].repos[0].fetch",
        ),
    ],
)
def test_an_unknown_key_is_refused_with_file_key_and_the_nearest_valid_key(text: str, key: str, nearest: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(tomllib.loads(text), "my.toml")
    assert caught.value.details == {"file": "my.toml", "key": key, "nearest": nearest}
    assert caught.value.message == f"my.toml: unknown key {key}"
    assert caught.value.fix == f"did you mean {nearest}?"


def test_an_unknown_key_without_a_near_match_lists_the_valid_keys() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config({"log": {"zzz": 1}})
    assert caught.value.fix == "valid here: log.file, log.format, log.keep, log.level, log.max_megabytes"
    assert "nearest" not in caught.value.details


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("default_project = 1", "default_project"),
        ("http = 5", "http"),
        ("[http]\ntimeout_seconds = '30'", "http.timeout_seconds"),
        ("[http]\nmax_retries = 1.5", "http.max_retries"),
        ("[http]\nmax_retries = true", "http.max_retries"),
        ("[storage]\ncompress_raw_payloads = 1", "storage.compress_raw_payloads"),
        ("[gitlab]\nname = 'x'", "gitlab"),
        ("[[gitlab]]\nprojects = 'a/b'", "gitlab[0].projects"),
        ("[[gitlab]]\nprojects = [1]", "gitlab[0].projects[0]"),
        ("[[github]]\n[[github.repos]]\nfetch = 'repo'", "github[0].repos[0]"),
    ],
)
def test_a_wrong_type_is_refused_with_its_key(text: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(tomllib.loads(text), "my.toml")
    assert caught.value.details == {"file": "my.toml", "key": key}
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "text",
    [
        "[http]\ntimeout_seconds = 0",
        "[http]\ntimeout_seconds = nan",
        "[http]\ntimeout_seconds = inf",
        "[http]\nmax_retries = -1",
        "[http]\nmax_retries = 21",
        "[http]\nper_page = 0",
        "[http]\nper_page = 101",
        "[sync]\nscrub_share = 1.1",
        "[sync]\ncursor_rewind_seconds = -1",
        "[sync]\ndependent_concurrency = 0",
        "[sync]\nheartbeat_interval_seconds = inf",
        "[service]\nweb_port = 65536",
        "[log]\nlevel = 'loud'",
        "[embedding]\nprovider = ''",
        "[embedding]\nrrf_k = 0",
        "[embedding]\nfusion_weight = -1",
        "[embedding]\nchunk_words = 19",
        "[embedding]\nchunk_words = 30",
        "[embedding]\napi_key_env = 'sk-0123456789'",
        "[[gitlab]]\nname = ''",
        "[[gitlab]]\nprojects = ['']",
        "[[gitlab]]\ntoken_env = 'glpat-0123456789abcdef'",
        "[[gitlab]]\ntoken_env = '$GITLAB_TOKEN'",
    ],
)
def test_a_value_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(tomllib.loads(text))
    assert caught.value.details["key"]
    assert "glpat-0123456789abcdef" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[[gitlab]]\ntoken_env = 'glpat-0123456789abcdef'", "gitlab[0].token_env"),
        ("[[github]]\nhandler_env = ['PATH', 'ghp_0123456789']", "github[0].handler_env[1]"),
        ("[embedding]\napi_key_env = 'sk-0123456789'", "embedding.api_key_env"),
    ],
)
def test_a_token_in_the_place_of_a_variable_name_is_refused_without_a_regular_expression(text: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(tomllib.loads(text), "my.toml")
    assert caught.value.message == f"my.toml: {key}: not the name of an environment variable"
    assert "a token itself must not be stored here" in str(caught.value.fix)


def test_a_host_without_a_token_variable_is_allowed() -> None:
    assert parse_config({"gitlab": [{"token_env": ""}]}).gitlab[0].token_env == ""


@pytest.mark.parametrize("key", ["token", "password", "private_token", "access_token"])
@pytest.mark.parametrize("section", ["gitlab", "github"])
def test_a_secret_in_the_config_file_is_refused_without_quoting_it(section: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config({section: [{key: "hunter2-hunter2"}]}, "my.toml")
    assert "tokens must not be stored in this file" in caught.value.message
    assert "token_env" in str(caught.value.fix)
    assert "hunter2" not in f"{caught.value.message} {caught.value.fix} {caught.value.details}"


@pytest.mark.parametrize(
    "url",
    [
        "gitlab.com",
        "ftp://gitlab.com",
        "https://",
        "https://me:hunter2@gitlab.com",
        "https://hunter2@gitlab.com",
        "me:hunter2@gitlab.com",
        "https://gitlab.com?private_token=hunter2",
        "https://gitlab.com#hunter2",
        "http://[::1",
        "http://host:99999",
    ],
)
@pytest.mark.parametrize("section", ["gitlab", "github"])
def test_an_invalid_url_is_refused_without_quoting_it(section: str, url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config({section: [{"name": "a"}, {"name": "b", "base_url": url}]})
    assert caught.value.details["key"] == f"{section}[1].base_url"
    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize(
    ("section", "table", "key", "fix"),
    [
        ("gitlab", {"base_url": "https://host/api/v4/"}, "gitlab[0].base_url", "remove /api/v4"),
        ("gitlab", {"base_url": "https://host/relative/api/v4"}, "gitlab[0].base_url", "remove /api/v4"),
        ("github", {"base_url": "https://github.com"}, "github[0].base_url", "https://api.github.com"),
        ("github", {"base_url": "https://www.github.com/"}, "github[0].base_url", "https://api.github.com"),
        ("gitlab", {"projects": ["a/b", "https://me:hunter2@host/c/d"]}, "gitlab[0].projects[1]", "group/project"),
        ("gitlab", {"groups": ["https://host/groups/hunter2"]}, "gitlab[0].groups[0]", "only the path"),
    ],
)
def test_an_address_with_a_wrong_part_is_refused_with_the_right_form(
    section: str, table: dict[str, Any], key: str, fix: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config({section: [table]})
    assert caught.value.details["key"] == key
    assert fix in str(caught.value.fix)
    assert "hunter2" not in f"{caught.value.message} {caught.value.fix} {caught.value.details}"


@pytest.mark.parametrize("url", ["https://gitlab.example.com/gitlab", "https://host/api/v4x"])
def test_a_base_url_with_a_relative_path_is_allowed(url: str) -> None:
    assert parse_config({"gitlab": [{"base_url": url}]}).gitlab[0].base_url == url


@pytest.mark.parametrize(
    ("key", "url"),
    [
        ("base_url", "public.api.bsky.app"),
        ("base_url", "https://me:hunter2@host"),
        ("base_url", "https://host/xrpc/"),
        ("plc_url", "plc.directory"),
    ],
)
def test_an_invalid_address_of_a_bluesky_server_is_refused_without_quoting_it(key: str, url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config({"bluesky": {key: url}})
    assert caught.value.details["key"] == f"bluesky.{key}"
    assert "hunter2" not in f"{caught.value.message} {caught.value.fix}"


@pytest.mark.parametrize("first", ["gitlab", "github"])
def test_two_hosts_with_the_same_name_are_refused(first: str) -> None:
    tree: dict[str, Any] = {first: [{"name": "same"}]}
    tree.setdefault("github", []).append({"name": "same"})
    with pytest.raises(ConfigError) as caught:
        parse_config(tree)
    assert f"'same' is already used by {first}[0]" in caught.value.message


@pytest.mark.parametrize("content", [b"[http", b"a = ", b"\xff\xfe", b"[http]\n[http]\n"])
def test_invalid_toml_is_refused_naming_the_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(str(path), {})
    assert caught.value.message.startswith(f"{path} is not valid TOML: ")


def test_an_explicit_config_file_must_exist_and_the_default_one_need_not(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.toml")
    for explicit, environ in ((missing, {}), (None, {"LORE_CONFIG": missing})):
        with pytest.raises(ConfigError) as caught:
            load_config(explicit, environ)
        assert caught.value.fix == f"create one with: lore init --config {missing}"
    assert load_config(None, {"XDG_CONFIG_HOME": str(tmp_path)}) == Config()


def test_an_unreadable_config_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*: Is a directory"):
        load_config(str(tmp_path), {})


def test_the_config_file_is_found_by_option_then_variable_then_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    environ = {"LORE_CONFIG": "~/b.toml", "XDG_CONFIG_HOME": "/xdg"}
    assert config_path("/a.toml", environ) == "/a.toml"
    assert config_path(None, environ) == "/home/somebody/b.toml"
    assert config_path(None, {"XDG_CONFIG_HOME": "/xdg"}) == "/xdg/tidelore/config.toml"
    assert config_path(None, {"XDG_CONFIG_HOME": ""}) == "/home/somebody/.config/tidelore/config.toml"
    assert config_path(None, {}) == "/home/somebody/.config/tidelore/config.toml"


def test_the_database_is_found_by_option_then_variable_then_file_then_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    config = parse_config({"storage": {"path": "~/c.db"}})
    environ = {"LORE_DB": "/b.db", "XDG_DATA_HOME": "/xdg"}
    assert database_address(config, "/a.db", environ) == "/a.db"
    assert database_address(config, None, environ) == "/b.db"
    assert database_address(config, None, {}) == "/home/somebody/c.db"
    assert database_address(Config(), None, {"XDG_DATA_HOME": "/xdg"}) == "/xdg/tidelore/lore.db"
    assert database_address(Config(), None, {}) == "/home/somebody/.local/share/tidelore/lore.db"


@pytest.mark.parametrize("address", ["postgresql://~/x", "postgres://h/x"])
def test_a_postgresql_url_is_not_changed(address: str) -> None:
    assert database_address(Config(), address, {}) == address


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("default_project = 'a'\n[http]\ntimeout_seconds = 10\nmax_retries = 7\n")
    config = load_config(
        str(path),
        {
            "LORE_HTTP_TIMEOUT_SECONDS": "2.5",
            "LORE_STORAGE_COMPRESS_RAW_PAYLOADS": "false",
            "LORE_STORAGE_PATH": "/plain/text.db",
            "LORE_LOG_LEVEL": "debug",
            "LORE_BLUESKY_ACCOUNTS": '["a.example", "b.example"]',
            "LORE_DEFAULT_PROJECT": "b",
            "UNRELATED": "1",
        },
    )
    assert config.http.timeout_seconds == 2.5
    assert config.http.max_retries == 7
    assert config.storage.compress_raw_payloads is False
    assert config.storage.path == "/plain/text.db"
    assert config.log.level == "debug"
    assert config.bluesky.accounts == ("a.example", "b.example")
    assert config.default_project == "b"


@pytest.mark.parametrize("environ", [{"LORE_HTTP_TIMEOUT_SECONDS": "soon"}, {"LORE_HTTP_TIMEOT_SECONDS": "1"}])
def test_an_override_is_checked_like_the_file(tmp_path: Path, environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(None, {"XDG_CONFIG_HOME": str(tmp_path), **environ})
    assert str(caught.value.details["key"]).startswith("http.time")


def test_an_override_does_not_hide_a_section_of_the_wrong_type(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("http = 5\n")
    with pytest.raises(ConfigError) as caught:
        load_config(str(path), {"LORE_HTTP_TIMEOUT_SECONDS": "1"})
    assert caught.value.details["key"] == "http"


@pytest.mark.parametrize("value", ["yesterday", "2025-13-01", "12h", "30m", "2025-01-01T00:00:00", "365"])
@pytest.mark.parametrize(
    ("tree", "key"),
    [
        ({"gitlab": [{"mirror_since": "?"}]}, "gitlab[0].mirror_since"),
        ({"github": [{"mirror_since": "?"}]}, "github[0].mirror_since"),
        ({"github": [{"repos": ["a/b", {"name": "a/c", "mirror_since": "?"}]}]}, "github[0].repos[1].mirror_since"),
        (
            {"gitlab": [{"projects": ["a/b"], "overrides": [{"project": "a/b", "mirror_since": "?"}]}]},
            "gitlab[0].overrides[0].mirror_since",
        ),
    ],
)
def test_a_horizon_that_cannot_be_parsed_is_refused_with_its_key_and_the_accepted_forms(
    tree: dict[str, Any], key: str, value: str
) -> None:
    text = json.dumps(tree).replace("?", value)
    with pytest.raises(ConfigError, match=re.escape(f"here.toml: {key}: could not parse {value!r}")) as caught:
        parse_config(json.loads(text), "here.toml")
    assert caught.value.details["key"] == key
    assert '"2025-01-01"' in (caught.value.fix or "")
    assert '"365d"' in (caught.value.fix or "")
