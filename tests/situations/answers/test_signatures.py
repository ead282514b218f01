"""Whose marker is believed: tokens are signed with a secret of this copy, and only our own account proves anything."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

from msgspec.structs import replace
from tests.situations.answers.hub import REPO, Hub

from tidelore.feedback.outbox import AnswerRequest, plan_answer
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import list_projects
from tidelore.store.work.action_tokens import signing_secret


def test_our_marker_posted_by_another_user_does_not_suppress_a_reply(hub: Hub) -> None:
    hub.token = "ghp_ours"
    hub.world.github.settings.tokens["ghp_ours"] = "our-account"
    hub.host = replace(hub.host, settle_write_seconds=1)
    hub.world.faults.add("disconnect", "POST", 1)
    row = hub.send(hub.intend())
    assert (row.status, hub.remarks()) == ("planned", [])
    hub.world.github.comment(REPO, hub.pr, row.body, "a-stranger")
    hub.let_pass(2)
    assert hub.send(row).status == "observed"
    assert [remark.author.login for remark in hub.remarks()] == ["a-stranger", "our-account"]


def test_a_reply_of_ours_is_found_again_whatever_the_case_of_our_login(hub: Hub) -> None:
    hub.token = "ghp_ours"
    hub.world.github.settings.tokens["ghp_ours"] = "our-account"
    hub.host = replace(hub.host, settle_write_seconds=1)
    hub.world.github.settings.lost_answers = 1
    row = hub.send(hub.intend())
    hub.world.github.settings.tokens["ghp_ours"] = "Our-Account"
    hub.let_pass(2)
    assert hub.send(row).status == "observed"
    assert len(hub.remarks()) == 1


def test_a_token_cannot_be_computed_from_public_facts(hub: Hub) -> None:
    project = hub.project()
    plan_answer(hub.database, project, AnswerRequest("pr", hub.pr, "Done.", "reply", token_key="event-1"), 1)
    public = {"host": "github", "scope_kind": "pr", "scope_number": hub.pr, "reply_to": None, "source": "reply"}
    guesses = {
        hashlib.sha256(json.dumps(public | names, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        for names in ({"repo": REPO, "key": "event-1"}, {"repo_id": project.remote_id, "key": "event-1"})
    }
    ((token,),) = hub.database.read("SELECT token FROM action_tokens")
    assert token not in guesses


def test_the_token_secret_is_created_once_and_differs_between_databases(
    hub: Hub, connect: Callable[[], Database]
) -> None:
    first = signing_secret(hub.database, 1)
    assert len(first) == 32
    assert signing_secret(connect(), 2) == first
    with hub.database.transaction() as tx:
        tx.execute("DELETE FROM local_secrets")
    assert signing_secret(hub.database, 3) != first


def test_the_same_token_key_gives_the_same_reply_after_a_repository_rename(hub: Hub) -> None:
    answering = AnswerRequest("pr", hub.pr, "Done.", "reply", token_key="event-1")
    first = plan_answer(hub.database, hub.project(), answering, 1)
    with hub.database.transaction() as tx:
        tx.execute("UPDATE projects SET path = 'harbor/lifts', configured = 'harbor/lifts'")
    (project,) = list_projects(hub.database)
    assert plan_answer(hub.database, project, answering, 2).id == first.id
