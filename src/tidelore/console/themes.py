"""How the console looks: two themes, the tones in each, and the look without colours.

Without colours nothing but the terminal's own two is sent: bold, reverse and the words carry what colours carry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from textual.app import App
from textual.theme import Theme

DARK, LIGHT = "tide-dark", "tide-light"
THEMES = (
    Theme(
        name=DARK,
        primary="#5BC0BE",
        secondary="#7FA8C9",
        accent="#F2B880",
        foreground="#DCE7EA",
        background="#0E1A20",
        surface="#13232B",
        panel="#1B2F39",
        success="#7FC8A0",
        warning="#EBC06D",
        error="#EF8A80",
        dark=True,
    ),
    Theme(
        name=LIGHT,
        primary="#0F6E78",
        secondary="#3C6E91",
        accent="#9A5B13",
        foreground="#14262E",
        background="#F4F8F8",
        surface="#FFFFFF",
        panel="#E1ECEE",
        success="#1B7A45",
        warning="#8A5A00",
        error="#B3261E",
        dark=False,
    ),
)


def choose_theme(wanted: str, environ: Mapping[str, str]) -> str:
    """Return the theme that is wanted; `auto` follows the terminal where it tells its background."""
    if wanted in ("light", "dark"):
        return LIGHT if wanted == "light" else DARK
    # Terminals that set it write `foreground;background`; 7 and 15 are the white ones.
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT if background in ("7", "15") else DARK


def is_colourless(environ: Mapping[str, str], *, color: bool) -> bool:
    """Return whether no colours are wanted."""
    return not color or bool(environ.get("NO_COLOR"))


def tones(app: App[Any]) -> dict[str, str]:
    """Return the style of each tone in the present theme."""
    theme = app.current_theme
    return {
        "good": theme.success or "",
        "warn": f"bold {theme.warning}",
        "bad": f"bold {theme.error}",
        "dim": "dim",
        "strong": "bold",
    }
