"""This process and its neighbours. Owns who we are (host, pid, start mark) and whether a holder still lives.

A pid alone is reused by the system; with the start mark a dead holder is told from a stranger that
inherited its number. Refuses to guess about other hosts: only their heartbeat speaks for them.
"""

from __future__ import annotations

import os

from msgspec import Struct


class ProcessIdentity(Struct, frozen=True):
    """Enough to name a process to a person and to find out whether it still runs."""

    host: str
    pid: int
    started: str

    @classmethod
    def current(cls) -> ProcessIdentity:
        return cls(os.uname().nodename, os.getpid(), _start_mark(os.getpid()))


def is_dead(identity: ProcessIdentity) -> bool:
    """Return whether a process is known to be gone. False when it cannot be known."""
    if identity.host != os.uname().nodename:
        return False
    try:
        os.kill(identity.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        # Somebody else's process: ours, or the heir of its number? Its start mark tells.
        pass
    mark = _start_mark(identity.pid)
    return bool(mark and identity.started and mark != identity.started)


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
