"""`lore service` and `lore status` at the command line: what they say, how they end, where they log."""

from __future__ import annotations

import json
import signal
import socket
import time

import pytest
from tests.faces.desk import CONSOLE, LEDGER, Desk
from tests.faces.test_documented_shapes import compare
from tests.support.fork_server import ForkedProcess

PATIENCE_SECONDS = 60.0


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def settle(desk: Desk, extra: str = "", log: str = "", projects: tuple[str, ...] = (LEDGER,)) -> None:
    """Write a configuration whose service listens nowhere, unless `extra` says where."""
    service = extra or "[service]\nmetrics_port = 0\n"
    desk.configure(*projects, extra=f'{service}[embedding]\nprovider = "none"\n[log]\n{log}\n')


@pytest.fixture
def served(desk: Desk) -> Desk:
    """A desk that a service may look after."""
    settle(desk)
    return desk


def test_a_single_round_updates_every_source_and_reports_it(served: Desk) -> None:
    done = served.run("service", "--once")
    assert done.code == 0, done.err
    assert done.out.endswith(" s\n")
    assert "3 jobs, " in done.out
    assert served.query("SELECT COUNT(*) FROM issues") == [(5,)]
    assert served.query("SELECT COUNT(*) FROM dirty_sources") == [(0,)]
    assert "gitlab:gitlab" in done.err, "a service tells what it does as it goes"


def test_service_commands_answer_with_the_documented_fields(served: Desk) -> None:
    round_ = served.robot("service", "--once").data
    compare("service", round_)
    assert {job["state"] for job in round_["jobs"]} == {"stopped"}
    told = served.robot("status").data
    assert told["service"] is None
    assert told["healthy"] is True
    assert [source["source"] for source in told["sources"]] == ["gitlab"]
    told["service"] = dict.fromkeys(("host", "command", "since", "heartbeat_at"), "known") | {"pid": 1}
    told["waiting"] |= {"pulls": {"blocked": 1}, "accounts": {"new": 1}}
    compare("status", told)


