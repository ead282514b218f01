"""Settling: GitLab touches a parent at most once a minute, so children read within it are read once more.

All instants are the server's: the machine's own clock runs months apart from it.
"""

from __future__ import annotations

import pytest
from tests.situations.gitlab.bench import DAY, PROJECT, Bench, create, true_bodies

from tidelore_world.gitlab.state import Item

SETTLE = 75


@pytest.fixture(params=["merge_requests", "issues"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def item(bench: Bench, kind: str) -> Item:
    """An item that was edited ten seconds ago and mirrored now."""
    found = create(bench.world, kind)
    bench.world.advance(10)
    bench.mirror(kind)
    return found


def test_a_note_written_within_the_minute_is_found_once_the_parent_has_settled(
    bench: Bench,
    kind: str,
    item: Item,
) -> None:
    at = item.updated_at_us
    bench.world.gitlab.add_note(item, "in the shadow of the touch")
    assert item.updated_at_us == at, "the note leaves no trace in the parent's instant"
    assert bench.bodies(1, kind) == []
    bench.world.advance(DAY)
    bench.mirror(kind)
    assert bench.bodies(1, kind) == ["in the shadow of the touch"]
    assert bench.watermark(1, kind) == at // 1000


def test_an_edit_within_the_minute_that_no_count_shows_is_found_once_the_parent_has_settled(
    bench: Bench,
    kind: str,
) -> None:
    forge = bench.world.gitlab
    item = create(bench.world, kind)
    note = forge.add_note(item, "as written")
    bench.world.advance(5)
    bench.mirror(kind)
    assert bench.bodies(1, kind) == ["as written"]
    at = item.updated_at_us
    forge.edit_note(item, note, "as edited")
    assert item.updated_at_us == at
    bench.world.advance(SETTLE)
    bench.mirror(kind)
    assert bench.bodies(1, kind) == ["as edited"]


def test_a_parent_is_not_requested_again_until_it_has_settled(bench: Bench, kind: str, item: Item) -> None:
    for _ in range(3):
        bench.world.advance(10)
        spent = bench.counted(lambda: bench.mirror(kind))
        assert "discussions" not in spent
    assert bench.mirror(kind)["children"]["discussions"]["waiting"] == 1
    assert bench.watermark(1, kind) is None


def test_a_parent_is_read_at_most_twice_per_version_and_then_never_again(bench: Bench, kind: str, item: Item) -> None:
    reads = 1
    for _ in range(12):
        bench.world.advance(30)
        reads += bench.counted(lambda: bench.mirror(kind))["discussions"]
    assert reads == 2
    bench.world.advance(90 * DAY)
    assert set(bench.counted(lambda: bench.mirror(kind))) == {kind}


def test_a_parent_that_had_settled_before_it_was_read_is_read_once(bench: Bench, kind: str) -> None:
    bench.world.gitlab.bulk(PROJECT, issues=3, merge_requests=3, discussions=1, notes=1, events=1, files=1)
    bench.world.advance(DAY)
    first = bench.counted(lambda: bench.mirror(kind))
    lists = {name: first[name] for name in first if name not in (kind, ":id", "graphql")}
    assert len(lists) >= 4
    assert set(lists.values()) == {3}
    assert bench.counted(lambda: bench.mirror(kind)) == {kind: 1}


@pytest.mark.parametrize("settle", [20, 300])
def test_settle_seconds_are_respected(bench: Bench, settle: int) -> None:
    bench.set_up(f"settle_seconds = {settle}")
    found = bench.world.gitlab.create_merge_request(PROJECT)
    bench.mirror()
    bench.world.advance(settle - 5)
    assert "discussions" not in bench.counted(bench.mirror)
    bench.world.advance(6)
    assert bench.counted(bench.mirror)["discussions"] == 1
    assert bench.watermark() == found.updated_at_us // 1000


def test_a_new_version_restarts_the_settling_time(bench: Bench) -> None:
    found = bench.world.gitlab.create_merge_request(PROJECT)
    bench.mirror()
    bench.world.advance(60)
    bench.world.gitlab.edit_merge_request(PROJECT, 1)
    bench.world.advance(30)
    assert bench.counted(bench.mirror)["discussions"] == 1, "the new version is read at once"
    assert bench.watermark() is None
    bench.world.gitlab.add_note(found, "late")
    bench.world.advance(SETTLE)
    bench.mirror()
    assert bench.bodies() == true_bodies(found)
    assert bench.watermark() == found.updated_at_us // 1000
