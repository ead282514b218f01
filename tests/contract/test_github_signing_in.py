"""Signing in to GitHub over real HTTP: a token, the tool's token, a GitHub App, and hosts that stay closed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.contract.github_bench import KINDS, REPO, TOKEN, Bench, ids, serving, walked
from tests.support.manual_clock import ManualClock

from tidelore.core.config_file import parse_config
from tidelore.core.errors import CredentialsMissing, CredentialsRejected, RemoteNotFound, TideloreError
from tidelore.sources.github.source import GitHubSource, open_github, tool_host
from tidelore.sources.ports import Wiring
from tidelore.sources.registry import open_feedback_hosts


@pytest.fixture
def bench() -> Iterator[Bench]:
    with serving() as bench:
        yield bench


def test_a_revoked_token_is_reported_as_one_error(bench: Bench) -> None:
    bench.forge.settings.bad_tokens.add(TOKEN)
    with pytest.raises(CredentialsRejected) as caught:
        bench.run(lambda source: walked(source.pull_list(bench.forge.repository(REPO).id)))
    assert TOKEN not in f"{caught.value.message} {caught.value.details}"
    assert len(bench.metrics) == 1


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    path = tmp_path_factory.mktemp("app") / "app.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return path


def test_a_github_app_signs_in_with_its_key_and_requests_one_token(bench: Bench, key_file: Path) -> None:
    bench.forge.apps.register(7, "harbor-helper", 8)
    bench.talk(3)

    async def do(source: GitHubSource) -> Any:
        pages = await walked(source.comment_feed(REPO, KINDS[0]))
        made = await source.post_comment(REPO, bench.number, "By the App.")
        return pages, made, await source.greet()

    pages, made, greeting = bench.run(do, app_id=7, installation_id=8, private_key_file=str(key_file))
    assert len(ids(pages)) == 3
    assert (made.author, made.is_bot) == ("harbor-helper[bot]", True)
    assert greeting.text.startswith("signed in as harbor-helper[bot], an installation of a GitHub App")
    assert bench.forge.apps.issued == 1


def test_a_github_app_renews_a_token_that_expires_during_work(bench: Bench, key_file: Path) -> None:
    bench.forge.apps.register(7, "harbor-helper", 8)
    bench.talk(3)

    async def do(source: GitHubSource) -> Any:
        await source.resolve(REPO)
        bench.world.advance(7200)
        return await walked(source.comment_feed(REPO, KINDS[0]))

    pages = bench.run(do, app_id=7, installation_id=8, private_key_file=str(key_file))
    assert len(ids(pages)) == 3
    assert bench.forge.apps.issued == 2


@pytest.mark.parametrize(
    ("keys", "kind"), [({"app_id": 6}, CredentialsRejected), ({"installation_id": 5}, RemoteNotFound)]
)
def test_an_unknown_github_app_is_reported_as_one_error(
    bench: Bench, key_file: Path, keys: dict[str, int], kind: type[TideloreError]
) -> None:
    bench.forge.apps.register(7, "harbor-helper", 8)
    settings: dict[str, Any] = {"app_id": 7, "installation_id": 8, "private_key_file": str(key_file), **keys}
    with pytest.raises(kind):
        bench.run(lambda source: source.resolve(REPO), **settings)
    assert len(bench.metrics) == 1


def test_one_host_without_a_token_is_skipped_and_without_any_token_it_is_an_error(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    away = {"name": "away", "base_url": "https://api.github.invalid"}
    config = parse_config({"github": [{"base_url": bench.url}, away]})
    wiring = Wiring(config, ManualClock(), {}, bench.metrics.append)

    async def do(count: int) -> list[tuple[str, bool]]:
        async with AsyncExitStack() as stack:
            sources = await open_feedback_hosts(config.github[count:], wiring, stack)
            return [(source.name, source.closed is None) for source in sources]

    assert asyncio.run(do(0)) == [("github", True), ("away", False)]
    with pytest.raises(CredentialsMissing):
        asyncio.run(do(1))


def test_the_gh_tool_is_called_with_the_web_host_name(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "gh"
    tool.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\necho gho_from_the_tool_000000\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    config = parse_config({"github": [{"base_url": "https://ghe.invalid/api/v3"}]})

    async def do() -> None:
        async with open_github(config.github[0], Wiring(config, ManualClock(), {}, bench.metrics.append)):
            pass

    asyncio.run(do())
    assert (tmp_path / "asked").read_text() == "auth token --hostname ghe.invalid\n"


@pytest.mark.parametrize(
    ("base_url", "name"),
    [
        ("https://api.github.com", "github.com"),
        ("https://api.octo.ghe.com", "octo.ghe.com"),
        ("https://ghe.example.com/api/v3", "ghe.example.com"),
    ],
)
def test_the_tool_host_name_is_derived_from_the_api_url(base_url: str, name: str) -> None:
    assert tool_host(base_url) == name
