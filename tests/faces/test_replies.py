"""`lore reply`, `lore resolve`, `lore unresolve`: on both forges, by every form of reference, exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faces.following import failed
from tests.faces.test_documented_shapes import compare
from tests.faces.writing import HUB, LAB, TOKENS, Writer, writing

BOTH = ["gitlab", "github"]


@pytest.fixture(params=BOTH)
def desk(
    request: pytest.FixtureRequest, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Writer]:
    for name, token in TOKENS.items():
        monkeypatch.setenv(name, token)
    with writing(tmp_path, capfd.readouterr, request.param) as made:
        yield made


def test_a_reply_with_resolve_is_posted_once_and_the_copy_shows_it(desk: Writer) -> None:
    done = desk.robot("reply", desk.thread, "Done.", "--resolve").data
    assert (done["reference"], done["thread"], done["state"]) == (desk.item, desk.thread, "resolved")
    assert (done["reply"]["status"], done["resolution"]["status"], done["refreshed"]) == ("observed", "observed", True)
    assert (desk.in_thread(), desk.is_resolved) == (["Why 40?", "Done."], True)
    assert desk.state() == "resolved"
    compare("reply", done)
    again = desk.robot("reply", desk.thread, "Done.", "--resolve").data
    assert (again["reply"], again["resolution"]) == (done["reply"], done["resolution"])
    assert desk.ours() == ["Done."]


def test_resolving_and_reopening_change_the_server_once_each_and_the_copy_follows(desk: Writer) -> None:
    for command, resolved in (("resolve", True), ("unresolve", False), ("resolve", True)):
        done = desk.robot(command, desk.thread).data
        assert done["resolution"]["status"] == "observed"
        assert (desk.is_resolved, desk.state()) == (resolved, f"{command}d")
        again = desk.robot(command, desk.thread, "--no-refresh").data
        assert (again["state"], again["resolution"]) == (f"{command}d", None)
    assert desk.query("SELECT source, attempts FROM outbox ORDER BY id") == [
        ("resolve", 1), ("unresolve", 1), ("resolve", 1),
    ]  # fmt: skip
    assert "already" in desk.run("resolve", desk.thread).out


def test_a_dry_run_prints_the_request_that_is_sent_afterwards(desk: Writer) -> None:
    before = len(desk.world.log)
    planned = desk.robot("reply", desk.thread, "Done.", "--resolve", "--dry-run").data["requests"]
    assert len(desk.world.log) == before
    assert desk.query("SELECT 1 FROM outbox") == []
    assert [one["method"] for one in planned] == ["POST", "PUT" if desk.forge == "gitlab" else "POST"]
    desk.robot("reply", desk.thread, "Done.", "--resolve", "--no-refresh")
    sent = [path for method, path, _ in desk.world.log[before:] if method != "GET"]
    for one in planned:
        assert one["url"].removeprefix(desk.url).partition("?")[0] in [path.partition("?")[0] for path in sent]
    ((body,),) = desk.query("SELECT body FROM outbox WHERE source = 'reply'")
    assert planned[0]["body"] == {"body": body}
    assert desk.run("resolve", desk.thread, "--dry-run").out.startswith(("PUT http", "POST http"))


def test_every_form_of_reference_leads_to_the_same_thread_and_one_reply(desk: Writer) -> None:
    page = desk.robot("show", "mr", desk.item).data["web_url"]
    fragment = f"note_{desk.comment}" if desk.forge == "gitlab" else f"discussion_r{desk.comment}"
    forms = [desk.thread, str(desk.comment), fragment, f"{page}#{fragment}"]
    if desk.forge == "github":
        ((node,),) = desk.query("SELECT node_id FROM discussions WHERE node_id IS NOT NULL")
        forms += [node, f"{page}/files#r{desk.comment}"]
    for form in forms:
        assert desk.robot("reply", form, "Done.", "--no-refresh").data["thread"] == desk.thread
    assert desk.ours() == ["Done."]
    assert desk.in_thread() == ["Why 40?", "Done."]


def test_a_reply_to_an_item_is_a_comment_on_it(desk: Writer) -> None:
    issue = f"{LAB}#1" if desk.forge == "gitlab" else desk.item
    for reference in (desk.item, issue, issue):
        done = desk.robot("reply", reference, "Seen.").data
        assert done["thread"] is None
        assert done["refreshed"]
    assert len(desk.ours()) == (2 if desk.forge == "gitlab" else 1)
    assert desk.in_thread() == ["Why 40?"]
    shown = desk.run("show", "mr", desk.item).out
    assert "Seen." in shown


@pytest.mark.parametrize("desk", ["gitlab"], indirect=True)
def test_what_cannot_be_answered_or_resolved_is_refused_with_a_remedy(desk: Writer) -> None:
    assert "lore threads" in failed(desk.robot("reply", "0a1b2c", "x"), 6, "NOT_FOUND")["fix"]
    assert desk.thread in failed(desk.robot("resolve", desk.item), 2, "USAGE")["fix"]
    failed(desk.robot("reply", desk.item, "Seen.", "--resolve"), 2, "USAGE")
    desk.robot("reply", desk.item, "Seen.")
    ((comment,),) = desk.query("SELECT comment_id FROM outbox")
    assert "cannot be resolved" in failed(desk.robot("resolve", str(comment)), 2, "USAGE")["message"]
    failed(desk.robot("reply", desk.item), 2, "USAGE")
    failed(desk.robot("reply", desk.item, "x", "--body-file", "-"), 2, "USAGE")
    desk.config.write_text(desk.config.read_text().replace(f'"{LAB}"', "").replace(f'"{HUB}"', ""))
    assert "not configured" in failed(desk.robot("resolve", desk.thread), 2, "CONFIG_INVALID")["message"]
    assert not desk.is_resolved


def test_a_line_that_the_server_would_run_is_refused_and_runs_only_if_allowed(desk: Writer) -> None:
    text = "As asked:\n/close\nThanks."
    if desk.forge == "github":
        desk.robot("reply", desk.thread, text, "--no-refresh")
        assert desk.ours() == ["As asked:"]
        return
    for more in ([], ["--dry-run"]):
        error = failed(desk.robot("reply", desk.thread, text, *more), 2, "USAGE")
        assert (error["details"]["field"], error["details"]["quick_actions"]) == ("body", ["/close"])
        assert "--allow-quick-actions" in error["fix"]
    answer = desk.folder / "answer.md"
    answer.write_text(text)
    failed(desk.robot("feedback", "reply", "--pr", desk.item, "--body-file", str(answer)), 2, "USAGE")
    assert desk.query("SELECT 1 FROM outbox") == []
    for harmless in ("As asked:\n\\/close", "As asked:\n /close", "As asked:\n```\n/close\n```"):
        desk.robot("reply", desk.thread, harmless, "--no-refresh")
    assert desk.request.state == "opened"
    desk.robot("reply", desk.thread, text, "--no-refresh", "--allow-quick-actions")
    assert (desk.request.state, desk.ours()) == ("closed", ["As asked:"] * 4)


def test_a_token_without_write_access_is_named_and_nothing_is_retried(desk: Writer) -> None:
    if desk.forge == "gitlab":
        desk.world.faults.add("status", "PUT /projects/:id/merge_requests", status=403)
    else:
        desk.world.github.settings.graphql_forbidden |= {"Mutation.resolveReviewThread"}
    error = failed(desk.robot("resolve", desk.thread), 1, "REMOTE_REFUSED")
    assert "refused" in error["message"]
    desk.world.github.settings.graphql_forbidden -= {"Mutation.resolveReviewThread"}
    assert desk.robot("resolve", desk.thread).data["resolution"]["status"] == "observed"


def test_a_lost_answer_to_resolve_is_settled_by_reading_the_thread(desk: Writer) -> None:
    desk.lose_answers()
    assert desk.robot("resolve", desk.thread, "--no-refresh").data["resolution"]["attempts"] == 1
    assert desk.is_resolved


def test_a_lost_answer_to_a_reply_delays_the_resolution_until_the_reply_is_confirmed(desk: Writer) -> None:
    desk.lose_answers()
    failed(desk.robot("reply", desk.thread, "Done.", "--resolve"), 7, "PARTIAL_SUCCESS")
    assert desk.robot("poll", desk.forge).data["sent"] == []
    assert not desk.is_resolved
    desk.settle()
    sent = desk.robot("poll", desk.forge).data["sent"]
    assert [(one["source"], one["status"]) for one in sent] == [("reply", "observed"), ("resolve", "observed")]
    assert (desk.ours(), desk.is_resolved) == (["Done."], True)


@pytest.mark.parametrize("desk", ["github"], indirect=True)
def test_a_refused_reply_is_not_followed_by_its_resolution(desk: Writer) -> None:
    route = "POST /projects/:id/merge_requests" if desk.forge == "gitlab" else f"POST /repos/{HUB}/pulls"
    desk.world.faults.add("status", route, status=422)
    failed(desk.robot("reply", desk.thread, "Done.", "--resolve"), 1, "REMOTE_REFUSED")
    assert not desk.is_resolved
    assert desk.query("SELECT source, status FROM outbox ORDER BY id") == [("reply", "failed"), ("resolve", "failed")]


@pytest.mark.parametrize("desk", ["github"], indirect=True)
def test_rejected_credentials_are_named_and_nothing_is_posted(desk: Writer) -> None:
    desk.world.faults.add("status", "POST /repositories", status=401, times=5)
    failed(desk.robot("reply", desk.item, "Done."), 4, "CREDENTIALS_REJECTED")
    assert desk.ours() == []


def test_a_renamed_repository_keeps_its_replies_and_threads(desk: Writer) -> None:
    desk.robot("reply", desk.thread, "Done.", "--no-refresh")
    if desk.forge == "gitlab":
        desk.world.gitlab.rename_project(LAB, "port/quay")
    else:
        desk.world.github.rename_repo(HUB, "harborline/books")
    again = desk.robot("reply", desk.thread, "Done.", "--resolve", "--no-refresh").data
    assert (again["reply"]["status"], again["state"]) == ("observed", "resolved")
    assert desk.query("SELECT source, attempts FROM outbox ORDER BY id") == [("reply", 1), ("resolve", 1)]


@pytest.mark.parametrize("desk", ["gitlab"], indirect=True)
def test_a_resolution_whose_thread_is_gone_fails_and_is_not_repeated(desk: Writer) -> None:
    desk.world.faults.add("status", "PUT /projects/:id/merge_requests", status=500)
    failed(desk.robot("resolve", desk.thread, "--no-refresh"), 7, "PARTIAL_SUCCESS")
    with desk.world.lock:
        desk.request.discussions.clear()
    desk.settle()
    assert [one["status"] for one in desk.robot("poll", "gitlab").data["sent"]] == ["failed"]
    assert desk.robot("poll", "gitlab").data["sent"] == []
