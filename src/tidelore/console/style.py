"""Format values for the screen: ages, times, state labels and their tones, and the two colour themes.

A tone is never the only sign of a state: the label states it too, for terminals without colours and colour-blind users.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any, Literal

from rich.text import Text
from textual.app import App
from textual.theme import Theme

from tidelore.core.clock import format_instant
from tidelore.core.text import harmless, one_line, shorten

Tone = Literal["", "good", "warn", "bad", "dim", "strong"]

_STATES: dict[str, tuple[str, Tone]] = {
    "idle": ("● idle", "good"),
    "running": ("▶ running", "good"),
    "backing_off": ("▲ backing off", "warn"),
    "stopped": ("■ stopped", "dim"),
    "by hand": ("○ manual", "dim"),
    "not read yet": ("○ never synced", "dim"),
    "succeeded": ("● succeeded", "good"),
    "partial": ("▲ partial", "warn"),
    "failed": ("✖ failed", "bad"),
    "crashed": ("✖ crashed", "bad"),
    "cancelled": ("■ cancelled", "warn"),
    "awaiting_feedback": ("● awaiting", "good"),
    "blocked": ("✖ blocked", "bad"),
    "planned": ("○ planned", "warn"),
    "posted": ("◐ posted", "warn"),
    "observed": ("● confirmed", "good"),
    "established": ("● established", "good"),
    "new": ("○ new", "warn"),
    "unavailable": ("✖ unavailable", "bad"),
    "paused": ("■ paused", "dim"),
}
_NARROWEST = 12
"""If fewer columns than this are left for values, they are placed below their names."""
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))


def state_label(name: str) -> tuple[str, Tone]:
    """Return the label of a state with its symbol, and its tone."""
    return _STATES.get(name, (name.replace("_", " "), ""))


def duration(seconds: float | None) -> str:
    """Return a duration in at most two units: `42s`, `3m`, `2h 5m`, `12d`."""
    if seconds is None:
        return "—"
    left = max(int(seconds), 0)
    for at, (size, unit) in enumerate(_UNITS):
        if left >= size:
            rest, smaller = left % size, _UNITS[at + 1] if at + 1 < len(_UNITS) else (1, "s")
            finer = rest // smaller[0] if left < 10 * size else 0
            return f"{left // size}{unit} {finer}{smaller[1]}" if finer else f"{left // size}{unit}"
    return f"{left}s"


def age(instant_ms: int | None, now_ms: int) -> str:
    """Return how long ago an instant was; `in 5m` for one in the future."""
    if instant_ms is None:
        return "—"
    seconds = (now_ms - instant_ms) / 1000
    # A clock of another machine may be slightly ahead, so less than a second in the future counts as now.
    return f"in {duration(-seconds)}" if seconds <= -1 else duration(seconds)


def timestamp(instant_ms: int | None) -> str:
    """Return an instant to the second."""
    return "—" if instant_ms is None else f"{format_instant(instant_ms)[:19].replace('T', ' ')}Z"


def capped_count(count: int, most: int) -> str:
    """Return a count that was limited to `most`, with a `+` if it reached the limit."""
    return f"{most:,}+" if count >= most else f"{count:,}"


def clean_text(text: str | None, columns: int = 200) -> str:
    """Return remote text on one line, without control characters, cut to `columns`."""
    return "—" if not text else shorten(one_line(text), columns)


def fields(pairs: list[tuple[str, str | None]], columns: int = 0) -> Text:
    """Return names and values, one per line; empty values are left out.

    With `columns`, a long value continues below its beginning; otherwise the screen wraps it.
    """
    shown = [(name, harmless(value)) for name, value in pairs if value and value != "—"]
    margin = max((len(name) for name, _ in shown), default=0) + 2
    text = Text()
    for name, value in shown:
        parts = wrap(value, columns - margin, break_on_hyphens=False) if columns - margin >= _NARROWEST else [value]
        text.append(f"{name:<{margin}}", "bold")
        text.append(f"\n{' ' * margin}".join(parts))
        text.append("\n")
    return text


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
    """Return the chosen theme; `auto` follows the terminal's background if it is known."""
    if wanted in ("light", "dark"):
        return LIGHT if wanted == "light" else DARK
    # Some terminals set it to `foreground;background`; 7 and 15 are white.
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT if background in ("7", "15") else DARK


def is_colourless(environ: Mapping[str, str], *, color: bool) -> bool:
    """Return whether colours are disabled."""
    return not color or bool(environ.get("NO_COLOR"))


def tones(app: App[Any]) -> dict[str, str]:
    """Return the style of each tone in the current theme."""
    theme = app.current_theme
    return {
        "good": theme.success or "",
        "warn": f"bold {theme.warning}",
        "bad": f"bold {theme.error}",
        "dim": "dim",
        "strong": "bold",
    }


def short_names(references: Sequence[str]) -> dict[str, str]:
    """Return short names of references: as few of the last parts of a project's path as tell the projects apart."""
    projects: dict[str, str] = {}
    for reference in references:
        if not reference.startswith("at://"):
            projects[reference] = reference.rstrip("0123456789").rstrip("#!")
    known = {project: project.split("/") for project in projects.values()}
    parts = 1
    while len({tuple(path[-parts:]) for path in known.values()}) < len(known):
        parts += 1
    shorter = {project: "/".join(path[-parts:]) for project, path in known.items()}
    return {
        reference: reference.replace(projects[reference], shorter[projects[reference]], 1)
        if reference in projects
        else ""
        for reference in references
    }
