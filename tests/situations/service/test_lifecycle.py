"""The real program: one of it, an orderly end within seconds, new settings while it runs, answers to whoever asks."""

from __future__ import annotations

import json
import os
import signal
import socket

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.situations.service.station import REPOS, Station, Watch, end, free_port, hear, wait_until
from tests.support.deep import gate_cases

from tidelore.core.errors import ConfigError, LockHeld, UserError
from tidelore.core.process import ProcessIdentity

SECONDS = 8.0
"""An end within seconds, on a machine that has other things to do."""


@pytest.fixture
def ready(post: Station) -> Station:
    """Two sources, configured."""
    post.lab()
    post.hub()
    post.write()
    return post


def runs(post: Station) -> dict[str, int]:
    return {str(s): int(n) for s, n in post.rows("SELECT status, COUNT(*) FROM sync_runs GROUP BY status")}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@gate_cases(1)
def test_a_signal_stops_the_service_with_exit_code_0_and_no_open_run(ready: Station, number: int) -> None:
    process = ready.spawn("service")
    wait_until(lambda: ready.jobs()["gitlab:gitlab"].succeeded_at is not None, process)
    code, out, err, seconds = end(process, number)
    assert code == 0, err
    assert seconds < SECONDS
    assert "job runs in" in out
    assert "running" not in runs(ready)
    assert {job.state for job in ready.jobs().values()} == {"stopped"}
    assert set(ready.rows("SELECT holder_host FROM leases")) == {(None,)}
    events = [json.loads(line)["event"] for line in err.splitlines()]
    assert (events[0], events[-1]) == ("service_started", "service_stopped")


def test_a_signal_during_a_long_read_cancels_the_run_cleanly(ready: Station) -> None:
    fault = ready.world.faults.add("slow", "GET /projects", None, seconds=30)
    process = ready.spawn("service")
    wait_until(lambda: bool(fault.fired), process)
    wait_until(lambda: runs(ready).get("running", 0) > 0, process)
    code, _, err, seconds = end(process)
    assert code == 0, err
    assert seconds < SECONDS
    assert "running" not in runs(ready)
    assert runs(ready)["cancelled"] >= 1
    ready.world.faults.faults.clear()
    ready.once()
    assert ready.rows("SELECT COUNT(*) FROM issues") == [(5,)]


def test_a_second_service_is_refused_naming_the_first(ready: Station) -> None:
    process = ready.spawn("service")
    wait_until(lambda: bool(ready.jobs()), process)
    second = ready.spawn("service", "--robot")
    out, _ = second.communicate(timeout=30)
    assert second.returncode == 3
    error = json.loads(out)["error"]
    assert (error["code"], error["details"]["holder_pid"]) == ("LOCK_HELD", process.pid)
    assert "lore service" in error["message"]
    assert process.poll() is None, "the first goes on"
    assert end(process)[0] == 0


def test_after_a_killed_service_another_can_start_at_once(ready: Station) -> None:
    ready.world.faults.add("slow", "GET /projects", 1, seconds=20)
    process = ready.spawn("service")
    wait_until(lambda: runs(ready).get("running", 0) > 0, process)
    process.kill()
    process.communicate()
    ready.world.faults.faults.clear()
    report = ready.once()
    assert report.errors == {}
    assert runs(ready)["crashed"] >= 1
    assert "running" not in runs(ready)


@pytest.mark.deep
def test_a_changed_config_file_is_reloaded_and_an_invalid_one_refused(ready: Station) -> None:
    process = ready.spawn("service")
    wait_until(lambda: bool(ready.jobs()), process)
    ready.hub(repos=REPOS[:1])
    ready.write()
    wait_until(lambda: f"github:github/{REPOS[1]}" not in ready.jobs(), process)
    ready.config.write_text("[http]\nper_pages = 3\n")
    heard = hear(process, "config_refused")
    assert set(ready.jobs()) >= {"gitlab:gitlab", f"github:github/{REPOS[0]}"}, "the old settings go on"
    asked = len(ready.world.log)
    wait_until(lambda: len(ready.world.log) > asked, process)
    ready.hub()
    ready.write()
    wait_until(lambda: f"github:github/{REPOS[1]}" in ready.jobs(), process)
    code, _, err, _ = end(process)
    assert code == 0
    told = [json.loads(line)["event"] for line in (heard + err).splitlines()]
    assert [event for event in told if event.startswith("config_")] == [
        "config_reloaded",
        "config_refused",
        "config_reloaded",
    ]


