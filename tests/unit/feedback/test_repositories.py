"""Which repository and which thread is meant."""

from __future__ import annotations

from typing import Any

import pytest

from tidelore.core.config import Config
from tidelore.core.config_file import parse_config
from tidelore.core.errors import ConfigError, NotFound, UserError
from tidelore.feedback.repositories import ThreadName, choose_repo, choose_repos, parse_thread


def config(*hosts: tuple[str, str, list[str]]) -> Config:
    tree: dict[str, Any] = {
        "github": [
            {"name": name, "base_url": url, "repos": [{"name": repo} for repo in repos]} for name, url, repos in hosts
        ]
    }
    return parse_config(tree)


ONE = config(("github", "https://api.github.com", ["Harbor/Cranes"]))
TWO = config(
    ("github", "https://api.github.com", ["harbor/cranes", "harbor/ships"]),
    ("work", "https://github.example.com/api/v3", ["harbor/cranes"]),
)


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        ("12", "pr", ThreadName(12)),
        ("#12", "pr", ThreadName(12)),
        ("#12", "issue", ThreadName(12)),
        (" harbor/cranes#12 ", "pr", ThreadName(12, "harbor/cranes")),
        ("https://github.com/harbor/cranes/pull/12", "pr", ThreadName(12, "harbor/cranes", "github.com")),
        ("https://github.com/harbor/cranes/pull/12/files#diff", "pr", ThreadName(12, "harbor/cranes", "github.com")),
        ("https://github.com/harbor/cranes/issues/7", "issue", ThreadName(7, "harbor/cranes", "github.com")),
    ],
)
def test_a_thread_reference_is_parsed_in_every_supported_form(text: str, kind: Any, found: ThreadName) -> None:
    assert parse_thread(text, kind) == found


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "pr"),
        ("twelve", "pr"),
        ("0", "pr"),
        ("-1", "issue"),
        ("99999999999999999", "pr"),
        ("https://github.com/harbor/cranes/issues/7", "pr"),
        ("https://github.com/harbor/cranes/pull/7", "issue"),
        ("https://github.com/harbor/cranes", "pr"),
    ],
)
def test_an_invalid_thread_reference_is_refused(text: str, kind: Any) -> None:
    with pytest.raises(UserError, match="could not parse"):
        parse_thread(text, kind)


def test_the_only_configured_repository_is_the_default() -> None:
    assert choose_repo(ONE, None).name == "Harbor/Cranes"
    assert choose_repo(ONE, None, ThreadName(1)).name == "Harbor/Cranes"


@pytest.mark.parametrize("name", ["Harbor/Cranes", "harbor/cranes", "HARBOR/CRANES", "Cranes"])
def test_a_repository_is_matched_case_insensitively_or_by_its_last_part(name: str) -> None:
    assert choose_repo(ONE, name).name == "Harbor/Cranes"
    assert [place.name for place in choose_repos(ONE, name)] == ["Harbor/Cranes"]


def test_a_missing_repository_name_is_answered_with_all_configured_repositories() -> None:
    with pytest.raises(UserError) as raised:
        choose_repo(TWO, None)
    names = [place.name for place in choose_repos(TWO, None)]
    assert len(names) == 3
    assert raised.value.details == {"candidates": names}
    assert raised.value.fix == f"pass --repo with one of: {', '.join(names)}"


def test_an_ambiguous_repository_is_refused() -> None:
    with pytest.raises(UserError, match="3 repositories are configured"):
        choose_repo(TWO, None)
    with pytest.raises(UserError, match="matches 2 repos"):
        choose_repo(TWO, "harbor/cranes")
    assert choose_repo(TWO, "ships").host.name == "github"


def test_a_web_address_selects_the_host() -> None:
    for site, host in (("github.com", "github"), ("github.example.com", "work")):
        assert choose_repo(TWO, None, ThreadName(1, "harbor/cranes", site)).host.name == host
    with pytest.raises(NotFound, match=r"elsewhere\.org"):
        choose_repo(TWO, None, ThreadName(1, "harbor/cranes", "elsewhere.org"))


def test_a_repository_option_that_contradicts_the_reference_is_refused() -> None:
    assert choose_repo(ONE, "cranes", ThreadName(1, "harbor/cranes")).name == "Harbor/Cranes"
    with pytest.raises(UserError, match="is not"):
        choose_repo(TWO, "harbor/ships", ThreadName(1, "harbor/cranes"))


def test_a_repository_that_is_not_configured_is_not_found() -> None:
    with pytest.raises(NotFound):
        choose_repo(ONE, "nobody/nothing")
    with pytest.raises(ConfigError):
        choose_repos(Config(), None)


def test_a_mirrored_gitlab_project_is_chosen_by_name_and_without_one_only_if_its_host_has_feedback_keys() -> None:
    both = {"github": [{"repos": [{"name": "Harbor/Cranes"}]}], "gitlab": [{"projects": ["harbor/ledger"]}]}
    mirrored = parse_config(both)
    assert choose_repo(mirrored, None).name == "Harbor/Cranes"
    assert choose_repo(mirrored, "ledger").name == "harbor/ledger"
    followed = parse_config({**both, "gitlab": [{"projects": ["harbor/ledger"], "operator_logins": ["mira"]}]})
    with pytest.raises(UserError, match="2 repositories are configured"):
        choose_repo(followed, None)
    assert [place.name for place in choose_repos(followed, None, "gitlab")] == ["harbor/ledger"]
