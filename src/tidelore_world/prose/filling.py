"""Filling: how a template meets the facts of a topic.

Owns the facts drawn anew for each text (who is addressed, which change is referred to). Invariant: they
never touch a fact of the topic, so no text can change what was decided.
"""

from __future__ import annotations

from .cast import PEOPLE
from .dice import Dice
from .model import Spot, Story, Topic


def scene(dice: Dice, topic: Topic, spot: Spot) -> dict[str, str]:
    """The facts of the topic plus the passing ones of a single text about a place in the code."""
    user = dice.between(0, len(PEOPLE) - 1)
    return {
        **topic.facts,
        "user": PEOPLE[user].username,
        "other": PEOPLE[(user + dice.between(1, len(PEOPLE) - 1)) % len(PEOPLE)].username,
        "change": f"!{dice.between(40, 9800)}",
        "issue": str(dice.between(12, 9900)),
        "path": spot.path,
        "line": str(dice.between(spot.first, spot.last)),
        "n": str(dice.between(5, 60)),
    }


def capital(text: str) -> str:
    """Start a clause as a sentence."""
    return text[:1].upper() + text[1:]


def options_text(dice: Dice, story: Story) -> str:
    """The options with what speaks for and against each, in one of several layouts (a template)."""
    layout = dice.between(0, 3)
    options = story.options
    if layout == 0:
        return "\n".join(f"- **{capital(o.name)}**: {o.pro}. Downside: {o.con}." for o in options)
    if layout == 1:
        rows = "\n".join(f"| {o.name} | {o.pro} | {o.con} |" for o in options)
        return f"| option | for | against |\n| --- | --- | --- |\n{rows}"
    if layout == 2:
        return "\n".join(
            f"{number}. {capital(o.name)}\n   - for: {o.pro}\n   - against: {o.con}"
            for number, o in enumerate(options, 1)
        )
    return "\n\n".join(f"We could take {o.name}. For: {o.pro}. Against: {o.con}." for o in options)
