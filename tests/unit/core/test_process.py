"""Whether a holder still lives: dead, alive, a zombie, a stranger with its number, another host."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tidelore.core import process
from tidelore.core.process import ProcessIdentity, is_dead

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system shows no start marks")


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def identity_of(pid: int) -> ProcessIdentity:
    return ProcessIdentity(os.uname().nodename, pid, process._start_mark(pid))


def test_the_current_process_is_alive_with_its_host_and_pid() -> None:
    current = ProcessIdentity.current()
    assert (current.host, current.pid) == (os.uname().nodename, os.getpid())
    assert current == ProcessIdentity.current()
    assert not is_dead(current)


def test_a_process_is_dead_once_it_has_ended() -> None:
    child = sleeper()
    identity = identity_of(child.pid)
    assert not is_dead(identity)
    child.communicate(b"\n", timeout=10)
    assert is_dead(identity)


@needs_proc
def test_a_zombie_counts_as_dead_although_its_pid_is_in_use() -> None:
    child = sleeper()
    identity = identity_of(child.pid)
    child.kill()
    # Waits for the end but leaves the body: the number stays taken until the parent looks.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    try:
        os.kill(child.pid, 0)
        assert is_dead(identity)
    finally:
        child.communicate(timeout=10)


@needs_proc
def test_a_process_with_a_reused_pid_is_not_the_original() -> None:
    current = ProcessIdentity.current()
    assert is_dead(msgspec.structs.replace(current, started=f"{current.started}0"))


@needs_proc
def test_a_process_of_another_user_with_a_reused_pid_is_not_the_original(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", forbidden)
    current = ProcessIdentity.current()
    assert not is_dead(current)
    assert is_dead(msgspec.structs.replace(current, started="1"))


@pytest.mark.parametrize(("ours", "theirs"), [("", "123"), ("123", "")])
def test_without_a_start_time_a_pid_in_use_counts_as_alive(
    monkeypatch: pytest.MonkeyPatch, ours: str, theirs: str
) -> None:
    monkeypatch.setattr(process, "_start_mark", lambda _pid: theirs)
    assert not is_dead(ProcessIdentity(os.uname().nodename, os.getpid(), ours))


def test_a_process_on_another_host_is_never_considered_dead() -> None:
    assert not is_dead(ProcessIdentity("elsewhere.example.com", 2**22 + 1, "1"))


@needs_proc
def test_the_start_time_is_read_for_program_names_with_brackets_and_spaces(tmp_path: Path) -> None:
    program = tmp_path / ") Z 1 (x"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([str(program), "30"]) as child:
        try:
            mark = process._start_mark(child.pid)
            assert mark.isdigit()
            assert abs(int(mark) - int(process._start_mark(os.getpid()))) < 100 * 3600 * 24
            assert not is_dead(identity_of(child.pid))
        finally:
            child.kill()


def placed(monkeypatch: pytest.MonkeyPatch, place: str, started: str = "7") -> ProcessIdentity:
    """A process with a pid that is free here, seen from `m1.b1.n1`."""
    monkeypatch.setattr(process, "_place", lambda: f"m1.b1.{process._INITIAL_NAMESPACE}")
    return ProcessIdentity(os.uname().nodename, 2**22 + 1, f"{place}/{started}")


def test_a_process_in_another_pid_namespace_is_never_considered_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_dead(placed(monkeypatch, "m1.b1.4026532179"))
    assert is_dead(placed(monkeypatch, f"m1.b1.{process._INITIAL_NAMESPACE}"))


def test_a_process_of_an_earlier_boot_is_dead_unless_in_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_dead(placed(monkeypatch, f"m1.b0.{process._INITIAL_NAMESPACE}"))
    assert not is_dead(placed(monkeypatch, "m1.b0.4026532179"))
    assert not is_dead(placed(monkeypatch, f"m2.b0.{process._INITIAL_NAMESPACE}"))
    assert not is_dead(placed(monkeypatch, f".b0.{process._INITIAL_NAMESPACE}"))


def test_processes_are_recognised_after_the_host_was_renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    here = placed(monkeypatch, f"m1.b1.{process._INITIAL_NAMESPACE}")
    assert is_dead(msgspec.structs.replace(here, host="the.old.name"))


def test_an_identity_stored_by_an_earlier_version_is_compared_by_host_and_pid() -> None:
    assert is_dead(ProcessIdentity(os.uname().nodename, 2**22 + 1, "7"))


_IN_A_NAMESPACE = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]


def can_unshare() -> bool:
    try:
        return subprocess.run([*_IN_A_NAMESPACE, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not can_unshare(), reason="needs the right to make pid namespaces")
def test_the_current_process_seen_from_another_pid_namespace_is_not_dead() -> None:
    current = ProcessIdentity.current()
    script = (
        "import sys; from tidelore.core.process import ProcessIdentity, is_dead;"
        " print(is_dead(ProcessIdentity(sys.argv[1], int(sys.argv[2]), sys.argv[3])))"
    )
    told = [current.host, str(current.pid), current.started]
    seen = subprocess.run(
        [*_IN_A_NAMESPACE, sys.executable, "-c", script, *told], capture_output=True, text=True, check=True
    )
    assert seen.stdout.strip() == "False"
