"""`lore service` where something about its machine is wrong: a clear message, the documented exit code, data intact."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.faces.desk import LEDGER, Desk, Outcome
from tests.situations.service.station import LAB, Program, Station, Watch, end, station
from tests.support.deep import gate_cases
from tests.support.fork_server import fork_lore

from tidelore.core.clock import SystemClock
from tidelore.store.mirror.check import check_database

PATIENCE_SECONDS = 60.0
GENERAL = '[service]\nmetrics_port = 0\n[embedding]\nprovider = "none"\n'
HOST = '[[gitlab]]\nbase_url = "http://127.0.0.1:9"\nprojects = ["a/b"]\n'
HUB = '[[github]]\nbase_url = "http://127.0.0.1:9"\n'
HOLD = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


# Settings

BAD = {
    "no TOML": ("[[gitlab]\n", "line 1"),
    "no text": ("\udcff\udcfe", "TOML"),
    "unknown table": ("[servcie]\nmetrics_port = 0\n", "servcie"),
    "unknown key": ("[service]\nmetrics_prot = 0\n", "metrics_prot"),
    "wrong type": ('[service]\nkeep_runs_days = "long"\n', "service.keep_runs_days"),
    "out of range": ("[service]\nmetrics_port = 70000\n", "service.metrics_port"),
    "negative": ("[service]\ngitlab_interval_seconds = -1\n", "service.gitlab_interval_seconds"),
    "too short": ("[service]\nkeep_runs_days = 0\n", "service.keep_runs_days"),
    "table for a list": ('[gitlab]\nname = "a"\n', "gitlab"),
    "no address": ('[[gitlab]]\nbase_url = "ftp://x"\nprojects = ["a/b"]\n', "gitlab[0].base_url"),
    "name taken": (f'{HOST}name = "a"\n{HOST}name = "a"\n', "gitlab[1].name"),
    "half an App": (f'{HUB}app_id = 3\nprivate_key_file = "k"\n[[github.repos]]\nname = "o/r"\n', "installation_id"),
    "a token for a name": (f'{HUB}token_env = "ghp_abcdefghijkl"\n', "token_env"),
    "nothing to do": (GENERAL, "gitlab.projects"),
}


@pytest.mark.parametrize("kind", BAD)
def test_an_invalid_config_is_refused_naming_the_key_before_anything_is_created(desk: Desk, kind: str) -> None:
    text, named = BAD[kind]
    desk.config.write_bytes(text.encode("utf-8", "surrogateescape"))
    done = desk.robot("service")
    assert (done.code, done.error["code"]) == (2, "CONFIG_INVALID")
    assert named in done.error["message"] + str(done.error["details"])
    assert done.error["fix"]
    assert "ghp_" not in done.out + done.err
    if kind != "nothing to do":
        assert not desk.db.exists()


def test_a_missing_config_file_and_a_folder_give_different_errors(desk: Desk) -> None:
    desk.config.unlink(missing_ok=True)
    missing = desk.robot("service")
    assert (missing.code, "lore init" in missing.error["fix"]) == (2, True)
    desk.config.mkdir()
    folder = desk.robot("service")
    assert folder.code == 2
    assert "cannot read" in folder.error["message"]


def test_a_source_that_cannot_be_used_fails_alone(desk: Desk) -> None:
    desk.configure(LEDGER, extra=f'{GENERAL}[[gitlab]]\nname = "away"\nbase_url = "https://gitlab.invalid"\n')
    text = desk.config.read_text() + 'projects = ["a/b"]\n'
    desk.config.write_text(text.replace('base_url = "https://gitlab.invalid"', 'base_url = "https://127.0.0.1:9"'))
    done = desk.robot("service", "--once")
    assert done.code == 7
    (failed,) = done.error["details"]["failed"]
    assert failed["job"] == "gitlab:away"
    assert desk.query("SELECT COUNT(*) FROM issues") == [(5,)]


# Where the database is


@pytest.mark.parametrize("place", ["/dev/null/lore.db", "/proc/lore.db"])
def test_a_folder_that_is_not_writable_is_named_in_the_error(desk: Desk, place: str) -> None:
    desk.configure(LEDGER, extra=GENERAL)
    done = spawn_on(desk, place)
    assert (done.code, done.error["code"]) == (1, "STORAGE_FAILED")
    assert place in done.error["message"]
    assert "storage.path" in done.error["fix"]


def test_a_service_on_a_read_only_database_is_refused_and_changes_nothing(desk: Desk, tmp_path: Path) -> None:
    desk.configure(LEDGER, extra=GENERAL)
    assert desk.run("service", "--once").code == 0
    disk = tmp_path / "disk"
    disk.mkdir()
    with mounted(disk, "size=8m"):
        copied = disk / "lore.db"
        with closing(sqlite3.connect(desk.db)) as there, closing(sqlite3.connect(copied)) as here:
            there.backup(here)
        before = copied.read_bytes()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        done = spawn_on(desk, str(copied))
        assert (done.code, done.error["code"]) == (1, "STORAGE_FAILED")
        assert copied.read_bytes() == before


def test_a_database_on_a_read_only_disk_can_be_listed_searched_and_shown(desk: Desk, tmp_path: Path) -> None:
    desk.configure(LEDGER, extra=GENERAL)
    assert desk.run("service", "--once").code == 0
    disk = tmp_path / "disk"
    disk.mkdir()
    with mounted(disk, "size=8m"):
        copied = disk / "lore.db"
        with closing(sqlite3.connect(desk.db)) as there, closing(sqlite3.connect(copied)) as here:
            there.backup(here)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        for line in ("list issues", "count", "search issue", "status", "sync-status", "show issue 1"):
            done = read_from(desk, copied, *line.split())
            assert done.code == 0, (line, done)
        assert [file.name for file in disk.iterdir()] == ["lore.db"]


def test_a_wal_file_beside_a_database_on_a_read_only_disk_is_read(desk: Desk, tmp_path: Path) -> None:
    desk.configure(LEDGER, extra=GENERAL)
    assert desk.run("service", "--once").code == 0
    disk = tmp_path / "disk"
    disk.mkdir()
    with mounted(disk, "size=8m"):
        with closing(sqlite3.connect(desk.db)) as kept_open:
            kept_open.execute("UPDATE issues SET title = 'only in the log'")
            kept_open.commit()
            for end_of_name in ("", "-wal", "-shm"):
                shutil.copyfile(f"{desk.db}{end_of_name}", disk / f"lore.db{end_of_name}")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        done = read_from(desk, disk / "lore.db", "list", "issues", "--state", "all")
    assert (done.code, "only in the log" in done.out) == (0, True), done


def read_from(desk: Desk, copy: Path, *words: str) -> Outcome:
    process = fork_lore([*words, "--config", str(desk.config), "--db", str(copy)], os.environ)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    return Outcome(process.wait(), out, err)


@pytest.mark.deep
def test_after_a_full_disk_the_service_completes_the_copy_once_there_is_space(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with mounted(disk, "size=2m"), station(tmp_path) as post:
        log = tmp_path / "lore.log"
        post.world.gitlab.bulk(LAB, 400, 0, discussions=2, notes=2)
        post.lab()
        post.port = 0
        post.write(f'file = "{log}"\n')
        post.copy = "disk/lore"
        process = post.spawn("service")
        await_true(lambda: "full" in log.read_text(), process)
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        process.send_signal(signal.SIGHUP)
        await_true(lambda: count_issues(disk / "lore.db") == 405, process)
        assert end(process)[0] == 0
        assert "Traceback" not in log.read_text()
        assert sound(disk / "lore.db")


@pytest.mark.deep
def test_a_database_locked_permanently_by_another_program_is_reported(desk: Desk) -> None:
    desk.configure(LEDGER, extra=GENERAL)
    assert desk.run("service", "--once").code == 0
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(desk.db)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        done = desk.spawn("service", "--robot")
    finally:
        holder.communicate()
    assert (done.code, done.error["code"]) == (1, "STORAGE_FAILED")
    assert str(desk.db) in done.error["message"]
    assert done.error["retryable"] is True
    assert desk.run("service", "--once").code == 0
    assert sound(desk.db)


@pytest.mark.parametrize("damage", ["head", "middle", "cut"])
def test_a_damaged_database_is_refused_unchanged_with_a_fix(desk: Desk, damage: str) -> None:
    desk.configure(LEDGER, extra=GENERAL)
    assert desk.run("service", "--once").code == 0
    with closing(sqlite3.connect(desk.db)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for rest in ("-wal", "-shm"):
        Path(f"{desk.db}{rest}").unlink(missing_ok=True)
    whole = desk.db.read_bytes()
    spoiled = {
        "head": bytes(100) + whole[100:],
        "middle": whole[:4096] + b"\xa5" * (len(whole) - 8192) + whole[-4096:],
        "cut": whole[: len(whole) // 3],
    }[damage]
    desk.db.write_bytes(spoiled)
    done = desk.spawn("service", "--robot", "--once")
    assert (done.code, done.error["code"]) == (8, "DATABASE_UNUSABLE"), done
    assert "backup" in done.error["fix"]
    assert desk.db.read_bytes() == spoiled
    assert "Traceback" not in done.err


# Clocks


class Wall(SystemClock):
    """The machine's clock, and an administrator who sets it."""

    moved_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.moved_ms


