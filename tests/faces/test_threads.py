"""`lore threads`: review threads of both forges, what waits for me, pages within a budget, and what is refused."""

from __future__ import annotations

from contextlib import closing

import pytest
from tests.databases.migrated_file import lay_out
from tests.databases.review import LAB, lay_out_hub, lay_out_lab, reviewed
from tests.databases.samples import merge_request
from tests.databases.talk import DISCUSSIONS, attach, discussion, keep, note
from tests.faces.desk import LEDGER, Desk
from tests.faces.test_documented_shapes import compare

from tidelore.core.clock import SystemClock
from tidelore.core.text import estimate_tokens
from tidelore.store.mirror.parents import MERGE_REQUESTS

OURS = '[[github]]\nlogin = "ann"\n'


@pytest.fixture
def talk(desk: Desk) -> Desk:
    """A copy with threads on both forges; our login is configured for both."""
    desk.config.write_text('[[gitlab]]\nlogin = "ann"\n' + OURS)
    lay_out(desk.db)
    with closing(desk.store()) as database:
        lay_out_lab(database)
        lay_out_hub(database)
    return desk


def test_who_i_am_is_known_after_the_first_sync_with_a_token_and_asked_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITLAB_TOKEN", "a-token-that-works")
    desk.world.gitlab.token = "a-token-that-works"
    assert desk.run("doctor").out.count("signed in as ") == 1
    assert desk.run("sync", "--no-embed").code == 0
    assert desk.robot("threads", "--waiting-on", "me").data["total"] == 0
    route = "GET /user"
    asked = desk.world.requests[route]
    assert asked > 0
    assert desk.run("sync", "--no-embed").code == 0
    assert desk.world.requests[route] == asked


