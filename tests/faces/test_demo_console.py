"""`lore demo --console`: a living world, served, shown and compared with its truth; nothing is left of it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.faces.desk import COMMAND, Desk
from tests.faces.test_documented_shapes import compare
from tests.support.deep import deep
from tests.support.manual_clock import ManualClock

from tidelore.core.clock import format_instant
from tidelore_world.demo.life import Life
from tidelore_world.world import World

NETWORKS = ("gitlab", "github", "bluesky")
SMALL = ("demo", "--console", "--scale", "0.2")


@pytest.mark.deep
def test_after_a_timed_demo_the_copy_of_all_networks_is_exact(home: Path, tmp_path: Path) -> None:
    spare = tmp_path / "spare"
    spare.mkdir()
    done = subprocess.run(
        [*COMMAND, *SMALL, "--for", "6", "--robot"],
        capture_output=True,
        text=True,
        env=os.environ | {"TMPDIR": str(spare)},
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    data = json.loads(done.stdout)["data"]
    assert set(data["changed"]) == set(NETWORKS)
    assert all(data["changed"].values())
    assert data["commands"] > 0
    for name in ("issues", "merge_requests", "notes", "github_comments", "pull_requests", "events", "posts"):
        assert data["held"][name] > 0, name
    compared = {found["list"]: found for found in data["comparison"]}
    assert {"issues", "notes", "pull_requests", "issue_comments", "review_comments", "posts"} < set(compared)
    assert {"github_issues", "github_comments", "github_reviews", "github_threads"} < set(compared)
    for found in compared.values():
        assert (found["missing"], found["extra"], found["different"]) == (0, 0, 0), found
    assert list(spare.iterdir()) == []


@pytest.mark.deep
def test_both_demos_together_answer_with_the_documented_fields(desk: Desk) -> None:
    plain = desk.robot("demo", "--scale", "0.1").data
    live = desk.robot("demo", "--console", "--scale", "0.1", "--for", "3").data
    compare("demo", plain, live)
    told = desk.run("demo", "--console", "--scale", "0.1", "--for", "1")
    assert told.code == 0
    assert max(len(line) for line in told.out.splitlines()) <= 110
    assert told.out.count("0 missing, 0 extra, 0 different") == len(live["comparison"])


@pytest.mark.deep
def test_the_demo_detects_a_comment_that_never_became_an_event(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidelore.store.reading import posts as post_rows
    from tidelore.store.reading.lists import Listing
    from tidelore.store.work import events as feedback_events

    events, posts = feedback_events.list_events, post_rows.list_posts

    def deaf(*args: Any) -> Any:
        return [event for event in events(*args) if event.kind != "review_comment"]

    def forgetful(*args: Any) -> Any:
        found = posts(*args)
        return Listing(found.items[1:], found.total, found.next)

    monkeypatch.setattr(feedback_events, "list_events", deaf)
    monkeypatch.setattr(post_rows, "list_posts", forgetful)
    done = desk.robot(*SMALL, "--for", "1")
    assert (done.code, done.error["code"]) == (8, "INTEGRITY")
    wrong = [found["list"] for found in done.document["data"]["comparison"] if found["missing"]]
    assert wrong == ["review_comments", "posts"]


@pytest.mark.parametrize("argv", [["--console"], ["--console", "--robot"]], ids=" ".join)
def test_the_console_demo_without_a_terminal_is_refused_with_an_alternative(desk: Desk, argv: list[str]) -> None:
    done = desk.run("demo", *argv)
    assert done.code == 2
    assert "needs a terminal" in done.out + done.err
    assert "--for DURATION" in done.out + done.err


def test_a_demo_duration_without_the_console_is_refused(desk: Desk) -> None:
    done = desk.run("demo", "--for", "3")
    assert done.code == 2
    assert "--for belongs to --console" in done.err


def test_the_same_seed_gives_the_same_demo_activity() -> None:
    lives = []
    for _ in range(2):
        clock = ManualClock()
        world = World(5, start=format_instant(clock.now_ms()))
        for forge in (world.gitlab, world.github, world.bluesky):
            forge.populate(0.1)
        life = Life(world, 5, "mira-holt", clock)
        for _ in range(20):
            clock.advance(1.5)
            life.step()
            assert world.clock.now_us // 1000 == clock.now_ms()
        repos = world.github.truth_repos()
        lives.append(
            (
                dict(life.changes),
                [comment["body"] for repo in repos for comment in world.github.truth_comments(repo)],
                [row["uri"] for actor in world.bluesky.truth_accounts() for row in world.bluesky.truth_records(actor)],
            )
        )
        assert life.commands == sum(body == "/lore status" for body in lives[-1][1]) > 1
    assert lives[0] == lives[1]


@contextmanager
def terminal(folder: Path, *argv: str) -> Iterator[tuple[int, int]]:
    """A terminal of 80 by 24 with `lore` in it: its process and its other end."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LORE_", "NO_COLOR", "XDG_"))}
    environ = kept | {"TERM": "xterm-256color", "HOME": str(folder), "TMPDIR": str(folder)}
    pid, end = pty.fork()
    if pid == 0:  # pragma: no cover - the child is another program
        os.execve(sys.executable, [sys.executable, *COMMAND[1:], *argv], environ)
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    try:
        yield pid, end
    finally:
        os.close(end)


