"""The passage of a text that answers: the decision of each of the simulator's stories, and how long texts are cut."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelore.search.passages import (
    _DECIDED,
    _STATED,
    LENGTH,
    _hits,
    _mark_places,
    _may_decide,
    best_passage,
    mark_words,
)
from tidelore.search.query import parse_query
from tidelore.search.results import _split_marks, read_snippet
from tidelore.store.reading.fulltext import CLOSING, OPENING
from tidelore_world.prose import Prose
from tidelore_world.prose.stories import STORIES


def test_the_passage_of_a_conversation_holds_the_decision_of_its_story() -> None:
    prose = Prose(random.Random(7))
    missing: set[str] = set()
    seen: set[str] = set()
    while len(seen) < len(STORIES):
        topic = prose.topic()
        if topic.story.slug in seen:
            continue
        seen.add(topic.story.slug)
        said = "\n\f\n".join(
            f"@mira (2026-03-0{n % 9 + 1}): {turn.body}" for n, turn in enumerate(prose.thread(topic, 6))
        )
        passage = best_passage(mark_words(said, parse_query(topic.title).terms)).text
        assert len(passage) - passage.count(OPENING) - passage.count(CLOSING) <= LENGTH
        words = read_snippet(passage).text.casefold()
        if topic.story.decision.partition("{")[0][:25].casefold() not in words:
            missing.add(topic.story.slug)
    assert len(missing) <= len(STORIES) // 20, sorted(missing)


@pytest.mark.parametrize(
    ("text", "query", "passage"),
    [
        (
            "Hello to everybody who reads this thread.\n\nThe crane stops at 40 % because of the rope.\n\nBye now.",
            "crane rope",
            "The crane stops at 40 %",
        ),
        (
            "@noor (2026-03-01): # Speed\n\nThe crane is slow.\n\f\n@mira (2026-03-02): Yes.",
            "crane",
            "@noor (2026-03-01): # Speed The crane",
        ),
        (
            "The crane? The crane! Crane. Is it really the crane?\n\nDecision: the lift runs at half speed.",
            "crane",
            "Decision: the lift",
        ),
        ("Cranes were running late.", "crane runs", "Cranes were running late."),
        ("", "crane", ""),
    ],
    ids=["most words", "speaker and heading", "decision", "other forms of the words", "empty"],
)
def test_the_best_paragraph_is_chosen(text: str, query: str, passage: str) -> None:
    found = read_snippet(best_passage(mark_words(text, parse_query(query).terms)).text)
    assert found.text.startswith(passage)


def test_a_long_paragraph_is_cut_around_its_first_hit_and_marked_as_cut() -> None:
    text = f"{'ballast ' * 200}crane {'ballast ' * 200}"
    found = read_snippet(best_passage(mark_words(text, parse_query("crane").terms)).text)
    assert len(found.text) <= LENGTH
    assert (found.text[0], found.text[-1]) == ("…", "…")
    assert [found.text[start:end] for start, end in found.highlights] == ["crane"]


@given(st.text(f"ab {OPENING}{CLOSING}", max_size=30), st.integers(0, 5))
def test_marks_are_found_as_a_pattern_finds_them(text: str, begin: int) -> None:
    pattern = re.compile(f"[{OPENING}{CLOSING}]")
    assert list(_mark_places(text, begin)) == [found.start() for found in pattern.finditer(text, begin)]
    assert _hits(text) == set(re.findall(f"{OPENING}([^{OPENING}{CLOSING}]*){CLOSING}", text))
    assert list(_split_marks(text)) == re.split(f"([{OPENING}{CLOSING}])", text)


@given(
    st.text("decisonhgwtul :#@\n", max_size=60)
    | st.sampled_from(["We chose it", "Decision: go", "we are going with x"])
)
def test_what_tells_of_a_decision_has_one_of_the_hints(text: str) -> None:
    if _STATED.search(text.lower()) or _DECIDED.search(text.lower()):
        assert _may_decide(text.lower())
