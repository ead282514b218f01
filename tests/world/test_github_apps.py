"""Tokens of the simulated GitHub: what it tells of them, GitHub Apps and their installations, ghosts, late writes."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest

from tidelore_world.clock import SECOND_US, parse_iso
from tidelore_world.faults import SimulatedTimeout
from tidelore_world.github import GitHubForge
from tidelore_world.wire import Request, Response
from tidelore_world.world import World

REPO = "harborline/ledger"
TOKEN = {"authorization": "Bearer one"}
GOOD: dict[str, Any] = {"iat": 1_772_441_940, "exp": 1_772_442_540, "iss": "7"}


@pytest.fixture
def world() -> World:
    return World(seed=3)


@pytest.fixture
def forge(world: World) -> GitHubForge:
    forge: GitHubForge = world.github
    forge.create_repo(REPO)
    forge.apps.register(7, "harbor-helper", 8, 9)
    return forge


def send(
    forge: GitHubForge, method: str, target: str, body: Any = None, headers: dict[str, str] | None = None
) -> Response:
    content = b"" if body is None else json.dumps(body).encode()
    found = forge.route(Request.build(method, target, headers, content))
    assert found is not None
    return found[1]()


def base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def claim(said: Any, algorithm: str = "RS256", signature: bytes = b"signed") -> dict[str, str]:
    parts = ({"alg": algorithm, "typ": "JWT"}, said)
    text = ".".join([*(base64url(json.dumps(part).encode()) for part in parts), base64url(signature)])
    return {"authorization": f"Bearer {text}"}


def bought(forge: GitHubForge) -> dict[str, Any]:
    made = send(forge, "POST", "/app/installations/8/access_tokens", headers=claim(GOOD))
    assert made.status == 201, made.body
    token: dict[str, Any] = json.loads(made.body)
    return token


def test_a_response_has_the_scopes_and_the_expiry_of_its_token(world: World, forge: GitHubForge) -> None:
    forge.settings.scopes = "repo, read:org"
    forge.settings.token_expires_us = parse_iso("2026-04-01T12:00:00Z")
    headers = send(forge, "GET", "/user", headers=TOKEN).headers
    assert headers["x-oauth-scopes"] == "repo, read:org"
    assert headers["github-authentication-token-expiration"] == "2026-04-01 12:00:00 UTC"
    forge.settings.token_expiration_offset = True
    headers = send(forge, "GET", f"/repos/{REPO}", headers=TOKEN).headers
    assert headers["github-authentication-token-expiration"] == "2026-04-01 12:00:00 +0000"


def test_fine_grained_tokens_have_no_scopes_and_unlimited_ones_no_expiry(forge: GitHubForge) -> None:
    forge.settings.scopes = None
    headers = send(forge, "GET", "/user", headers=TOKEN).headers
    assert not {"x-oauth-scopes", "github-authentication-token-expiration"} & set(headers)


def test_a_response_without_a_token_has_no_token_headers(forge: GitHubForge) -> None:
    assert "x-oauth-scopes" not in send(forge, "GET", f"/repos/{REPO}").headers


def test_a_jwt_is_exchanged_for_an_installation_token_valid_for_an_hour(world: World, forge: GitHubForge) -> None:
    token = bought(forge)
    assert re.fullmatch(r"ghs_[A-Za-z0-9]{36}", token["token"])
    assert parse_iso(token["expires_at"]) == world.clock.now_us + 3600 * SECOND_US
    assert bought(forge)["token"] != token["token"]
    assert forge.apps.issued == 2


def test_comments_of_an_app_are_written_by_its_bot(forge: GitHubForge) -> None:
    number = forge.create_issue(REPO).number
    mine = {"authorization": f"Bearer {bought(forge)['token']}"}
    assert json.loads(send(forge, "GET", "/app", headers=claim(GOOD)).body)["slug"] == "harbor-helper"
    made = json.loads(send(forge, "POST", f"/repos/{REPO}/issues/{number}/comments", {"body": "Hi."}, mine).body)
    assert (made["user"]["login"], made["user"]["type"]) == ("harbor-helper[bot]", "Bot")
    assert send(forge, "GET", "/user", headers=mine).status == 403


def test_an_expired_installation_token_is_refused(world: World, forge: GitHubForge) -> None:
    mine = {"authorization": f"Bearer {bought(forge)['token']}"}
    world.advance(3599)
    assert send(forge, "GET", f"/repos/{REPO}", headers=mine).status == 200
    world.advance(1)
    assert send(forge, "GET", f"/repos/{REPO}", headers=mine).status == 401


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer ghp_no_claim_at_all"},
        {"authorization": "Bearer a.b.c"},
        {"authorization": f"Basic {claim(GOOD)['authorization'].partition(' ')[2]}"},
        claim(GOOD, algorithm="HS256"),
        claim(GOOD, signature=b""),
        claim(["no", "object"]),
        claim({"iss": "7"}),
        claim({**GOOD, "exp": GOOD["iat"]}),
        claim({**GOOD, "exp": GOOD["iat"] + 700}),
        claim({**GOOD, "iss": "6"}),
        claim({**GOOD, "iss": "harbor"}),
    ],
)
def test_an_invalid_jwt_or_one_of_an_unknown_app_is_refused(forge: GitHubForge, headers: dict[str, str]) -> None:
    assert send(forge, "POST", "/app/installations/8/access_tokens", headers=headers).status == 401
    assert forge.apps.issued == 0


def test_an_app_gets_no_token_for_an_installation_of_another_app(forge: GitHubForge) -> None:
    assert send(forge, "POST", "/app/installations/10/access_tokens", headers=claim(GOOD)).status == 404


def test_comments_of_a_deleted_user_have_no_user(forge: GitHubForge) -> None:
    number = forge.create_pull(REPO, author="ghost").number
    forge.comment(REPO, number, "Boo.", "ghost")
    forge.review_comment(REPO, number, "Boo.", "ghost")
    shown = [forge.truth_comments(REPO), forge.truth_review_comments(REPO), forge.truth_reviews(REPO, number)]
    assert [row["user"] for rows in [*shown, forge.truth_pulls(REPO)] for row in rows] == [None] * 4


@pytest.mark.parametrize("kind", ["issues", "pulls"])
def test_a_write_may_arrive_long_after_its_sender_timed_out(world: World, forge: GitHubForge, kind: str) -> None:
    number = forge.create_pull(REPO).number
    first = forge.review_comment(REPO, number)
    path = f"issues/{number}/comments" if kind == "issues" else f"pulls/{number}/comments/{first.id}/replies"
    forge.settings.late_writes, forge.settings.late_seconds = 1, 20
    with pytest.raises(SimulatedTimeout):
        send(forge, "POST", f"/repos/{REPO}/{path}", {"body": "Slow."})
    listed = f"/repos/{REPO}/{kind}/{number}/comments"

    def bodies() -> list[str]:
        return [row["body"] for row in json.loads(send(forge, "GET", listed).body)]

    world.advance(19.9)
    assert "Slow." not in bodies()
    assert len(forge.late) == 1
    world.advance(5)
    assert bodies()[-1] == "Slow."
    (row,) = (row for row in json.loads(send(forge, "GET", listed).body) if row["body"] == "Slow.")
    assert row["created_at"] == "2026-03-02T09:00:20Z"
    assert send(forge, "POST", f"/repos/{REPO}/{path}", {"body": "Quick."}).status == 201


def test_the_truth_includes_late_writes_without_a_request(world: World, forge: GitHubForge) -> None:
    number = forge.create_issue(REPO).number
    forge.settings.late_writes = 2
    for body in ("one", "two"):
        with pytest.raises(SimulatedTimeout):
            send(forge, "POST", f"/repos/{REPO}/issues/{number}/comments", {"body": body})
    world.advance(30)
    assert [row["body"] for row in forge.truth_comments(REPO, number)] == ["one", "two"]


def test_a_late_write_to_a_deleted_thread_is_dropped(world: World, forge: GitHubForge) -> None:
    number = forge.create_issue(REPO).number
    forge.settings.late_writes = 1
    with pytest.raises(SimulatedTimeout):
        send(forge, "POST", f"/repos/{REPO}/issues/{number}/comments", {"body": "Slow."})
    forge.delete_issue(REPO, number)
    world.advance(30)
    assert forge.truth_comments(REPO) == []
    assert len(forge.late) == 0


def test_an_invalid_write_is_refused_at_once_despite_late_writes(forge: GitHubForge) -> None:
    forge.settings.late_writes = 1
    assert send(forge, "POST", f"/repos/{REPO}/issues/99/comments", {"body": "x"}).status == 404
    assert forge.settings.late_writes == 1


def test_a_rate_limit_on_writes_does_not_limit_reads(forge: GitHubForge) -> None:
    number = forge.create_issue(REPO).number
    forge.limits.impose_secondary(2, retry_after=30, writes_only=True)
    target = f"/repos/{REPO}/issues/{number}/comments"
    assert send(forge, "GET", target, headers=TOKEN).status == 200
    refused = [send(forge, "POST", target, {"body": "x"}, TOKEN) for _ in range(2)]
    assert [(reply.status, reply.headers["retry-after"]) for reply in refused] == [(403, "30")] * 2
    assert send(forge, "POST", target, {"body": "x"}, TOKEN).status == 201
    assert len(forge.truth_comments(REPO)) == 1


def test_two_edits_within_a_second_leave_one_timestamp_and_the_last_body(world: World, forge: GitHubForge) -> None:
    number = forge.create_issue(REPO).number
    made = forge.comment(REPO, number, "one")
    world.advance(0.4)
    forge.edit_comment(made.id, "two")
    forge.edit_comment(made.id, "three", at_us=world.clock.now_us + 100_000)
    (row,) = forge.truth_comments(REPO)
    assert (row["body"], row["updated_at"]) == ("three", row["created_at"])
    assert [r["body"] for r in json.loads(send(forge, "GET", f"/repos/{REPO}/issues/comments").body)] == ["three"]


@pytest.mark.parametrize("path", ["issues/comments", "pulls/comments", "issues/1/comments", "pulls/1/comments"])
def test_a_comment_can_be_deleted_between_two_pages_of_every_comment_list(
    world: World, forge: GitHubForge, path: str
) -> None:
    number = forge.create_pull(REPO).number
    for index in range(4):
        forge.comment(REPO, number, f"{index}")
        forge.review_comment(REPO, number, f"{index}")
    fault = world.faults.add("delete_between", f"/repos/{REPO}/{path}", after=1)
    shown: list[str] = []
    for page in (1, 2):
        reply = world.handle(Request.build("GET", f"/repos/{REPO}/{path}?per_page=2&page={page}"))
        shown += [row["body"] for row in json.loads(reply.body)]
    assert fault.fired == 1
    # One of the first two went, so the third slid onto page 1, unseen.
    assert shown == ["0", "1", "3"]
