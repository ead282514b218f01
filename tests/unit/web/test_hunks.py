"""Diff hunks as numbered lines."""

from __future__ import annotations

from tidelore.web.hunks import LINES, parse_hunk


def test_lines_are_numbered_on_their_sides() -> None:
    found = parse_hunk("@@ -38,3 +40,3 @@ def f():\n a\n-b\n+c\n d")
    assert [(line.kind, line.text, line.old, line.new) for line in found] == [
        ("head", "@@ -38,3 +40,3 @@ def f():", None, None),
        ("context", "a", 38, 40),
        ("removed", "b", 39, None),
        ("added", "c", None, 41),
        ("context", "d", 40, 42),
    ]


def test_a_long_hunk_shows_its_last_lines() -> None:
    found = parse_hunk("@@ -1,50 +1,50 @@\n" + "\n".join(f" line {number}" for number in range(50)))
    assert len(found) == LINES
    assert (found[-1].text, found[-1].new) == ("line 49", 50)


def test_a_hunk_without_a_head_has_no_numbers_and_none_has_no_lines() -> None:
    assert [(line.old, line.new) for line in parse_hunk("+x\n y")] == [(None, None), (None, None)]
    assert parse_hunk(None) == parse_hunk("") == []
