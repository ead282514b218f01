"""Topics at the command line: listed, shown by any reference, searched, counted and checked."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from tests.databases.samples import topic, topic_comment
from tests.faces.desk import LEDGER, Desk
from tests.faces.test_documented_shapes import compare

from tidelore.app.console import ConsoleViews, found_row
from tidelore.app.wiring import App
from tidelore.console.search import thread_text
from tidelore.core.clock import SystemClock
from tidelore.core.config_file import load_config
from tidelore.core.model import ProjectRecord, Scope
from tidelore.engine.cursor import Cursor
from tidelore.engine.ports import Batch
from tidelore.store.mirror.page_writer import PageWriter
from tidelore.store.mirror.projects import save_project
from tidelore.store.mirror.topics import TopicTable

HOUR = 3_600_000
REPO = "octo/tide"
WEB = f"https://hub.test/{REPO}"


@pytest.fixture
def talk(desk: Desk) -> Desk:
    """A repository with an answered topic, an open one, one in a category without answers, and a deleted one."""
    desk.ingested()
    now = SystemClock().now_ms()
    database = desk.store()
    try:
        with database.transaction() as tx:
            record = ProjectRecord(7, REPO, "tide", WEB, archived=False, node_id="R_7", has_topics=True)
            project = save_project(tx, "github", REPO, record, now)
        scope = Scope("github", "github.topics", "7", project.id, REPO)
        writer = PageWriter(database, scope, TopicTable(), lambda: now)

        def made(number: int, age: int, *comments: Any, **fields: Any) -> Any:
            at = now - age * HOUR
            url = f"{WEB}/discussions/{number}"
            return topic(number, *comments, created_at=at, updated_at=at, url=url, **fields)

        said = [
            topic_comment(5, "Use a \x1b[31mbollard.", is_answer=True, upvotes=2, url=f"{WEB}/discussions/901#5"),
            topic_comment(6, "Thanks, gargoyle.", author="mira", parent_id=5),
            topic_comment(8, "", author=None, deleted_at=now),
        ]
        answered: dict[str, Any] = {"is_answered": True, "answer_id": 5, "answer_chosen_at": now}
        closed: dict[str, Any] = {"state": "closed", "state_reason": "resolved", "closed_at": now}
        items = [
            made(901, 5, *said, title="Where to moor", **answered, **closed),
            made(902, 4, title="Which anchor", author="noor"),
            made(903, 30, title="Welcome", category="Announcements", is_answered=None),
            made(904, 50, title="Spam"),
        ]
        writer.commit(Batch(items, Cursor()))
        writer.commit(Batch((), Cursor(), gone=[904]))
    finally:
        database.close()
    assert desk.run("generate-docs").code == 0
    return desk


def numbers(desk: Desk, *argv: str) -> list[int]:
    return [item["iid"] for item in desk.robot("list", "topics", *argv).data["items"]]


def test_topics_are_listed_newest_first_and_can_be_filtered(talk: Desk) -> None:
    lines = talk.terminal("list", "topics").out.splitlines()
    assert lines[0] == "Topics (showing 3 of 3)"
    assert "CATEGORY" in lines[1]
    assert [line.split()[0] for line in lines[2:]] == ["#902", "#901", "#903"]
    assert numbers(talk) == [902, 901, 903]
    assert numbers(talk, "--asc") == [903, 901, 902]
    assert numbers(talk, "--answered") == [901]
    assert numbers(talk, "--unanswered") == [902]
    assert numbers(talk, "--category", "Announcements") == [903]
    assert numbers(talk, "--author", "noor") == [902]
    assert numbers(talk, "--state", "closed") == [901]
    assert numbers(talk, "--since", "12h") == [902, 901]
    assert numbers(talk, "--deleted") == [904]
    assert numbers(talk, "-p", "ledger") == []
    assert talk.run("list", "topics", "-p", "ledger").out == "Topics: no matches\n"
    page = talk.robot("list", "topics", "-n", "2").data
    assert (page["total"], numbers(talk, "--after", page["next"])) == (3, [903])


@pytest.mark.parametrize("reference", ["901", "#901", f"{REPO}#901", "tide#901", f"{WEB}/discussions/901#comment-5"])
def test_a_topic_is_shown_by_its_number_reference_or_address(talk: Desk, reference: str) -> None:
    shown = talk.robot("show", "topic", reference).data
    assert (shown["reference"], shown["title"], shown["answered"]) == (f"{REPO}#901", "Where to moor", True)
    assert [(one["id"], one["in_reply_to"], one["answer"]) for one in shown["thread"]] == [
        (5, None, True),
        (6, 5, False),
        (8, None, False),
    ]
    assert shown["comments"] == 2


def test_a_shown_topic_has_its_comments_without_terminal_escapes(talk: Desk) -> None:
    out = talk.run("show", "topic", "901").out
    for said in ("Topic #901: Where to moor", "closed, resolved, answered", "Use a bollard.", "[ANSWER]", "(deleted)"):
        assert said in out
    assert "\x1b" not in out
    assert "[DELETED]" in talk.run("show", "topic", "904").out


def test_a_number_that_is_something_else_leads_to_the_right_command(talk: Desk) -> None:
    error = talk.robot("show", "issue", f"{REPO}#901").error
    assert error["fix"] == f"there is a topic of that number: `lore show topic 901 -p {REPO}`"
    error = talk.robot("show", "topic", f"{LEDGER}#1").error
    assert error["fix"] == f"there is an issue of that number: `lore show issue 1 -p {LEDGER}`"
    address = f"{WEB}/discussions/901"
    assert talk.robot("show", "mr", address).error["fix"] == f"use `lore show topic '{address}'`"
    assert talk.robot("show", "topic", "!901").error["code"] == "USAGE"
    assert talk.robot("show", "topic", "999").error["code"] == "NOT_FOUND"


def test_search_finds_a_topic_by_a_comment_and_filters_by_type(talk: Desk) -> None:
    (found,) = talk.robot("search", "gargoyle", "--mode", "lexical").data["items"]
    assert (found["reference"], found["type"], found["found_in"]) == (f"{REPO}#901", "topic", "topic")
    assert found["labels"] == ["Q&A"]
    assert talk.robot("search", "gargoyle", "--type", "issue", "--mode", "lexical").data["items"] == []
    assert len(talk.robot("search", "anchor type:topic", "--mode", "lexical").data["items"]) == 1


def test_similar_takes_a_topic_and_finds_one(talk: Desk) -> None:
    assert talk.run("embed").code == 0
    for reference in ("#901", f"{WEB}/discussions/901"):
        items = talk.robot("similar", reference, "-p", REPO).data["items"]
        assert f"{REPO}#902" in {item["reference"] for item in items}
        assert f"{REPO}#901" not in {item["reference"] for item in items}


def test_the_console_shows_a_topic_that_was_found(talk: Desk) -> None:
    with closing(ConsoleViews(App(load_config(str(talk.config)), {}, db=str(talk.db)))) as views:
        (found,) = views.by_words("gargoyle", 5).items
        shown = thread_text(views.read_thread(found_row(found)), 80).plain
    assert "Use a bollard." in shown
    assert "    Thanks, gargoyle." in shown
    assert "\x1b" not in shown


def test_topics_are_counted_by_state(talk: Desk) -> None:
    counted = talk.robot("count", "topics").data["topics"]
    assert counted == {"total": 3, "by_state": {"opened": 2, "closed": 1}, "deleted": 1}
    assert talk.run("count", "topics").out.splitlines()[0] == "Topics: 3"


def test_check_passes_with_topics(talk: Desk) -> None:
    assert talk.run("check").code == 0


def test_answers_about_topics_have_the_documented_fields(talk: Desk) -> None:
    compare("list topics", talk.robot("list", "topics").data)
    compare("show topic", talk.robot("show", "topic", "901").data)
