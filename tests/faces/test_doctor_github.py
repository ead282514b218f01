"""`lore doctor` and GitHub: who we are there, what the token may do and for how long, and what is within reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.faces.desk import Desk

from tidelore_world.clock import DAY_US, iso_seconds

REPO = "harborline/ledger"
TOKEN = "ghp_0123456789abcdef0123"


@pytest.fixture
def hub(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk whose only source is the world's GitHub."""
    desk.world.github.create_repo(REPO)
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    configure(desk, REPO)
    desk.set_clock()
    return desk


def configure(desk: Desk, *repos: str, extra: str = "", url: str | None = None) -> None:
    listed = "".join(f'[[github.repos]]\nname = "{repo}"\n' for repo in repos)
    desk.config.write_text(
        f'[[github]]\nbase_url = "{url or desk.url}"\n{extra}\n{listed}[http]\nmax_retries = 0\ntimeout_seconds = 5\n'
    )


def findings(desk: Desk) -> dict[str, Any]:
    return {found["subject"]: found["detail"] for found in desk.robot("doctor").data["findings"]}


def test_doctor_reports_github_login_scopes_expiry_and_remaining_requests(hub: Desk) -> None:
    github = hub.world.github
    github.settings.tokens[TOKEN] = "mira-holt"
    github.settings.scopes = "repo, read:org"
    expires_us = hub.world.clock.now_us + 25 * DAY_US
    github.settings.token_expires_us = expires_us
    found = findings(hub)
    detail = found[f"github ({hub.url})"]
    assert detail.startswith(
        f"signed in as mira-holt, scopes repo, read:org, expires in 3 weeks ({iso_seconds(expires_us)[:10]}), "
    )
    assert detail.endswith(", 4,999 requests left")
    assert found[f"github {REPO}"] == f"id {github.repository(REPO).id}"
    shown = hub.run("doctor")
    assert shown.code == 0
    assert TOKEN not in shown.out


def test_doctor_needs_no_token_for_a_github_on_this_machine(hub: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_TOKEN")
    assert findings(hub)[f"github ({hub.url})"].startswith(
        "reachable without a token (which review threads, closing issues and Discussions need), "
    )


def test_an_audit_without_a_token_names_each_unread_kind_once_and_advises_a_token(
    hub: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_TOKEN")
    for title in ("One", "Two"):
        hub.world.github.create_pull(REPO, title)
    assert hub.run("sync", "--no-embed").code == 0
    done = hub.run("audit", "github")
    assert done.code == 7
    assert f"{REPO}#1 and 1 more: review threads could not be read: GraphQL needs a token\n" in done.out
    assert f"{REPO}#1 and 1 more: closing issues could not be read: GraphQL needs a token\n" in done.out
    assert "fix:   export a token in the variable that token_env names" in done.err


def test_doctor_reports_a_revoked_github_token(hub: Desk) -> None:
    hub.world.github.settings.bad_tokens.add(TOKEN)
    done = hub.robot("doctor")
    assert (done.code, done.error["code"]) == (4, "CREDENTIALS_REJECTED")
    assert [found["ok"] for found in done.document["data"]["findings"]] == [True, True, False]


def test_doctor_reports_a_missing_github_token(hub: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_TOKEN")
    monkeypatch.setenv("PATH", str(hub.folder))
    configure(hub, REPO, url="https://api.github.invalid")
    done = hub.robot("doctor")
    assert (done.code, done.error["code"]) == (4, "CREDENTIALS_MISSING")
    assert "GITHUB_TOKEN" in done.error["fix"]
    assert "gh auth login" in done.error["fix"]


def test_doctor_reports_a_missing_repository_and_continues(hub: Desk) -> None:
    configure(hub, "harborline/nowhere", REPO)
    done = hub.robot("doctor")
    assert (done.code, done.error["code"]) == (6, "REMOTE_NOT_FOUND")
    assert [found["ok"] for found in done.document["data"]["findings"]] == [True, True, True, False, True]


def test_doctor_reports_a_renamed_repository(hub: Desk) -> None:
    hub.world.github.rename_repo(REPO, "harborline/books")
    assert findings(hub)[f"github {REPO}"].endswith(", renamed to harborline/books")


@pytest.mark.parametrize("content", [None, "no key"])
def test_doctor_names_the_config_key_of_an_invalid_private_key(hub: Desk, tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "app.pem"
    if content is not None:
        path.write_text(content)
    configure(hub, REPO, extra=f'app_id = 7\ninstallation_id = 8\nprivate_key_file = "{path}"')
    done = hub.robot("doctor")
    assert (done.code, done.error["code"]) == (2, "CONFIG_INVALID")
    assert done.error["details"]["key"] == "github.private_key_file"


def test_doctor_offline_sends_no_request_to_github(hub: Desk) -> None:
    assert hub.robot("doctor", "--offline").code == 0
    assert hub.world.requests.total() == 0
