"""How things are called on screen. Owns short ages, instants, and which tone a state has; pure.

A tone is never the only sign of a state: the word says it too, for terminals and people without colours.
"""

from __future__ import annotations

from textwrap import wrap
from typing import Literal

from rich.text import Text

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
"""Where less than this is left for values they go below their names."""
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))


def state(name: str) -> tuple[str, Tone]:
    """Return the word for a state with its sign, and its tone."""
    return _STATES.get(name, (name.replace("_", " "), ""))


def span(seconds: float | None) -> str:
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


def since(instant_ms: int | None, now_ms: int) -> str:
    """Return how long ago an instant was; `in 5m` for one that is to come."""
    if instant_ms is None:
        return "—"
    seconds = (now_ms - instant_ms) / 1000
    # What was written by another clock a moment ago is now.
    return f"in {span(-seconds)}" if seconds <= -1 else span(seconds)


def moment(instant_ms: int | None) -> str:
    """Return an instant to the second."""
    return "—" if instant_ms is None else f"{format_instant(instant_ms)[:19].replace('T', ' ')}Z"


def many(count: int, most: int) -> str:
    """Return a count that was taken up to a bound."""
    return f"{most:,}+" if count >= most else f"{count:,}"


def remote(text: str | None, columns: int = 200) -> str:
    """Return somebody else's text on one line, harmless and not too long."""
    return "—" if not text else shorten(one_line(text), columns)


def fields(pairs: list[tuple[str, str | None]], columns: int = 0) -> Text:
    """Return names and values, one below the other; what is empty is left out.

    Within so many columns a value goes on below its beginning; without a number, where the screen breaks it.
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
