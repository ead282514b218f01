"""What may go wrong with the children of an item, each by name, over the whole program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.properties.audit import compare
from tests.properties.inprocess import PROJECT, House
from tests.properties.progress import Task, asked_for, completed

from tidelore_world.gitlab.state import Item

HOUR = 3600


def asked(house: House, **how: object) -> list[Task]:
    """Run once and tell which children were asked for."""
    house.world.log.clear()
    assert house.run(**how) is not None  # type: ignore[arg-type]
    return asked_for(house.world.log)


def settled_house(folder: Path, *, max_retries: int = 3) -> tuple[House, Item]:
    """An issue with two notes, copied when all had been quiet for long."""
    house = House(folder, scrub_share=0.0, max_retries=max_retries)
    forge = house.world.gitlab
    issue = forge.create_issue(PROJECT)
    forge.add_note(issue, "first")
    forge.add_note(issue, "second")
    forge.add_note(issue, "written by the system", system=True)
    house.world.advance(HOUR)
    house.run()
    compare(house)
    return house, issue


@pytest.mark.parametrize("skew_ms", [0, 200_000, -200_000], ids=["in-step", "ahead", "behind"])
def test_a_note_added_without_a_parent_update_is_found_once_the_parent_has_settled(
    tmp_path: Path, skew_ms: int
) -> None:
    """Whatever the clock of this machine says; read early once, read settled once, and never again."""
    house = House(tmp_path, scrub_share=0.0, skew_ms=skew_ms)
    forge = house.world.gitlab
    issue = forge.create_issue(PROJECT)
    note = forge.add_note(issue, "as it was")
    house.world.advance(3)
    project = forge.project(PROJECT).id
    discussions = (project, "issues", issue.iid, "discussions")
    assert asked(house).count(discussions) == 1
    # Not even the number of notes tells of this.
    forge.edit_note(issue, note, "nobody is told of this")
    assert issue.updated_at_us < house.world.clock.now_us
    house.world.advance(20)
    assert discussions not in asked(house)
    house.world.advance(60)
    assert asked(house).count(discussions) == 1
    compare(house)
    assert asked(house) == []


@pytest.mark.parametrize("whole", [False, True], ids=["reply", "thread"])
def test_a_deleted_note_leaves_neither_row_nor_payload(tmp_path: Path, whole: bool) -> None:
    """The number of notes in the list's own row tells; the earlier versions of the thread are forgotten with it."""
    house, issue = settled_house(tmp_path)
    forge = house.world.gitlab
    opening = forge.add_note(issue, "as it was", thread=True)
    reply = forge.add_note(issue, "to be deleted", discussion=forge.note(issue, opening)[0])
    house.world.advance(HOUR)
    house.run()
    forge.edit_note(issue, reply, "edited, and to be deleted")
    house.world.advance(HOUR)
    house.run()
    for note in (reply, opening)[: 1 + whole]:
        forge.delete_note(issue, note)
    house.run(scrub_budget=1000)
    compare(house, exact=True)


@pytest.mark.parametrize("change", ["note", "push"])
def test_a_parent_change_shown_by_the_list_has_its_children_read_at_once(tmp_path: Path, change: str) -> None:
    """Verification of the list alone finds it: the children of so many others come before this one's."""
    house = House(tmp_path, scrub_share=0.0)
    forge = house.world.gitlab
    forge.bulk(PROJECT, merge_requests=30, discussions=1, notes=2, files=1)
    house.world.advance(HOUR)
    house.run(scrub_budget=0)
    request = forge.create_merge_request(PROJECT)
    note = forge.add_note(request, "to be deleted")
    house.world.advance(HOUR)
    house.run(scrub_budget=0)
    if change == "push":
        forge.push(PROJECT, request.iid)
    else:
        forge.delete_note(request, note)
    for _ in range(3):
        house.run(scrub_budget=1, resources=("merge_requests",))
    compare(house, exact=True)


def test_a_full_run_reads_all_children_again(tmp_path: Path) -> None:
    house = House(tmp_path, scrub_share=0.0)
    forge = house.world.gitlab
    forge.bulk(PROJECT, issues=3, merge_requests=3, discussions=1, notes=2, events=1, files=1)
    house.world.advance(HOUR)
    house.run()
    request = forge.merge_request(PROJECT, 1)
    forge.resolve(request, request.discussions[0], resolved=request.discussions[0].notes[0].resolved_at_us is None)
    assert asked(house) == []
    with house.database() as database:
        tasks = completed(database)
    assert set(asked(house, full=True)) == tasks
    compare(house, exact=True)


def test_children_of_several_pages_are_all_stored(tmp_path: Path) -> None:
    house = House(tmp_path, scrub_share=0.0, per_page=3)
    forge = house.world.gitlab
    forge.bulk(PROJECT, issues=1, merge_requests=1, discussions=8, notes=1, files=7)
    house.world.advance(HOUR)
    house.run()
    compare(house, exact=True)
    issue = forge.issue(PROJECT, 1)
    forge.delete_note(issue, issue.discussions[0].notes[0])
    house.run(scrub_budget=1000)
    compare(house, exact=True)


