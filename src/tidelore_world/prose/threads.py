"""Threads: people who disagree, bring numbers, ask, answer, and decide.

Owns the order of a conversation. Invariants: the decision of the topic is stated in the last turn, or
in the one before it when somebody acknowledges it; an answer follows what it answers; a review thread
starts at a line of a file.
"""

from __future__ import annotations

from . import phrases
from .cast import PEOPLE
from .dice import Dice
from .filling import capital, scene
from .model import Person, Spot, Story, Topic, Turn
from .oddities import disturb

_QUOTED = 160
# Mentioned when the person drawn is already part of the exchange.
_GROUP = "harborline/on-call"

# A move is a kind (which says how it may be introduced) and a template; a unit is a run of moves that
# belong together, such as a question and its answer.
_Move = tuple[str, str]
_Unit = tuple[_Move, ...]


def thread(dice: Dice, topic: Topic, turns: int, *, review: bool) -> list[Turn]:
    """A conversation of exactly this many turns."""
    if turns < 1:
        return []
    acknowledged = turns >= 3 and dice.chance(0.5)
    moves = _conversation(dice, topic.story, turns - (2 if acknowledged else 1), review=review)
    moves.append(("decision", dice.pick(phrases.DECISIONS) + dice.pick(phrases.FOLLOW_UPS)))
    if acknowledged:
        moves.append(("thanks", dice.pick(phrases.ACKNOWLEDGEMENTS)))
    spot = dice.pick(topic.story.spots)
    line = dice.between(spot.first, spot.last)
    spoken = _speak(dice, topic, moves, Spot(spot.path, line, line))
    if review:
        spoken[0] = Turn(spoken[0].author, spoken[0].body, spot.path, line)
    return spoken


def comment(dice: Dice, topic: Topic, author: Person | None) -> Turn:
    """One standalone remark."""
    story = topic.story
    template = dice.pick(phrases.REMARKS)
    if dice.chance(0.4):
        template = dice.pick((story.measure, story.objection, story.question, *story.problems))
    facts = scene(dice, topic, dice.pick(story.spots))
    return Turn(author or dice.pick(PEOPLE), disturb(dice, template.format_map(facts)))


def _conversation(dice: Dice, story: Story, count: int, *, review: bool) -> list[_Move]:
    """The moves before the decision: an opening, the units that fit in their order, asides in between."""
    if count <= 0:
        return []
    kind = dice.pick(("problem", "question", "objection")) if review else "problem"
    opening, pending = _opening(dice, story, kind, review=review)
    units = [unit for unit in _units(dice, story) if unit[0][0] != kind]
    if pending is not None:
        units.insert(0, (pending,))
    kept = _fitting(dice, units, count - 1)
    for _ in range(count - 1 - sum(map(len, kept))):
        kept.insert(dice.between(0, len(kept)), (("aside", _aside(dice, review=review)),))
    return [opening, *(move for unit in kept for move in unit)]


def _opening(dice: Dice, story: Story, kind: str, *, review: bool) -> tuple[_Move, _Move | None]:
    """The first move, and the answer it asks for."""
    if kind == "question":
        return (kind, dice.pick(phrases.REVIEW_QUESTIONS) + story.question), ("answer", story.reply)
    if kind == "objection":
        return (kind, dice.pick(phrases.REVIEW_OBJECTIONS) + story.objection), ("answer", story.answer)
    lead = dice.pick(phrases.REVIEW_PROBLEMS) if review else ""
    return (kind, lead + dice.pick(story.problems)), None


def _units(dice: Dice, story: Story) -> list[_Unit]:
    """What can be said about a story, in the order in which a conversation would say it."""
    chosen = story.options[story.chosen]
    rival = story.options[(story.chosen + dice.between(1, len(story.options) - 1)) % len(story.options)]
    proposal = dice.pick(phrases.PROPOSALS).format(name=rival.name, pro=rival.pro)
    rebuttal = dice.pick(phrases.REBUTTALS).format(
        rival=rival.name, con=rival.con, name=chosen.name, Name=capital(chosen.name), pro=chosen.pro
    )
    price = dice.pick(phrases.PRICES).format(name=chosen.name, Name=capital(chosen.name), con=chosen.con)
    code = f"\n\n{story.code}" if story.code and dice.chance(0.4) else ""
    return [
        (("proposal", proposal), ("answer", rebuttal)),
        (("objection", story.objection), ("answer", story.answer)),
        (("measure", story.measure + code),),
        (("question", story.question), ("answer", story.reply)),
        (("price", price),),
    ]


def _fitting(dice: Dice, units: list[_Unit], room: int) -> list[_Unit]:
    """Units that fit into the room, drawn fairly, in their own order; a pending answer comes first."""
    order = dice.sample(range(len(units)), len(units))
    if units and units[0][0][0] == "answer":
        order.remove(0)
        order.insert(0, 0)
    kept: list[int] = []
    for index in order:
        if len(units[index]) <= room:
            room -= len(units[index])
            kept.append(index)
    return [units[index] for index in sorted(kept)]


def _aside(dice: Dice, *, review: bool) -> str:
    return dice.pick(phrases.NITS) if review and dice.chance(0.5) else dice.pick(phrases.REMARKS)


def _speak(dice: Dice, topic: Topic, moves: list[_Move], spot: Spot) -> list[Turn]:
    """Give each move to somebody other than the speaker before."""
    cast = dice.sample(PEOPLE, dice.between(2, 5))
    turns: list[Turn] = []
    speaker = 0
    for kind, template in moves:
        lead = dice.pick(phrases.LEADS[kind]) if turns and kind in phrases.LEADS else ""
        extra = dice.pick(phrases.EXTRAS[kind]) if kind in phrases.EXTRAS and dice.chance(0.35) else ""
        facts = scene(dice, topic, spot)
        facts["user"] = turns[-1].author.username if turns else cast[speaker - 1].username
        if facts["other"] in (facts["user"], cast[speaker].username):
            facts["other"] = _GROUP
        body = disturb(dice, f"{lead}{template}{extra}".format_map(facts))
        if turns and kind == "answer" and dice.chance(0.25):
            body = f"{_quote(turns[-1].body)}\n\n{body}"
        turns.append(Turn(cast[speaker], body))
        speaker = (speaker + dice.between(1, len(cast) - 1)) % len(cast)
    return turns


def _quote(body: str) -> str:
    """The first line of a message, quoted as a reply does it."""
    line = body.lstrip("> ").partition("\n")[0].rstrip()
    return f"> {line if len(line) <= _QUOTED else line[:_QUOTED].rsplit(' ', 1)[0] + ' …'}"
