"""Commands whose extra is not installed: each says which one to install, and what needs none works without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.databases.samples import add_project, issue
from tests.databases.talk import keep
from tests.faces.desk import Outcome

from tidelore.app.service_jobs import copy_jobs
from tidelore.app.wiring import App
from tidelore.core.config import Config, Embedding, Http
from tidelore.core.extras import EXTRAS
from tidelore.embedding.embedder import Unavailable
from tidelore.embedding.registry import missing_extra, open_embedder
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.mirror.parents import ISSUES

HIDING = """
import contextlib, io, json, sys
hidden, commands = json.loads(sys.argv[1])
for name in hidden:
    sys.modules[name] = None
import tidelore.cli.service
from tidelore.cli.main import main
tidelore.cli.service.is_terminal = lambda: True
outcomes = []
for argv in commands:
    out, err = (io.TextIOWrapper(io.BytesIO(), write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(argv)
    outcomes.append([code, *(file.buffer.getvalue().decode() for file in (out, err))])
print(json.dumps(outcomes))
"""
"""Some commands in one Python in which some modules cannot be imported; it takes itself for a terminal."""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy with one issue that has no document and no vectors yet."""
    path = tmp_path / "lore.db"
    with closing(open_database(str(path))) as database:
        migrate(database, 1)
        keep(database, add_project(database), ISSUES, [issue(1, title="The crane stops")])
    return path


def lore(folder: Path, extra: str, *commands: list[str]) -> list[Outcome]:
    """Run commands in a process in which the modules of an extra are hidden."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LORE_", "XDG_"))}
    asked = json.dumps([EXTRAS[extra], commands])
    done = subprocess.run(
        [sys.executable, "-c", HIDING, asked],
        capture_output=True,
        text=True,
        env=kept | {"HOME": str(folder)},
        check=True,
        timeout=120,
    )
    return [Outcome(*outcome) for outcome in json.loads(done.stdout)]


def refusal(outcome: Outcome) -> tuple[int, str, str, Any]:
    error = outcome.error
    return outcome.code, error["code"], error["fix"], error["details"]["extra"]


def test_the_extras_are_those_of_the_package_metadata() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    declared = tomllib.loads(text)["project"]["optional-dependencies"]
    assert set(declared) - {"all", "dev"} == set(EXTRAS)
    assert declared["all"] == [f"tidelore[{','.join(sorted(EXTRAS))}]"]
    packages = {name: "".join(lines).lower().replace("-", "_") for name, lines in declared.items()}
    assert [(extra, module) for extra in EXTRAS for module in EXTRAS[extra] if module not in packages[extra]] == []


def test_console_commands_name_the_missing_extra_console(copy: Path, tmp_path: Path) -> None:
    commands = [["console"], ["top"], ["demo", "--console"]]
    *refused, told = lore(tmp_path, "console", *commands, ["top", "--robot", "--db", str(copy)])
    for command, outcome in zip(commands, refused, strict=True):
        assert outcome.code == 2
        assert f"`lore {' '.join(command)}` needs the extra 'console'" in outcome.err
        assert "pip install 'tidelore[console]'" in outcome.err
    assert "service" in told.data, "programs are told the first screen without any extra"


def test_a_postgresql_url_names_the_missing_extra_postgres(tmp_path: Path) -> None:
    (outcome,) = lore(tmp_path, "postgres", ["--robot", "count", "--db", "postgresql://harbor@127.0.0.1:9/lore"])
    assert refusal(outcome) == (2, "EXTRA_MISSING", "pip install 'tidelore[postgres]'", "postgres")


def test_vector_commands_name_the_missing_extra_vectors(copy: Path, tmp_path: Path) -> None:
    commands = [["embed"], ["search", "crane", "--mode", "semantic"], ["similar", "#1"]]
    outcomes = lore(tmp_path, "vectors", *([*command, "--robot", "--db", str(copy)] for command in commands))
    expected = (2, "EXTRA_MISSING", "pip install 'tidelore[vectors]'", "vectors")
    assert [refusal(outcome) for outcome in outcomes] == [expected] * 3


def test_without_the_extra_vectors_a_search_is_lexical_with_one_notice(copy: Path, tmp_path: Path) -> None:
    where = ["--db", str(copy)]
    made, hybrid, lexical, robot = lore(
        tmp_path,
        "vectors",
        ["generate-docs", *where],
        ["search", "crane", *where],
        ["search", "crane", "--mode", "lexical", *where],
        ["search", "crane", "--robot", *where],
    )
    assert (made.code, hybrid.code, lexical.code) == (0, 0, 0)
    assert "The crane stops" in hybrid.out
    (note,) = hybrid.err.splitlines()
    assert "searched by words only" in note
    assert "pip install 'tidelore[vectors]'" in note
    assert lexical.err == ""
    assert (robot.data["mode"], robot.data["notice"]) == ("lexical", note.removeprefix("note: "))


def test_read_commands_work_without_the_extra_vectors(copy: Path, tmp_path: Path) -> None:
    commands = [["list", "issues"], ["show", "issue", "1"], ["count"], ["check"], ["status"], ["doctor", "--offline"]]
    outcomes = lore(tmp_path, "vectors", *([*command, "--db", str(copy)] for command in commands))
    assert [(command[0], outcome.code) for command, outcome in zip(commands, outcomes, strict=True)] == [
        (command[0], 0) for command in commands
    ], outcomes


@pytest.mark.parametrize("hidden", [None, "wordllama"])
def test_the_service_has_a_job_for_vectors_only_with_the_extra_vectors(
    hidden: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if hidden is not None:
        monkeypatch.setitem(sys.modules, hidden, None)
    jobs = [job.spec.name for job in copy_jobs(App(Config(), {}))]
    assert ("embeddings" in jobs) == (hidden is None)
    assert [record.getMessage() for record in caplog.records] == (
        []
        if hidden is None
        else ["embeddings are not computed: the extra 'vectors' is not installed (pip install 'tidelore[vectors]')"]
    )


def test_a_provider_that_asks_a_server_needs_only_numpy_of_the_extra_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)
    remote = Embedding(provider="ollama", base_url="http://127.0.0.1:1")
    assert (missing_extra(Embedding()), missing_extra(remote)) == ("vectors", None)
    monkeypatch.setitem(sys.modules, "numpy", None)
    unavailable = open_embedder(remote, Http(), {})
    assert isinstance(unavailable, Unavailable)
    assert (missing_extra(remote), unavailable.extra) == ("vectors", "vectors")
