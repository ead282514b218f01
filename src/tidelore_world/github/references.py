"""What a text refers to: the numbers it mentions, and those it promises to close.

Owns the two patterns. Pure.
"""

from __future__ import annotations

import re

_CLOSING = re.compile(r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+#(\d+)\b", re.IGNORECASE)
_MENTION = re.compile(r"(?<![\w/&])#(\d+)\b")


def closing_numbers(text: str) -> list[int]:
    """The issues of the same repository that merging a pull request with this text closes."""
    return _numbers(_CLOSING, text)


def mentioned_numbers(text: str) -> list[int]:
    """The threads of the same repository that a text mentions as `#12`."""
    return _numbers(_MENTION, text)


def _numbers(pattern: re.Pattern[str], text: str) -> list[int]:
    return list(dict.fromkeys(int(found) for found in pattern.findall(text) if len(found) < 10))
