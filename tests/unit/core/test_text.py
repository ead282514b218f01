"""Words of others on our terminal: where a note stands, what happened to a file, harmless and fitting text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tidelore.app.showing import ChangedFile, NotePosition
from tidelore.cli.output.conversations import describe_duration, describe_file
from tidelore.core.text import (
    _MARKDOWN,
    block,
    harmless,
    one_line,
    shorten,
    width,
    without_hidden,
    without_markdown,
)


@pytest.mark.parametrize(
    ("position", "shown"),
    [
        ({"new_path": "a.ts", "old_path": "a.ts", "new_line": 45}, "a.ts:45"),
        ({"new_path": "a.ts", "old_path": "a.ts", "new_line": 48, "range": (45, 48)}, "a.ts:45-48"),
        ({"new_path": "a.ts", "old_path": "a.ts", "new_line": 48, "range": (48, 48)}, "a.ts:48"),
        ({"new_path": "a.ts", "old_path": "a.ts", "new_line": 44, "range": (45, 44)}, "a.ts:44"),
        ({"new_path": "b.ts", "old_path": "a.ts", "new_line": 3}, "a.ts -> b.ts:3"),
        ({"new_path": "b.ts", "old_path": "a.ts", "old_line": 3}, "a.ts:3"),
        ({"new_path": "a.ts", "old_path": "a.ts", "old_line": 9, "range": (7, 9)}, "a.ts:7-9"),
        ({"old_path": "gone.ts", "old_line": 3}, "gone.ts:3"),
        ({"new_path": "a.ts", "old_path": "a.ts", "old_line": 2, "new_line": 3}, "a.ts:3"),
        ({"new_path": "logo.png", "old_path": "logo.png"}, "logo.png"),
    ],
)
def test_a_review_note_position_is_shown_as_path_and_lines(position: dict[str, Any], shown: str) -> None:
    start, end = position.pop("range", (None, None))
    values = dict.fromkeys(NotePosition.__struct_fields__) | position | {"range_start": start, "range_end": end}
    assert NotePosition(**values).text == shown


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        ((False, False, False), "R a -> b"),
        ((True, False, False), "A b"),
        ((False, True, False), "R a -> b"),
        ((False, False, True), "D a"),
    ],
)
def test_a_changed_file_is_shown_with_the_letter_of_its_change(flags: tuple[bool, bool, bool], shown: str) -> None:
    assert describe_file(ChangedFile("a", "b", *flags)) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0m"), (60, "1m"), (3600, "1h"), (5400, "1h 30m"), (3_600_000, "1,000h")]
)
def test_a_duration_is_shown_in_hours_and_minutes(seconds: int, shown: str) -> None:
    assert describe_duration(seconds) == shown


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://evil.test\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jgone", "gone"),
        ("\x1bcreset", "reset"),
        ("open \x1b]0;never closed", "open "),
        ("a\x00b\x07c\x7f", "abc"),
        ("abc\u202egnp.exe", "abcgnp.exe"),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("a\tb", "a   b"),
        ("héllo 👩‍🚀", "héllo 👩‍🚀"),
    ],
)
def test_terminal_control_sequences_are_removed(text: str, left: str) -> None:
    assert harmless(text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a\u200bb\u2060c\ufeffd\u00ade", "abcde"),
        ("a\U000e0041\U000e0042b", "ab"),
        ("x\ufe0f\ufe01\ufe02y\U000e0101", "x\ufe0fy"),
        ("pay\u200dpal\u200c.test \u200d", "paypal.test "),
        ("می\u200cخواهم 👩\u200d🚀 ❤️\u200d🔥", "می\u200cخواهم 👩\u200d🚀 ❤️\u200d🔥"),
        ("\u202aabc\u2066d\u206a\ufff9e", "abcde"),
    ],
)
def test_invisible_characters_are_removed(text: str, left: str) -> None:
    assert harmless(text) == left
    assert without_hidden(text) == left


def test_robot_text_keeps_tabs_and_line_breaks_and_loses_escape_sequences() -> None:
    assert without_hidden("a\tb\r\n\x1b]0;open\nc\x85d \x1b[31mred\x1b[0m\x00") == "a\tb\r\n\ncd red"


def test_long_lines_are_wrapped_between_words_and_code_is_not_wrapped() -> None:
    text = (
        "A paragraph that is far too long for the page.\n\n- an item that is too long for one line\n"
        "> a quotation that is too long for one line\n```\ncode that is much too long for one line of it\n```\n"
        "| a table | that is much too long for a line |\n    indented code that is too long for it\n"
        "https://forge.test/a/very/long/address"
    )
    assert block(text, 26, "  ") == [
        "  A paragraph that is far",
        "  too long for the page.",
        "",
        "  - an item that is too",
        "    long for one line",
        "  > a quotation that is",
        "  > too long for one line",
        "  ```",
        "  code that is much too long for one line of it",
        "  ```",
        "  | a table | that is much too long for a line |",
        "      indented code that is too long for it",
        "  https://forge.test/a/very/long/address",
    ]


def test_wide_characters_take_two_columns() -> None:
    assert width("港湾 é") == 6
    assert shorten("港湾の船", 5) == "港湾…"
    assert shorten("short", 5) == "short"
    assert one_line(" two\n words\t") == "two words"


def test_characters_have_the_width_that_rich_gives_them() -> None:
    characters = [chr(code) for code in range(0x20, 0x3000) if not 0x7F <= code < 0xA0]
    assert [one for one in characters if width(one) != cell_len(one)] == []
    assert width("a cut line…") == 11


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("**Decision:** `a ** b` stays", "Decision: a ** b stays"),
        ("call(**one, **two) and 2 ** 3", "call(**one, **two) and 2 ** 3"),
        ("[x](https://a.example/y) and a[0](1)", "x and a[0](1)"),
        ("| a | b | | --- | ---: | | 1 | 2 |", "| a | b | | 1 | 2 |"),
        ("done: - [x] rope - [ ] sail", "done: [x] rope [ ] sail"),
        ("### Decision We moor, see #12", "Decision We moor, see #12"),
        ("> Decision: moor. > Really? 3 > 2", "Decision: moor. Really? 3 > 2"),
        ("`**a**` **`b`** [**c**](/d) [`e](/f) g`", "**a** `b` **c** `e g`"),
        ("a `lone tick and __init__", "a `lone tick and __init__"),
    ],
)
def test_a_passage_is_shown_without_the_marks_of_markdown(text: str, plain: str) -> None:
    assert without_markdown(text) == (plain, [])


def test_spans_of_a_passage_move_with_its_words() -> None:
    text = "**bold** and `code` and **more bold**"
    words = ["bold", "code", "more", "**bold**"]
    spans = [(text.index(word), text.index(word) + len(word)) for word in words]
    shown, moved = without_markdown(text, spans)
    assert [shown[start:stop] for start, stop in moved] == ["bold", "code", "more", "bold"]


@given(st.text("ab `*[](/h:ps)#-xX|\n", max_size=40))
def test_what_a_pattern_of_markdown_finds_has_one_of_its_marks(text: str) -> None:
    for marks, pattern in _MARKDOWN:
        if pattern.search(text):
            assert any(mark in text for mark in marks)
