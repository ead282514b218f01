"""Splits a document into chunks for a model: bounded, overlapping, cut between parts.

Pure and deterministic. Cuts inside a part only where the part is too long. Invariant: every word of the document is in
a chunk, in order; no chunk is empty or has more words than requested.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

_WIDE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
# The length of a word is bounded so that the number of words bounds the number of tokens: a blob or a URL counts as
# several words, and so does text in a script without spaces.
# With the space before it, so that words are contiguous: their lengths tell where each is.
_WORD = re.compile(rf"\s*(?:[{_WIDE}]{{1,2}}|[^\s{_WIDE}]{{1,32}})")
# Equivalent for text without such a script, and twice as fast.
_PLAIN_WORD = re.compile(r"\s*\S{1,32}")
BETWEEN_PARTS = "\n\n"


class _Measured:
    """The parts of a document with every word and its end, in flat lists because a document has many words."""

    def __init__(self, parts: Sequence[str]) -> None:
        self.words: list[str] = []
        self._ends: list[int] = []
        self.borders: list[int] = []
        self._parts: list[int] = []
        self._texts = parts
        for place, part in enumerate(parts):
            before = len(self.words)
            found = _words(part)
            self.words += found
            self._ends += accumulate(map(len, found))
            if found:
                self.borders.append(before)
                self._parts.append(place)

    def piece(self, start: int, end: int) -> str:
        """Return the words from `start` up to but not including `end`, with the original text between them."""
        first, last = bisect_right(self.borders, start) - 1, bisect_right(self.borders, end - 1) - 1
        texts = []
        for at in range(first, last + 1):
            until = end if at == last else self.borders[at + 1]
            one = max(start, self.borders[at])
            begin = self._ends[one] - len(self.words[one].lstrip())
            texts.append(self._texts[self._parts[at]][begin : self._ends[until - 1]])
        return BETWEEN_PARTS.join(texts)


def _words(part: str) -> list[str]:
    """Return the words of a part, each with the space before it."""
    pattern = _PLAIN_WORD if part.isascii() else _WORD
    # Without the space at the end, which the pattern would look through again from each of its places.
    found: list[str] = pattern.findall(part.rstrip())
    return found


def chunk(parts: Sequence[str], *, words: int, overlap: int) -> list[str]:
    """Return the chunks of a document: at most `words` words each, at most `overlap` of them from the one before."""
    if words < 1 or not 0 <= overlap < words:
        raise ValueError(f"no chunks of {words} words with {overlap} of overlap")
    measured = _Measured(parts)
    count, borders = len(measured.words), measured.borders
    chunks: list[str] = []
    start = 0
    while start < count:
        end = _end(start, count, borders, words, overlap)
        chunks.append(measured.piece(start, end))
        if end == count:
            break
        start = _next_start(end, borders, overlap)
    return chunks


def _end(start: int, count: int, borders: list[int], words: int, overlap: int) -> int:
    """Return the end of a chunk: between two parts if the chunk is then at least half full, else where it is full."""
    full = start + words
    if full >= count:
        return count
    last = borders[bisect_left(borders, full + 1) - 1]
    return last if last >= start + max((words + 1) // 2, overlap + 1) else full


def _next_start(end: int, borders: list[int], overlap: int) -> int:
    """Return the start of the next chunk: the earliest whole part within the overlap, else a word inside a part."""
    earliest = end - overlap
    place = bisect_left(borders, earliest)
    return borders[place] if place < len(borders) and borders[place] < end else earliest
