"""`lore reply` to GitHub Discussions and into their threads: once, in the thread that GitHub accepts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faces.following import failed
from tests.faces.test_documented_shapes import compare
from tests.faces.web.test_replies import browser, fields
from tests.faces.writing import HUB, TOKENS, Writer, writing


@pytest.fixture
def desk(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Writer]:
    for name, token in TOKENS.items():
        monkeypatch.setenv(name, token)
    with writing(tmp_path, capfd.readouterr, "github") as made:
        yield made


def shown(desk: Writer) -> list[str]:
    """The first lines of the comments in the copy."""
    return [one["body"].partition("\n")[0] for one in desk.robot("show", "topic", desk.topic).data["thread"]]


def test_a_reply_to_a_discussion_is_a_comment_and_one_to_its_comment_joins_the_thread(desk: Writer) -> None:
    done = desk.robot("reply", desk.topic, "Once is enough.").data
    assert (done["reference"], done["thread"], done["refreshed"]) == (desk.topic, None, True)
    assert done["reply"]["status"] == "observed"
    compare("reply", done)
    again = desk.robot("reply", desk.topic, "Once is enough.").data
    assert again["reply"] == done["reply"]
    done = desk.robot("reply", f"discussioncomment-{desk.remark}", "Why twice?").data
    assert (done["thread"], done["refreshed"]) == (f"discussioncomment-{desk.remark}", True)
    assert desk.in_topic() == [(None, "Twice."), (None, "Once is enough."), (desk.remark, "Why twice?")]
    assert shown(desk) == ["Twice.", "Why twice?", "Once is enough."]


def test_a_reply_to_a_reply_and_every_form_of_reference_lead_to_the_thread(desk: Writer) -> None:
    """GitHub refuses a reply to a reply, so it is posted below the comment at the top."""
    below = desk.world.github.comment_discussion(HUB, 2, "Because.", "mira", reply_to=desk.remark)
    desk.robot("sync", "--no-embed")
    page = desk.robot("show", "topic", desk.topic).data["web_url"]
    for form in (
        f"discussioncomment-{below.id}",
        f"{page}#discussioncomment-{below.id}",
        f"discussioncomment-{desk.remark}",
    ):
        done = desk.robot("reply", form, "I see.", "--no-refresh").data
        assert done["thread"] == f"discussioncomment-{desk.remark}"
    assert desk.in_topic() == [(None, "Twice."), (desk.remark, "Because."), (desk.remark, "I see.")]
    desk.robot("reply", page, "I see.", "--no-refresh")
    assert desk.in_topic()[-1] == (None, "I see.")


def test_a_dry_run_shows_the_mutation_and_a_discussion_cannot_be_resolved(desk: Writer) -> None:
    before = len(desk.world.log)
    (planned,) = desk.robot("reply", f"discussioncomment-{desk.remark}", "Seen.", "--dry-run").data["requests"]
    assert len(desk.world.log) == before
    assert (planned["method"], planned["url"]) == ("POST", f"{desk.url}/graphql")
    assert "addDiscussionComment" in planned["body"]["query"]
    ((node, parent),) = desk.query(
        "SELECT t.node_id, c.node_id FROM topics t JOIN topic_comments c ON c.topic_id = t.id"
    )
    assert planned["body"]["variables"] | {"body": ""} == {"discussion": node, "parent": parent, "body": ""}
    for form in (desk.topic, f"discussioncomment-{desk.remark}"):
        assert "cannot be resolved" in failed(desk.robot("resolve", form), 2, "USAGE")["message"]
    assert desk.query("SELECT 1 FROM outbox") == []


@pytest.mark.parametrize("threaded", [False, True])
def test_a_lost_answer_is_settled_by_finding_the_marker_in_the_discussion(desk: Writer, threaded: bool) -> None:
    reference = f"discussioncomment-{desk.remark}" if threaded else desk.topic
    desk.lose_answers()
    failed(desk.robot("reply", reference, "Seen.", "--no-refresh"), 7, "PARTIAL_SUCCESS")
    assert desk.ours() == ["Seen."]
    assert desk.robot("poll", "github").data["sent"] == []
    desk.settle()
    assert [one["status"] for one in desk.robot("poll", "github").data["sent"]] == ["observed"]
    assert (desk.ours(), desk.query("SELECT attempts FROM outbox")) == (["Seen."], [(1,)])


def test_a_reply_to_a_comment_that_was_deleted_meanwhile_fails_and_is_not_repeated(desk: Writer) -> None:
    desk.world.faults.add("status", "POST /graphql", status=502)
    failed(desk.robot("reply", f"discussioncomment-{desk.remark}", "Seen.", "--no-refresh"), 7, "PARTIAL_SUCCESS")
    with desk.world.lock:
        desk.world.advance(60)
        desk.world.github.delete_discussion_comment(HUB, desk.remark)
    desk.settle()
    assert [one["status"] for one in desk.robot("poll", "github").data["sent"]] == ["failed"]
    assert (desk.robot("poll", "github").data["sent"], desk.in_topic()) == ([], [])


def test_a_token_without_the_right_is_named_and_nothing_is_retried(desk: Writer) -> None:
    desk.world.github.settings.graphql_forbidden |= {"Mutation.addDiscussionComment"}
    error = failed(desk.robot("reply", desk.topic, "Seen."), 1, "REMOTE_REFUSED")
    assert "may not comment on Discussions" in error["message"]
    assert desk.query("SELECT status FROM outbox") == [("failed",)]


def test_a_form_on_the_page_of_a_discussion_posts_one_reply_and_the_page_shows_it(desk: Writer) -> None:
    client, address = browser(desk), f"/p/{HUB}/topics/2"
    assert "<textarea" not in browser(desk, allow_writes=False).get(address).text
    form = fields(client.get(address).text, f"discussioncomment-{desk.remark}")
    for _ in range(2):
        sent = client.post(f"{address}/reply", data=form | {"action": "reply", "body": "From the page."})
        assert (sent.status_code, "From the page." in sent.text, "Posted." in sent.text) == (200, True, True)
    form = fields(client.get(address).text)
    client.post(f"{address}/reply", data=form | {"action": "reply", "body": "Below."})
    assert desk.in_topic() == [(None, "Twice."), (desk.remark, "From the page."), (None, "Below.")]
