"""`lore simulate`, `lore demo` and `lore completions`, as real processes where that matters."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tests.faces.desk import COMMAND, META, Desk
from tests.support.fork_server import fork_lore


@contextmanager
def simulating(*argv: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*COMMAND, "simulate", "--scale", "0.05", *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=10)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_simulated_world_is_served_until_a_signal(home: Path, number: signal.Signals) -> None:
    with simulating("--robot", "--port", "0", "--seed", "3") as process:
        assert process.stdout is not None
        document = json.loads(process.stdout.readline())
        assert set(document) == {"ok", "data", "meta"}
        assert set(document["meta"]) == META
        assert document["meta"]["command"] == "simulate"
        assert set(document["data"]) == {"url", "projects", "repos", "accounts"}
        with urlopen(f"{document['data']['url']}/_sim/projects", timeout=10) as answer:
            served = [project["path"] for project in json.load(answer)]
        assert served == document["data"]["projects"]
        process.send_signal(number)
        out, err = process.communicate(timeout=10)
        assert (process.returncode, out, err) == (0, "", "")


def test_a_simulated_world_prints_the_config_to_use(desk: Desk) -> None:
    with simulating() as process:
        assert process.stdout is not None
        lines: list[str] = []
        while not lines or not lines[-1].startswith("Control:"):
            lines.append(process.stdout.readline())
        shown = "".join(lines)
        start = shown.index("[[gitlab]]")
        desk.config.write_text(shown[start : shown.index("Control:")])
        checked = desk.run("doctor")
        assert checked.code == 0, checked.out
        assert desk.run("ingest", "--type", "issues").code == 0
        assert desk.robot("count").data["issues"]["total"] > 0


def test_a_simulated_world_starts_now_and_its_time_passes_unless_a_start_is_given(home: Path) -> None:
    def times(*argv: str) -> list[datetime]:
        with simulating("--robot", *argv) as process:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["data"]["url"]
            found = []
            for _ in range(2):
                with urlopen(f"{url}/api/v4/version", timeout=10) as answer:
                    found.append(parsedate_to_datetime(answer.headers["date"]))
            return found

    before = datetime.now(UTC).replace(microsecond=0)
    first, second = times()
    assert before <= first <= second <= datetime.now(UTC)
    assert times("--start", "2026-03-02T09:00:00Z") == [datetime(2026, 3, 2, 9, tzinfo=UTC)] * 2


def test_an_invalid_start_of_a_simulated_world_is_refused(desk: Desk) -> None:
    outcome = desk.run("simulate", "--start", "yesterday")
    assert outcome.code == 2
    assert "invalid value for --start: 'yesterday'" in outcome.err


def test_a_simulator_port_in_use_is_reported(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [*COMMAND, "simulate", "--scale", "0.05", "--robot", "--port", str(port)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    error = json.loads(done.stdout)["error"]
    assert error["details"] == {"port": port}
    assert "--port" in error["fix"]


COMPARED = [
    "issues",
    "merge_requests",
    "statuses",
    "discussions",
    "notes",
    "state_events",
    "label_events",
    "milestone_events",
    "closed_issues",
    "files",
    "reviewers",
    "github_issues",
    "github_pull_requests",
    "github_comments",
    "github_review_comments",
    "github_reviews",
    "github_threads",
    "github_closing_issues",
    "github_files",
    "github_topics",
    "github_topic_comments",
    "github_state_events",
    "github_timeline_events",
    "posts",
]


def test_the_demo_prints_its_steps_and_ends_without_differences(desk: Desk, tmp_path: Path) -> None:
    spare = tmp_path / "spare"
    spare.mkdir()
    done = desk.spawn("demo", "--scale", "0.2", TMPDIR=str(spare))
    assert done.code == 0
    assert done.err == ""
    assert "inside a transaction" in done.out
    assert max(len(line) for line in done.out.splitlines()) <= 100
    comparison = [line for line in done.out.splitlines() if "missing" in line]
    assert len(comparison) == len(COMPARED)
    assert all(line.endswith("0 missing, 0 extra, 0 different") for line in comparison)
    assert list(spare.iterdir()) == []
    assert not desk.db.exists()


@pytest.fixture(scope="module")
def demonstration() -> dict[str, Any]:
    """What the demo reports to programs."""
    process = fork_lore(["demo", "--scale", "0.2", "--seed", "11", "--robot"], os.environ)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    data: dict[str, Any] = json.loads(out)["data"]
    return data


@pytest.mark.deep
def test_the_demo_has_a_robot_report(demonstration: dict[str, Any]) -> None:
    data = demonstration
    assert data["seed"] == 11
    assert [found["list"] for found in data["comparison"]] == COMPARED
    for found in data["comparison"]:
        assert found["truth"] == found["copy"] > 0, found["list"]
        assert (found["missing"], found["extra"], found["different"]) == (0, 0, 0), found["list"]
    assert data["stored"]["quiet"] == 0
    assert data["requests"]["quiet"] < data["requests"]["changed"]
    assert data["corrected"]["gone"] > 0
    assert data["corrected"]["children"] > 0
    assert set(data["silent"]) == {"throttled_note", "delete_note", "push"}


def test_the_demo_is_killed_while_reading_children_and_continues_from_there(demonstration: dict[str, Any]) -> None:
    data = demonstration
    killed = data["killed"]
    whole = {found["list"]: found["truth"] for found in data["comparison"]}
    assert killed["stored"]["discussions"] > 0, "it died below the lists"
    assert killed["stored"]["files"] < whole["files"], "and before the end"
    assert data["repeated"] < killed["requests"] / 2
    assert data["requests"]["resumed"] < killed["requests"] + data["requests"]["verification"] / 2


@pytest.mark.deep
def test_the_demo_ends_with_a_semantic_search_and_a_surgical_refresh_of_its_result(desk: Desk) -> None:
    done = desk.spawn("demo")
    assert done.code == 0
    assert max(len(line) for line in done.out.splitlines()) <= 100
    told = " ".join(done.out.partition("9. Search by meaning")[2].split())
    assert "vessel identities keyed by IMO number" in told
    assert "Decision" in told.partition("10.")[0], "the decision stands in the thread that was found"
    assert "lore sync --mr 'harborline/platform/tracking!1'" in told
    assert "found: " in told.partition("10.")[2]


def test_the_surgical_refresh_of_the_demo_costs_only_its_own_requests(demonstration: dict[str, Any]) -> None:
    data = demonstration
    assert data["search"]["documents"] == data["search"]["embedded"] > 0
    assert data["refreshed"]["found"] is True
    assert data["refreshed"]["requests"] <= 8, "the item, discussions, three kinds of events, issues, files, reviewers"


@pytest.mark.deep
def test_the_demo_would_detect_a_difference(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidelore.store.mirror import parents

    whole = parents.live_payloads

    def lossy(database: Any, table: str, path: str) -> dict[int, bytes]:
        found = dict(whole(database, table, path))
        found.popitem()
        return found

    monkeypatch.setattr(parents, "live_payloads", lossy)
    done = desk.robot("demo", "--scale", "0.1")
    assert done.code == 8
    assert done.error["code"] == "INTEGRITY"
    missing = [found["list"] for found in done.document["data"]["comparison"] if found["missing"]]
    assert missing == ["issues", "merge_requests"]


def test_the_demo_mirrors_github_and_bluesky_and_finds_their_changes(demonstration: dict[str, Any]) -> None:
    added = demonstration["added"]
    assert (added["repositories"], added["accounts"]) == (2, 4)
    assert all(count > 0 for count in added["stored"].values())
    assert set(added["stored"]) == {name for name in COMPARED if name.startswith("github_")} | {"posts"}
    assert added["changes"]["github"]["delete_issue"] > 0, "something that no list shows"
    assert sum(added["changes"]["bluesky"].values()) == 20
    for network in ("github", "bluesky"):
        asked = {run: requests[network] for run, requests in added["requests"].items()}
        assert 0 < asked["changed"] < asked["first"], network
        assert asked["verification"] > asked["changed"], network
    assert sum(added["corrected"].values()) > 0, "verification found what the sync could not"


def test_the_demo_finds_an_answer_in_each_of_the_three_sources(demonstration: dict[str, Any]) -> None:
    answers = demonstration["answers"]
    best = {found["source"]: found for found in answers["best"]}
    assert set(best) == {"gitlab", "github", "bluesky"}
    assert min(found["rank"] for found in best.values()) == 1
    assert max(found["rank"] for found in best.values()) <= answers["total"]
    assert best["gitlab"]["reference"].startswith("harborline/platform/")
    assert best["github"]["reference"].startswith(("harborline/tracking#", "harborline/ledger#"))
    assert best["bluesky"]["reference"].startswith("at://")
    assert answers["documents"] > 0


@pytest.mark.deep
def test_the_demo_fails_if_the_copy_of_github_is_wrong(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidelore_world.demo.more_sources import MoreSources

    verify = MoreSources._verify

    def falsify(more: MoreSources) -> Any:
        done = verify(more)
        database = more._app.open_store()
        with database.transaction() as tx:
            one = "(SELECT MIN(id) FROM notes WHERE kind = 'review_comment')"
            tx.execute(f"UPDATE notes SET body = 'other' WHERE id = {one}")
        database.close()
        return done

    monkeypatch.setattr(MoreSources, "_verify", falsify)
    done = desk.robot("demo", "--scale", "0.1")
    assert (done.code, done.error["code"]) == (8, "INTEGRITY")
    wrong = {found["list"]: found for found in done.document["data"]["comparison"] if found["different"]}
    assert list(wrong) == ["github_review_comments"]
    assert wrong["github_review_comments"]["different"] == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed_for_each_shell(desk: Desk, shell: str) -> None:
    data = desk.robot("completions", shell).data
    assert data["shell"] == shell
    assert "_LORE_COMPLETE" in data["script"]
    assert desk.run("completions", shell).out == data["script"].rstrip("\n") + "\n"


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not here")
def test_the_bash_script_can_be_evaluated(desk: Desk) -> None:
    script = desk.robot("completions", "bash").data["script"]
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, timeout=20, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("lore co", {"count", "completions", "console", "context", "coverage"}),
        ("lore cursors re", {"reset"}),
        ("lore in", {"init", "init-db", "ingest"}),
    ],
)
def test_shell_completion_returns_matching_candidates(home: Path, words: str, offered: set[str]) -> None:
    environ = {"_LORE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(COMMAND, capture_output=True, text=True, env=os.environ | environ, timeout=60, check=True)
    assert {line.removeprefix("plain,") for line in done.stdout.split()} == offered
