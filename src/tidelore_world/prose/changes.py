"""Changes: titles, descriptions and branch names of merge and pull requests that carry a decision out.

Owns their layouts. Invariant: a change does what the topic decided, never another option.
"""

from __future__ import annotations

from . import phrases
from .cast import PEOPLE
from .dice import Dice
from .filling import capital, options_text, scene
from .model import Topic
from .oddities import disturb

_TITLE_FORMS = ("{}", "{}", "{}", "{}", "Draft: {}", "{} ({component})", "{} [{region}]")
_BRANCH_FORMS = ("{slug}", "feature/{slug}", "fix/{slug}", "{component}/{slug}", "{user}/{slug}")


def change_title(dice: Dice, topic: Topic) -> str:
    """A title in the imperative, one of the story's variants."""
    title = dice.pick(topic.story.changes).format_map(topic.facts)
    form = dice.pick(_TITLE_FORMS)
    if "component" in form and title.lower().startswith(topic.component):
        form = "{}"
    return form.format(title, component=topic.component, region=topic.facts["region"])


def branch(dice: Dice, topic: Topic) -> str:
    """A source branch for the topic."""
    user = dice.pick(PEOPLE).username.partition(".")[0]
    return dice.pick(_BRANCH_FORMS).format(slug=topic.slug, component=topic.component, user=user)


def change_body(dice: Dice, topic: Topic) -> str:
    """A description that says what is done, why, and how it was tested."""
    layout = dice.pick(_LAYOUTS)
    template = layout(dice, topic)
    return disturb(dice, template.format_map(scene(dice, topic, dice.pick(topic.story.spots))))


def _full(dice: Dice, topic: Topic) -> str:
    story = topic.story
    code = f"\n\n{story.code}" if story.code and dice.chance(0.7) else ""
    return (
        f"## What\n\n{capital(story.decision)}.{code}\n\n## Why\n\n{dice.pick(story.problems)}\n\n"
        f"We chose this because {{reason}}.\n\n## How tested\n\n- {dice.pick(phrases.TESTING)}\n"
        f"- {story.measure}\n\n## Rollout\n\n{dice.pick(phrases.ROLLOUTS)}\n\nCloses #{{issue}}"
    )


def _short(dice: Dice, topic: Topic) -> str:
    return (
        f"Implements what we decided in #{{issue}}: {{decision}}.\n\n{topic.story.measure}\n\n"
        f"{dice.pick(phrases.ROLLOUTS)}"
    )


def _considered(dice: Dice, topic: Topic) -> str:
    story = topic.story
    return (
        f"{dice.pick(story.problems)}\n\n**Considered**\n\n{options_text(dice, story)}\n\n"
        f"**Chosen**: {{chosen}}, because {{reason}}.\n\n{dice.pick(phrases.TESTING)}\n\n"
        f"Related to #{{issue}} and {{change}}."
    )


def _files(dice: Dice, topic: Topic) -> str:
    files = "\n".join(f"- `{spot.path}`" for spot in topic.story.spots)
    return (
        f"Closes #{{issue}}.\n\nWith this we {{decision}}.\n\nMain files:\n\n{files}\n\n"
        f"{dice.pick(phrases.TESTING)} {dice.pick(phrases.ROLLOUTS)}\n\n"
        "@{user} please look at the first file with care."
    )


_LAYOUTS = (_full, _short, _considered, _files)
