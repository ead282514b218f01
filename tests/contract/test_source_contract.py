"""The contract of a source, held by GitLab, GitHub and a toy tracker that only the tests know.

The toy tracker is a folder (`tests/toy`), one line in the registry and a `[[toy]]` table: nothing else of the program
knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import TypeVar

import pytest
from tests.contract.source_houses import HOUSES, PROJECT, SourceHouse
from tests.properties.inprocess import Reaper
from tests.support.deep import gate_cases
from tests.toy.source import TOY, ToyHost, open_toy

from tidelore.app.searching import SearchQuestion, search
from tidelore.core.config import GitHubHost, GitLabHost, Host
from tidelore.engine.crashpoint import Seam
from tidelore.engine.ports import ListRequest
from tidelore.sources.github.source import open_github
from tidelore.sources.gitlab.source import open_gitlab
from tidelore.sources.ports import ProjectSource, Wiring
from tidelore.sources.registry import also, forges

SETTLED_SECONDS = 120
"""After this long without changes all comments count as read."""
H = TypeVar("H", bound=Host)
Build = Callable[..., SourceHouse]


Open = Callable[[H, Wiring], AbstractAsyncContextManager[ProjectSource]]


def checked(open_host: Open[H], table: type[H]) -> tuple[object, type[Host]]:
    """Let the type checker compare the function of a forge with the protocol: the registry knows only its path."""
    return open_host, table


OPENERS = (checked(open_gitlab, GitLabHost), checked(open_github, GitHubHost), checked(open_toy, ToyHost))


def test_the_registry_leads_to_the_functions_that_are_checked_by_their_types() -> None:
    with also(TOY):
        assert tuple((forge.function, forge.table) for forge in forges()) == OPENERS


@pytest.fixture(params=sorted(HOUSES))
def build(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Build]:
    """Build a house of each forge; the toy tracker is registered meanwhile."""
    house = HOUSES[request.param]
    with also(TOY) if house.kind == "toy" else nullcontext():
        yield lambda **options: house(tmp_path, **options)


@pytest.fixture
def house(build: Build) -> SourceHouse:
    """A project with seven issues, more than two pages, of which some have comments."""
    house = build()
    furnish(house)
    return house


def furnish(house: SourceHouse, issues: int = 7) -> None:
    for place in range(issues):
        number = house.open(f"crane {place}", f"the text of crane {place}")
        for said in range(place % 3 * 2):
            house.say(number, f"comment {said} on crane {place}")
        house.world.advance(10)
    house.world.advance(SETTLED_SECONDS)


def settled(house: SourceHouse) -> None:
    """Sync, let time pass, and sync again."""
    house.sync()
    house.world.advance(SETTLED_SECONDS)
    house.sync()


@pytest.mark.parametrize("by_creation", [False, True])
def test_the_list_of_issues_has_the_order_that_is_asked_for(house: SourceHouse, *, by_creation: bool) -> None:
    for number in reversed(house.truth()):
        house.edit(number, "edited in the reverse order")
        house.world.advance(5)

    async def read(source: ProjectSource) -> list[tuple[int, int]]:
        project = await source.resolve(PROJECT)
        lister = source.listing("issues", project.remote_id, by_creation=by_creation)
        found: list[tuple[int, int]] = []
        token = None
        for _ in range(10):
            page = await lister.fetch(ListRequest(token=token))
            found += [(item.at, item.record.iid) for item in page.items]
            token = page.next_token
            if token is None:
                break
        return found

    found = house.ask(read)
    assert found == sorted(found)
    numbers = list(house.truth())
    assert [number for _, number in found] == (sorted(numbers) if by_creation else sorted(numbers, reverse=True))


def test_the_first_sync_copies_every_issue_and_comment(house: SourceHouse) -> None:
    house.sync()
    assert len(house.truth()) == 7
    assert sum(len(said) for *_, said in house.truth().values()) == 12
    assert house.copy() == house.truth()
    assert house.problems() == []


def test_edits_new_issues_and_comments_are_seen_by_the_next_sync(house: SourceHouse) -> None:
    settled(house)
    first, second = list(house.truth())[:2]
    house.edit(first, "another text")
    house.world.advance(5)
    house.close(second)
    house.world.advance(5)
    house.say(house.open("a new one"), "and its comment")
    house.world.advance(SETTLED_SECONDS)
    house.sync()
    assert house.copy() == house.truth()


def test_a_deleted_comment_is_removed_when_its_issue_changes(house: SourceHouse) -> None:
    number = house.open("soon quieter")
    comment = house.say(number, "said in error")
    house.say(number, "this stays")
    settled(house)
    assert house.copy()[number][3] == ("said in error", "this stays")
    house.unsay(number, comment)
    house.world.advance(5)
    house.edit(number, "touched")
    house.world.advance(SETTLED_SECONDS)
    settled(house)
    assert house.copy() == house.truth()
    assert house.copy()[number][3] == ("this stays",)


@gate_cases(2)
def test_a_deleted_comment_is_found_by_verification(house: SourceHouse) -> None:
    number = house.open("soon quieter")
    comment = house.say(number, "said in error")
    house.world.advance(SETTLED_SECONDS)
    settled(house)
    house.unsay(number, comment)
    for _ in range(12):
        house.world.advance(SETTLED_SECONDS)
        house.sync(scrub_budget=100)
    assert house.copy() == house.truth()


def test_a_deleted_issue_is_found_by_verification_and_leaves_a_tombstone(house: SourceHouse) -> None:
    settled(house)
    gone = next(number for number, (*_, said) in house.truth().items() if said)
    house.delete(gone)
    house.sync()
    assert gone in house.copy(), "no list shows a deletion"
    house.world.advance(SETTLED_SECONDS)
    house.sync(scrub_budget=100)
    assert gone not in house.copy()
    assert house.copy() == house.truth()
    rows = house.rows(
        "SELECT title, description FROM issues WHERE iid = :iid AND deleted_at IS NOT NULL", {"iid": gone}
    )
    assert [tuple(row) for row in rows] == [("", None)]
    said = (
        "SELECT COUNT(*) FROM notes n JOIN discussions d ON d.id = n.discussion_id JOIN issues i ON i.id = d.issue_id"
    )
    assert house.rows(f"{said} WHERE i.iid = :iid", {"iid": gone}) == [(0,)]
    assert house.problems() == []


def test_a_quiet_sync_costs_the_same_few_requests_for_any_number_of_issues(build: Build) -> None:
    house = build(per_page=50)
    for size in (3, 40):
        furnish(house, size)
        settled(house)
        house.world.advance(SETTLED_SECONDS)
        assert house.count_requests(house.sync) == house.quiet_requests


@gate_cases(2)
def test_a_process_killed_at_any_point_loses_nothing_and_stores_nothing_twice(build: Build) -> None:
    house = build()
    furnish(house, 4)
    visits = 0
    while visits < 400:
        reaper = Reaper(visits)
        if house.run(reaper) is not None:
            break
        # Every process comes one seam further than the one before it could; now and then something happens between.
        visits += 1
        if visits % 10 == 0:
            house.edit(1, f"edited after {visits} seams")
            house.world.advance(3)
    assert 10 < visits < 400
    house.world.advance(SETTLED_SECONDS)
    settled(house)
    assert house.copy() == house.truth()
    assert house.problems() == []


@pytest.mark.parametrize("seam", [Seam.AFTER_FETCH, Seam.INSIDE_COMMIT, Seam.AFTER_COMMIT])
@gate_cases(3)
def test_a_process_killed_at_each_page_continues_where_it_was(house: SourceHouse, seam: Seam) -> None:
    for visit in range(30):
        if house.run(Reaper(visit, seam)) is not None:
            break
        with house.database() as database:
            assert [row[0] for row in database.read("SELECT iid FROM issues GROUP BY iid HAVING COUNT(*) > 1")] == []
    assert 1 < visit < 29, "it died several times, and ended"
    house.world.advance(SETTLED_SECONDS)
    settled(house)
    assert house.copy() == house.truth()


def test_an_audit_finds_no_difference_in_a_true_copy_and_every_falsified_row(house: SourceHouse) -> None:
    settled(house)
    assert house.audit().differences == []
    first, second, third = list(house.truth())[:3]
    house.change(f"UPDATE issues SET content_hash = X'00' WHERE iid = {first}")
    house.delete(second)
    house.say(third, "not in the copy")
    found = {(one.verdict, one.kind, one.iid) for one in house.audit().differences}
    assert {("different", "issues", first), ("extra", "issues", second)} <= found
    assert any(verdict == "missing" and iid == third for verdict, _, iid in found), found


def test_one_issue_is_refreshed_with_its_comments_and_nothing_else(house: SourceHouse) -> None:
    settled(house)
    first, second = list(house.truth())[:2]
    before = house.copy()
    for number in (first, second):
        house.edit(number, "a newer text")
        house.say(number, "a newer comment")
    house.world.advance(SETTLED_SECONDS)
    report = house.refresh(first)
    assert [(one.iid, one.completed, one.failures) for one in report.entity_outcomes] == [(first, True, [])]
    assert house.copy()[first] == house.truth()[first]
    assert house.copy()[second] == before[second]


def test_its_texts_become_documents_and_are_found_by_search(house: SourceHouse) -> None:
    number = house.open("Bollard torque", "the mooring winch slips")
    house.say(number, "grease the hawser drum")
    house.world.advance(SETTLED_SECONDS)
    house.sync(documents=True)
    for words in ("mooring winch", "hawser drum"):
        page = search(house.app(), SearchQuestion(text=words, mode="lexical"))
        assert [(found.project, found.iid) for found in page.items[:1]] == [(PROJECT, number)], words
