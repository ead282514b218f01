"""The ways of reading and the hand-over between them: feeds, threads, full scans, first readings in portions, rules."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.properties.inprocess import Reaper
from tests.situations.feedback.bench import REPO, Bench, key, open_pulls
from tests.support.deep import gate_cases

from tidelore.engine.crashpoint import Seam
from tidelore_world.github.records import Comment, ReviewComment
from tidelore_world.wire import Request

Said = Comment | ReviewComment


def talk(bench: Bench, turn: object, number: int = 1) -> list[Said]:
    return [
        bench.hub.comment(REPO, number, f"comment {turn}"),
        remark(bench, turn, number),
    ]


def remark(bench: Bench, turn: object, number: int) -> Said:
    return bench.hub.review_comment(REPO, number, f"remark {turn}")


@pytest.mark.parametrize(
    "ways", [("repo", "thread", "repo"), ("thread", "repo", "thread"), ("repo", "full", "thread", "full", "repo")]
)
@gate_cases(1)
def test_switching_between_repo_and_thread_mode_loses_and_repeats_nothing(bench: Bench, ways: tuple[str, ...]) -> None:
    bench.track(1)
    said: list[Said] = []
    for turn, way in enumerate(ways * 2):
        bench.host |= {"fetch": "repo" if way == "full" else way, "incremental": way != "full"}
        said += talk(bench, f"before {turn}")
        bench.poll()
        said += talk(bench, f"between {turn}")
        bench.world.advance(60)
        bench.poll()
        said.append(bench.hub.edit_comment(said[turn].id, f"edited {turn}"))
        said += talk(bench, f"after {turn}")
        bench.world.advance(60)
    bench.poll()
    assert sorted(bench.event_keys()) == sorted({key(one) for one in said})


def test_threads_covered_by_the_repository_feed_are_not_polled_separately(bench: Bench) -> None:
    bench.host["fetch"] = "thread"
    bench.track(1)
    talk(bench, "before")
    bench.settle(4)
    bench.host["fetch"] = "repo"
    assert bench.poll().unfinished == 0
    bench.settle(2)
    assert bench.counted(bench.poll)["all"] == 3


def test_threads_polled_separately_again_start_at_the_feed_position(bench: Bench) -> None:
    bench.host["fetch"] = "thread"
    bench.track(1)
    bench.settle(3)
    bench.host["fetch"] = "repo"
    bench.poll()
    for number in range(250):
        bench.hub.comment(REPO, 1, f"said to the feeds {number}")
        bench.world.advance(2)
    bench.settle(3)
    assert len(bench.event_keys()) == 250
    bench.host["fetch"] = "thread"
    report = bench.poll()
    assert report.surfaces["pr_issue_comments"].fetched <= 5, "the feeds have covered all but the overlap"


def test_a_mode_switch_during_a_failing_poll_loses_nothing(bench: Bench) -> None:
    bench.track(1)
    said: list[Said] = []
    for turn, fetch in enumerate(("repo", "thread", "repo", "thread")):
        bench.host["fetch"] = fetch
        said += talk(bench, turn)
        for route in ("issues", "pulls/comments", "pulls"):
            bench.world.faults.add("status", f"GET /repos/octo/tide/{route}", 1, status=500)
            bench.try_poll()
            said += talk(bench, f"{turn} after {route}")
            bench.world.advance(7)
        bench.world.faults.clear()
    bench.settle(2)
    assert sorted(bench.event_keys()) == sorted({key(one) for one in said})


def kept(bench: Bench) -> set[str]:
    """What is stored: the words of comments and the titles of pull requests and issues."""
    words = "SELECT body FROM notes UNION SELECT title FROM merge_requests UNION SELECT title FROM issues"
    return {text for (text,) in bench.read(words) if text}


@pytest.mark.parametrize("rule", [{}, {"track_labels": ["agent"]}], ids=["by-name", "by-rule"])
@pytest.mark.parametrize("fetch", ["repo", "thread"])
@gate_cases(1)
def test_what_was_not_followed_is_read_when_the_whole_repository_is_mirrored(
    bench: Bench, fetch: str, rule: dict[str, list[str]]
) -> None:
    def by(mirror: str) -> None:
        bench.host["mirror"] = mirror
        bench.settle(2)

    bench.host |= {"fetch": fetch, **rule}
    bench.hub.create_pull(REPO, "Change 2", author="robin")
    bench.hub.create_issue(REPO, "An issue")
    bench.track(1)
    said = [*talk(bench, "on mine"), remark(bench, "on theirs", 2)]
    by("followed")
    assert kept(bench) >= {"comment on mine", "remark on mine"}
    assert "remark on theirs" not in kept(bench)
    asked = len(bench.world.log)
    by("all")
    assert not [target for _, target, _ in bench.world.log[asked:] if target.endswith("/pulls/2")], "the list shows it"
    assert kept(bench) == {one.body for one in said} | {"Change 0", "Change 2", "An issue"}

    said.append(remark(bench, "while all is read", 2))
    by("all")
    said.append(remark(bench, "while mine is followed", 2))
    bench.hub.edit_thread(REPO, 2, title="Change 2 with another title")
    by("followed")
    by("all")
    assert kept(bench) == {one.body for one in said} | {"Change 0", "Change 2 with another title", "An issue"}
    assert bench.counted(bench.poll)["304"] >= 4, "the four lists start over once"


def test_a_process_killed_while_it_begins_to_mirror_the_whole_repository_loses_nothing(bench: Bench) -> None:
    bench.hub.create_pull(REPO, "Change 2", author="robin")
    bench.track(1)
    said = [*talk(bench, "on mine"), remark(bench, "on theirs", 2)]
    bench.settle(2)
    bench.host["mirror"] = "all"
    deaths = 0
    for visit in range(0, 120, 5):
        if bench.poll_all(reaper=Reaper(visit)) is not None:
            break
        deaths += 1
    assert deaths > 5
    bench.settle(2)
    assert kept(bench) == {one.body for one in said} | {"Change 0", "Change 2"}


def test_full_scans_give_the_same_events_as_incremental_polls(
    bench: Bench, tmp_path_factory: pytest.TempPathFactory
) -> None:
    others = [
        Bench(bench.world, tmp_path_factory.mktemp(fetch), bench.url, host={"mirror": "followed", "fetch": fetch})
        for fetch in ("repo", "thread")
    ]
    bench.host["incremental"] = False
    every = [bench, *others]
    for one in every:
        one.track(1)
    said = []
    for turn in range(4):
        said += talk(bench, turn)
        bench.hub.edit_comment(said[turn].id, f"edited in turn {turn}")
        for one in every:
            one.poll()
        bench.hub.delete_comment(said.pop(0).id)
        bench.world.advance(60)
    assert bench.event_keys()
    assert [sorted(one.event_keys()) for one in others] == [sorted(bench.event_keys())] * 2


@pytest.mark.parametrize("fetch", ["repo", "thread"])
def test_a_pull_request_tracked_later_gets_its_whole_thread(bench: Bench, fetch: str) -> None:
    bench.host["fetch"] = fetch
    open_pulls(bench.world)
    bench.track(1)
    said = talk(bench, "long before", 2)
    bench.world.advance(40 * 86_400)
    bench.settle(2)
    said += talk(bench, "seen by the feed, of a thread that nobody followed", 2)
    bench.settle(2)
    assert bench.event_keys() == []
    bench.track(2)
    said += talk(bench, "between its tracking and the poll", 2)
    bench.poll()
    assert set(bench.event_keys()) == {key(one) for one in said}


@pytest.mark.parametrize("fetch", ["repo", "thread"])
def test_deletions_between_pages_of_a_first_read_hide_no_comment(bench: Bench, fetch: str) -> None:
    bench.host |= {"fetch": fetch}
    bench.per_page = 3
    said = [bench.hub.comment(REPO, 1, f"comment {number}") for number in range(14)]
    bench.world.advance(3600)
    bench.track(1)
    gone: set[str] = set()

    def delete_one(request: Request) -> None:
        if "page" in request.query and "/1/comments" in request.path and len(gone) < 4:
            # Everything after it slides one place forward, over the border of the page that was read.
            bench.hub.delete_comment(said[len(gone)].id)
            gone.add(key(said[len(gone)]))

    bench.world.before_request.append(delete_one)
    bench.settle(5)
    assert len(gone) == 4
    assert {key(one) for one in said} - gone <= set(bench.event_keys()) <= {key(one) for one in said}


def test_a_first_read_killed_at_any_page_continues(bench: Bench) -> None:
    bench.host |= {"fetch": "repo"}
    bench.per_page = 3
    said = [bench.hub.comment(REPO, 1, f"comment {number}") for number in range(14)]
    bench.track(1)
    seams = Reaper()
    for visit in range(0, 90, 11):
        seams = Reaper(visit)
        if bench.poll_all(reaper=seams) is not None:
            break
        bench.world.advance(1)
    assert Seam.AFTER_COMMIT in seams.visits
    bench.settle(2)
    assert sorted(bench.event_keys()) == sorted(key(one) for one in said)


@pytest.mark.parametrize("fetch", ["auto", "repo", "thread"])
@gate_cases(1)
def test_pull_requests_are_tracked_by_author_and_label_rules(bench: Bench, fetch: str) -> None:
    bench.host |= {"fetch": fetch, "track_authors": ["ROBIN"], "track_labels": ["agent"]}
    for number in range(35):
        bench.hub.create_pull(REPO, f"somebody's {number}", author="sam")
    theirs = bench.hub.create_pull(REPO, "labelled", author="sam", labels=["Agent"])
    ended = bench.hub.create_pull(REPO, "ended", author="robin")
    bench.hub.close(REPO, ended.number)
    said = talk(bench, "before", theirs.number)
    assert sorted(bench.poll().tracked) == [1, theirs.number]
    bench.settle(2)
    late = bench.hub.create_pull(REPO, "late", author="robin")
    asked = len(bench.world.log)
    marked = bench.hub.edit_thread(REPO, 5, labels=["agent"])
    said += talk(bench, "at once", late.number) + talk(bench, "on the labelled one", marked.number)
    assert sorted(bench.poll().tracked) == [marked.number, late.number]
    snapshots = [target for _, target, _ in bench.world.log[asked:] if target.endswith(f"/pulls/{late.number}")]
    assert snapshots == [], "the list has just shown it"
    assert set(bench.event_keys()) == {key(one) for one in said}
    assert {row for (row,) in bench.read("SELECT DISTINCT tracked_by FROM tracked_prs")} == {"rule"}


@pytest.mark.deep
def test_auto_mode_chooses_the_cheaper_polling_mode(bench: Bench) -> None:
    bench.per_page = 5
    bench.track(1)
    crowd = bench.hub.create_issue(REPO, "where everybody talks")
    ways = []
    said: list[Said] = []
    for turn in range(8):
        for number in range(30):
            bench.hub.comment(REPO, crowd.number, f"chatter {turn} {number}", "somebody")
        said += talk(bench, turn)
        bench.world.advance(60)
        ways.append(bench.poll().mode)
    assert ways[0] == "repo"
    assert ways[-1] == "thread"
    open_pulls(bench.world, 30)
    bench.track(*range(3, 33))
    for turn in range(4):
        said += talk(bench, f"later {turn}")
        bench.world.advance(60)
        ways.append(bench.poll().mode)
    assert ways[-1] == "repo"
    bench.settle(6)
    assert set(bench.event_keys()) == {key(one) for one in said}


@pytest.mark.parametrize("fetch", ["repo", "thread"])
def test_a_comment_made_during_a_poll_is_found_by_it_or_by_the_next(bench: Bench, fetch: str) -> None:
    bench.host["fetch"] = fetch
    bench.per_page = 4
    bench.track(1)
    said = talk(bench, "before")

    def interject(turn: list[int]) -> Callable[[Request], None]:
        def hook(_request: Request) -> None:
            if turn[0] < 12:
                turn[0] += 1
                said.extend(talk(bench, f"during {turn[0]}"))

        return hook

    bench.world.before_request.append(interject([0]))
    bench.poll()
    bench.poll()
    bench.world.before_request.clear()
    bench.settle(2)
    assert sorted(bench.event_keys()) == sorted(key(one) for one in said)


@pytest.mark.parametrize("way", ["all", "repo", "thread"])
def test_a_rule_that_is_added_later_tracks_the_pull_requests_that_are_open(bench: Bench, way: str) -> None:
    bench.host = {"mirror": "all"} if way == "all" else {"mirror": "followed", "fetch": way}
    bench.host["track_authors"] = ["robin"]
    theirs = bench.hub.create_pull(REPO, "another author's", author="sam")
    labelled = bench.hub.create_pull(REPO, "labelled", author="kim", labels=["Agent"])
    ended = bench.hub.create_pull(REPO, "ended", author="sam")
    said = talk(bench, "before", theirs.number) + talk(bench, "before", labelled.number)
    bench.world.advance(60)
    bench.hub.close(REPO, ended.number)
    bench.settle(3)
    assert bench.event_keys() == []
    bench.host |= {"track_authors": ["robin", "Sam"], "track_labels": ["agent"]}
    bench.world.advance(60)
    bench.settle(2)
    tracked = {number for (number,) in bench.read("SELECT pr_number FROM tracked_prs")}
    assert tracked == {1, theirs.number, labelled.number}
    assert sorted(bench.event_keys()) == sorted(key(one) for one in said)
    bench.world.advance(60)
    quiet = bench.counted(lambda: bench.poll())
    assert quiet["all"] == quiet["304"]
    bench.host |= {"track_authors": [], "track_labels": []}
    bench.settle(2)
    late = bench.hub.create_pull(REPO, "while there was no rule", author="sam")
    said += talk(bench, "while there was no rule", late.number)
    bench.settle(2)
    bench.host |= {"track_authors": ["robin", "sam"], "track_labels": ["agent"]}
    bench.settle(2)
    assert sorted(bench.event_keys()) == sorted(key(one) for one in said)
