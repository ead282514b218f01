"""What a command loads before it answers: an offline read pays for nothing it does not use."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from tests.databases.letters import document
from tests.databases.samples import CREATED, add_project, issue
from tests.databases.talk import keep
from tests.support.manual_clock import ManualClock

from tidelore.core.config import Config
from tidelore.documents.embed import embed_documents
from tidelore.embedding.local import LocalEmbedder
from tidelore.embedding.registry import open_embedder
from tidelore.engine.crashpoint import no_seam
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.mirror.parents import ISSUES
from tidelore.store.work.session import Workshop

REGISTRY = """
import json, sys
from tidelore.sources.registry import host_tables
json.dump([sorted(host_tables()), sorted(sys.modules)], sys.stderr)
"""
HEAVY = frozenset(
    {
        "httpx2",
        "httpcore2",
        "anyio",
        "websockets",
        "asyncio",
        "ssl",
        "socket",
        "rich",
        "textual",
        "starlette",
        "uvicorn",
        "jinja2",
        "nh3",
        "markdown_it",
        "mcp",
        "psycopg",
        "numpy",
        "prometheus_client",
        "tokenizers",
        "pathlib",
        "subprocess",
        "logging",
        "tidelore_world",
        "tidelore.sources",
        "tidelore.http",
    }
)
SCRIPT = """
import json, sys
from tidelore.cli.main import main
code = main(sys.argv[1:])
sys.stderr.write(json.dumps([code, sorted(sys.modules)]))
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """An empty copy."""
    path = tmp_path / "lore.db"
    database = open_database(str(path))
    migrate(database, 1)
    database.close()
    return path


