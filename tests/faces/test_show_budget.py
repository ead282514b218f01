"""`lore show --max-tokens`: an answer within the budget, every cut marked, and the call that brings the rest."""

from __future__ import annotations

from contextlib import closing

import pytest
from tests.databases.migrated_file import lay_out
from tests.databases.review import LAB, lay_out_lab, reviewed, said
from tests.databases.samples import topic, topic_comment
from tests.databases.talk import DISCUSSIONS, attach, discussion
from tests.faces.desk import Desk

from tidelore.core.model import Scope
from tidelore.core.text import estimate_tokens
from tidelore.engine.cursor import Cursor
from tidelore.engine.ports import Batch
from tidelore.store.mirror.page_writer import PageWriter
from tidelore.store.mirror.topics import TopicTable

REF = f"{LAB}!1"


@pytest.fixture
def long(desk: Desk) -> Desk:
    """A merge request with a thread of 400 notes, and an issue with 60 discussions."""
    desk.config.write_text("")
    lay_out(desk.db)
    with closing(desk.store()) as database:
        project = lay_out_lab(database)
        notes = [reviewed(1000 + number, f"Turn {number}: " + "why so fast? " * 5, "noor") for number in range(400)]
        attach(database, project, "merge_requests", 1, DISCUSSIONS, discussion("long", *notes))
        talk = [discussion(f"d{number}", said(2000 + number, f"Point {number}. " * 9, "mira")) for number in range(60)]
        attach(database, project, "issues", 3, DISCUSSIONS, *talk)
    return desk


def test_a_thread_of_400_notes_fits_into_1500_tokens_with_its_first_and_its_last_notes(long: Desk) -> None:
    done = long.run("show", "mr", REF, "--robot", "--max-tokens", "1500")
    assert estimate_tokens(done.out) <= 1500
    (thread,) = done.data["discussions"]
    bodies = [note["body"].partition(":")[0] for note in thread["notes"]]
    assert bodies[0] == "Turn 0"
    assert bodies[-1] == "Turn 399"
    assert thread["notes_left_out"] == 400 - len(bodies)
    assert len(bodies) > 5
    assert done.data["truncated"] is True
    assert [index for index, note in enumerate(thread["notes"]) if "position" in note] == [0]


def test_following_next_shows_every_discussion_once_within_the_budget(long: Desk) -> None:
    seen: list[str] = []
    skip = 0
    for _ in range(60):
        done = long.run("show", "issue", f"{LAB}#3", "--robot", "--max-tokens", "600", "--skip", str(skip))
        assert estimate_tokens(done.out) <= 600
        seen = [thread["id"] for thread in done.data["discussions"]] + seen
        if "next" not in done.data or done.data["next"] is None:
            break
        skip = done.data["next"]
    assert seen == [f"d{number}" for number in range(60)]


def test_an_item_that_fits_is_not_marked_as_cut(long: Desk) -> None:
    data = long.run("show", "mr", f"{LAB}!2", "--robot", "--max-tokens", "20000").data
    assert "truncated" not in data
    assert len(data["discussions"]) == 4


def test_a_long_description_and_a_long_note_are_cut_between_words_and_marked(long: Desk) -> None:
    with closing(long.store()) as database:
        ((row_id,),) = database.read("SELECT id FROM issues WHERE iid = 3")
        with database.transaction() as tx:
            tx.execute("UPDATE issues SET description = :text WHERE id = :id", {"text": "tide " * 4000, "id": row_id})
            tx.execute("UPDATE notes SET body = :text WHERE remote_id = 2059", {"text": "crane " * 4000})
    done = long.run("show", "issue", f"{LAB}#3", "--robot", "--max-tokens", "500")
    assert estimate_tokens(done.out) <= 500
    assert done.data["description"].endswith("tide…")
    (thread,) = done.data["discussions"]
    assert thread["notes"][0]["truncated"] is True
    assert thread["notes"][0]["body"].endswith("crane…")


def test_in_a_small_budget_the_description_makes_room_for_a_discussion(long: Desk) -> None:
    with closing(long.store()) as database, database.transaction() as tx:
        tx.execute("UPDATE issues SET description = :text WHERE iid = 3", {"text": "tide " * 4000})
    done = long.run("show", "issue", f"{LAB}#3", "--robot", "--max-tokens", "350")
    assert estimate_tokens(done.out) <= 350
    assert 100 < len(done.data["description"]) <= 121
    assert len(done.data["discussions"]) == 1


def test_the_comments_of_a_topic_are_cut_to_the_budget_and_paged(long: Desk) -> None:
    with closing(long.store()) as database:
        ((project,),) = database.read("SELECT id FROM projects")
        scope = Scope("github", "github.topics", "7", project, LAB)
        comments = [topic_comment(number, f"Answer {number} " * 20) for number in range(1, 41)]
        PageWriter(database, scope, TopicTable(), lambda: 1).commit(Batch([topic(901, *comments)], Cursor()))
    seen: list[int] = []
    skip = 0
    while len(seen) < 40:
        done = long.run("show", "topic", "901", "--robot", "--max-tokens", "900", "--skip", str(skip))
        assert estimate_tokens(done.out) <= 900
        seen += [comment["id"] for comment in done.data["thread"]]
        skip = done.data.get("next") or 0
        assert skip or len(seen) == 40
    assert seen == list(range(1, 41))


@pytest.mark.parametrize("command", [["show", "mr", REF], ["show", "issue", f"{LAB}#3"], ["context", REF]])
def test_the_smallest_budget_is_kept_or_refused_with_the_one_that_is_enough(long: Desk, command: list[str]) -> None:
    with closing(long.store()) as database, database.transaction() as tx:
        tx.execute("UPDATE issues SET description = :text", {"text": "tide " * 4000})
        tx.execute("UPDATE merge_requests SET description = :text", {"text": "tide " * 4000})
    budget = 256
    done = long.run(*command, "--robot", "--max-tokens", str(budget))
    if done.code:
        assert (done.code, done.error["details"]["key"]) == (2, "max_tokens")
        budget = done.error["details"]["needed"]
        assert f"at least {budget}" in done.error["fix"]
        done = long.run(*command, "--robot", "--max-tokens", str(budget))
    assert done.code == 0
    assert estimate_tokens(done.out) <= budget <= 420
    assert done.data["truncated"] is True


def test_following_next_at_the_smallest_budget_shows_every_discussion(long: Desk) -> None:
    item, seen, skip = f"{LAB}#3", [], 0
    least = long.run("show", "issue", item, "--robot", "--max-tokens", "256")
    budget = 256 if least.code == 0 else least.error["details"]["needed"] + 8
    while True:
        data = long.run("show", "issue", item, "--robot", "--max-tokens", str(budget), "--skip", str(skip)).data
        seen += [thread["id"] for thread in reversed(data["discussions"])]
        if data.get("next") is None:
            break
        skip = data["next"]
    assert seen == [f"d{number}" for number in reversed(range(60))]