def test_a_note_that_cannot_be_parsed_leaves_its_parent_unchanged_and_due(tmp_path: Path) -> None:
    house, issue = settled_house(tmp_path)
    forge = house.world.gitlab
    other = forge.create_issue(PROJECT)
    forge.add_note(other, "of somebody else")
    forge.add_note(issue, "third")
    house.world.advance(HOUR)
    fault = house.world.faults.add("malformed_item", "/projects/:id/issues/:iid/discussions", None, shape="no_id")
    fault.route = f"/api/v4/projects/{forge.project(PROJECT).id}/issues/{issue.iid}/discussions"
    report = house.run()
    assert report is not None
    assert fault.fired
    assert [scope.error for scope in report.scopes] == [None, None]
    with house.database() as database:
        bodies = "SELECT n.body FROM notes n JOIN discussions d ON d.id = n.discussion_id WHERE d.issue_id = :id"
        ids: dict[int, int] = dict(database.read("SELECT iid, id FROM issues", {}))
        assert {body for (body,) in database.read(bodies, {"id": ids[issue.iid]})} >= {"first", "second"}
        assert "third" not in {body for (body,) in database.read(bodies, {"id": ids[issue.iid]})}
        assert ("of somebody else",) in database.read(bodies, {"id": ids[other.iid]})
        assert (forge.project(PROJECT).id, "issues", issue.iid, "discussions") not in completed(database)
    house.world.faults.clear()
    house.world.advance(HOUR)
    house.run()
    compare(house)
    with house.database() as database:
        assert database.read("SELECT COUNT(*) FROM quarantine", {}) == [(0,)]


def test_children_that_could_not_be_read_are_requested_again(tmp_path: Path) -> None:
    house, issue = settled_house(tmp_path, max_retries=0)
    forge = house.world.gitlab
    forge.add_note(issue, "third")
    house.world.advance(HOUR)
    fault = house.world.faults.add("status", "/projects/:id/issues/:iid", None, status=500)
    house.run()
    assert fault.fired
    house.world.faults.clear()
    house.world.advance(HOUR)
    house.run()
    compare(house)


@pytest.mark.deep
def test_verification_reads_the_children_of_every_parent_in_turn(tmp_path: Path) -> None:
    """A thread that was resolved shows nowhere else: it is found within one round over all children."""
    house = House(tmp_path)
    forge = house.world.gitlab
    forge.bulk(PROJECT, merge_requests=6, discussions=1, notes=2, files=1)
    house.world.advance(HOUR)
    house.run()
    with house.database() as database:
        tasks = completed(database)
    for request in forge.project(PROJECT).merge_requests:
        done = request.discussions[0].notes[0].resolved_at_us is not None
        forge.resolve(request, request.discussions[0], resolved=not done)
    seen: set[Task] = set()
    # Every second request of verification goes to children, and the dear ones have one turn of three.
    for _ in range(8 * len(tasks)):
        house.world.advance(60)
        seen |= set(asked(house))
    assert seen == tasks
    compare(house, exact=True)


def test_a_failed_verification_request_deletes_nothing_and_does_not_stop_the_run(tmp_path: Path) -> None:
    """Its children are not found; whether it is there itself, the server does not say."""
    house, issue = settled_house(tmp_path, max_retries=0)
    forge = house.world.gitlab
    forge.add_note(issue, "third")
    house.world.advance(HOUR)
    issues = f"/api/v4/projects/{forge.project(PROJECT).id}/issues"
    missing = house.world.faults.add("status", f"{issues}/{issue.iid}/discussions", None, status=404)
    # The walk reads the list once; whoever asks it again gets no answer.
    silent = house.world.faults.add("status", re.compile(f"^{issues}$"), None, after=1, status=500)
    report = house.run()
    assert report is not None
    assert missing.fired
    assert silent.fired
    with house.database() as database:
        assert database.read("SELECT COUNT(*) FROM issues WHERE deleted_at IS NULL", {}) == [(1,)]
    house.world.faults.clear()
    house.world.advance(HOUR)
    house.run()
    compare(house, exact=True)


def test_a_run_without_changes_costs_one_list_request_and_one_verification_request(tmp_path: Path) -> None:
    """The three lists of events are read together: such a run costs two more, and others save up for it."""
    house = House(tmp_path)
    house.world.gitlab.bulk(PROJECT, issues=4, discussions=1, notes=2, events=1)
    house.world.advance(HOUR)
    house.run()
    costs = []
    for _ in range(48):
        house.world.advance(60)
        costs.append(house.count_requests(lambda: house.run(resources=("issues",))))
    assert set(costs) == {1, 2, 4}
    assert sum(costs) <= 2 * len(costs) + max(costs), "one run may be ahead of what was saved up"
