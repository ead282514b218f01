"""Identify this process, and tell whether another process is still running.

A pid is unique only inside one pid namespace of one boot of one machine, and even there it is reused, so an identity
holds all of that and the start time. Processes that cannot be seen from here (another machine, another container) are
never reported dead: only their heartbeat tells whether they live.
"""

from __future__ import annotations

import os
from functools import cache

from msgspec import Struct

_INITIAL_NAMESPACE = "4026531836"
"""The number that Linux gives to the pid namespace of the machine itself; containers have others."""


class ProcessIdentity(Struct, frozen=True):
    """Enough to name a process to a person and to find out whether it still runs.

    `started` is `machine.boot.namespace/start time`; the start time alone in rows of earlier versions and where the
    system shows no more.
    """

    host: str
    pid: int
    started: str

    @classmethod
    def current(cls) -> ProcessIdentity:
        mark, place = _start_mark(os.getpid()), _place()
        return cls(os.uname().nodename, os.getpid(), f"{place}/{mark}" if place and mark else mark)


def is_dead(identity: ProcessIdentity) -> bool:
    """Return whether a process is known to be gone. False when it cannot be known."""
    place, _, started = identity.started.rpartition("/")
    if place and place != _place():
        return _was_rebooted(identity.host, place)
    if not place and identity.host != os.uname().nodename:
        return False
    try:
        os.kill(identity.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        # A process of another user has this pid. It may have been reused, so compare start times.
        pass
    mark = _start_mark(identity.pid)
    return bool(mark and started and mark != started)


def _was_rebooted(host: str, place: str) -> bool:
    """Return whether a place is an earlier boot of this machine.

    Machine ids and host names are often copied with the image of a container, so they count outside containers only.
    """
    machine, _, rest = place.partition(".")
    our_machine, _, our_rest = _place().partition(".")
    boot, _, namespace = rest.partition(".")
    our_boot, _, our_namespace = our_rest.partition(".")
    same = host == os.uname().nodename and machine != "" and machine == our_machine
    return same and boot != our_boot and namespace == our_namespace == _INITIAL_NAMESPACE


@cache
def _place() -> str:
    """Return what a pid is relative to: the machine, its boot and the pid namespace; '' where the system hides it."""
    boot = _first_line("/proc/sys/kernel/random/boot_id").replace("-", "")
    try:
        namespace = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return ""
    machine = _first_line("/etc/machine-id")
    return f"{machine[:16]}.{boot[:16]}.{namespace}" if boot and namespace else ""


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="ignore") as file:
            return file.readline().strip()
    except OSError:
        return ""


def _start_mark(pid: int) -> str:
    """Return the kernel's start time of a process, or '' where the system does not tell."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            stat = file.read()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    # A zombie has ended; only its parent has not looked yet.
    return "zombie" if fields[0] == "Z" else fields[19]
