"""Webhooks of the real program over real HTTP: a change is stored at once, and nothing that is sent can do harm."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.situations.service.station import LAB, REPOS, Program, Station, Watch, end, free_port, wait_until

from tidelore.core.clock import SystemClock
from tidelore.core.errors import ConfigError
from tidelore.store.work.hooks import EARLY_MS, LATE_MS, Delivery, count_missed, save_deliveries
from tidelore_world import hooks
from tidelore_world.hooks import FORGED_TITLE, Hooked, HookSender, post, sign_github, sign_gitlab

SECRET = "it is only a test"
SIGNING = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
RARELY = 3600.0
now_ms = SystemClock().now_ms


class Receiving:
    """A service that polls once an hour and receives webhooks."""

    def __init__(self, post: Station, process: Program, port: int) -> None:
        self.post = post
        self.process = process
        self.port = port

    def url(self, host: str) -> str:
        return f"http://127.0.0.1:{self.port}/hooks/{host}"

    def until(self, sql: str, wanted: object) -> None:
        wait_until(lambda: self.post.rows(sql) == [(wanted,)], self.process)

    def received(self, result: str) -> int:
        """How many requests ended so, by the counter that the metrics show."""
        rows = self.post.rows("SELECT labels, value FROM metric_counters WHERE name = 'lore_hooks_received_total'")
        return sum(int(value) for labels, value in rows if json.loads(labels)["result"] == result)

    def is_quiet(self) -> bool:
        return self.post.rows("SELECT COUNT(*) FROM hook_deliveries WHERE read_at IS NULL") == [(0,)]


@pytest.fixture
def receiving(post: Station, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiving]:
    """GitLab signs with a signing token, GitHub with its secret; the first poll has ended."""
    monkeypatch.setenv("LAB_HOOKS", SIGNING)
    monkeypatch.setenv("HUB_HOOKS", SECRET)
    post.interval, port = RARELY, free_port()
    with post.world.lock:
        post.world.clock.now_us = time.time_ns() // 1000
    post.lab(extra='hook_secret_env = "LAB_HOOKS"')
    post.hub(extra='hook_secret_env = "HUB_HOOKS"')
    post.write(f"[hooks]\nport = {port}\n")
    process = post.spawn("service")
    jobs = ["gitlab:gitlab", *(f"github:github/{repo}" for repo in REPOS)]
    wait_until(lambda: all(post.jobs()[job].succeeded_at is not None for job in jobs), process)
    found = Receiving(post, process, port)
    yield found
    code, _, err, _ = end(process)
    assert code == 0, err


def remote_id(post: Station) -> int:
    return int(post.rows(f"SELECT remote_id FROM projects WHERE path = '{LAB}'")[0][0])


def test_announced_changes_of_both_forges_are_stored_before_the_next_poll(receiving: Receiving) -> None:
    post, sender = receiving.post, HookSender(receiving.post.world)
    lab = sender.gitlab(receiving.url("gitlab"), SIGNING)
    hub = sender.github(receiving.url("github"), SECRET)
    with post.world.lock:
        post.world.gitlab.edit_issue(LAB, 1, title="A new title")
        first = post.world.gitlab.create_issue(LAB, title="Announced")
        post.world.github.comment(REPOS[0], 1, "Announced too")
    receiving.until("SELECT title FROM issues WHERE iid = 1", "A new title")
    receiving.until(f"SELECT title FROM issues WHERE iid = {first.iid}", "Announced")
    receiving.until("SELECT COUNT(*) FROM notes WHERE body = 'Announced too'", 1)
    with post.world.lock:
        # Within a minute of the edit: no list shows this.
        note = post.world.gitlab.add_note(post.world.gitlab.issue(LAB, 1), "Nobody can see this in a list")
    receiving.until(f"SELECT COUNT(*) FROM notes WHERE remote_id = {note.id}", 1)
    sender.flush()
    assert set(lab.statuses + hub.statuses) == {202}
    told = "SELECT COUNT(*) FROM {} WHERE {} LIKE '%" + FORGED_TITLE + "%'"
    for table, column in (
        ("issues", "title"),
        ("merge_requests", "title"),
        ("notes", "body"),
        ("documents", "content"),
    ):
        assert post.rows(told.format(table, column)) == [(0,)], "no row is written from a payload"


def test_a_push_that_moves_no_update_time_is_read_after_its_hook(receiving: Receiving) -> None:
    post = receiving.post
    HookSender(post.world).gitlab(receiving.url("gitlab"), SIGNING)
    heads = (
        "SELECT m.head_sha FROM merge_requests m JOIN projects p ON p.id = m.project_id"
        f" WHERE p.path = '{LAB}' AND m.iid = "
    )
    with post.world.lock:
        pushed = post.world.gitlab.create_merge_request(LAB)
        post.world.advance(60)
        newest = post.world.gitlab.create_merge_request(LAB)
    receiving.until(f"{heads}{pushed.iid}", pushed.sha)
    receiving.until(f"{heads}{newest.iid}", newest.sha)
    with post.world.lock:
        post.world.gitlab.push(LAB, pushed.iid)
    receiving.until(f"{heads}{pushed.iid}", pushed.sha)


def test_a_deleted_comment_that_moves_no_update_time_is_gone_after_its_hook(receiving: Receiving) -> None:
    post = receiving.post
    HookSender(post.world).github(receiving.url("github"), SECRET)
    with post.world.lock:
        comment = post.world.github.comment(REPOS[0], 1, "Soon deleted")
        post.world.github.comment(REPOS[0], 1, "Stays")
        post.world.advance(60)
        post.world.github.create_issue(REPOS[0], "The newest")
    stored = "SELECT COUNT(*) FROM notes WHERE body IN ('Soon deleted', 'Stays')"
    receiving.until(stored, 2)
    wait_until(receiving.is_quiet, receiving.process)
    with post.world.lock:
        post.world.github.delete_comment(comment.id)
    receiving.until(stored, 1)


def test_a_deleted_issue_is_gone_after_its_hook(receiving: Receiving) -> None:
    post = receiving.post
    HookSender(post.world).github(receiving.url("github"), SECRET)
    with post.world.lock:
        issue = post.world.github.create_issue(REPOS[0], "Soon gone")
    told = f"SELECT deleted_at IS NOT NULL FROM issues WHERE web_url LIKE '%{REPOS[0]}/issues/{issue.number}'"
    receiving.until(told, 0)
    wait_until(receiving.is_quiet, receiving.process)
    with post.world.lock:
        post.world.github.delete_issue(REPOS[0], issue.number)
    receiving.until(told, 1)


@pytest.mark.parametrize("told", ["by both repositories", "by the old one alone"])
def test_a_transferred_issue_is_gone_from_its_repository_and_in_the_new_one_after_its_hook(
    receiving: Receiving, told: str
) -> None:
    post = receiving.post
    HookSender(post.world).github(receiving.url("github"), SECRET)
    with post.world.lock:
        issue = post.world.github.create_issue(REPOS[0], "Soon elsewhere")
    left = f"SELECT deleted_at IS NOT NULL FROM issues WHERE web_url LIKE '%{REPOS[0]}/issues/{issue.number}'"
    receiving.until(left, 0)
    wait_until(receiving.is_quiet, receiving.process)
    heard = "SELECT configured FROM hook_projects JOIN projects ON projects.id = project_id"
    with post.world.lock:
        if told == "by the old one alone":
            post.world.github.repository(REPOS[1]).on_event = None
        moved = post.world.github.transfer_issue(REPOS[0], issue.number, REPOS[1])
    receiving.until(left, 1)
    receiving.until(f"SELECT title FROM issues WHERE web_url LIKE '%{REPOS[1]}/issues/{moved.number}'", issue.title)
    # Only the webhook of a repository itself shows that its webhook works.
    known = REPOS if told == "by both repositories" else REPOS[:1]
    assert {name for (name,) in post.rows(heard)} == set(known)


def test_doubled_late_and_disordered_deliveries_are_read_once_and_do_no_harm(receiving: Receiving) -> None:
    post = receiving.post
    item = post.world.gitlab.issue(LAB, 2)
    now = int(time.time())
    sent = [
        sign_gitlab(SIGNING, "Issue Hook", hooks.gitlab_payload("item", item), now - age, f"delivery-{age}")
        for age in (120, 60, 0)
    ]
    statuses = [hooks.post(receiving.url("gitlab"), one) for one in [*reversed(sent), *sent]]
    assert statuses == [202] * 6
    wait_until(lambda: receiving.received("duplicate") == 3, receiving.process)
    assert post.rows("SELECT COUNT(*) FROM hook_deliveries") == [(3,)]
    wait_until(receiving.is_quiet, receiving.process)
    assert post.rows("SELECT COUNT(*) FROM issues WHERE iid = 2") == [(1,)]


def test_what_is_forged_old_unknown_or_too_large_is_refused_and_stores_nothing(receiving: Receiving) -> None:
    station, now = receiving.post, int(time.time())
    home = {"id": remote_id(station)}
    issue = {"object_kind": "issue", "project": home, "object_attributes": {"iid": 1}}
    other = "whsec_" + base64.b64encode(b"x" * 32).decode()
    lab, hub = receiving.url("gitlab"), receiving.url("github")
    good = sign_gitlab(SIGNING, "Issue Hook", issue, now)
    refused = {
        "another key": post(lab, sign_gitlab(other, "Issue Hook", issue, now)),
        "another body": post(lab, Hooked(good.headers, good.body + b" ")),
        "only the token": post(lab, Hooked({"X-Gitlab-Token": SIGNING}, good.body)),
        "too old": post(lab, sign_gitlab(SIGNING, "Issue Hook", issue, now - 3600)),
        "from the future": post(lab, sign_gitlab(SIGNING, "Issue Hook", issue, now + 3600)),
        "no signature": post(hub, Hooked({"X-GitHub-Event": "issues", "X-GitHub-Delivery": "1"}, b"{}")),
        "wrong signature": post(hub, sign_github("another", "issues", {"repository": {"id": 1}})),
    }
    assert set(refused.values()) == {401}, refused
    stranger = {**issue, "project": {"id": 999_999}}
    assert post(lab, sign_gitlab(SIGNING, "Issue Hook", stranger, now)) == 404
    assert post(receiving.url("elsewhere"), good) == 404
    assert post(hub, sign_github(SECRET, "issues", {"repository": []})) == 400
    assert post(hub, sign_github(SECRET, "ping", {"zen": "Keep it simple."})) == 202
    with socket.create_connection(("127.0.0.1", receiving.port), timeout=5) as raw:
        raw.sendall(b"POST /hooks/gitlab HTTP/1.1\r\nHost: x\r\nContent-Length: 5000001\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 413 ")
    assert station.rows("SELECT COUNT(*) FROM hook_deliveries") == [(0,)]
    wait_until(lambda: receiving.received("refused") == 7, receiving.process)
    told = station.get("/metrics")[1].decode()
    assert 'lore_hooks_received_total{result="refused",source="gitlab"} 5.0' in told, told
    assert post(lab, good) == 202


def test_a_storm_of_deliveries_is_one_read_and_does_not_keep_polls_from_their_turn(
    post: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_HOOKS", SECRET)
    port = free_port()
    post.lab(extra='hook_secret_env = "LAB_HOOKS"')
    post.write(f"[hooks]\nport = {port}\n")
    process = post.spawn("service")
    wait_until(lambda: post.jobs()["gitlab:gitlab"].succeeded_at is not None, process)
    receiving = Receiving(post, process, port)
    item = post.world.gitlab.issue(LAB, 3)
    sent = [
        sign_gitlab(SECRET, "Note Hook", hooks.gitlab_payload("note", item), 0, f"delivery-{number % 150}")
        for number in range(300)
    ]
    polled = post.jobs()["gitlab:gitlab"].succeeded_at or 0
    with ThreadPoolExecutor(16) as senders:
        statuses = list(senders.map(lambda one: hooks.post(receiving.url("gitlab"), one), sent))
    assert set(statuses) == {202}
    wait_until(receiving.is_quiet, process)
    wait_until(lambda: (post.jobs()["gitlab:gitlab"].succeeded_at or 0) > polled + 100, process)
    assert post.rows("SELECT COUNT(*) FROM hook_deliveries") == [(150,)]
    runs = post.rows("SELECT COUNT(*) FROM sync_runs WHERE command = 'lore service (webhooks)'")[0][0]
    assert 1 <= runs < 75, "deliveries of one item are read together"
    assert end(process)[0] == 0


def test_a_delivery_stored_before_a_kill_is_read_by_the_next_service(
    post: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_HOOKS", SECRET)
    post.interval = RARELY
    post.lab(extra='hook_secret_env = "LAB_HOOKS"')
    post.write(f"[hooks]\nport = {free_port()}\n")
    post.once()
    with post.world.lock:
        post.world.gitlab.edit_issue(LAB, 4, title="Edited before the kill")
    with post.database() as database:
        found = Delivery("gitlab", "stored", remote_id(post), "issues", 4, silent=False, received_at=now_ms())
        (project,) = database.read("SELECT id FROM projects WHERE path = :path", {"path": LAB})
        save_deliveries(database, [found], {found.remote_id: project[0]})
    process = post.spawn("service")
    wait_until(lambda: post.rows("SELECT title FROM issues WHERE iid = 4") == [("Edited before the kill",)], process)
    assert end(process)[0] == 0


def test_a_change_that_no_delivery_announced_is_counted_as_missed_once(post: Station) -> None:
    post.lab()
    post.write()
    post.once()
    home = remote_id(post)
    with post.database() as database:
        ((project, since),) = database.read("SELECT project_id, MAX(updated_at) FROM issues GROUP BY project_id")

        def deliver(name: str, iid: int, at: int) -> None:
            one = Delivery("gitlab", name, home, "issues", iid, silent=False, received_at=at)
            assert save_deliveries(database, [one], {home: project}) == ["accepted"]

        deliver("the first", 1, since)
        with post.world.lock:
            for iid in (2, 3):
                post.world.gitlab.edit_issue(LAB, iid, at_us=(since + 1000 * iid) * 1000)
        deliver("announced", 2, since + EARLY_MS)
    post.once()
    with post.database() as database:
        assert count_missed(database, "gitlab", since + LATE_MS + 10_000) == 1
        assert count_missed(database, "gitlab", since + LATE_MS + 20_000) == 0
        assert database.read("SELECT value FROM metric_counters WHERE name = 'lore_hook_missed_total'") == [(1,)]


def test_polls_are_stretched_while_webhooks_work_and_not_after_a_missed_change(
    post: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_HOOKS", SECRET)
    port = free_port()
    post.lab(extra='hook_secret_env = "LAB_HOOKS"')
    post.write(f"[hooks]\nport = {port}\n")
    poll = "gitlab:gitlab"

    async def story(watch: Watch) -> None:
        await watch.rounds(poll)
        item = post.world.gitlab.issue(LAB, 3)
        sent = sign_gitlab(SECRET, "Issue Hook", hooks.gitlab_payload("item", item), 0)
        assert await asyncio.to_thread(hooks.post, f"http://127.0.0.1:{port}/hooks/gitlab", sent) == 202
        await watch.until(lambda: (watch.job(poll).due_at or 0) > now_ms() + 1_000_000, "stretched")
        assert (watch.job(poll).staleness_bound_seconds or 0) > 3 * 1800
        assert json.loads((await watch.get("/healthz"))[1])["ok"]
        with post.database() as database, database.transaction() as tx:
            tx.execute("UPDATE hook_projects SET missed_at = last_at")
        watch.control.announce([poll])
        await watch.rounds(poll)
        assert (watch.job(poll).staleness_bound_seconds or 0) < 1800

    post.serve(story)


def test_a_service_whose_hook_secret_is_missing_does_not_start(post: Station) -> None:
    post.lab(extra='hook_secret_env = "LAB_HOOKS"')
    post.write(f"[hooks]\nport = {free_port()}\n")
    with pytest.raises(ConfigError, match="LAB_HOOKS is not set"):
        post.once()