def read(end: int, wanted: str | None, seconds: float = 60) -> bytes:
    """Read until a text was painted; without one, to the end."""
    seen, until = b"", time.monotonic() + seconds
    while wanted is None or wanted.encode() not in seen:
        assert time.monotonic() < until, seen[-2000:]
        ready, _, _ = select.select([end], [], [], 0.1)
        try:
            seen += os.read(end, 65_536) if ready else b""
        except OSError:
            assert wanted is None, seen[-2000:]
            break
    return seen


@pytest.mark.deep
@pytest.mark.parametrize(
    "line",
    [
        "4. Changes",
        *(deep(line) for line in ("Simulated GitLab", "1. First sync", "7. Local")),
    ],
)
def test_an_interrupted_demo_leaves_no_files_behind(tmp_path: Path, line: str) -> None:
    demo = subprocess.Popen(
        [*COMMAND, "demo", "--scale", "0.1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert demo.stdout is not None
    assert any(told.startswith(line) for told in demo.stdout)
    assert [entry.name.startswith("tidelore-demo-") for entry in tmp_path.iterdir()] == [True]
    demo.send_signal(signal.SIGTERM)
    _, errors = demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert "the temporary directory was removed" in errors
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, deep(signal.SIGHUP)], ids=repr)
def test_a_demo_interrupted_before_the_console_opened_leaves_no_files_behind(
    tmp_path: Path, number: signal.Signals
) -> None:
    with terminal(tmp_path, *SMALL) as (pid, end):
        until = time.monotonic() + 60
        while not list(tmp_path.glob("tidelore-demo-*")):
            assert time.monotonic() < until
            time.sleep(0.005)
        os.kill(pid, number)
        said = read(end, None)
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    assert b"the temporary directory was removed" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.deep
def test_a_console_demo_ended_by_a_signal_leaves_no_files_behind(tmp_path: Path) -> None:
    with terminal(tmp_path, *SMALL) as (pid, end):
        read(end, "service here")
        os.kill(pid, signal.SIGTERM)
        # Once more while the service comes to its end: that goes on.
        read(end, "Stopping the service")
        os.kill(pid, signal.SIGTERM)
        rest = read(end, None)
        os.waitpid(pid, 0)
    assert b"Traceback" not in rest
    assert list(tmp_path.iterdir()) == []


@pytest.mark.deep
def test_visiting_every_screen_of_the_demo_leaves_no_files_behind(tmp_path: Path) -> None:
    with terminal(tmp_path, *SMALL) as (pid, end):
        read(end, "service here")
        for key, shown in (
            ("4", "harborline/"),
            ("v", "review comment"),
            ("v", "● confirmed"),
            ("5", "● established"),
            ("6", "poll bluesky"),
            ("7", "requests in"),
            ("3", "Requests"),
            ("2", "a phrase"),
        ):
            os.write(end, key.encode())
            read(end, shown)
        os.write(end, b"vessel")
        read(end, "found by keyword")
        # In the line a letter is a letter; in the results it is a key.
        os.write(end, b"\r")
        time.sleep(0.5)
        os.write(end, b"q")
        rest = read(end, None)
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert b"Traceback" not in rest
    assert b"The temporary directory was removed." in rest
    assert list(tmp_path.iterdir()) == []