@pytest.mark.parametrize("days", [1.0, -1.0, 400.0])
@gate_cases(1)
def test_a_changed_system_clock_delays_no_job_and_loses_nothing(tmp_path: Path, days: float) -> None:
    from msgspec.structs import replace

    wall = Wall()
    with station(tmp_path) as post:
        post.lab()
        post.hub()
        post.write()
        plain = Station.app
        post.app = lambda: replace(plain(post), clock=wall)  # type: ignore[method-assign]

        async def story(watch: Watch) -> None:
            await watch.rounds("gitlab:gitlab", 2)
            wall.moved_ms = round(days * 86_400_000)
            with post.world.lock:
                post.world.gitlab.create_issue(LAB)
            await watch.until(lambda: post.rows("SELECT COUNT(*) FROM issues") == [(6,)])
            wall.moved_ms = 0
            with post.world.lock:
                post.world.gitlab.create_issue(LAB)
            await watch.until(lambda: post.rows("SELECT COUNT(*) FROM issues") == [(7,)])

        report = post.serve(story)
        assert report.errors == {}
        assert post.rows("SELECT COUNT(*) FROM sync_runs WHERE status = 'running'") == [(0,)]
        assert sound(post.db)


# What they stand on


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """A small file system of its own."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk; a file size limit stands for it elsewhere")
    words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    tried = subprocess.run(words, capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"this machine does not mount a small disk: {tried.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def await_true(holds: Callable[[], bool], process: Program) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            if holds():
                return
        except (OSError, sqlite3.Error):
            pass
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


def spawn_on(desk: Desk, database: str) -> Outcome:
    """Run the service on another database: of two that are named, the last one counts."""
    words = [*desk.arguments("service", "--robot"), "--db", database]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    return Outcome(done.returncode, done.stdout, done.stderr)


def count_issues(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        return int(database.execute("SELECT COUNT(*) FROM issues").fetchone()[0])


def sound(path: Path) -> bool:
    """Tell whether a database holds what it must."""
    from tidelore.store.database.opening import open_database

    database = open_database(str(path), create=False)
    try:
        return all(found.ok for found in check_database(database, SystemClock().now_ms()))
    finally:
        database.close()
