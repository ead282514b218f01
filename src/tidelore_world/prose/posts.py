"""Posts: what the company says in public about a decision, short enough for a social network.

Owns posts and the pages they link to. Invariants: at most 300 code points (so at most 300 graphemes);
at least one link, whose address is either literally in the text or left to a preview card; the post
tells the topic's own decision.
"""

from __future__ import annotations

from .dice import Dice
from .filling import capital
from .model import Link, Topic
from .setting import SITE

LIMIT = 300

_LEADS: tuple[str, ...] = (
    "",
    "New on the engineering log: ",
    "How we decided: ",
    "We argued for {days} days and then decided: ",
    "Lessons from {port}: ",
    "Shipping in {next}: ",
    "Small change, big effect: ",
    "From our {component} team: ",
    "TIL, the hard way. What we do now: ",
)
_TAILS: tuple[str, ...] = (
    "",
    "",
    " {Reason}.",
    " Why: {reason}.",
    " #logistics #engineering",
    " 🚢",
    " Thread below 👇",
)
_TRACKING: tuple[str, ...] = (
    "",
    "",
    "",
    "?utm_source=bsky",
    "?utm_source=social&utm_campaign=eng",
    "#decision",
)
_READING: tuple[Link, ...] = (
    Link("https://papers.tideline.example/append-only", "Append-only, in practice", "Nine years of ledgers."),
    Link("https://db.notes.example/partitions", "Partitions without tears", "What the manual leaves out."),
    Link("https://queue.blog.example/backpressure", "Backpressure is a feature", "Why dropping early is kind."),
    Link("https://mobile.field.example/offline-first", "Offline first, honestly", "Sync for bad networks."),
    Link("https://www.portwatch.example/reports/2026", "Port congestion report", "Waiting times by terminal."),
    Link("https://sre.reading.example/postmortems", "Postmortems worth reading", "A list, kept by hand."),
    Link("https://maps.craft.example/simplify", "Drawing fewer points", "Line simplification explained."),
    Link("https://standards.trade.example/edi", "EDI for the impatient", "Messages that still run the world."),
)


def post(dice: Dice, topic: Topic) -> tuple[str, list[Link]]:
    """A post about the topic and the pages it links to."""
    links = [_own_page(dice, topic)]
    if dice.chance(0.2):
        links.append(dice.pick(_READING))
    shown = [link.url for link in links] if dice.chance(0.6) else [link.url for link in links[1:]]
    ending = "".join(f" {url}" for url in shown)
    room = LIMIT - len(ending)
    facts = {**topic.facts, "Reason": capital(topic.reason)}
    lead = dice.pick(_LEADS).format_map(facts)
    tail = dice.pick(_TAILS).format_map(facts)
    said = f"{lead}{topic.decision}" if lead else f"We {topic.decision}"
    for text in (f"{said}.{tail}", f"{said}.", f"{capital(topic.decision)}."):
        if len(text) <= room:
            return text + ending, links
    return _shortened(topic.decision, room) + ending, links


def _own_page(dice: Dice, topic: Topic) -> Link:
    """The page of the story: topics of one story share it, as posts about one article do."""
    story = topic.story
    return Link(
        f"{SITE}/decisions/{story.slug}{dice.pick(_TRACKING)}",
        story.changes[0].format_map(topic.facts),
        f"{capital(topic.decision)}."[:200],
    )


def _shortened(text: str, room: int) -> str:
    return capital(text[: room - 2].rsplit(" ", 1)[0]) + " …"
