"""Identify this process, and find out whether another process is still running.

A pid is unique only inside one pid namespace of one boot of one machine, and even there it is reused, so an identity
contains all of these and the start time. Processes that cannot be seen from here (another machine, another container)
are never reported dead: only their heartbeat shows whether they are alive.
"""

from __future__ import annotations

import os
from functools import cache

from msgspec import Struct

_INITIAL_NAMESPACE = "4026531836"
"""The inode of the initial pid namespace on Linux; containers have others."""


class ProcessIdentity(Struct, frozen=True):
    """Identifies a process, for people and for checking whether it is still running.

    `started` is `machine.boot.namespace/start time`; only the start time in rows of earlier versions and where the
    system does not provide the rest.
    """

    host: str
    pid: int
    started: str

    @classmethod
    def current(cls) -> ProcessIdentity:
        mark, place = _start_mark(os.getpid()), _place()
        return cls(os.uname().nodename, os.getpid(), f"{place}/{mark}" if place and mark else mark)


def is_dead(identity: ProcessIdentity) -> bool:
    """Return whether a process is known to have ended. False if this cannot be determined."""
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

    Machine ids and host names are often copied with a container image, so they are compared only outside containers.
    """
    machine, _, rest = place.partition(".")
    our_machine, _, our_rest = _place().partition(".")
    boot, _, namespace = rest.partition(".")
    our_boot, _, our_namespace = our_rest.partition(".")
    same = host == os.uname().nodename and machine != "" and machine == our_machine
    return same and boot != our_boot and namespace == our_namespace == _INITIAL_NAMESPACE


@cache
def _place() -> str:
    """Return the machine, boot and pid namespace in which pids are unique, or '' if they cannot be read."""
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
    """Return the kernel's start time of a process, or '' if it cannot be read."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            stat = file.read()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    # A zombie has ended; its parent just has not waited for it yet.
    return "zombie" if fields[0] == "Z" else fields[19]