def test_the_remaining_points_of_queries_are_shown_and_exported_beside_the_requests(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = "harbour/archive"
    desk.world.github.create_repo(repo)
    desk.world.github.bulk(repo, pulls=2, threads=1, comments=1)
    desk.world.advance(86_400)
    monkeypatch.setenv("GITHUB_TOKEN", "a-token-of-the-tests")
    hub = f'[[github]]\nname = "hub"\nbase_url = "{desk.url}"\nrepos = ["{repo}"]\n'
    desk.configure(extra=f"{hub}[service]\nmetrics_port = 0\n")
    assert desk.run("service", "--once").code == 0
    limits = {limit["source"]: limit for limit in desk.robot("status").data["limits"]}
    points = limits["hub (GraphQL points)"]
    assert points["requests_allowed"] == 5000
    assert 4900 < points["requests_left"] < 5000
    (line,) = [line for line in desk.run("status").out.splitlines() if line.startswith("Requests left: ")]
    assert f"hub (GraphQL points) {points['requests_left']:,} of 5,000" in line
    shown = desk.run("metrics").out
    assert f'lore_source_points_left{{source="hub"}} {points["requests_left"]}' in shown
    assert f'lore_source_requests_left{{source="hub"}} {limits["hub"]["requests_left"]}' in shown


def test_the_remaining_rate_limit_is_shown_and_exported_until_its_reset(served: Desk) -> None:
    served.world.gitlab.rate_limit = 6000
    assert served.run("service", "--once").code == 0
    (source,) = served.robot("status").data["sources"]
    assert source["requests_left"] > 0
    assert source["refilled_at"] is not None
    (line,) = [line for line in served.run("status").out.splitlines() if line.startswith("Requests left: ")]
    assert source["requests_allowed"] == 6000
    assert line.startswith(f"Requests left: gitlab {source['requests_left']:,} of 6,000 for ")
    shown = served.run("metrics").out
    assert f'lore_source_requests_left{{source="gitlab"}} {source["requests_left"]}' in shown
    assert "feedback_events_ingested_total 0.0" in shown
    told = served.robot("metrics").data
    compare("metrics", told)
    names = [metric["name"] for metric in told["metrics"]]
    assert names == [line.split()[2] for line in shown.splitlines() if line.startswith("# TYPE ")]


def test_a_single_round_with_a_failed_job_exits_with_7_and_names_it(served: Desk) -> None:
    settle(served, extra='[[gitlab]]\nname = "away"\nbase_url = "http://127.0.0.1:1"\nprojects = ["a/b"]\n')
    config = served.config.read_text()
    served.config.write_text(config + "[service]\nmetrics_port = 0\n")
    done = served.robot("service", "--once")
    assert done.code == 7
    (failed,) = done.error["details"]["failed"]
    assert (failed["job"], failed["code"]) == ("gitlab:away", "REMOTE_UNAVAILABLE")
    assert served.query("SELECT COUNT(*) FROM issues") == [(5,)]


@pytest.mark.parametrize("duration", ["1", "1s"])
def test_a_service_with_a_duration_ends_with_exit_code_0(served: Desk, duration: str) -> None:
    began = time.monotonic()
    done = served.run("service", "--for", duration, "--quiet")
    assert done.code == 0
    assert time.monotonic() - began < 10
    assert done.err == ""


@pytest.mark.parametrize("duration", ["0", "8x", "nan", "inf"])
def test_a_duration_that_is_none_is_refused(served: Desk, duration: str) -> None:
    refused = served.run("service", "--for", duration)
    assert refused.code == 2
    assert f"invalid value for --for: '{duration}'" in refused.err


def test_a_service_with_nothing_to_sync_is_refused_with_a_fix(desk: Desk) -> None:
    desk.config.write_text("[service]\nmetrics_port = 0\n")
    done = desk.robot("service", "--once")
    assert (done.code, done.error["code"]) == (2, "CONFIG_INVALID")
    assert "[[gitlab]]" in done.error["fix"]


def test_a_metrics_port_in_use_is_refused_with_a_fix(desk: Desk) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settle(desk, extra=f"[service]\nmetrics_port = {taken.getsockname()[1]}\n")
        done = desk.robot("service")
    assert done.code == 2
    assert "service.metrics_port" in done.error["fix"]
    assert desk.robot("status").data["service"] is None, "the lease is given back"


def test_service_status_shows_the_running_service_without_requests(desk: Desk) -> None:
    settle(desk, extra=f"[service]\nmetrics_port = {free_port()}\n", projects=(LEDGER, CONSOLE))
    process = desk.start("service")
    try:
        wait_for(desk, process)
        asked = len(desk.world.log)
        told = desk.robot("status").data
        assert told["service"]["pid"] == process.pid
        lines = desk.run("status").out.splitlines()
        assert lines[0].startswith("Service running for ")
        assert any(line.startswith("gitlab:gitlab") for line in lines)
        assert all(len(line) <= 80 for line in lines[1:])
        assert len(desk.world.log) == asked
        second = desk.robot("service")
        assert (second.code, second.error["details"]["holder_pid"]) == (3, process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0, (out, err)
    assert desk.run("status").out.startswith("No service is running on this database")


def test_status_of_a_service_names_a_source_whose_last_run_was_partial(desk: Desk) -> None:
    desk.world.faults.add("status", "GET /projects/:id/issues/:iid/discussions", times=None, status=500)
    settle(desk, extra=f"[service]\nmetrics_port = {free_port()}\n", projects=(LEDGER,))
    process = desk.start("service")
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "errors: gitlab." not in (first := desk.run("status").out.partition("\n")[0]):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, first
            time.sleep(0.1)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


def wait_for(desk: Desk, process: ForkedProcess) -> None:
    """Wait until the service has finished its first sync."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        done = desk.robot("status")
        jobs = done.data["jobs"] if done.code == 0 else []
        if any(job["kind"] == "sync" and job["succeeded_at"] for job in jobs):
            return
        time.sleep(0.1)


def test_service_status_watch_redraws_until_interrupted(served: Desk) -> None:
    assert served.run("service", "--once").code == 0
    process = served.start("status", "--watch", "--every", "0.2")
    assert process.stdout is not None
    drawn = 0
    while drawn < 2:
        line = process.stdout.readline()
        assert line, "ended by itself"
        drawn += "No service is running" in line
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert served.robot("status", "--watch").code == 2


def test_service_status_of_a_missing_database_is_not_found(desk: Desk) -> None:
    assert desk.robot("status").code == 6


# Logs


def test_logs_are_written_to_a_rotating_file(served: Desk) -> None:
    path = served.folder / "logs" / "lore.log"
    settle(served, log=f'file = "{path}"\nformat = "json"\nmax_megabytes = 0.001\nkeep = 2')
    for _ in range(4):
        done = served.spawn("service", "--once")
        assert (done.code, done.err) == (0, "")
    kept = sorted(file.name for file in path.parent.iterdir())
    assert kept == ["lore.log", "lore.log.1", "lore.log.2"]
    events = [json.loads(line)["event"] for file in path.parent.iterdir() for line in file.read_text().splitlines()]
    assert "service_started" in events


def test_a_log_file_that_cannot_be_written_is_a_config_error(served: Desk) -> None:
    settle(served, log='file = "/dev/null/lore.log"')
    done = served.robot("service", "--once")
    assert (done.code, done.error["details"]["key"]) == (2, "log.file")


def test_json_logs_contain_job_source_and_request_count(served: Desk) -> None:
    settle(served, log='format = "json"')
    done = served.run("service", "--once")
    records = [json.loads(line) for line in done.err.splitlines()]
    (sync,) = [record for record in records if record.get("job") == "gitlab:gitlab" and record["level"] == "info"]
    assert sync["event"] == "job_finished"
    assert sync["source"] == "gitlab"
    assert sync["requests"] > 10