def test_a_reload_with_nothing_to_sync_is_refused(ready: Station, caplog: pytest.LogCaptureFixture) -> None:
    async def story(watch: Watch) -> None:
        await watch.until(lambda: bool(ready.jobs()))
        ready.config.write_text("")
        watch.control.reload()
        await watch.until(lambda: "config_refused" in {getattr(record, "event", "") for record in caplog.records})
        await watch.rounds("gitlab:gitlab", 1)

    ready.serve(story)


def test_sighup_reloads_even_an_unchanged_config_file(ready: Station) -> None:
    process = ready.spawn("service")
    wait_until(lambda: bool(ready.jobs()), process)
    for _ in range(2):
        process.send_signal(signal.SIGHUP)
        hear(process, "config_reloaded")
    assert end(process)[0] == 0


def test_changing_the_database_path_while_running_is_refused(post: Station, caplog: pytest.LogCaptureFixture) -> None:
    post.named = False
    post.lab()
    post.write(f'[storage]\npath = "{post.db}"\n')

    async def story(watch: Watch) -> None:
        await watch.until(lambda: bool(post.jobs()))
        post.write(f'[storage]\npath = "{post.folder}/another.db"\n')
        await watch.until(lambda: "config_refused" in {getattr(record, "event", "") for record in caplog.records})
        await watch.rounds("gitlab:gitlab", 2)

    post.serve(story)
    assert not (post.folder / "another.db").exists()


def test_metrics_parse_with_the_prometheus_client_and_health_sets_the_status_code(ready: Station) -> None:
    ready.lab("away", f"http://127.0.0.1:{free_port()}")
    ready.write()

    async def story(watch: Watch) -> None:
        await watch.until(lambda: watch.job("gitlab:away").failures > 0)
        await watch.until(lambda: watch.job("gitlab:gitlab").succeeded_at is not None)
        status, body = await watch.get("/healthz")
        assert status == 200, body
        assert json.loads(body)["ok"] is True
        status, body = await watch.get("/metrics")
        families = {family.name: family for family in text_string_to_metric_families(body.decode())}
        assert families["lore_service_up"].samples[0].value == 1
        requests = {sample.labels["source"]: sample.value for sample in families["lore_requests"].samples}
        assert requests["gitlab"] > 10
        backing_off = {s.labels["job"]: s.value for s in families["lore_job_backing_off"].samples}
        assert (backing_off["gitlab:away"], backing_off["gitlab:gitlab"]) == (1, 0)
        assert (await watch.get("/"))[0] == 404
        # As if the service had begun long ago: what never succeeded is out of its bound by now.
        with ready.database() as database, database.transaction() as tx:
            tx.execute("UPDATE leases SET acquired_at = 0 WHERE name = 'service'")
        status, body = await watch.get("/healthz")
        assert status == 503
        verdict = {source["source"]: source["ok"] for source in json.loads(body)["sources"]}
        assert verdict["away"] is False
        assert verdict["gitlab"] is True

    ready.serve(story)


def test_a_forced_lease_takeover_ends_the_service_with_exit_code_3(ready: Station) -> None:
    text = ready.config.read_text().replace("[sync]\n", "[sync]\nheartbeat_interval_seconds = 0.2\n")
    ready.config.write_text(text)
    process = ready.spawn("service")
    wait_until(lambda: bool(ready.jobs()), process)
    refused = ready.spawn("service", "--force", "--for", "4")
    _, err = refused.communicate(timeout=30)
    assert (refused.returncode, process.poll()) == (2, None), "who cannot have the port does not end the first one"
    second = ready.config.with_name("other.toml")
    second.write_text(text.replace(f"metrics_port = {ready.port}", f"metrics_port = {free_port()}"))
    other = ready.spawn("service", "--force", "--for", "4", config=second)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 3, (out, err)
    out, err = other.communicate(timeout=30)
    assert other.returncode == 0, err


