"""A place in memory for what tests write: a disk's flushes prove nothing there and cost system time."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_SHARED = Path("/dev/shm")
_ROOM = 2 << 30
"""What a run needs at most; a container often has 64 MB only."""


def memory_folder() -> Path | None:
    """Return a folder in memory with enough room, where the system has one."""
    if os.access(_SHARED, os.W_OK) and shutil.disk_usage(_SHARED).free >= _ROOM:
        return _SHARED
    return None
