"""Make remote text safe for terminals and JSON, and fit it into a width.

Escape sequences, control characters, marks that reorder a line and invisible characters are removed, so that remote
text cannot control the terminal or hide anything from a reader. Code blocks, tables and indented lines keep their
layout.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from tidelore.core.patterns import late_pattern

_ESCAPES = late_pattern(
    r"""(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]                       # CSI: colours, cursor
      | (?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]).*?(?:\x07|\x1b\\|\x9c|$)   # OSC, DCS and the like, to their end
      | \x1b[ -/]*[0-~]?                                       # the short ones
    """,
    re.VERBOSE,
)
# Control characters except tab and line breaks; line separators; marks that change the text direction; zero-width
# characters; tags, and variation selectors other than those of emoji.
_HIDDEN = late_pattern(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Joiners are valid inside emoji and between letters of some scripts; only one variation selector may follow a
# character.
_MISPLACED = late_pattern(
    "(?<![^\x00-\x7f\u200b-\u200f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f\u200b-\u200f])"
    "|(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]"
)
_MARKER = late_pattern(r"\s*(?:(?:[-*+]|\d{1,9}[.)])\s+|(?:>\s?)+)*")
_FENCE = late_pattern(r"\s*(?:>\s?)*(`{3,}|~{3,})")
_KEPT = late_pattern(r" {4}(?![-*+]\s|\d+[.)]\s)|\s*\|")
_OWN_MARK = late_pattern(r"\s*<!-- lore-action:[0-9a-f]{64} -->")
_ONE_CELL_EACH = late_pattern("[ -~\xa1-\xac\xae-\u02ff\u2013\u2014\u2018-\u2022\u2026]*")
"""Latin letters and usual punctuation, such as the ellipsis of a cut line."""
_NARROWEST = 20
_MARKDOWN = (
    (("`",), late_pattern(r"`(?P<kept>[^`\n]+)`")),
    (("**",), late_pattern(r"\*\*(?P<kept>[^\s*](?:[^*\n]*[^\s*])?)\*\*")),
    (("](",), late_pattern(r"!?\[(?P<kept>[^\]\[\n]+)\]\((?:https?://|/)[^\s()]*\)")),
    (("# ",), late_pattern(r"(?:(?<=\s)|^)#{1,6} (?=\S)")),
    (("> ",), late_pattern(r"(?:(?<=[.:!?]\s)|^)> (?=\S)")),
    (("[ ]", "[x]", "[X]"), late_pattern(r"(?:(?<=\s)|^)[-*] (?P<kept>\[[ xX]\])(?=\s)")),
    (("---",), late_pattern(r"\|(?: *:?-{3,}:? *\|)+ ?")),
)
"""Marks that say nothing in a passage of a few lines: texts of which a match has one, and the pattern, which names what
is kept of a match. Of two that begin at one place the first counts."""


def harmless(text: str) -> str:
    """Return text without anything a terminal would interpret; line breaks are kept."""
    if text.isascii() and text.isprintable():
        return text
    lines = without_hidden(text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")
    return "\n".join(line.expandtabs(4) for line in lines)


def without_hidden(text: str) -> str:
    """Return text without escape sequences and invisible characters; tabs and line breaks are kept."""
    if _is_plain(text):
        return text
    if "\x1b" in text or not text.isascii():
        # A sequence that is not terminated ends with its line.
        text = "\n".join(_ESCAPES.sub("", line) for line in text.split("\n"))
    return _MISPLACED.sub("", _HIDDEN.sub("", text))


def _is_plain(text: str) -> bool:
    """Return whether a text is one line of ASCII, with or without the ellipsis of a cut text.

    Most texts are, and compiling the patterns that tell it of the others takes longer than showing a page.
    """
    ascii_text = text if text.isascii() else text.replace("…", "")
    return ascii_text.isascii() and ascii_text.isprintable()


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a language model counts: four ASCII characters to a token, one of any others."""
    if text.isascii():
        return -(-len(text) // 4)
    plain = sum(character < "\x80" for character in text)
    return -(-plain // 4) + len(text) - plain


def one_line(text: str) -> str:
    """Return harmless text on one line."""
    return " ".join(harmless(text).split())


def without_markdown(text: str, spans: Sequence[tuple[int, int]] = ()) -> tuple[str, list[tuple[int, int]]]:
    """Return a passage without the marks of its Markdown, and its spans moved with it."""
    # Only the patterns of marks that are there: compiling all of them takes longer than showing a page of results.
    patterns = [pattern for marks, pattern in _MARKDOWN if any(mark in text for mark in marks)]
    kept, gaps, end = [], [], 0
    for found in _first_matches(patterns, text):
        start, stop = found.span("kept") if found.lastgroup else (found.end(), found.end())
        kept += [text[end : found.start()], text[start:stop]]
        gaps += [(found.start(), start), (stop, found.end())]
        end = found.end()
    if not gaps:
        return text, list(spans)

    def moved(at: int) -> int:
        return at - sum(min(at, stop) - start for start, stop in gaps if start < at)

    shifted = [(moved(start), moved(stop)) for start, stop in spans]
    return "".join([*kept, text[end:]]), [(start, stop) for start, stop in shifted if start < stop]


def _first_matches(patterns: Iterable[re.Pattern[str]], text: str) -> Iterator[re.Match[str]]:
    """Yield what one pattern with these as alternatives would find, without compiling one for each combination."""
    coming = [(pattern, pattern.search(text)) for pattern in patterns]
    while ahead := [(pattern, found) for pattern, found in coming if found is not None]:
        first = min((found for _, found in ahead), key=lambda found: found.start())
        yield first
        end = first.end()
        coming = [(pattern, found if found.start() >= end else pattern.search(text, end)) for pattern, found in ahead]


_EVENTS = {
    "assigned": "assigned",
    "unassigned": "unassigned",
    "review_requested": "requested a review from",
    "review_request_removed": "withdrew the request to review from",
    "renamed": "changed the title to",
    "head_ref_force_pushed": "force-pushed the branch to",
    "cross-referenced": "mentioned this in",
    "comment_deleted": "deleted a comment",
    "convert_to_draft": "converted this to a draft",
    "ready_for_review": "marked this as ready for review",
    "locked": "locked the conversation",
    "unlocked": "unlocked the conversation",
}


def event_words(action: str) -> str:
    """Return what an event of a timeline says about its actor, for people."""
    return _EVENTS.get(action) or action.replace("_", " ")


def without_own_mark(text: str) -> str:
    """Return text without the mark by which our own replies are recognised; forges hide it too."""
    return _OWN_MARK.sub("", text) if "<!-- lore-action:" in text else text


def excerpt(text: str, characters: int) -> tuple[str, bool]:
    """Return the beginning of a text without what is invisible, cut between words, and whether it was cut."""
    whole = without_own_mark(without_hidden(text)).strip()
    if len(whole) <= characters:
        return whole, False
    kept = whole[: characters - 1]
    space = max(kept.rfind(" "), kept.rfind("\n"))
    return f"{(kept[:space] if space > characters // 2 else kept).rstrip()}…", True


def shorten(text: str, columns: int) -> str:
    """Return text cut to at most `columns` terminal cells; a cut text ends with an ellipsis."""
    if width(text) <= columns:
        return text
    if text.isascii():
        return f"{text[: max(columns - 1, 0)]}…"
    # Widths of prefixes never decrease, so the longest prefix that fits is found by bisection.
    kept, beyond = 0, len(text)
    while beyond - kept > 1:
        middle = (kept + beyond) // 2
        if width(text[:middle]) <= columns - 1:
            kept = middle
        else:
            beyond = middle
    return f"{text[:kept]}…"


def shorten_start(text: str, columns: int) -> str:
    """Return text cut at its beginning to at most `columns` terminal cells; a cut text starts with an ellipsis."""
    if width(text) <= columns:
        return text
    kept, beyond = len(text), 0
    while kept - beyond > 1:
        middle = (kept + beyond) // 2
        if width(text[middle:]) <= columns - 1:
            kept = middle
        else:
            beyond = middle
    return f"…{text[kept:]}"


def width(text: str) -> int:
    """Return how many terminal cells a line takes: wide characters and emoji take two, combining marks none."""
    if text.isascii() or _is_plain(text) or _ONE_CELL_EACH.fullmatch(text):
        return len(text)
    # Imported here: most lines need it not, and an offline read should not load parts of rich for them.
    from rich.cells import cell_len

    return cell_len(text)


def block(text: str, columns: int, indent: str = "") -> list[str]:
    """Return remote text as lines of at most `columns`, prefixed with `indent`; a long word may exceed the width."""
    room = max(columns - len(indent), _NARROWEST)
    lines = list(_fitted(harmless(text).strip("\n").split("\n"), room))
    return [f"{indent}{line}".rstrip() for line in lines]


def _fitted(lines: list[str], room: int) -> Iterator[str]:
    fence = ""
    for line in lines:
        found = _FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence):
                fence = ""
            yield line
        elif found:
            fence = found[1]
            yield line
        elif width(line) <= room or _KEPT.match(line):
            yield line
        else:
            yield from _wrapped(line, room)


def _wrapped(line: str, room: int) -> Iterator[str]:
    """Break a line between words; list items get a hanging indent, quotations keep their quote marks."""
    marker = _MARKER.match(line)
    head = marker[0] if marker else ""
    rest = "".join(mark if mark == ">" else " " for mark in head)
    current, empty = head, True
    for word in line[len(head) :].split():
        if not empty and width(current) + 1 + width(word) > room:
            yield current
            current, empty = rest, True
        current += word if empty else f" {word}"
        empty = False
    yield current
