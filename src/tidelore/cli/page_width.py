"""How wide a page for people is. Owns the question to the terminal; refuses to lay anything out."""

from __future__ import annotations

import os
import sys

_WIDEST = 120
_PLAIN = 80


def page_columns() -> int:
    """Return how wide a page may be: as the terminal, but no wider than is read with ease."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isascii() and asked.isdecimal() and int(asked):
        return min(int(asked), _WIDEST)
    try:
        # Not `shutil`: it loads every compressor there is.
        return min(os.get_terminal_size(sys.stdout.fileno()).columns or _PLAIN, _WIDEST)
    except (OSError, ValueError, AttributeError):
        return _PLAIN
