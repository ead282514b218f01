"""Choose the passage of a text that answers a query: the best paragraph, within a length.

A paragraph is the better the more different words of the query it holds; words that tell of a decision count too. Hits
are marked as in `store/reading/fulltext.py`; `mark_words` marks them in a text that no index holds. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from tidelore.core.patterns import late_pattern
from tidelore.store.reading.fulltext import CLOSING, OPENING, Term

LENGTH = 400
"""The longest passage, in characters."""
_STATES, _DECIDES = 8, 3
"""How many more words of the query another paragraph must hold to be better than one that states a decision
("Decision: …"), or one that tells of a decision."""
_HINTS = ("decision", "decided", "chose", "settled on", "concluded", "conclusion", "going with")
"""What the patterns of decisions look for; most paragraphs have none of these."""
_SHORTEST = 40
"""A paragraph of fewer characters, such as a heading, is read together with the next one."""
_ENDINGS = ("ings", "ing", "ies", "ied", "ed", "es", "ly", "s", "e", "y")
_SHORTEST_STEM = 3


class Passage(Struct, frozen=True):
    """A paragraph with marked hits, and how well it answers."""

    text: str
    rank: float


_PART = late_pattern(r"\s*\f\s*")
_PARAGRAPH = late_pattern(r"\n[ \t]*\n\s*")
_WORD = late_pattern(r"\w+")
_SPEAKER = late_pattern(rf"@[\w.{OPENING}{CLOSING}-]+ \(\d{{4}}-\d\d-\d\d\)[^:\n]{{0,300}}?: ")
_STATED = late_pattern(
    r"\b(?:decision|decided|chosen)\b[^.\n]{0,30}?:|^(?:@.*?: )?#+ *decision\b", re.IGNORECASE | re.M
)
_DECIDED = late_pattern(
    r"\b(decision|decided|chosen|chose|settled on|concluded|conclusion|we(?:'re| are) going with)\b",
    re.IGNORECASE,
)


def best_passage(marked: str) -> Passage:
    """Return the best paragraph of a text with marked hits, cut to `LENGTH` around its hits.

    A paragraph of a note is preceded by the author and the date of the note.
    """
    best = Passage("", float("-inf"))
    for text in _paragraphs(marked):
        rank = _rank(text)
        if rank > best.rank:
            best = Passage(text, rank)
    return Passage(_cut(best.text), best.rank)


def _paragraphs(marked: str) -> Iterator[str]:
    for part in _PART.split(marked) if "\f" in marked else (marked,):
        # Asked first, because most texts have no speaker, and the pattern takes long to compile.
        speaker = _SPEAKER.match(part) if part.startswith("@") else None
        said = "" if speaker is None else speaker[0]
        heading = ""
        rest = part[len(said) :].strip()
        for text in _PARAGRAPH.split(rest) if "\n" in rest else (rest,):
            whole = f"{heading}\n{text}" if heading else text
            heading = whole if len(whole) < _SHORTEST else ""
            if not heading:
                yield f"{said}{whole}"
        if heading:
            yield f"{said}{heading}"


def _rank(text: str) -> float:
    words = {stem(word) for hit in _hits(text) for word in ((hit,) if hit.isalnum() else _WORD.findall(hit))}
    plain = text.replace(OPENING, "").replace(CLOSING, "")
    rank = float(len(words))
    low = plain[:4000].lower()
    if _may_decide(low):
        if _find_stated(low):
            rank += _STATES
        elif _DECIDED.search(low):
            rank += _DECIDES
    # A heading or a lone word answers nothing.
    return rank - (1.5 if len(plain) < _SHORTEST else 0)


def _hits(marked: str) -> set[str]:
    """Return the marked parts of a text; no pattern, because a process that searches once would have to compile it."""
    parts = (part.partition(CLOSING) for part in marked.split(OPENING)[1:])
    return {hit for hit, closing, _ in parts if closing}


def _may_decide(low: str) -> bool:
    """Return whether a text in lower case can match the patterns of decisions, which take much longer to look."""
    return any(hint in low for hint in _HINTS)


def _find_stated(text: str) -> re.Match[str] | None:
    # The pattern takes long to compile, and each of its matches has one of these.
    return _STATED.search(text) if ":" in text or "#" in text else None


def _cut(text: str) -> str:
    """Return a part of a paragraph with as many hits as fit; cut between words, marked with an ellipsis."""
    plain_length = len(text) - text.count(OPENING) - text.count(CLOSING)
    if plain_length <= LENGTH:
        return text
    hit = text.find(OPENING)
    decision = (_find_stated(text) or _DECIDED.search(text)) if _may_decide(text.lower()) else None
    wanted = min(place for place in (hit, decision.start() if decision else -1, len(text)) if place >= 0)
    begin = 0
    if wanted > LENGTH // 2 and wanted < len(text):
        begin = text.rfind(" ", 0, wanted - LENGTH // 4) + 1
    room, end, inside = LENGTH - (1 if begin else 0) - 1, begin, False
    for at in _mark_places(text, begin):
        if at - end > room:
            break
        room -= at - end
        end, inside = at + 1, text[at] == OPENING
    end = min(end + room, len(text))
    kept = text[begin:end] + (CLOSING if inside else "")
    space = kept.rfind(" ")
    if end < len(text) and space > len(kept) // 2 and OPENING not in kept[space:]:
        kept = kept[:space]
    return ("…" if begin else "") + kept.rstrip() + ("…" if end < len(text) else "")


def _mark_places(text: str, begin: int) -> Iterator[int]:
    opening, closing = text.find(OPENING, begin), text.find(CLOSING, begin)
    while opening >= 0 or closing >= 0:
        if closing < 0 or 0 <= opening < closing:
            yield opening
            opening = text.find(OPENING, opening + 1)
        else:
            yield closing
            closing = text.find(CLOSING, closing + 1)


def mark_words(text: str, terms: Sequence[Term]) -> str:
    """Mark the words of a text that have the stem of a word of the query."""
    stems = {stem(word) for term in terms for word in _WORD.findall(term.text)}
    clean = text.replace(OPENING, "").replace(CLOSING, "")
    return _WORD.sub(lambda word: f"{OPENING}{word[0]}{CLOSING}" if stem(word[0]) in stems else word[0], clean)


def stem(word: str) -> str:
    """Return a word in lower case without its usual English ending."""
    low = word.casefold()
    for ending in _ENDINGS:
        if low.endswith(ending) and len(low) - len(ending) >= _SHORTEST_STEM:
            return low.removesuffix(ending)
    return low
