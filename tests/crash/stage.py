"""A simulated forge on a socket, a database, and real processes between them.

Owns the world of the crash tests, the environment a `lore` process is given, and the reading of what it left
behind. Nothing here reaches into a process: it is started, signalled, waited for, and judged by its exit code,
its output, the requests it made and the rows it wrote.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.properties.offspring import compare_children
from tests.support.fork_server import ForkedProcess, fork_lore, fork_script

from tidelore.engine.crashpoint import Seam
from tidelore.engine.cursor import Window, decode
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database
from tidelore.store.mirror.check import check_database
from tidelore.store.mirror.payloads import PayloadReader
from tidelore_world.gitlab.state import Kind
from tidelore_world.server import Server, serve
from tidelore_world.world import World

PROJECTS = ("harbour/cranes", "harbour/tides")
PER_PAGE = 4
SPREAD, TOGETHER = 13, 10
"""Items of each list with an instant of their own, and items that share one: a window of three pages."""
CONCURRENCY = 3
"""How many parents of one list have their children in flight."""
PATIENCE_SECONDS = 60.0
DRIVER = Path(__file__).with_name("driver.py")
_LORE = "from tidelore.cli.entry import run; run()"
_MONTH_SECONDS = 30 * 86_400
_LABELS = {"issues": ("issue_labels", "issue_id"), "merge_requests": ("mr_labels", "merge_request_id")}


def build_world(spread: int = SPREAD, together: int = TOGETHER) -> World:
    """Two projects; in the middle of each list a group of items that share one instant; then a quiet hour.

    Half of the items have children, the last of each list more threads than fit on a page.
    """
    world = World()
    for path in PROJECTS:
        world.gitlab.create_project(path)
        world.gitlab.bulk(path, together, together, same_instant=True)
    world.advance(_MONTH_SECONDS)
    for path in PROJECTS:
        world.gitlab.bulk(path, spread, spread, discussions=1, notes=2, events=1, files=2)
        long = min(together, 1)
        world.gitlab.bulk(path, long, long, discussions=PER_PAGE + 1, notes=1)
    world.advance(3600)
    return world


@dataclass(frozen=True)
class Ended:
    """A process that is gone."""

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        """Its whole standard output as the one JSON document it must be."""
        found: dict[str, Any] = json.loads(self.stdout)
        return found

    @property
    def data(self) -> dict[str, Any]:
        """What a successful robot answer says."""
        assert self.document["ok"], self.stdout
        found: dict[str, Any] = self.document["data"]
        return found

    @property
    def error(self) -> dict[str, Any]:
        """What a failed robot answer says."""
        assert not self.document["ok"], self.stdout
        found: dict[str, Any] = self.document["error"]
        return found


class Process:
    """One running `lore`."""

    def __init__(self, words: Sequence[str], environ: dict[str, str], limit: Callable[[], None] | None = None) -> None:
        self._child: ForkedProcess | subprocess.Popen[str]
        if limit is not None:
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-c", _LORE, *words],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=limit,
            )
        elif words[0] == str(DRIVER):
            self._child = fork_script(DRIVER, words[1:], environ)
        else:
            self._child = fork_lore(words, environ)
        self.pid = self._child.pid

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    def signal(self, number: int) -> None:
        self._child.send_signal(number)

    def wait_until_stopped(self) -> None:
        """Wait until its own SIGSTOP has stopped it; if it ended before, fail with what it said."""
        assert isinstance(self._child, ForkedProcess)
        wait_until(self._child.is_stopped)
        assert self.running, self.wait()

    def go_on(self) -> Ended:
        """Let it go on, and wait for its end."""
        self.signal(signal.SIGCONT)
        return self.wait()

    def wait(self) -> Ended:
        try:
            stdout, stderr = self._child.communicate(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.discard()
            raise
        return Ended(self._child.wait(), stdout, stderr)

    def discard(self) -> None:
        """End it whatever it does; nothing is left running after a test that failed half way."""
        if self.running:
            self._child.kill()
        self._child.communicate()


class Stage:
    """A served world, an empty database, and the processes a test starts between them."""

    def __init__(
        self, world: World, server: Server, address: str, folder: Path, environ: Mapping[str, str] | None = None
    ) -> None:
        self.world = world
        self.server = server
        self.address = address
        self._folder = folder
        self._started: list[Process] = []
        config = folder / "config.toml"
        config.write_text(f'[[gitlab]]\nbase_url = "{server.url}"\nprojects = {json.dumps(PROJECTS)}\n')
        self._environ = {
            **{name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ},
            "HOME": str(folder),
            "LORE_CONFIG": str(config),
            "LORE_DB": address,
            "LORE_HTTP_PER_PAGE": str(PER_PAGE),
            "LORE_SYNC_DEPENDENT_CONCURRENCY": str(CONCURRENCY),
            # Verification spends requests of its own: where it is the subject, a test turns it on.
            "LORE_SYNC_SCRUB_SHARE": "0",
            **(environ or {}),
        }

    def start(
        self, *argv: str, environ: dict[str, str] | None = None, limit: Callable[[], None] | None = None
    ) -> Process:
        """Start the command; `limit` is called in the new process before the program begins."""
        # Robot answers in their full form: what is empty is asserted too.
        whole = ["--full", *argv] if "--robot" in argv else argv
        return self._remember(whole, environ, limit)

    def lore(self, *argv: str, environ: dict[str, str] | None = None, limit: Callable[[], None] | None = None) -> Ended:
        """Run the command to its end."""
        return self.start(*argv, environ=environ, limit=limit).wait()

    def lore_killed_at(
        self,
        seam: Seam,
        visit: int,
        *argv: str,
        environ: dict[str, str] | None = None,
        after: Seam | None = None,
        by: signal.Signals = signal.SIGKILL,
    ) -> Ended:
        """Run the command to the n-th visit of a seam, or to that of those after another."""
        instant = seam if after is None else f"{after}/{seam}"
        return self._remember([str(DRIVER), instant, str(visit), str(int(by)), "--", *argv], environ).wait()

    def lore_held_at(
        self, seam: Seam, visit: int, *argv: str, environ: dict[str, str] | None = None, after: Seam | None = None
    ) -> Process:
        """Start the command and wait until it stands still at the n-th visit of a seam, with all it holds there."""
        instant = seam if after is None else f"{after}/{seam}"
        words = [str(DRIVER), instant, str(visit), str(int(signal.SIGSTOP)), "--", *argv]
        process = self._remember(words, environ)
        process.wait_until_stopped()
        return process

    def count_visits(self, *argv: str) -> dict[Seam, tuple[int, int]]:
        """Run the command unharmed and return how often it passed each seam: in all, and for the lists."""
        report = self._folder / "visits.json"
        unharmed = [str(DRIVER), Seam.AFTER_FETCH, "0", "0", str(report), "--"]
        ended = self._remember([*unharmed, *argv]).wait()
        assert ended.code == 0, ended
        return {Seam(name): (both[0], both[1]) for name, both in json.loads(report.read_text()).items()}

    def discard_processes(self) -> None:
        for process in self._started:
            process.discard()

    @property
    def requests(self) -> int:
        """How many requests have reached the world, once no more are on their way."""
        while True:
            seen = self.world.requests.total()
            time.sleep(0.02)
            if self.world.requests.total() == seen:
                return seen

    @property
    def list_requests(self) -> int:
        """How many of them were about lists and not about children or statuses."""
        assert self.requests
        counted = self.world.requests.items()
        return sum(times for route, times in counted if "/projects/:id" in route and ":iid/" not in route)

    def wait_for_requests(self, count: int) -> None:
        """Wait until the process started last has come this far."""
        wait_until(lambda: self.world.requests.total() >= count or not self._started[-1].running)
        assert self.world.requests.total() >= count, self._started[-1].wait()

    @contextmanager
    def database(self) -> Iterator[Database]:
        """The database as it stands, to look into."""
        database = open_database(self.address, create=False)
        try:
            yield database
        finally:
            database.close()

    def rows(self, sql: str, **params: Any) -> list[tuple[Any, ...]]:
        with self.database() as database:
            return database.read(sql, params)

    def change(self, sql: str, **params: Any) -> None:
        with self.database() as database, database.transaction() as tx:
            assert tx.change(sql, params) == 1

    def run_statuses(self) -> list[str]:
        return [status for (status,) in self.rows("SELECT status FROM sync_runs ORDER BY id")]

    def payloads(self) -> list[str]:
        """Every stored payload in one canonical form; that of a deleted item is empty."""
        rows = self.rows("SELECT encoding, payload, dictionary_id FROM raw_payloads ORDER BY id")
        reader = PayloadReader(lambda sql, params: self.rows(sql, **params))
        return [canonical(json.loads(payload)) for row in rows if (payload := reader.unpack(*row))]

    def watermarks(self) -> dict[tuple[str, str], tuple[int, int]]:
        rows = self.rows("SELECT surface, scope, watermark_at, watermark_id FROM cursors WHERE watermark_at > 0")
        return {(surface, scope): (at, int(key)) for surface, scope, at, key in rows}

    def windows(self) -> list[Window]:
        """The windows that were being read, one for each scope that stands inside one."""
        rows = self.rows("SELECT reading FROM cursors WHERE reading IS NOT NULL")
        return [window for (text,) in rows if (window := decode(text, Window)) is not None]

    def truth(self, resource: Kind) -> dict[tuple[str, int], dict[str, Any]]:
        """What the forge shows now, by project and id."""
        with self.world.lock:
            show = getattr(self.world.gitlab, f"truth_{resource}")
            return {(path, item["id"]): item for path in PROJECTS for item in show(path)}

    def true_payloads(self, resource: Kind) -> set[str]:
        """Every payload a copy of one list keeps: items, threads, and what people wrote in them."""
        found = {canonical(item) for item in self.truth(resource).values()}
        with self.world.lock:
            for path in PROJECTS:
                for threads in self.world.gitlab.truth_all_discussions(resource, path).values():
                    found |= {canonical(thread) for thread in threads}
                    notes = [note for thread in threads for note in thread["notes"]]
                    found |= {canonical(note) for note in notes if not note["system"] or note.get("position")}
        return found

    def assert_copy_is_true(self, resource: Kind) -> None:
        """Every item and every child is there once, as the forge shows it, and the database holds what it must."""
        link, column = _LABELS[resource]
        rows = self.rows(
            "SELECT p.path, r.remote_id, r.title, r.content_hash, w.content_hash, w.encoding, w.payload,"
            " w.dictionary_id"
            f" FROM {resource} r JOIN projects p ON p.id = r.project_id"
            " JOIN raw_payloads w ON w.id = r.raw_payload_id WHERE r.deleted_at IS NULL"
        )
        labels = self.rows(
            f"SELECT p.path, r.remote_id, l.name FROM {link} k JOIN {resource} r ON r.id = k.{column}"
            " JOIN labels l ON l.id = k.label_id JOIN projects p ON p.id = r.project_id WHERE r.deleted_at IS NULL"
        )
        truth = self.truth(resource)
        reader = PayloadReader(lambda sql, params: self.rows(sql, **params))
        copy = {(path, key): json.loads(reader.unpack(*payload)) for path, key, _, _, _, *payload in rows}
        assert len(rows) == len(copy)
        wrong = sorted(key for key in copy.keys() | truth.keys() if copy.get(key) != truth.get(key))
        assert not wrong, f"missing, extra or different: {wrong}"
        assert all(bytes(own) == bytes(stored) for _, _, _, own, stored, *_ in rows)
        assert {(path, key): title for path, key, title, *_ in rows} == {k: v["title"] for k, v in truth.items()}
        assert sorted(labels) == sorted((*key, name) for key, item in truth.items() for name in item["labels"])
        with self.database() as database:
            compare_children(database, self.world.gitlab, PROJECTS, (resource,))
            findings = check_database(database, time.time_ns() // 1_000_000)
        broken = [finding for finding in findings if not finding.ok]
        assert not broken, broken

    def _remember(
        self, words: Sequence[str], environ: dict[str, str] | None = None, limit: Callable[[], None] | None = None
    ) -> Process:
        process = Process(words, {**self._environ, **(environ or {})}, limit)
        self._started.append(process)
        return process


@contextmanager
def open_stage(
    address: str, folder: Path, world: World | None = None, environ: Mapping[str, str] | None = None
) -> Iterator[Stage]:
    """Serve a world beside an empty database; at the end no process is left."""
    folder.mkdir(parents=True, exist_ok=True)
    world = world or build_world()
    with serve(world) as server:
        stage = Stage(world, server, address, folder, environ)
        try:
            yield stage
        finally:
            stage.discard_processes()


def canonical(value: Any) -> str:
    """One text for one value."""
    return json.dumps(value, sort_keys=True)


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)
