"""Where a token comes from: the variable, the keyring, the forge's own tool, in that order, and nowhere else."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tidelore.core.errors import CredentialsMissing
from tidelore.http.tls import is_loopback
from tidelore.sources import credentials
from tidelore.sources.credentials import Token, find_token

HOST = "https://gitlab.example.com:8443/gitlab"
TOOL = ("glab", "config", "get", "token", "--host", "gitlab.example.com")

Tool = Callable[[str], Path]
KeyringAnswer = Callable[[str, str], str | None]
Keyring = Callable[[KeyringAnswer | None], list[str]]


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tool:
    """Put a `glab` on an otherwise empty path; it notes how it was called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def install(script: str) -> Path:
        program = folder / "glab"
        program.write_text(f'#!/bin/sh\necho "$@" > "{tmp_path}/called"\n{script}\n')
        program.chmod(0o755)
        return tmp_path / "called"

    return install


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> Keyring:
    """Stand in for the keyring; None means that it is not installed."""
    asked: list[str] = []

    def install(answer: KeyringAnswer | None) -> list[str]:
        def load(name: str) -> SimpleNamespace:
            assert name == "keyring"
            asked.append(name)
            if answer is None:
                raise ModuleNotFoundError(name)
            return SimpleNamespace(get_password=answer)

        monkeypatch.setattr(credentials, "importlib", SimpleNamespace(import_module=load))
        return asked

    return install


def find(environ: dict[str, str] | None = None, variable: str = "GITLAB_TOKEN") -> Token | None:
    return find_token(HOST, variable, TOOL, environ or {}, "work")


def test_the_environment_variable_is_used_before_keyring_and_tool(tool: Tool, keyring: Keyring) -> None:
    asked = keyring(lambda *_: "from-the-keyring")
    called = tool("echo from-the-tool")
    found = find({"GITLAB_TOKEN": "  from-the-variable\n"})
    assert found == Token("from-the-variable", "$GITLAB_TOKEN")
    assert asked == []
    assert not called.exists()


def test_the_keyring_is_used_second_with_the_host_as_key(tool: Tool, keyring: Keyring) -> None:
    questions: list[tuple[str, str]] = []

    def answer(service: str, user: str) -> str:
        questions.append((service, user))
        return "from-the-keyring"

    keyring(answer)
    called = tool("echo from-the-tool")
    assert find({"GITLAB_TOKEN": "   "}) == Token("from-the-keyring", "keyring")
    assert questions == [("tidelore", "gitlab.example.com")]
    assert not called.exists()


def locked(*_: str) -> str:
    raise RuntimeError("the keyring is locked")


@pytest.mark.parametrize("answer", [None, locked, lambda *_: None, lambda *_: ""])
def test_the_command_line_tool_is_used_last_even_with_a_broken_keyring(
    tool: Tool, keyring: Keyring, answer: KeyringAnswer | None
) -> None:
    asked = keyring(answer)
    called = tool("echo from-the-tool")
    assert find() == Token("from-the-tool", "glab")
    assert asked == ["keyring"]
    assert called.read_text() == "config get token --host gitlab.example.com\n"


@pytest.mark.parametrize("script", ["exit 1", "echo a-token; exit 1", "echo", "exit 0"])
def test_a_tool_without_a_token_gives_credentials_missing(tool: Tool, keyring: Keyring, script: str) -> None:
    keyring(None)
    called = tool(script)
    with pytest.raises(CredentialsMissing) as caught:
        find()
    assert called.exists()
    assert caught.value.exit_code == 4
    assert caught.value.details == {"source": "work", "token_env": "GITLAB_TOKEN"}
    assert caught.value.fix == "export GITLAB_TOKEN, or sign in with `glab auth login`"


def test_a_tool_that_hangs_is_abandoned(tool: Tool, keyring: Keyring, monkeypatch: pytest.MonkeyPatch) -> None:
    keyring(None)
    monkeypatch.setattr(credentials, "_TOOL_SECONDS", 0.2)
    tool("while :; do :; done")
    with pytest.raises(CredentialsMissing):
        find()


def test_a_tool_that_cannot_be_run_is_skipped(tool: Tool, keyring: Keyring) -> None:
    keyring(None)
    program = tool("").parent / "bin" / "glab"
    program.write_text("#!/nowhere/interpreter\n")
    with pytest.raises(CredentialsMissing):
        find()


def test_without_tool_and_variable_the_fix_names_the_config_key(
    keyring: Keyring, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keyring(None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CredentialsMissing, match="no token for work") as caught:
        find(variable="")
    assert "token_env" in str(caught.value.fix)


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:8080", "http://127.9.9.9", "http://localhost", "http://lab.localhost", "http://[::1]:80/x"],
)
def test_a_host_on_this_machine_needs_no_token(tool: Tool, keyring: Keyring, url: str) -> None:
    asked = keyring(lambda *_: "from-the-keyring")
    called = tool("echo from-the-tool")
    assert find_token(url, "GITLAB_TOKEN", TOOL, {}, "here") is None
    assert asked == []
    assert not called.exists()
    given = find_token(url, "GITLAB_TOKEN", TOOL, {"GITLAB_TOKEN": "given"}, "here")
    assert given is not None
    assert given.value == "given"


@pytest.mark.parametrize(
    "url",
    [
        "https://gitlab.com",
        "http://127.0.0.1.example.com",
        "http://localhost.example.com",
        "http://127.0.0.1@example.com",
        "http://10.0.0.1",
        "http://[::2]",
        "nonsense",
    ],
)
def test_a_host_elsewhere_is_not_taken_for_this_machine(url: str) -> None:
    assert not is_loopback(url)


def test_the_repr_of_a_token_hides_its_value() -> None:
    token = Token("hunter2-hunter2", "keyring")
    assert "hunter2" not in f"{token} {token!r} {[token]}"
    assert "keyring" in repr(token)


def test_the_real_keyring_module_is_imported_by_name() -> None:
    # The stand-in above replaces this very call.
    assert vars(credentials)["importlib"] is importlib
