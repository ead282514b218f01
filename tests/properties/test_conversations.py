"""Whatever is said, deleted, resolved or pushed, and wherever the process dies: the copy ends up equal to the truth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.audit import compare
from tests.properties.conversing import Crowd, Episode, conversations, play_episode
from tests.properties.effort import examples
from tests.properties.inprocess import PROJECT, House, scratch
from tests.properties.offspring import shown, stored

LISTS = 2
EVENT_LISTS = 3
WHOLE = 100
"""A page that holds every list of these conversations."""


def talk(per_page: int, *, reviewers: bool, conversation: list[Episode]) -> None:
    """Play a conversation, let it fall quiet, compare; verify everything once, compare all."""
    with scratch() as folder:
        house = House(folder, per_page=per_page, scrub_share=0.0, concurrency=3, reviewers=reviewers)
        forge = house.world.gitlab
        forge.list_omits_reviewers = reviewers
        forge.bulk(PROJECT, issues=2, merge_requests=2, discussions=2, notes=2, events=1, files=2)
        crowd = Crowd(house.world)
        for planned in conversation:
            play_episode(house, crowd, planned, house.run)
        for _ in range(2):
            # Two days: longer than any pause before what failed is tried again.
            house.world.advance(2 * 86_400)
            report = house.run()
            assert report is not None
            assert [scope.error for scope in report.scopes] == [None] * LISTS
        every_word_is_here(house)
        house.run(scrub_budget=5000)
        compare(house, exact=True)
        if per_page == WHOLE:
            assert house.count_requests(house.run) == LISTS
            assert quiet_costs(house) <= {LISTS, LISTS + 1, LISTS + EVENT_LISTS}


def quiet_costs(house: House) -> set[int]:
    """What runs with nothing to do cost: the lists, and one request of verification or the three lists of events."""
    costs = []
    for _ in range(2 * EVENT_LISTS):
        house.world.advance(600)
        costs.append(house.count_requests(lambda: house.run(scrub_budget=1)))
    # Of so many runs the first and the last may be dear.
    assert costs.count(LISTS + EVENT_LISTS) <= 2
    return set(costs)


def every_word_is_here(house: House) -> None:
    """What somebody wrote moves the parent or falls into the minute that settling waits for: no scrub needed."""
    with house.database() as database:
        for resource in ("issues", "merge_requests"):
            held, wanted = stored(database, PROJECT, resource), shown(house.world.gitlab, PROJECT, resource)
            for key, notes in wanted.items():
                if key[1] == "notes":
                    # The number, the thread, and the text of everything that is not the system's.
                    words = {(note[0], note[1], note[3]) for note in notes if not note[5]}
                    missing = words - {(note[0], note[1], note[3]) for note in held[key]}
                    assert not missing, f"{resource} {key}: {missing}"


@examples(few=25, many=400)
@given(st.sampled_from((3, WHOLE)), st.booleans(), conversations)
def test_a_conversation_is_copied_completely_despite_edits_faults_and_crashes(
    per_page: int,
    reviewers: bool,
    conversation: list[Episode],
) -> None:
    talk(per_page, reviewers=reviewers, conversation=conversation)


@pytest.mark.deep
@examples(few=25, many=1000)
@given(st.sampled_from((3, WHOLE)), st.booleans(), conversations)
def test_many_random_conversations_are_copied_completely(
    per_page: int,
    reviewers: bool,
    conversation: list[Episode],
) -> None:
    talk(per_page, reviewers=reviewers, conversation=conversation)
