"""Topics: a story with its slots filled from the setting.

Owns the one place where the facts of a topic are drawn. Invariant: every text about a topic is filled
from the same facts, so the customer, the numbers and the decision agree everywhere.
"""

from __future__ import annotations

from .dice import Dice
from .model import Story, Topic
from .setting import CARRIERS, CUSTOMERS, PORTS, PROJECTS, REGIONS
from .stories import STORIES

# What a title may carry in brackets, if it does not say so already; None leaves it alone.
_ASIDES = (None, None, "customer", "region", "version", "port", "inc", "carrier", "customer", "inc")


class TopicSource:
    """Draws topics, for the whole product or for one repository."""

    __slots__ = ("_by_project", "_dice")

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._by_project: dict[str | None, tuple[Story, ...]] = {None: STORIES}

    def draw(self, project: str | None = None) -> Topic:
        """Draw a topic; `project` limits it to the stories of that repository, if it has any."""
        stories = self._by_project.get(project)
        if stories is None:
            stories = self._by_project[project] = _stories_of(project)
        story = self._dice.pick(stories)
        facts = self._facts(story)
        return Topic(
            slug=f"{story.slug}-{facts['tag']}",
            component=story.component,
            title=_title(facts, self._dice.pick(_ASIDES)),
            labels=story.labels,
            paths=tuple(spot.path for spot in story.spots),
            story=story,
            facts=facts,
        )

    def _facts(self, story: Story) -> dict[str, str]:
        pick, between = self._dice.pick, self._dice.between
        slow = between(240, 3900)
        customer = pick(CUSTOMERS)
        major, minor = between(3, 6), between(0, 28)
        facts = {
            "component": story.component,
            "customer": customer,
            "whose": f"{customer}'" if customer.endswith("s") else f"{customer}'s",
            "port": pick(PORTS),
            "region": pick(REGIONS),
            "carrier": pick(CARRIERS),
            "version": f"v{major}.{minor}.{between(0, 9)}",
            "next": f"v{major}.{minor + 1}.0",
            "slow": f"{slow:,}",
            "fast": str(max(4, slow * between(4, 30) // 100)),
            "big": f"{between(21, 9800) * 100:,}",
            "small": str(between(3, 19)),
            "pct": f"{between(41, 387) / 10:.1f}",
            "days": str(between(2, 45)),
            "gb": str(between(6, 480)),
            "inc": f"INC-{between(1180, 4620)}",
            "tag": f"{customer.split()[0].lower()}-{between(2, 999)}",
        }
        facts["title"] = pick(story.titles).format_map(facts)
        facts["decision"] = story.decision.format_map(facts)
        facts["reason"] = story.reason.format_map(facts)
        facts["chosen"] = story.options[story.chosen].name.format_map(facts)
        return facts


def _title(facts: dict[str, str], aside: str | None) -> str:
    title = facts["title"]
    return title if aside is None or facts[aside] in title else f"{title} ({facts[aside]})"


def _stories_of(project: str | None) -> tuple[Story, ...]:
    components = PROJECTS.get(project or "", ())
    return tuple(story for story in STORIES if story.component in components) or STORIES
