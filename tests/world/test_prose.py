"""The prose of the simulated world: one seed gives one text, and every text about a topic tells one story."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from itertools import pairwise
from string import Formatter

import pytest

from tidelore_world.prose import Person, Prose, Topic, Turn
from tidelore_world.prose.notes import KINDS
from tidelore_world.prose.setting import PROJECTS
from tidelore_world.prose.stories import STORIES

FACTS = (
    "customer|port|region|carrier|version|slow|fast|big|small|pct|days|gb|inc|whose|next|decision|reason|chosen|user|n"
)
UNFILLED = re.compile(rf"\{{({FACTS})\}}")


@pytest.fixture
def prose() -> Prose:
    return Prose(random.Random(1))


def everything(prose: Prose) -> list[object]:
    """One of each text, in a fixed order."""
    topic = prose.topic()
    body = prose.issue_body(topic)
    return [
        topic,
        prose.issue_title(topic),
        body,
        prose.change_title(topic),
        prose.change_body(topic),
        prose.thread(topic, 6),
        prose.thread(topic, 4, review=True),
        prose.comment(topic),
        prose.system_note("assigned"),
        prose.revise(body),
        prose.post(topic),
        prose.branch(topic),
        prose.sha(),
    ]


def closing(turns: list[Turn]) -> str:
    return "\n".join(turn.body.replace("\r\n", "\n") for turn in turns[-2:])


def test_the_same_seed_generates_the_same_texts() -> None:
    one, two = Prose(random.Random(1)), Prose(random.Random(1))
    assert [everything(one) for _ in range(50)] == [everything(two) for _ in range(50)]


def test_another_seed_generates_other_texts() -> None:
    assert everything(Prose(random.Random(1))) != everything(Prose(random.Random(2)))


def test_all_randomness_comes_from_the_given_generator() -> None:
    first, again = random.Random(3), random.Random(3)
    random.seed(1)
    one = everything(Prose(first))
    random.seed(2)
    assert everything(Prose(again)) == one
    assert first.getstate() == again.getstate()


@pytest.mark.parametrize("review", [False, True])
@pytest.mark.parametrize("turns", [1, 2, 3, 5, 9, 40])
def test_a_thread_has_the_requested_length_and_ends_with_the_decision(prose: Prose, turns: int, review: bool) -> None:
    for _ in range(60):
        topic = prose.topic()
        thread = prose.thread(topic, turns, review=review)
        assert len(thread) == turns
        assert topic.decision in closing(thread)
        assert re.search(r"decision|decided", closing(thread), re.IGNORECASE)


def test_a_thread_of_no_turns_is_empty(prose: Prose) -> None:
    assert prose.thread(prose.topic(), 0) == []


def test_only_the_first_turn_of_a_review_points_at_code(prose: Prose) -> None:
    for _ in range(100):
        topic = prose.topic()
        first, *rest = prose.thread(topic, 4, review=True)
        spot = next(spot for spot in topic.story.spots if spot.path == first.path)
        assert first.path in topic.paths
        assert first.line is not None
        assert spot.first <= first.line <= spot.last
        assert all(turn.path is None and turn.line is None for turn in rest)
        assert all(turn.path is None for turn in prose.thread(topic, 4))


def test_no_author_replies_to_their_own_comment(prose: Prose) -> None:
    for _ in range(100):
        thread = prose.thread(prose.topic(), 8)
        assert all(one.author != two.author for one, two in pairwise(thread))


def test_a_reply_follows_the_comment_it_answers(prose: Prose) -> None:
    for _ in range(300):
        topic = prose.topic()
        bodies = [turn.body.replace("\r\n", "\n") for turn in prose.thread(topic, 7, review=True)]
        for asked, answered in (("question", "reply"), ("objection", "answer")):
            request = getattr(topic.story, asked).format_map(topic.facts)
            response = getattr(topic.story, answered).format_map(topic.facts)
            places = [index for index, body in enumerate(bodies) if response in body]
            assert all(any(request in body for body in bodies[:index]) for index in places)


def test_change_and_post_carry_the_decision_of_the_topic(prose: Prose) -> None:
    for _ in range(300):
        topic = prose.topic()
        change = prose.change_body(topic).replace("\r\n", "\n").lower()
        assert topic.decision.lower() in change or topic.facts["chosen"].lower() in change
        text, _links = prose.post(topic)
        assert topic.decision.lower() in text.lower()


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "x",
        "A title without a full stop",
        "Ends (again)",
        "We will see.",
        "line\r\nline\r\n",
        "trailing \n\n",
        "7" * 4000,
    ],
)
def test_a_revised_text_always_differs(prose: Prose, text: str) -> None:
    for _ in range(200):
        assert prose.revise(text) != text


def test_every_further_revision_changes_the_text(prose: Prose) -> None:
    topic = prose.topic()
    for text in (prose.issue_body(topic), prose.issue_title(topic), prose.thread(topic, 3)[0].body):
        for _ in range(40):
            revised = prose.revise(text)
            assert revised != text
            text = revised


def test_a_revised_title_stays_a_title(prose: Prose) -> None:
    for _ in range(200):
        title = prose.issue_title(prose.topic())
        for _ in range(5):
            title = prose.revise(title)
        assert "\n" not in title
        assert len(title) <= 255


def test_a_revised_text_keeps_carriage_returns(prose: Prose) -> None:
    for _ in range(50):
        revised = prose.revise("One line.\r\nAnother one.")
        assert "\n" not in revised.replace("\r\n", "")


def test_posts_fit_the_length_limit_and_contain_their_links(prose: Prose) -> None:
    shown = cards = 0
    for _ in range(3000):
        text, links = prose.post(prose.topic())
        assert len(text) <= 300
        assert links
        assert all(link.url.startswith("https://") and link.title and link.description for link in links)
        written = {word for word in text.split() if word.startswith("https://")}
        assert written <= {link.url for link in links}
        missing = [link for link in links if link.url not in written]
        assert missing in ([], links[:1])  # a post has room for one preview card
        shown += not missing
        cards += bool(missing)
    assert shown > 1000
    assert cards > 800


def test_posts_about_one_story_share_its_link(prose: Prose) -> None:
    pages: dict[str, set[str]] = {}
    for _ in range(500):
        topic = prose.topic()
        _text, links = prose.post(topic)
        pages.setdefault(topic.story.slug, set()).add(re.split(r"[?#]", links[0].url)[0])
    assert all(len(urls) == 1 for urls in pages.values())


@pytest.mark.parametrize(
    ("write", "share"),
    [
        (lambda prose, topic: prose.issue_body(topic), 0.95),
        (lambda prose, topic: prose.change_body(topic), 0.95),
        (lambda prose, topic: prose.issue_title(topic), 0.75),
        (lambda prose, topic: topic.slug, 0.95),
    ],
    ids=["issue_body", "change_body", "issue_title", "slug"],
)
def test_generated_texts_vary(prose: Prose, write: Callable[[Prose, Topic], str], share: float) -> None:
    texts = [write(prose, prose.topic()) for _ in range(5000)]
    assert len(set(texts)) > share * len(texts)


def test_generated_texts_contain_no_unfilled_placeholder(prose: Prose) -> None:
    for _ in range(1500):
        for text in map(str, everything(prose)[1:]):
            assert UNFILLED.search(text) is None, text


def test_generated_texts_include_rare_long_and_unusual_content(prose: Prose) -> None:
    bodies = [prose.issue_body(prose.topic()) for _ in range(5000)]
    assert any("\r\n" in body for body in bodies)
    assert any(len(body) > 4000 for body in bodies)
    assert any(len(line) > 1500 for body in bodies for line in body.split("\n"))
    assert any(re.search(r"[\u0400-\u04ff\u0600-\u06ff\u3040-\u30ff\uac00-\ud7a3]", body) for body in bodies)
    assert any(re.search(r"[\U0001f300-\U0001faff]", body) for body in bodies)
    assert sum("\r\n" in body for body in bodies) < 100


def test_there_are_at_least_sixty_complete_stories() -> None:
    assert len({story.slug for story in STORIES}) == len(STORIES) >= 60
    for story in STORIES:
        assert len(story.titles) >= 3
        assert len(story.problems) >= 3
        assert 2 <= len(story.options) <= 3
        assert 0 <= story.chosen < len(story.options)
        assert all(1 <= spot.first < spot.last for spot in story.spots)
        assert not story.decision.endswith(".")


def test_every_placeholder_of_a_story_is_a_fact_of_its_topic(prose: Prose) -> None:
    known = set(prose.topic().facts)
    for story in STORIES:
        options = (text for option in story.options for text in (option.name, option.pro, option.con))
        single = (story.objection, story.answer, story.question, story.reply, story.measure, story.code)
        for text in (*story.titles, *story.changes, *story.problems, *options, *single, story.decision, story.reason):
            assert {name for _, name, _, _ in Formatter().parse(text) if name} <= known


def test_a_project_uses_only_its_own_topics(prose: Prose) -> None:
    for project in prose.project_paths():
        components = PROJECTS[project]
        drawn = {prose.topic(project).component for _ in range(40)}
        assert drawn <= set(components) if components else len(drawn) > 3
    assert {part for parts in PROJECTS.values() for part in parts} == {story.component for story in STORIES}


def test_generated_authors_are_unique_and_can_be_given(prose: Prose) -> None:
    assert len({person.username for person in prose.people}) == len(prose.people) >= 24
    assert all(person.username.isascii() for person in prose.people)
    guest = Person("guest", "A guest")
    assert prose.comment(prose.topic(), guest).author == guest
    assert prose.comment(prose.topic()).author in prose.people


def test_system_notes_use_the_given_facts(prose: Prose) -> None:
    assert prose.system_note("label_added", label="backend") == 'added ~"backend" label'
    assert prose.system_note("assigned", user="mira.holt") == "assigned to @mira.holt"
    assert prose.system_note("title", old="A", new="B") == "changed title from **A** to **B**"
    assert all("{" not in prose.system_note(kind) for kind in KINDS)
    with pytest.raises(ValueError, match="label_added"):
        prose.system_note("labelled")


def test_generated_shas_branches_and_titles_are_valid(prose: Prose) -> None:
    for _ in range(500):
        topic = prose.topic()
        assert re.fullmatch(r"[0-9a-f]{40}", prose.sha())
        assert re.fullmatch(r"[a-z0-9]+(?:[-/][a-z0-9]+)*", prose.branch(topic))
        assert len(prose.issue_title(topic)) <= 255
        assert len(prose.change_title(topic)) <= 255


def test_no_author_mentions_themselves_in_a_thread(prose: Prose) -> None:
    for _ in range(400):
        for turn in prose.thread(prose.topic(), 6):
            own_words = "\n".join(line for line in turn.body.splitlines() if not line.startswith(">"))
            assert f"@{turn.author.username}" not in own_words
