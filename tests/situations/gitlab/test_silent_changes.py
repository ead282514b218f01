"""Changes that move no `updated_at`: each is found by the share of every run that verifies, within a bound.

The bound. A run spends at least one request on verification, on lists and on children in turn; never are more
than two runs in a row spent on the same, nor more than two of every second run. A list of one page is therefore
verified within three runs, and each kind of children of each parent once in three runs for every such pair.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from tests.situations.gitlab.bench import DAY, PROJECT, Bench, request_of, start_thread, true_bodies

LIST_RUNS = 3
KINDS = {"issues": 2, "merge_requests": 4}
PARENTS = 2
MANY = 5


@pytest.fixture
def mirrored(both: Bench) -> Bench:
    """Five of each, in each kind of database: too many for the child scrub to meet one before the list scrub does."""
    return _mirror(both, MANY)


@pytest.fixture
def in_file(bench: Bench) -> Bench:
    """Two issues and two merge requests with threads, files and events, mirrored and settled; scrub as it ships."""
    return _mirror(bench, PARENTS)


def _mirror(bench: Bench, parents: int) -> Bench:
    bench.set_up("scrub_share = 0.02")
    bench.world.gitlab.bulk(PROJECT, issues=parents, merge_requests=parents, discussions=2, notes=2, events=1, files=2)
    bench.world.advance(DAY)
    bench.mirror("issues")
    bench.mirror("merge_requests")
    return bench


def until(bench: Bench, kind: str, bound: int, holds: Callable[[], bool]) -> int:
    """Run until something holds; return how many runs that took. The other list is read in turn, as people do."""
    other = "issues" if kind == "merge_requests" else "merge_requests"
    for runs in range(1, bound + 1):
        bench.world.advance(60)
        bench.mirror(kind)
        if holds():
            return runs
        bench.mirror(other)
    pytest.fail(f"not found within {bound} runs")


@pytest.mark.parametrize("kind", ["issues", "merge_requests"])
def test_a_note_deleted_without_a_parent_update_is_removed(mirrored: Bench, kind: str) -> None:
    bench, forge = mirrored, mirrored.world.gitlab
    item = forge.item(kind, PROJECT, 4)  # type: ignore[arg-type]
    at, note = item.updated_at_us, item.discussions[0].notes[0]
    forge.delete_note(item, note)
    assert item.updated_at_us == at
    until(bench, kind, LIST_RUNS, lambda: bench.bodies(4, kind) == true_bodies(item))
    assert str(note.id) not in bench.payloads("note")
    texts = [json.dumps(payload) for payload in bench.payloads("discussion").values()]
    assert not any(f'"id": {note.id},' in text for text in texts), "no payload repeats what was deleted"


@pytest.mark.parametrize("kind", ["issues", "merge_requests"])
def test_the_child_scrub_finds_an_edited_note_with_an_unchanged_note_count(in_file: Bench, kind: str) -> None:
    bench, forge = in_file, in_file.world.gitlab
    item = forge.item(kind, PROJECT, 2)  # type: ignore[arg-type]
    at = item.updated_at_us
    item.discussions[1].notes[1].body = "edited by an administrator, silently"
    assert item.updated_at_us == at
    until(bench, kind, 3 * PARENTS * KINDS[kind], lambda: bench.bodies(2, kind) == true_bodies(item))


def test_the_child_scrub_finds_swapped_notes_with_an_unchanged_note_count(in_file: Bench) -> None:
    bench, forge = in_file, in_file.world.gitlab
    item = request_of(bench.world, 1)
    forge.add_note(item, "the new one", at_us=item.updated_at_us)
    forge.delete_note(item, item.discussions[0].notes[0])
    until(bench, "merge_requests", 3 * PARENTS * 4, lambda: bench.bodies() == true_bodies(item))


def test_a_deleted_discussion_is_removed_with_its_payloads(mirrored: Bench) -> None:
    bench, forge = mirrored, mirrored.world.gitlab
    item = request_of(bench.world, 4)
    gone = item.discussions[0]
    numbers = {str(note.id) for note in gone.notes}
    for note in list(gone.notes):
        forge.delete_note(item, note)
    assert gone not in item.discussions
    assert numbers <= set(bench.payloads("note"))
    until(bench, "merge_requests", LIST_RUNS, lambda: bench.bodies(4) == true_bodies(item))
    assert bench.one(f"SELECT COUNT(*) FROM discussions WHERE remote_id = '{gone.id}'") == 0
    assert not numbers & set(bench.payloads("note"))
    assert gone.id not in bench.payloads("discussion")


@pytest.mark.parametrize(("kind", "listed"), [("issues", "issues"), ("merge_requests", "mrs")])
def test_a_deleted_parent_is_tombstoned_and_not_listed(in_file: Bench, kind: str, listed: str) -> None:
    bench, forge = in_file, in_file.world.gitlab
    (forge.delete_issue if kind == "issues" else forge.delete_merge_request)(PROJECT, 2)
    until(bench, kind, LIST_RUNS, lambda: bool(bench.one(f"SELECT deleted_at IS NOT NULL FROM {kind} WHERE iid = 2")))

    def shown(*options: str) -> set[int]:
        return {entry["iid"] for entry in bench.robot("list", listed, *options).data["items"]}

    assert shown() == {1}
    assert shown("--deleted") == {2}
    for table in ("discussions", "notes"):
        parent = "" if table == "discussions" else " JOIN discussions d ON d.id = t.discussion_id"
        owner = "t" if table == "discussions" else "d"
        column = "issue_id" if kind == "issues" else "merge_request_id"
        left = f"SELECT COUNT(*) FROM {table} t{parent} JOIN {kind} p ON p.id = {owner}.{column} WHERE p.iid = 2"
        assert bench.one(left) == 0, f"{table} go with their parent"
    assert bench.run("check").code == 0
    assert bench.robot("count", listed).data[listed]["deleted"] == 1
    spent = bench.counted(lambda: bench.mirror(kind))
    assert spent[":iid"] == 0, "what is gone is not asked for again"


def test_a_push_without_a_parent_update_brings_the_new_head_and_its_files(mirrored: Bench) -> None:
    bench, forge = mirrored, mirrored.world.gitlab
    item = request_of(bench.world, 4)
    at, old_head = item.updated_at_us, item.sha
    old_files = bench.column(
        "SELECT new_path FROM mr_file_changes f JOIN merge_requests m ON m.id = f.merge_request_id WHERE m.iid = 4"
    )
    forge.push(PROJECT, 4)
    assert item.updated_at_us == at
    until(
        bench,
        "merge_requests",
        LIST_RUNS,
        lambda: bench.one("SELECT head_sha FROM merge_requests WHERE iid = 4") == item.sha,
    )
    held = bench.query(
        "SELECT f.old_path, f.new_path, f.new_file, f.renamed_file, f.deleted_file FROM mr_file_changes f"
        f" WHERE f.head_sha = '{item.sha}' ORDER BY f.old_path, f.new_path"
    )
    shown = forge.truth_diffs(PROJECT, 4)
    assert held == sorted(
        (d["old_path"], d["new_path"], int(d["new_file"]), int(d["renamed_file"]), int(d["deleted_file"]))
        for d in shown
    )
    kept = bench.column(f"SELECT new_path FROM mr_file_changes WHERE head_sha = '{old_head}'")
    assert sorted(kept) == sorted(old_files), "the files of the version before stay with that version"


def test_a_thread_resolved_without_a_parent_update_is_found(in_file: Bench) -> None:
    bench, forge = in_file, in_file.world.gitlab
    item = request_of(bench.world, 1)
    home = start_thread(bench.world, item, "is this right?", "it is")
    bench.world.advance(DAY)
    bench.mirror()
    at = item.updated_at_us
    forge.resolve(item, home)
    assert item.updated_at_us == at
    until(
        bench,
        "merge_requests",
        3 * PARENTS * 4,
        lambda: bench.one(f"SELECT resolved FROM discussions WHERE remote_id = '{home.id}'") == 1,
    )


def test_one_complete_scrub_finds_every_silent_change(in_file: Bench) -> None:
    bench, forge = in_file, in_file.world.gitlab
    issue, request = forge.issue(PROJECT, 1), request_of(bench.world, 1)
    issue.discussions[0].notes[0].body = "edited silently"
    forge.delete_note(request, request.discussions[1].notes[1])
    forge.push(PROJECT, 2)
    forge.delete_issue(PROJECT, 2)
    assert bench.run("scrub", "--all").code == 0
    assert bench.bodies(1, "issues") == true_bodies(issue)
    assert bench.bodies(1) == true_bodies(request)
    assert bench.one("SELECT head_sha FROM merge_requests WHERE iid = 2") == request_of(bench.world, 2).sha
    assert bench.column("SELECT iid FROM issues WHERE deleted_at IS NOT NULL") == [2]
