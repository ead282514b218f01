"""`lore hooks`: webhooks installed through the API of both forges, and compared with what arrived."""

from __future__ import annotations

import time

import pytest
from tests.faces.desk import LEDGER, Desk
from tests.faces.test_documented_shapes import compare
from tests.situations.service.station import free_port, wait_until

from tidelore_world.hooks import HookSender
from tidelore_world.server import serve
from tidelore_world.world import World

REPO = "octo/tide"


@pytest.fixture
def hooked(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A synced GitLab project and a synced GitHub repository, whose hosts have secrets."""
    monkeypatch.setenv("LAB_HOOKS", "a secret of the lab")
    monkeypatch.setenv("HUB_HOOKS", "a secret of the hub")
    with desk.world.lock:
        desk.world.github.create_repo(REPO)
        desk.world.github.create_issue(REPO, "An issue")
        desk.world.clock.now_us = time.time_ns() // 1000
    desk.configure(
        LEDGER,
        extra=f'[[github]]\nbase_url = "{desk.url}"\nrepos = ["{REPO}"]\nhook_secret_env = "HUB_HOOKS"\n'
        "poll_interval_seconds = 3600\n[service]\nmetrics_port = 0\ngitlab_interval_seconds = 3600\n"
        '[embedding]\nprovider = "none"\n',
    )
    text = desk.config.read_text().replace("[[gitlab]]\n", '[[gitlab]]\nhook_secret_env = "LAB_HOOKS"\n')
    desk.config.write_text(text)
    assert desk.run("sync").code == 0
    return desk


def actions(desk: Desk, *options: str) -> list[str]:
    done = desk.robot("hooks", "install", "--url", "https://lore.example.com/", *options).data
    compare("hooks install", done)
    return [item["action"] for item in done["items"]]


def test_install_creates_webhooks_on_both_forges_once_and_completes_what_lacks_an_event(hooked: Desk) -> None:
    world = hooked.world
    assert actions(hooked, "--dry-run") == ["created", "created"]
    project = next(one for one in world.gitlab.projects.values() if one.path == LEDGER)
    (repo,) = [one for one in world.github.hub.repositories.values() if one.full_name == REPO]
    assert world.gitlab.hooks.of(project.id) == []
    assert actions(hooked) == ["created", "created"]
    (lab,), (hub,) = world.gitlab.hooks.of(project.id), world.github.hooks.of(repo.id)
    assert (lab.url, lab.secret) == ("https://lore.example.com/hooks/gitlab", "a secret of the lab")
    assert (hub.url, hub.secret) == ("https://lore.example.com/hooks/github", "a secret of the hub")
    assert actions(hooked) == ["unchanged", "unchanged"]
    with world.lock:
        lab.fields["note_events"] = False
    (first, _) = hooked.robot("hooks", "install", "--url", "https://lore.example.com", "--dry-run").data["items"]
    assert (first["action"], first["missing"]) == ("completed", ["note_events"])
    assert actions(hooked, "--source", "gitlab") == ["completed"]
    assert actions(hooked, "--renew") == ["renewed", "renewed"]
    assert len(world.gitlab.hooks.of(project.id)) == len(world.github.hooks.of(repo.id)) == 1


def test_install_reports_a_forge_that_refuses_and_goes_on(hooked: Desk) -> None:
    hooked.world.faults.add("status", "POST /projects/:id/hooks", times=None, status=403)
    done = hooked.robot("hooks", "install", "--url", "https://lore.example.com")
    assert done.code == 7
    assert done.error["details"]["projects"] == [LEDGER]
    assert [item["action"] for item in done.document["data"]["items"]] == ["failed", "created"]


@pytest.mark.parametrize("url", ["lore.example.com", "ftp://x", "https://me:secret@x.example", "https://x/?a=b"])
def test_install_refuses_an_address_that_no_forge_could_use(hooked: Desk, url: str) -> None:
    assert hooked.robot("hooks", "install", "--url", url).code == 2


def test_check_tells_missing_failing_and_working_webhooks_apart(hooked: Desk) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    done = hooked.robot("hooks", "check")
    assert done.code == 7
    assert [item["state"] for item in done.document["data"]["items"]] == ["missing", "missing"]
    assert hooked.run("hooks", "install", "--url", url).code == 0
    sender = HookSender(hooked.world)
    sender.installed()
    with hooked.world.lock:
        hooked.world.gitlab.edit_issue(LEDGER, 1)
    sender.flush()
    lab, _ = hooked.robot("hooks", "check").document["data"]["items"]
    assert (lab["state"], lab["sent"], lab["stored"]) == ("failing", 1, 0), "no service listens"
    hooked.config.write_text(hooked.config.read_text() + f"[hooks]\nport = {port}\n")
    process = hooked.start("service", "--quiet")
    try:
        wait_until(lambda: _listens(hooked, sender), process)
        with hooked.world.lock:
            hooked.world.github.comment(REPO, 1, "Delivered")
        sender.flush()
        checked = hooked.robot("hooks", "check", "--url", url).data
        table = hooked.run("hooks", "check", "--url", url).out
    finally:
        process.terminate()
        process.communicate(timeout=30)
    compare("hooks check", checked)
    assert [item["state"] for item in checked["items"]] == ["ok", "ok"]
    assert all(item["stored"] == item["accepted"] >= 1 for item in checked["items"])
    assert all(item["last_received_at"] in table for item in checked["items"]), "a time that people can read"


def _listens(desk: Desk, sender: HookSender) -> bool:
    with desk.world.lock:
        desk.world.gitlab.edit_issue(LEDGER, 1)
    sender.flush()
    return desk.query("SELECT COUNT(*) FROM hook_deliveries") != [(0,)]


def test_install_creates_nothing_in_a_project_of_another_server_that_has_the_same_id(hooked: Desk) -> None:
    other = World()
    for path in ("somebody/elses", LEDGER):
        other.gitlab.create_project(path)
    with serve(other) as server:
        text = hooked.config.read_text()
        hooked.config.write_text(text.replace(f'base_url = "{hooked.url}"', f'base_url = "{server.url}"', 1))
        found = hooked.robot("hooks", "install", "--url", "https://lore.example.com", "--source", "gitlab")
    (failed,) = found.document["error"]["details"]["projects"]
    assert failed == LEDGER
    assert all(other.gitlab.hooks.of(project.id) == [] for project in other.gitlab.projects.values())
