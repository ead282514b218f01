"""The program's door. Answers `lore --version` before anything is imported, and leaves quietly through a pipe."""

from __future__ import annotations

import os
import sys

from tidelore import __version__


def run() -> None:
    """Be the program."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"lore {__version__}\n")
        return
    from tidelore.cli.main import main

    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone (`lore list | head`): nothing is wrong, and nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)