def loaded_by(tmp_path: Path, *argv: str) -> set[str]:
    """Run a command in a process of its own and return the modules it ended with."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LORE_", "XDG_", "COV_"))}
    environ = kept | {"HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *argv], capture_output=True, text=True, env=environ, check=True
    )
    code, modules = json.loads(done.stderr)
    assert code == 0, done.stdout
    assert done.stdout
    return set(modules)


@pytest.mark.parametrize(
    "command",
    [
        ["count"],
        ["--robot", "count"],
        ["count", "issues"],
        ["cursors", "list"],
        ["list", "mrs"],
        ["sync-runs"],
        ["--robot", "search", "crane"],
    ],
)
def test_an_offline_read_imports_no_http_client_event_loop_or_console(
    copy: Path, tmp_path: Path, command: list[str]
) -> None:
    modules = loaded_by(tmp_path, *command, "--db", str(copy))
    assert "tidelore.store.database.sqlite" in modules
    assert sorted(HEAVY & modules) == []


def test_a_search_by_words_and_meaning_imports_neither_numpy_nor_the_writers_of_the_mirror(
    copy: Path, tmp_path: Path
) -> None:
    embedder = open_embedder(Config().embedding, Config().http, {})
    assert isinstance(embedder, LocalEmbedder)
    database = open_database(str(copy))
    keep(database, add_project(database), ISSUES, [issue(1, title="The crane stops at the berth")])
    document(database)
    shop = Workshop(database, Config(), ManualClock(CREATED), no_seam, "test")
    assert asyncio.run(embed_documents(shop, embedder)).embedded == 1
    database.close()
    argv = ("--robot", "search", "crane", "--db", str(copy))
    done = subprocess.run([sys.executable, "-c", SCRIPT, *argv], capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)["data"]
    assert answer["mode"] == "hybrid"
    assert answer["items"][0]["ranks"] == {"lexical": 1, "semantic": 1}
    modules = set(json.loads(done.stderr)[1])
    assert sorted(HEAVY & modules) == []
    needless = {"base64", "urllib.parse", "tidelore.cli.reading.similar", "tidelore.cli.export.completions"}
    assert not {"tidelore.store.mirror.parents", "tidelore.store.mirror.documents", *needless} & modules


def test_a_count_imports_neither_lists_nor_the_writers_of_the_mirror(copy: Path, tmp_path: Path) -> None:
    modules = loaded_by(tmp_path, "count", "--db", str(copy))
    needless = {
        "tidelore.store.mirror.parents",
        "tidelore.store.reading.lists",
        "tidelore.core.model",
        "tidelore.core.config_checks",
        "tidelore.core.progress",
        "tidelore.engine.ledger",
        "tidelore.store.work.runs",
    }
    assert sorted(needless & modules) == []


def test_a_list_on_a_terminal_loads_only_the_cell_widths_of_rich(copy: Path, tmp_path: Path) -> None:
    database = open_database(str(copy))
    keep(database, add_project(database), ISSUES, [issue(1, title="港湾の船")])
    database.close()
    main_end, far_end = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "list", "issues", "--db", str(copy)],
        stdin=subprocess.DEVNULL,
        stdout=far_end,
        stderr=subprocess.PIPE,
        text=True,
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "COLUMNS": "40"},
        check=True,
    )
    os.close(far_end)
    shown = os.read(main_end, 65536).decode()
    os.close(main_end)
    modules = set(json.loads(done.stderr)[1])
    assert "港湾の船" in shown
    assert "\x1b[1mTITLE" in shown
    assert "rich.cells" in modules
    loaded = {name for name in modules if name.startswith("rich.") and not name.startswith("rich._")}
    assert loaded == {"rich.cells"}
    assert sorted((HEAVY - {"rich"}) & modules) == []


def test_a_network_command_imports_http_client_and_event_loop(tmp_path: Path) -> None:
    # The list above is spelled as Python spells it: what is heavy is found where it is used.
    config = tmp_path / "config.toml"
    config.write_text('[[gitlab]]\nbase_url = "http://127.0.0.1:9"\n')
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "doctor", "--config", str(config), "--db", str(tmp_path / "lore.db")],
        capture_output=True,
        text=True,
        env=os.environ | {"LORE_HTTP_MAX_RETRIES": "0"},
        check=True,
    )
    modules = set(json.loads(done.stderr[done.stderr.index("[1, ") :])[1])
    assert {"httpx2", "asyncio", "ssl", "pathlib", "logging"} <= modules


def test_the_version_is_printed_before_anything_is_imported(tmp_path: Path) -> None:
    script = (
        "import sys, json\nfrom tidelore.cli.entry import run\nrun()\nsys.stderr.write(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "--version"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.startswith("lore ")
    assert {"click", "msgspec", "apsw"} & set(json.loads(done.stderr)) == set()


POSTPONED = """
import builtins, sys
calls = []
compiled = builtins.compile
builtins.compile = lambda *words, **options: (calls.append(words[:2]), compiled(*words, **options))[1]
from tidelore.cli.entry import _postpone_imports
_postpone_imports()
import click, typing, datetime, pickle
import tidelore.cli.search
calls = [words for words in calls if words[1] == "<string>"]
assert calls == [], calls
def shown(day: "datetime.date", names: "list['str']") -> "int | None": ...
hints = typing.get_type_hints(shown)
assert hints == {"day": datetime.date, "names": list[str], "return": int | None}, hints
now = datetime.datetime.now(datetime.UTC)
assert pickle.loads(pickle.dumps(now)) == now
assert now.strftime("%Y") == str(now.year) and datetime.datetime.strptime("2026", "%Y").year == 2026
"""


def test_the_modules_of_a_search_compile_no_annotation_and_forward_references_still_work() -> None:
    done = subprocess.run([sys.executable, "-c", POSTPONED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


STARTED = """
from tidelore.cli.entry import _Postponed, _postpone_imports
_postpone_imports()
import sys
from tidelore.cli.main import main
code = main(sys.argv[1:])
print(code, *(name for name, module in sys.modules.items() if not isinstance(module, _Postponed)), file=sys.stderr)
"""


def test_an_issue_is_shown_without_the_modules_that_write_the_mirror(copy: Path, tmp_path: Path) -> None:
    database = open_database(str(copy))
    keep(database, add_project(database), ISSUES, [issue(1, title="The crane stops at the berth")])
    database.close()
    for command in (["show", "issue", "1"], ["context", "1"], ["list", "issues"]):
        modules = loaded_by(tmp_path, *command, "--db", str(copy))
        needless = {"tidelore.store.mirror.parents", "tidelore.store.mirror.documents", "tidelore.core.model"}
        assert sorted((HEAVY | needless | {"urllib.parse"}) & modules) == []


@pytest.mark.parametrize("command", [["count"], ["list", "issues"], ["search", "crane"]])
def test_an_offline_read_imports_no_library_module_that_only_the_libraries_name(
    copy: Path, tmp_path: Path, command: list[str]
) -> None:
    argv = (*command, "--quiet", "--db", str(copy))
    done = subprocess.run(
        [sys.executable, "-c", STARTED, *argv],
        capture_output=True,
        text=True,
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        check=True,
    )
    code, *modules = done.stderr.split()
    assert code == "0"
    needless = {"decimal", "numbers", "uuid", "threading", "inspect", "gettext", "textwrap", "math"}
    assert sorted(needless & set(modules)) == []
    assert "tidelore.store.reading.fulltext_postgres" not in modules


def test_the_tables_of_all_forges_are_known_without_loading_a_source() -> None:
    done = subprocess.run([sys.executable, "-c", REGISTRY], capture_output=True, text=True, check=True)
    tables, modules = json.loads(done.stderr)
    assert tables == ["github", "gitlab"]
    assert [name for name in modules if name.startswith("tidelore.sources.")] == ["tidelore.sources.registry"]
    assert HEAVY & {*modules, *(name.rpartition(".")[0] for name in modules)} <= {"tidelore.sources"}
