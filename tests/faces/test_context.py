"""`lore context`: one answer within the budget with the decision, what is open and linked, and what is missing."""

from __future__ import annotations

from contextlib import closing

import pytest
from tests.databases.migrated_file import lay_out
from tests.databases.review import HUB, LAB, lay_out_hub, lay_out_lab, reviewed, said
from tests.databases.samples import topic, topic_comment
from tests.databases.talk import DIFFS, DISCUSSIONS, attach, discussion, file_change, note
from tests.faces.desk import Desk
from tests.faces.test_documented_shapes import compare

from tidelore.core.model import Scope
from tidelore.core.text import estimate_tokens
from tidelore.engine.cursor import Cursor
from tidelore.engine.ports import Batch
from tidelore.store.mirror.page_writer import PageWriter
from tidelore.store.mirror.topics import TopicTable

REF = f"{LAB}!1"


@pytest.fixture
def talk(desk: Desk) -> Desk:
    """A merge request with a decision among 120 notes, unresolved threads, links, files and events."""
    desk.config.write_text("")
    lay_out(desk.db)
    with closing(desk.store()) as database:
        project = lay_out_lab(database)
        lay_out_hub(database)
        chat = [discussion(f"c{n}", said(3000 + n, f"Remark {n} about paint. " * 4, "mira")) for n in range(120)]
        decided = discussion("d", said(2999, "We decided to go with 40 %, see #3 and !2, not octo/tide#5.", "noor"))
        asked = [discussion(f"q{n}", reviewed(4000 + n, f"Question {n}? " * 8, "noor")) for n in range(12)]
        renamed = note(4101, "Renamed.", resolved=True)
        settled = discussion("s", reviewed(4100, "Rename?", "noor", resolved=True), renamed)
        system = discussion("m", note(4200, f"mentioned in {LAB}!4", is_system=True))
        attach(database, project, "merge_requests", 1, DISCUSSIONS, *chat, decided, *asked, settled, system)
        changed = [file_change(f"src/deep/folder/file{n}.py", f"src/deep/folder/file{n}.py") for n in range(60)]
        attach(database, project, "merge_requests", 1, DIFFS, *changed)
    return desk


@pytest.mark.parametrize("budget", [400, 1000, 2000, 6000])
def test_a_context_stays_within_its_budget_and_counts_what_is_missing(talk: Desk, budget: int) -> None:
    done = talk.run("context", REF, "--robot", "--max-tokens", str(budget))
    assert estimate_tokens(done.out) <= budget
    data = done.data
    missing = {entry["what"]: entry["count"] for entry in data.get("left_out", [])}
    for name, total in {"threads": 12, "files": 60}.items():
        assert len(data.get(name, [])) + missing.get(name, 0) == total
    assert data["truncated"] is (budget < 6000)
    for entry in data.get("left_out", []):
        shown = talk.run(*entry["call"].replace("'", "").split()[1:])
        assert shown.code == 0, entry
        if entry["what"] == "files":
            assert "src/deep/folder/file59.py" in shown.out


def test_the_decision_comes_first_and_the_linked_items_are_those_that_are_named(talk: Desk) -> None:
    data = talk.robot("context", REF, "--max-tokens", "1500").data
    assert {"We decided to go with 40 %, see #3 and !2, not octo/tide#5."} == {
        found["body"] for found in data["notes"] if found["why"] == "decides"
    }
    assert any(found["why"] == "resolved" and found["body"] == "Renamed." for found in data["notes"])
    assert [(one["relation"], one["reference"], one["state"]) for one in data["linked"]] == [
        ("closes", f"{LAB}#3", "opened"),
        ("mentions", f"{LAB}!2", "opened"),
        ("mentions", "octo/tide#5", "opened"),
        ("mentions", f"{LAB}!4", "merged"),
    ]
    assert [event["what"] for event in data["events"]] == ["closed", "reopened"]
    assert data["threads"][0]["id"] == "q11"
    closed = talk.robot("context", f"{LAB}#3").data
    assert ("closed by", REF) in [(one["relation"], one["reference"]) for one in closed["linked"]]


def test_a_context_answers_with_the_documented_fields(talk: Desk) -> None:
    with closing(talk.store()) as database:
        ((project,),) = database.read("SELECT id FROM projects WHERE path = 'octo/tide'")
        scope = Scope("github", "github.topics", "7", project, "octo/tide")
        answer = topic_comment(2, "Take a rope, see #5. " * 90, is_answer=True)
        found = topic(901, topic_comment(1, "Anyone?"), answer, topic_comment(3, "Thanks", created_at=2**41))
        PageWriter(database, scope, TopicTable(), lambda: 1).commit(Batch([found], Cursor()))
    on_topic = talk.robot("context", "octo/tide#901").data
    assert [(entry["why"], entry["truncated"]) for entry in on_topic["notes"]] == [("answer", True), ("newest", None)]
    assert [one["reference"] for one in on_topic["linked"]] == ["octo/tide#5"]
    everything = talk.robot("context", REF, "--max-tokens", "700").data
    compare("context", everything, talk.robot("context", f"{LAB}#3").data, on_topic)
    assert "Unresolved threads:" in talk.run("context", REF).out


def test_a_context_of_a_post_or_of_nothing_is_refused_with_a_fix(talk: Desk) -> None:
    done = talk.robot("context", "at://did:plc:miramiramiramiramiramira/app.bsky.feed.post/a")
    assert done.code in (2, 6)
    assert talk.robot("context", "!77").code == 6
    assert talk.robot("context", "what?").code == 2


def test_review_threads_of_unknown_state_are_not_shown_as_unresolved(talk: Desk) -> None:
    lines = talk.run("context", f"{HUB}#5").out.splitlines()
    assert "Threads, not known whether resolved:" in lines
    assert "Unresolved threads:" not in lines


def test_a_pull_request_is_shown_under_the_name_that_github_uses(talk: Desk) -> None:
    assert talk.run("show", "mr", f"{HUB}#5").out.startswith("Pull Request #5: Tide table\n")
    assert talk.run("show", "mr", REF).out.startswith("Merge Request !1: ")
