"""Webhooks that workers receive: any of them listens, any of them reads what was announced, none forgets it."""

from __future__ import annotations

import signal
import time

import pytest
from tests.situations.service.station import LAB, REPOS, Program, Station, end, free_port, wait_until
from tests.situations.service.test_hooks import SECRET, SIGNING, Receiving
from tests.situations.service.test_postgres import log_of

from tidelore_world.hooks import HookSender

SCOPES = [f"gitlab:gitlab/{LAB}", *(f"github:github/{repo}" for repo in REPOS)]
SOON_SECONDS = 20.0
"""Far less than the interval of the polls, and less than that of the scope that looks for forgotten deliveries."""


@pytest.fixture
def hooked(post: Station, postgres_address: str, monkeypatch: pytest.MonkeyPatch) -> Station:
    """A station whose forges are polled once an hour and announce changes to workers."""
    monkeypatch.setenv("LAB_HOOKS", SIGNING)
    monkeypatch.setenv("HUB_HOOKS", SECRET)
    post.server, post.interval = postgres_address, 3600.0
    with post.world.lock:
        post.world.clock.now_us = time.time_ns() // 1000
    post.lab(extra='hook_secret_env = "LAB_HOOKS"')
    post.hub(extra='hook_secret_env = "HUB_HOOKS"')
    post.write(f'file = "{log_of(post)}"\n[hooks]\nport = {free_port()}\n')
    return post


def start(post: Station, *options: str) -> Receiving:
    """Start a worker and wait until every project was read once."""
    process = post.spawn("worker", "--concurrency", "3", *options)
    wait_until(lambda: all(post.jobs()[name].succeeded_at is not None for name in SCOPES), process)
    return Receiving(post, process, post.app().config.hooks.port)


def stop(*workers: Program) -> None:
    for worker in workers:
        code, _, err, _ = end(worker)
        assert code == 0, err


def is_stored(post: Station, sql: str) -> bool:
    return post.rows(f"SELECT COUNT(*) FROM {sql}") == [(1,)]


def test_a_change_announced_to_one_worker_is_stored_before_the_next_poll(hooked: Station) -> None:
    receiving = start(hooked, "--hooks")
    other = hooked.spawn("worker", "--no-hooks")
    sender = HookSender(hooked.world)
    lab = sender.gitlab(receiving.url("gitlab"), SIGNING)
    hub = sender.github(receiving.url("github"), SECRET)
    with hooked.world.lock:
        hooked.world.gitlab.edit_issue(LAB, 1, title="A new title")
        hooked.world.github.comment(REPOS[0], 1, "Announced too")
    wait_until(
        lambda: (
            is_stored(hooked, "issues WHERE title = 'A new title'")
            and is_stored(hooked, "notes WHERE body = 'Announced too'")
        ),
        receiving.process,
        SOON_SECONDS,
    )
    wait_until(receiving.is_quiet, receiving.process, SOON_SECONDS)
    sender.flush()
    assert set(lab.statuses + hub.statuses) == {202}
    stop(receiving.process, other)
    assert "Traceback" not in log_of(hooked).read_text()


def test_a_push_that_no_list_shows_is_read_by_a_worker_after_its_hook(hooked: Station) -> None:
    receiving = start(hooked)
    HookSender(hooked.world).gitlab(receiving.url("gitlab"), SIGNING)
    with hooked.world.lock:
        pushed = hooked.world.gitlab.create_merge_request(LAB)
        hooked.world.advance(60)
        newest = hooked.world.gitlab.create_merge_request(LAB)
    for one in (newest, pushed):
        stored = f"merge_requests WHERE iid = {one.iid} AND head_sha = '{one.sha}'"
        wait_until(lambda stored=stored: is_stored(hooked, stored), receiving.process, SOON_SECONDS)  # type: ignore[misc]
    with hooked.world.lock:
        hooked.world.gitlab.push(LAB, pushed.iid)
    moved = f"merge_requests WHERE iid = {pushed.iid} AND head_sha = '{pushed.sha}'"
    wait_until(lambda: is_stored(hooked, moved), receiving.process, SOON_SECONDS)
    stop(receiving.process)


def test_a_delivery_whose_project_could_not_be_read_still_waits(hooked: Station) -> None:
    receiving = start(hooked)
    HookSender(hooked.world).gitlab(receiving.url("gitlab"), SIGNING)
    broken = hooked.world.faults.add("status", "GET /projects", 1000, status=502)
    with hooked.world.lock:
        hooked.world.gitlab.edit_issue(LAB, 1, title="Announced to a broken host")
    failed = f"service_jobs WHERE name = 'gitlab:gitlab/{LAB}' AND failures > 0"
    wait_until(lambda: is_stored(hooked, failed), receiving.process, SOON_SECONDS)
    assert broken.fired
    assert not receiving.is_quiet()
    stop(receiving.process)


def test_another_worker_of_the_machine_receives_webhooks_when_the_first_is_killed(hooked: Station) -> None:
    first = start(hooked)
    second = hooked.spawn("worker")
    wait_until(lambda: "another process receives webhooks" in log_of(hooked).read_text(), second)
    refused = hooked.spawn("worker", "--hooks", "--robot")
    out, err = refused.communicate(timeout=30)
    assert refused.returncode != 0
    assert "hooks.port" in out + err
    first.process.send_signal(signal.SIGKILL)
    first.process.communicate(timeout=30)
    wait_until(lambda: log_of(hooked).read_text().count("hooks_listening") == 2, second)
    HookSender(hooked.world).gitlab(first.url("gitlab"), SIGNING)
    with hooked.world.lock:
        hooked.world.gitlab.edit_issue(LAB, 2, title="Announced to the second")
    wait_until(lambda: is_stored(hooked, "issues WHERE title = 'Announced to the second'"), second, SOON_SECONDS)
    stop(second)