def test_a_first_sync_with_a_limit_of_requests_does_not_ask_who_i_am(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITLAB_TOKEN", "a-token-that-works")
    desk.world.gitlab.token = "a-token-that-works"
    assert desk.run("sync", "--no-embed", "--max-requests", "1000").code == 0
    assert desk.world.requests["GET /user"] == 0


def ids(desk: Desk, *argv: str) -> list[str]:
    return [item["id"] for item in desk.robot("threads", *argv).data["items"]]


def test_threads_that_wait_for_me_are_those_of_both_forges(talk: Desk) -> None:
    waiting = ids(talk, "--waiting-on", "me")
    # Unresolved review threads, a mention (`called` is not resolved either, but not ours), replies, own items.
    assert waiting == ["review_comment:300", "joined", "asked", "called", "octo/tide#5", "port/harbour!1"]
    assert ids(talk, "--waiting-on", "others") == ["answered"]
    assert ids(talk, "--mine", "--unresolved", "-p", "harbour") == ["called", "joined", "answered", "asked"]
    assert ids(talk, "--waiting-on", "me", "-p", LAB, "--state", "merged") == ["late"]


def test_of_threads_that_wait_for_me_the_most_urgent_are_shown_and_the_others_counted(talk: Desk) -> None:
    data = talk.robot("threads", "--waiting-on", "me", "--limit", "2").data
    assert [item["why"] for item in data["items"]] == ["review thread", "review thread"]
    assert data["notice"] == (
        "4 more not shown (1 unresolved review thread, 1 mention, 2 comments on your own items): "
        "lore threads --waiting-on me --limit 6"
    )
    seen = list(data["items"])
    while data["next"]:
        data = talk.robot("threads", "--waiting-on", "me", "--limit", "2", "--after", data["next"]).data
        seen += data["items"]
    assert [item["id"] for item in seen] == ids(talk, "--waiting-on", "me", "--limit", "100")
    assert talk.robot("threads", "--after", "x.1-2").code == 2


def test_a_recent_mention_is_more_urgent_than_a_review_thread_of_last_month(talk: Desk) -> None:
    now = SystemClock().now_ms()
    talk.query(f"UPDATE notes SET created_at = {now} WHERE body LIKE 'cc @ANN%'")
    assert ids(talk, "--waiting-on", "me")[0] == "called"


def test_a_merge_request_waits_for_my_review_until_i_write_in_it(talk: Desk) -> None:
    with closing(talk.store()) as database:
        project = lay_out_lab(database, "port/quay", 2)
        keep(database, project, MERGE_REQUESTS, [merge_request(7, title="Rivets", reviewers=("Ann",))])
    data = talk.robot("threads", "--waiting-on", "me").data
    assert [(one["title"], data["review_requests_total"]) for one in data["review_requests"]] == [("Rivets", 1)]
    assert talk.robot("digest", "--since", "1d").data["review_requests"] == data["review_requests"]
    assert "Waiting for your review (1)\n  " in talk.terminal("threads", "--waiting-on", "me").out
    with closing(talk.store()) as database:
        attach(database, project, "merge_requests", 7, DISCUSSIONS, discussion("r", reviewed(990, "Fine.", "ann")))
    assert talk.robot("threads", "--waiting-on", "me").data["review_requests"] == []


def test_the_threads_of_one_item_include_those_of_a_merged_one(talk: Desk) -> None:
    assert ids(talk, f"{LAB}!4") == ["late"]
    assert ids(talk, "octo/tide#5", "--unresolved") == ["review_comment:300"]


def test_every_page_follows_the_last_one_and_all_threads_are_listed_once(talk: Desk) -> None:
    whole = ids(talk, "--state", "all")
    for extra in (["--limit", "2"], ["--max-tokens", "300"]):
        seen: list[str] = []
        token: list[str] = []
        while True:
            done = talk.run("threads", "--state", "all", "--robot", *extra, *token)
            assert done.data["total"] == len(whole)
            assert extra[0] == "--limit" or estimate_tokens(done.out) <= 300
            seen += [item["id"] for item in done.data["items"]]
            if done.data["next"] is None:
                assert not done.data["truncated"]
                break
            token = ["--after", done.data["next"]]
        assert seen == whole


def test_a_long_note_is_quoted_from_its_beginning_and_marked_as_cut(talk: Desk) -> None:
    with closing(talk.store()) as database:
        project = lay_out_lab(database, "port/quay", 2)
        attach(database, project, "issues", 3, DISCUSSIONS, discussion("i", note(1, "word " * 500)))
    (item,) = talk.robot("threads", "port/quay#3").data["items"]
    assert item["truncated"] is True
    assert len(item["opening"]) <= 400
    assert item["opening"].endswith("word…")


def test_threads_answer_with_the_documented_fields(talk: Desk) -> None:
    compare("threads", talk.robot("threads", "--state", "all").data)
    meta = talk.robot("threads").document["meta"]
    assert set(meta["untrusted"]) == {"items[].title", "items[].path", "items[].opening", "items[].last"}


def test_threads_print_a_paragraph_on_a_terminal_and_a_row_in_a_pipe(talk: Desk) -> None:
    said = talk.terminal("threads", f"{LAB}!1", columns=70).out
    assert "port/harbour!1  src/crane.py:7\n  Slow the crane\n  unresolved, waiting on me, 2 notes, last by" in said
    assert "@mira: And who decided?\n  thread asked\n" in said
    assert all(len(line) <= 70 for line in said.splitlines())
    row = talk.run("threads", f"{LAB}!1").out.splitlines()[-1].split("\t")
    assert row[1:] == ["unresolved", "port/harbour!1", "src/crane.py:7", "mira", "asked", "And who decided?"]


def test_without_a_known_login_waiting_threads_are_refused_with_the_remedy(desk: Desk) -> None:
    desk.ingested()
    done = desk.robot("threads", "--waiting-on", "me")
    assert (done.code, done.error["code"]) == (2, "USAGE")
    assert "login" in done.error["fix"]
    assert "[[gitlab]]" in done.error["fix"]
    assert desk.robot("threads", "-p", LEDGER).code == 0
    assert desk.robot("threads", "nonsense").code == 2
    assert desk.robot("threads", "!99").code == 6


def test_doctor_stores_the_login_that_a_host_reports(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.ingested()
    desk.set_clock()
    desk.world.gitlab.token = "secret-of-mira"
    monkeypatch.setenv("GITLAB_TOKEN", "secret-of-mira")
    assert desk.run("doctor").code == 0
    ((source, login),) = desk.query("SELECT source, login FROM own_logins")
    assert source == "gitlab"
    assert desk.robot("threads", "--mine").code == 0
    assert login in desk.run("doctor").out
