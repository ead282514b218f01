"""Settings of one project: laid over those of all, for that project of that host alone."""

from __future__ import annotations

import tomllib

import msgspec
import pytest

from tidelore.core.config import ProjectOverride, Sync, sync_settings
from tidelore.core.config_file import parse_config
from tidelore.core.errors import ConfigError

OVERRIDDEN = """
[sync]
settle_seconds = 90
fetch_mr_diffs = false

[[gitlab]]
projects = ["a/b", "a/c"]
[[gitlab.overrides]]
project = "a/b"
cursor_rewind_seconds = 0
fetch_resource_events = false
fetch_mr_diffs = true

[[gitlab]]
name = "other"
projects = ["a/b"]
"""


def test_a_project_override_takes_precedence_over_global_settings() -> None:
    config = parse_config(tomllib.loads(OVERRIDDEN))
    assert sync_settings(config, "gitlab", "a/b") == Sync(
        settle_seconds=90, cursor_rewind_seconds=0, fetch_resource_events=False, fetch_mr_diffs=True
    )


@pytest.mark.parametrize(
    ("source", "project"), [("gitlab", "a/c"), ("gitlab", "b"), ("other", "a/b"), ("unheard of", "a/b")]
)
def test_a_project_override_applies_only_to_that_project_on_that_host(source: str, project: str) -> None:
    config = parse_config(tomllib.loads(OVERRIDDEN))
    assert sync_settings(config, source, project) == config.sync


def test_every_override_key_has_the_type_of_the_setting_it_overrides() -> None:
    overrides = {info.name: info.type for info in msgspec.structs.fields(ProjectOverride) if info.name != "project"}
    # Of the host, and not of `[sync]`.
    assert overrides.pop("mirror_since") == str | None
    settings = {info.name: info.type for info in msgspec.structs.fields(Sync)}
    assert overrides == {name: settings[name] | None for name in overrides}


def test_two_overrides_for_one_project_are_refused() -> None:
    twice = OVERRIDDEN.replace("[[gitlab]]\nname", '[[gitlab.overrides]]\nproject = "a/b"\n[[gitlab]]\nname')
    with pytest.raises(ConfigError, match="'a/b' already has overrides in gitlab") as caught:
        parse_config(tomllib.loads(twice), "here.toml")
    assert caught.value.details == {"file": "here.toml", "key": "gitlab[0].overrides[1].project"}


@pytest.mark.parametrize("name", ["b", "a/d"])
def test_an_override_for_an_unconfigured_project_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="not a project of this host") as caught:
        parse_config(tomllib.loads(OVERRIDDEN.replace('project = "a/b"', f'project = "{name}"')))
    assert caught.value.details["key"] == "gitlab[0].overrides[0].project"


def test_projects_of_a_configured_group_can_be_overridden() -> None:
    tree = {"gitlab": [{"groups": ["a"], "overrides": [{"project": "a/d", "settle_seconds": 1}]}]}
    assert sync_settings(parse_config(tree), "gitlab", "a/d").settle_seconds == 1


def test_an_unknown_override_key_is_named_in_the_error() -> None:
    tree = {"gitlab": [{"projects": ["a"], "overrides": [{"project": "a", "setle_seconds": 1}]}]}
    with pytest.raises(ConfigError) as caught:
        parse_config(tree)
    assert caught.value.details["nearest"] == "gitlab[0].overrides[0].settle_seconds"