def test_without_a_port_nothing_listens_and_a_changed_port_takes_effect(ready: Station) -> None:
    port, ready.port = ready.port, 0
    ready.write()

    async def story(watch: Watch) -> None:
        await watch.until(lambda: bool(ready.jobs()))
        ready.port = port
        with pytest.raises(OSError, match="refused"):
            await watch.get("/healthz")
        ready.write()
        watch.control.reload()
        await watch.until(lambda: is_listening(port))
        assert (await watch.get("/healthz"))[0] == 200

    ready.serve(story)


def is_listening(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


def test_a_port_in_use_stops_the_start_and_leaves_the_lease_alone(ready: Station) -> None:
    ready.once()
    us = ProcessIdentity.current()
    row = {"host": us.host, "pid": us.pid, "started": us.started.replace(".", ".1", 1)}
    with ready.database() as database, database.transaction() as tx:
        # A service in another container, silent for longer than `stale_lock_minutes`: its lease could be taken.
        tx.execute(
            "UPDATE leases SET holder_host = :host, holder_pid = :pid, holder_started = :started, heartbeat_at = 1"
            " WHERE name = 'service'",
            row,
        )
    before = ready.rows("SELECT * FROM leases WHERE name = 'service'")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", ready.port))
        taken.listen()
        with pytest.raises(UserError, match="cannot listen"):
            ready.once()
        assert ready.rows("SELECT * FROM leases WHERE name = 'service'") == before
    assert ready.once().errors == {}


def test_a_service_with_nothing_to_sync_is_a_config_error(post: Station) -> None:
    post.write()
    with pytest.raises(ConfigError, match="nothing to do"):
        post.once()


def test_a_lease_held_by_another_command_is_waited_for_without_a_failure(ready: Station) -> None:
    ready.once()
    us = ProcessIdentity.current()
    with ready.database() as database, database.transaction() as tx:
        tx.execute(
            "UPDATE leases SET holder_host = :host, holder_pid = :pid, holder_started = :started,"
            " heartbeat_at = 9000000000000000, command = 'lore sync' WHERE name = 'sync'",
            {"host": us.host, "pid": os.getppid(), "started": ""},
        )

    async def story(watch: Watch) -> None:
        await watch.until(lambda: watch.job("gitlab:gitlab").last_error is not None)
        job = watch.job("gitlab:gitlab")
        assert (job.state, job.failures) == ("idle", 0)
        assert "lore sync" in (job.last_error or "")
        with ready.database() as database, database.transaction() as tx:
            tx.execute("UPDATE leases SET holder_host = NULL WHERE name = 'sync'")
        await watch.rounds("gitlab:gitlab", 1)

    ready.serve(story)


def test_an_in_process_service_is_refused_while_another_one_runs(ready: Station) -> None:
    process = ready.spawn("service")
    wait_until(lambda: bool(ready.jobs()), process)
    with pytest.raises(LockHeld):
        ready.once()
    assert end(process)[0] == 0


def test_a_service_with_a_token_learns_our_login_once(post: Station, monkeypatch: pytest.MonkeyPatch) -> None:
    post.world.gitlab.token = "a-token-that-works"
    monkeypatch.setenv("GITLAB_TOKEN", "a-token-that-works")
    post.lab()
    post.hub()
    post.write()
    process = post.spawn("service")
    wait_until(lambda: post.rows("SELECT source FROM own_logins") == [("gitlab",)], process)
    end(process)
    process = post.spawn("service")
    asked = post.spent(lambda: wait_until(lambda: post.jobs()["gitlab:gitlab"].succeeded_at is not None, process))
    end(process)
    assert not [route for route in asked if route.endswith("/user")]
