"""Issues: titles and bodies that state a problem, weigh the options, and leave the decision to the thread.

Owns the layouts of an issue. Invariant: all of them are filled from one topic.
"""

from __future__ import annotations

from . import phrases
from .dice import Dice
from .filling import options_text, scene
from .model import Topic
from .oddities import disturb

_TITLE_FORMS = ("{}", "{}", "{}", "{}", "[{component}] {}", "{component}: {}")


def issue_title(dice: Dice, topic: Topic) -> str:
    """The topic's title, sometimes with the component in front as some teams like it."""
    form = dice.pick(_TITLE_FORMS)
    if form == "{}" or topic.title.lower().startswith(topic.component):
        return topic.title
    return form.format(topic.title, component=topic.component)


def issue_body(dice: Dice, topic: Topic) -> str:
    """A description in Markdown."""
    layout = dice.pick(_LAYOUTS)
    template = f"{dice.pick(phrases.OPENERS)}{layout(dice, topic)}{dice.pick(phrases.CLOSERS)}"
    facts = scene(dice, topic, dice.pick(topic.story.spots))
    facts["question"] = topic.story.question.format_map(facts)
    return disturb(dice, template.format_map(facts))


def _report(dice: Dice, topic: Topic) -> str:
    story = topic.story
    first, second = dice.sample(story.problems, 2)
    return (
        f"## What happens\n\n{first}\n\n{second}\n\n## Impact\n\n{dice.pick(phrases.IMPACTS)}\n\n"
        f"## What we could do\n\n{options_text(dice, story)}"
    )


def _proposal(dice: Dice, topic: Topic) -> str:
    story = topic.story
    code = f"\n\n{story.code}" if story.code and dice.chance(0.6) else ""
    return (
        f"### Context\n{dice.pick(story.problems)} {dice.pick(phrases.IMPACTS)}{code}\n\n"
        f"### Options\n{options_text(dice, story)}\n\n### Numbers\n{story.measure}"
    )


def _plain(dice: Dice, topic: Topic) -> str:
    story = topic.story
    return f"{dice.pick(story.problems)}\n\n{dice.pick(phrases.IMPACTS)} {dice.pick(phrases.NOTES)}"


def _question(dice: Dice, topic: Topic) -> str:
    story = topic.story
    return (
        f"{dice.pick(story.problems)}\n\n{options_text(dice, story)}\n\n"
        f"What speaks against the obvious answer: {story.objection}"
    )


def _checklist(dice: Dice, topic: Topic) -> str:
    story = topic.story
    places = "\n".join(f"- [ ] `{spot.path}` (lines {spot.first}-{spot.last})" for spot in story.spots)
    return (
        f"**Problem.** {dice.pick(story.problems)}\n\n**Places to look at**\n\n{places}\n"
        f"- [ ] runbook and changelog\n\n{dice.pick(phrases.IMPACTS)}"
    )


_LAYOUTS = (_report, _proposal, _plain, _question, _checklist)
