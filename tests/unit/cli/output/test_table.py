"""Tables: they fit a terminal whatever the cells hold, and a pipe gets every cell complete."""

from __future__ import annotations

import sys
from typing import Any

import click
import pytest

from tidelore.cli.output.render import plural
from tidelore.cli.output.table import Column, fields, table, wrap_line
from tidelore.core.text import shorten, shorten_start, width

COLUMNS: list[Column[Any]] = [
    Column("NUMBER", colour="cyan"),
    Column("TITLE", shrinks=True),
    Column("STATE", state=True),
    Column("LABELS", shrinks=True, optional=True),
    Column("COUNT", right=True),
]
ROWS = [
    ["#1", "A short title", "opened", "bug", "3"],
    ["#12", "港湾の船が今日も来た、明日も来るだろう", "closed", "urgent, harbour", "1,204"],
    ["#104", "cafe\u0301 👩‍🚀 ✈\ufe0f and a title that is rather long", "merged", "", "7"],
]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    return monkeypatch


def shown() -> list[str]:
    return [click.unstyle(line) for line in table(COLUMNS, ROWS)]


def test_columns_line_up_under_their_headings_in_terminal_cells(terminal: pytest.MonkeyPatch) -> None:
    terminal.setenv("COLUMNS", "120")
    head, *rows = shown()
    for heading, cells in zip(("TITLE", "STATE"), (1, 2), strict=True):
        start = head.index(heading)
        for line, row in zip(rows, ROWS, strict=True):
            assert width(line[: line.index(row[cells])]) == start
    assert {width(line) for line in (head, *rows)} == {width(head)}


@pytest.mark.parametrize("columns", [1, 7, 20, 40, 60, 80])
def test_no_row_is_wider_than_the_terminal(terminal: pytest.MonkeyPatch, columns: int) -> None:
    terminal.setenv("COLUMNS", str(columns))
    assert max(width(line) for line in shown()) <= columns


def test_titles_are_cut_before_any_other_column_while_they_stay_readable(terminal: pytest.MonkeyPatch) -> None:
    terminal.setenv("COLUMNS", "75")
    lines = shown()
    assert "…" in lines[2]
    for cell in ("#12", "closed", "urgent, harbour", "1,204"):
        assert cell in lines[2]


def test_an_optional_column_leaves_and_a_path_is_cut_before_a_title_becomes_short(terminal: pytest.MonkeyPatch) -> None:
    columns = [Column("PROJECT", path=True), *COLUMNS]
    rows = [["harborline/platform/tracking", *row] for row in ROWS]
    for room, least in ((110, 34), (80, 34), (60, 20)):
        terminal.setenv("COLUMNS", str(room))
        head, *lines = [click.unstyle(line) for line in table(columns, rows)]
        assert head.index("STATE") - head.index("TITLE") - 2 >= least, room
        assert ("LABELS" in head) == (room == 110)
        assert all(line.partition(" ")[0].endswith("tracking"[-5:]) for line in lines), room


def test_a_path_is_cut_at_its_beginning_and_its_heading_at_the_end(terminal: pytest.MonkeyPatch) -> None:
    terminal.setenv("COLUMNS", "10")
    lines = [
        click.unstyle(line) for line in table([Column("A LONG PROJECT", path=True, shrinks=True)], [["a/b/harbour"]])
    ]
    assert lines == ["A LONG PR…", "…b/harbour"]


def test_optional_columns_are_left_out_where_titles_would_become_unreadable(terminal: pytest.MonkeyPatch) -> None:
    terminal.setenv("COLUMNS", "40")
    lines = shown()
    assert "LABELS" not in lines[0]
    assert "1,204" in lines[2]


def test_headings_and_states_are_coloured_on_a_terminal_only(
    terminal: pytest.MonkeyPatch,
) -> None:
    assert table(COLUMNS, ROWS)[0].startswith("\x1b[1mNUMBER")
    assert "\x1b[32mopened\x1b[0m" in table(COLUMNS, ROWS)[1]
    terminal.setattr(sys.stdout, "isatty", lambda: False)
    assert "\x1b" not in "".join(table(COLUMNS, ROWS))


def test_a_pipe_gets_complete_cells_separated_by_tabs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    monkeypatch.setenv("COLUMNS", "20")
    assert [line.split("\t") for line in table(COLUMNS, ROWS)] == ROWS
    assert table(COLUMNS, ROWS, always_headings=True)[0] == "NUMBER\tTITLE\tSTATE\tLABELS\tCOUNT"
    assert fields({"name": "a b", "error": None}) == ["name\ta b", "error\t-"]


def test_control_characters_of_a_cell_reach_neither_terminal_nor_pipe(terminal: pytest.MonkeyPatch) -> None:
    evil = "\x1b[31mred\x1b]0;t\x07\ttab\nline\u202e"
    assert click.unstyle(table(["A"], [[evil]])[1]) == "red tab line"
    assert "\x1b[31m" not in table(["A"], [[evil]])[1]
    terminal.setattr(sys.stdout, "isatty", lambda: False)
    assert table(["A", "B"], [[evil, "x"]]) == ["red tab line\tx"]


def test_a_cut_text_keeps_combining_marks_and_joined_emoji_together() -> None:
    assert shorten("cafe\u0301s", 5) == "cafe\u0301s"
    assert shorten("cafe\u0301 noir", 5) == "cafe\u0301…"
    assert shorten_start("group/platform/ledger", 10) == "…rm/ledger"
    assert shorten("👩‍🚀👩‍🚀", 3) == "👩‍🚀…"
    assert width(shorten("x" * 100_000 + "é", 50)) == 50


@pytest.mark.parametrize(
    ("count", "noun", "told"),
    [(1, "reply", "1 reply"), (2, "reply", "2 replies"), (1200, "alias", "1,200 aliases"), (0, "day", "0 days")],
)
def test_counts_are_shown_with_the_plural_of_their_noun(count: int, noun: str, told: str) -> None:
    assert plural(count, noun) == told


@pytest.mark.parametrize(
    ("line", "wrapped"),
    [
        ("fits in forty columns", ["fits in forty columns"]),
        (
            "ok  github: signed in as mira, scopes repo, 4,991 requests left",
            ["ok  github: signed in as mira, scopes", "    repo, 4,991 requests left"],
        ),
        (
            "+ children      41 discussions, 83 notes, 17 events  (0.2 s)",
            ["+ children      41 discussions, 83", "                notes, 17 events  (0.2", "                s)"],
        ),
        (
            "  merge requests: unavailable; `lore sync-status --runs 2` shows more",
            ["  merge requests: unavailable;", "    `lore sync-status --runs 2` shows", "    more"],
        ),
        (
            "  see https://gitlab.example/group/project/-/merge_requests/12 there",
            ["  see https://gitlab.example/group/project/-/merge_requests/12", "    there"],
        ),
        ("港湾の船が今日も来た、 明日も来るだろう。", ["港湾の船が今日も来た、", "  明日も来るだろう。"]),
    ],
)
def test_a_long_line_is_broken_between_words_below_its_last_column(line: str, wrapped: list[str]) -> None:
    assert wrap_line(line, 40) == wrapped


def test_colours_take_no_room_when_a_line_is_broken() -> None:
    line = " ".join(click.style(word, fg="red") for word in ["wharf"] * 12)
    assert [click.unstyle(part) for part in wrap_line(line, 23, margin=0)] == ["wharf wharf wharf wharf"] * 3
