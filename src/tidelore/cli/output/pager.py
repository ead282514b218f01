"""Show a long text in the user's pager.

`LORE_PAGER`, then `PAGER`, then `less`. An empty value or `cat` means no pager.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

import click

_DEFAULT = "less"
_LESS = "FRX"
"""What `less` does unless LESS says otherwise: end if the text fits, pass colours, leave the text on the screen."""


def show_in_pager(lines: Sequence[str], *, color: bool) -> bool:
    """Show lines in the pager if they do not fit on the terminal; return whether they were shown."""
    command = pager_command(os.environ)
    if not command or len(lines) < _terminal_rows():
        return False
    # Pagers other than less may show escape sequences; who sets LORE_PAGER knows what theirs does.
    coloured = color and ("LORE_PAGER" in os.environ or os.path.basename(command[0]) == _DEFAULT)  # noqa: PTH119
    text = "\n".join(lines) + "\n"
    try:
        pager = subprocess.Popen(  # noqa: S603 - the user's own command
            command, stdin=subprocess.PIPE, env=os.environ | {"LESS": os.environ.get("LESS", _LESS)}
        )
    except OSError:
        return False
    sys.stdout.flush()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        # A pager that is left early closes the pipe.
        with suppress(BrokenPipeError):
            pager.communicate((text if coloured else click.unstyle(text)).encode(errors="replace"))
        pager.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    return True


def pager_command(environ: Mapping[str, str]) -> list[str]:
    """Return the words of the pager's command, or none if no pager is wanted."""
    chosen = environ.get("LORE_PAGER", environ.get("PAGER", _DEFAULT))
    try:
        words = shlex.split(chosen)
    except ValueError:
        return []
    return [] if words == ["cat"] else words


def _terminal_rows() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).lines or sys.maxsize
    except (OSError, ValueError):
        return sys.maxsize
