"""Split text into what search indexes beside ordinary words: bigrams of scripts without spaces, and plain words. Pure.

Chinese, Japanese and Korean text has no spaces, or particles glued to its words, so a word index stores whole sentences
as one word. Such a run of characters is indexed as its pairs of neighbours (bigrams), and asked for as a phrase of
pairs, so it is found by any part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from msgspec import Struct

_HANGUL = "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"
_HIRAGANA = "\u3041-\u309f"
_KATAKANA = "\u30a1-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_HAN = "\u3005-\u3007\u3100-\u312f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_UNSPACED = f"{_HANGUL}{_HIRAGANA}{_KATAKANA}{_HAN}"
_PLAIN = r"[^\W\d_]{4,}"
SHORTEST_WORD, LONGEST_WORD = 4, 40
"""The lengths of the words that are offered as corrections."""
_MOST_BIGRAMS = 60_000
"""The characters of a document whose bigrams are indexed: PostgreSQL limits the size of an index entry."""
_WHOLE = 4
"""A run up to this long is asked for as a whole only; a longer one is a sentence, found by its parts too."""


class _Patterns(Struct, frozen=True):
    """Compiled when they are needed: that takes longer than most commands have, and most texts do not need it."""

    unspaced: re.Pattern[str]
    segment: re.Pattern[str]
    glued: re.Pattern[str]
    only_hangul: re.Pattern[str]
    grammar: re.Pattern[str]


@cache
def decision_words() -> re.Pattern[str]:
    """Return the pattern of words that tell of a decision."""
    return re.compile(
        r"\b(decid\w*|decision|agreed?|consensus|conclusion|concluded?|let'?s (?:go|use|do|keep|take)|we(?:'ll| will)|"
        r"go(?:ing)? with|settled|chose|chosen|instead of|won'?t|must not|approved?|rejected|ship it|final\w*)\b",
        re.IGNORECASE,
    )


@cache
def _patterns() -> _Patterns:
    return _Patterns(
        unspaced=re.compile(f"[{_UNSPACED}]"),
        segment=re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+"),
        glued=re.compile(rf"[^\W_]*[{_UNSPACED}][^\W_]*"),
        only_hangul=re.compile(f"[{_HANGUL}]+"),
        grammar=re.compile(f"[{_HIRAGANA}]"),
    )


def is_unspaced(text: str) -> bool:
    """Return whether a text contains Chinese, Japanese or Korean characters."""
    # All of them are behind the scripts of Europe, so most texts with accents are decided by their last character.
    return not text.isascii() and max(text) >= "\u1100" and _patterns().unspaced.search(text) is not None


def split_scripts(text: str) -> list[str]:
    """Return the parts of a text between which its script changes, without punctuation."""
    return _patterns().segment.findall(text)


def bigrams_of(texts: Iterable[str]) -> str:
    """Return what to index for the unspaced runs in texts: their pairs, their last character, words glued to them."""
    found: list[str] = []
    left = _MOST_BIGRAMS
    for text in texts:
        if not is_unspaced(text):
            continue
        for glued in _patterns().glued.finditer(text):
            for segment in split_scripts(_normal(glued[0][:left])):
                found += [*pairs_of(segment), segment[-1]] if is_unspaced(segment) else [segment]
            left -= len(glued[0])
            if left <= 0:
                return " ".join(found)
    return " ".join(found)


def pairs_of(run: str) -> list[str]:
    """Return each pair of neighbouring characters."""
    return [run[at : at + 2] for at in range(len(run) - 1)]


def parts_to_ask(run: str) -> list[str]:
    """Return what to search for an unspaced run: the run, and the telling pairs of a long one."""
    run = _normal(run)
    is_long = len(run) > (_WHOLE if _patterns().only_hangul.fullmatch(run) is None else 2)
    return [run, *(pair for pair in pairs_of(run) if not _patterns().grammar.search(pair))] if is_long else [run]


def phrase_places(words: Sequence[str], phrases: Iterable[tuple[tuple[str, ...], bool]]) -> list[tuple[int, int]]:
    """Return where phrases are in a text: their first word and the one after their last.

    A phrase comes with whether it is only the beginning of a word. Phrases that overlap are one.
    """
    single: set[str] = set()
    found: list[tuple[int, int]] = []
    for phrase, is_beginning in phrases:
        if is_beginning and phrase:
            found += ((at, at + 1) for at, word in enumerate(words) if word.startswith(phrase[0]))
        elif len(phrase) > 1:
            ends = ((at, at + len(phrase)) for at, word in enumerate(words) if word == phrase[0])
            found += ((at, end) for at, end in ends if tuple(words[at:end]) == phrase)
        else:
            single.update(phrase)
    found += [(at, at + 1) for at, word in enumerate(words) if word in single]
    spans: list[tuple[int, int]] = []
    for at, end in sorted(found):
        if spans and at < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((at, end))
    return spans


def fold(text: str) -> str:
    """Return a text in lower case without accents, as the word indexes store it."""
    if text.isascii():
        return text.lower()
    import unicodedata

    apart = unicodedata.normalize("NFD", text.lower())
    return unicodedata.normalize("NFC", "".join(mark for mark in apart if not "\u0300" <= mark <= "\u036f"))


def plain_words(texts: Iterable[str]) -> set[str]:
    """Return the words of letters in texts, folded; without unspaced scripts and without very long words."""
    found: set[str] = set()
    for text in texts:
        found.update(re.findall(_PLAIN, fold(text)))
    return {word for word in found if len(word) <= LONGEST_WORD and not is_unspaced(word)}


def distance(one: str, other: str, most: int) -> int:
    """Return how many letters are inserted, left out, replaced or swapped with a neighbour; `most` + 1 if more."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        further, before, row = before, row, [at]
        for to, wanted in enumerate(other, 1):
            cost = min(before[to] + 1, row[to - 1] + 1, before[to - 1] + (letter != wanted))
            if at > 1 and to > 1 and letter == other[to - 2] and one[at - 2] == wanted:
                cost = min(cost, further[to - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return min(row[-1], most + 1)


def near(word: str, words: Iterable[str], most: int) -> Iterator[tuple[int, str]]:
    """Yield the words within a distance of a word, with the distance."""
    letters = set(word)
    for other in words:
        # Each step removes at most one letter of one word, so many foreign letters rule a word out.
        if len(letters.difference(other)) <= most and (steps := distance(word, other, most)) <= most:
            yield steps, other


def _normal(text: str) -> str:
    import unicodedata

    # Half-width katakana and compatibility forms equal their usual forms.
    return unicodedata.normalize("NFKC", text)
