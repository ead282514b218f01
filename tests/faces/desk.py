"""A person's desk: a configuration, a database, a world served over real HTTP, and the command between them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
from tests.databases.migrated_file import lay_out
from tests.faces.ingest_cache import ingest_once
from tests.support.fork_server import ForkedProcess, fork_lore

from tidelore.cli.main import main
from tidelore.core.clock import SystemClock
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database
from tidelore_world.world import World

LEDGER = "harbor/platform/ledger"
CONSOLE = "harbor/web/console"
COMMAND = [sys.executable, "-c", "from tidelore.cli.entry import run; run()"]
META = {"command", "version", "elapsed_ms", "synced_at"}
OPTIONAL_META = {"untrusted", "age_seconds", "refreshed", "refresh_error", "lockdown"}
ERROR = {"code", "message", "details", "retryable", "fix"}


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout, its envelope checked."""
        assert self.out.endswith("\n")
        assert self.out.count("\n") == 1, "one document on one line, and nothing else"
        document: dict[str, Any] = json.loads(self.out)
        assert set(document["meta"]) - OPTIONAL_META == META
        if document["ok"]:
            assert self.code == 0
            assert set(document) == {"ok", "data", "meta"}
        else:
            assert self.code != 0
            # A command that found out something before it failed says that too.
            assert set(document) - {"data"} == {"ok", "error", "meta"}
            assert set(document["error"]) == ERROR
        return document

    @property
    def data(self) -> Any:
        assert self.document["ok"], self.document
        return self.document["data"]

    @property
    def error(self) -> dict[str, Any]:
        assert not self.document["ok"], self.document
        found: dict[str, Any] = self.document["error"]
        return found


@dataclass
class Desk:
    """Runs `lore`: in this process with `run`, in one of its own with `spawn`."""

    folder: Path
    url: str
    world: World
    read: Callable[[], tuple[str, str]]
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.folder / "config.toml"

    @property
    def db(self) -> Path:
        return self.folder / "lore.db"

    def configure(self, *projects: str, url: str | None = None, extra: str = "") -> None:
        """Write a configuration for these projects; a failing request is not repeated."""
        listed = ", ".join(f'"{project}"' for project in projects)
        self.config.write_text(
            f'[[gitlab]]\nbase_url = "{url or self.url}"\nprojects = [{listed}]\n'
            f"[http]\nmax_retries = 0\ntimeout_seconds = 5\n{extra}"
        )

    def run(self, *argv: str) -> Outcome:
        """Run a command here."""
        self.read()
        code = main([*argv, "--config", str(self.config), "--db", str(self.db)])
        return Outcome(code, *self.read())

    def robot(self, *argv: str) -> Outcome:
        """Run a command here, in robot mode with every field; `test_robot.py` compares that with the short form."""
        return self.run("--full", *argv, "--robot")

    def terminal(self, *argv: str, columns: int = 80) -> Outcome:
        """Run a command here as on a terminal of this width; colours are removed from what it printed."""
        self.read()
        with patch.object(sys.stdout, "isatty", lambda: True), patch.dict(os.environ, COLUMNS=str(columns)):
            code = main([*argv, "--config", str(self.config), "--db", str(self.db)])
        out, err = self.read()
        return Outcome(code, click.unstyle(out), err)

    def set_clock(self) -> None:
        """Bring the world's clock, which stands in March 2026, to the time of this machine."""
        with self.world.lock:
            self.world.clock.now_us = SystemClock().now_ms() * 1000

    def ingested(self, resource: str = "issues") -> None:
        """Mirror one kind of list, whole; a test of `lore ingest` runs the command itself."""

        def ingest() -> None:
            assert self.run("ingest", "--type", resource).code == 0

        lay_out(self.db)
        ingest_once(self.world, self.url, self.config, self.db, resource, ingest)

    def arguments(self, *argv: str) -> list[str]:
        """The command line of a real process."""
        return [*COMMAND, *argv, "--config", str(self.config), "--db", str(self.db)]

    def start(self, *argv: str, **environ: str) -> ForkedProcess:
        """Start a command in a process of its own."""
        words = self.arguments(*argv)[len(COMMAND) :]
        return fork_lore(words, os.environ | self.environ | environ)

    def spawn(self, *argv: str, encoding: str = "utf-8", **environ: str) -> Outcome:
        """Run a command in a process of its own; the interpreter starts anew where its own variables are set."""
        own = ("PYTHON", "LANG", "LC_")
        if encoding == "utf-8" and not any(name.startswith(own) for name in self.environ | environ):
            process = self.start(*argv, **environ)
            out, err = process.communicate(timeout=60)
            return Outcome(process.wait(), out, err)
        done = subprocess.run(
            self.arguments(*argv),
            capture_output=True,
            text=True,
            encoding=encoding,
            env=os.environ | self.environ | environ,
            timeout=60,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def store(self) -> Database:
        """The database, to look into; the caller closes it."""
        return open_database(str(self.db), create=False)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Read from, or break, the database."""
        database = self.store()
        try:
            with database.transaction() as tx:
                return tx.execute(sql)
        finally:
            database.close()
