"""How things are called on screen."""

from __future__ import annotations

import pytest

from tidelore.console.style import (
    DARK,
    LIGHT,
    age,
    capped_count,
    choose_theme,
    clean_text,
    duration,
    fields,
    is_colourless,
    state_label,
    timestamp,
)

NOW = 1_772_442_000_000


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "—"), (-5, "0s"), (0, "0s"), (59.9, "59s"), (60, "1m"), (95, "1m 35s"), (599, "9m 59s"), (600, "10m"),
        (3_660, "1h 1m"), (36_000, "10h"), (90_000, "1d 1h"), (864_000, "10d"),
    ],
)  # fmt: skip
def test_a_short_duration_is_shown_in_two_units(seconds: float | None, shown: str) -> None:
    assert duration(seconds) == shown


def test_a_time_is_shown_relative_to_now() -> None:
    assert age(NOW - 61_000, NOW) == "1m 1s"
    assert age(NOW + 30_000, NOW) == "in 30s"
    assert age(NOW + 400, NOW) == "0s"
    assert age(None, NOW) == "—"
    assert timestamp(NOW) == "2026-03-02 09:00:00Z"


def test_a_count_at_its_limit_is_shown_with_a_plus() -> None:
    assert capped_count(999, 1_000) == "999"
    assert capped_count(1_000, 1_000) == "1,000+"


def test_every_job_state_has_a_distinct_label() -> None:
    told = [
        state_label(name)[0]
        for name in ("idle", "running", "backing_off", "stopped", "failed", "blocked", "paused", "unavailable", "new")
    ]
    assert len(set(told)) == len(told)
    assert state_label("something_else") == ("something else", "")


def test_remote_text_becomes_one_line_without_control_characters() -> None:
    assert clean_text("a\n\x1b[31mb\x07") == "a b"
    assert clean_text(None) == "—"
    assert clean_text("long" * 100, 10) == "longlongl…"


def test_empty_fields_are_not_listed() -> None:
    assert fields([("A", "1"), ("Bee", None), ("C", "—"), ("D", "")]).plain == "A  1\n"


def test_the_auto_theme_follows_the_terminal_background() -> None:
    assert choose_theme("auto", {"COLORFGBG": "0;15"}) == LIGHT
    assert choose_theme("auto", {"COLORFGBG": "15;0"}) == DARK
    assert choose_theme("auto", {}) == DARK
    assert choose_theme("light", {}) == LIGHT
    assert choose_theme("dark", {"COLORFGBG": "0;15"}) == DARK


def test_colours_are_off_with_no_color_or_without_colour_support() -> None:
    assert is_colourless({"NO_COLOR": "1"}, color=True)
    assert is_colourless({}, color=False)
    # An empty one asks for nothing.
    assert not is_colourless({"NO_COLOR": ""}, color=True)
