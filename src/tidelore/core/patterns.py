"""Regular expressions that are compiled when they are first used.

Compiling takes longer than importing most modules, and a command uses few of the patterns of the modules it imports.
"""

from __future__ import annotations

import re
from typing import Any, cast


class _LatePattern:
    def __init__(self, text: str, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found


def late_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return what behaves like the compiled pattern."""
    return cast("re.Pattern[str]", _LatePattern(text, flags))
