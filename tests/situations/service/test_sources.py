"""Several sources side by side: what is new arrives, one that fails leaves the others running, all have their turn."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Sequence

import pytest
from tests.situations.service.station import LAB, OWNER, REPOS, Station, Watch, free_port, other_host
from tests.support.deep import deep, gate_cases

from tidelore.app.feedback_tracking import track
from tidelore.core.clock import SystemClock
from tidelore.feedback.repositories import choose_repo
from tidelore.service import schedule
from tidelore_world.faults import Fault
from tidelore_world.server import Server

PR = 1


def follow(post: Station, repo: str = REPOS[0]) -> None:
    """Follow the pull request of a repository."""
    app = post.app()
    asyncio.run(track(app, choose_repo(app.config, repo), pr=PR, issue=None))


def catch_up(post: Station) -> None:
    """Let the world's clock stand where ours does."""
    with post.world.lock:
        behind = SystemClock().now_ms() / 1000 - post.world.clock.now_us / 1_000_000
        post.world.advance(max(behind, 0.0))


def test_new_items_of_every_source_arrive_while_the_service_runs(post: Station) -> None:
    post.world.bluesky.create_account("mira.test")
    post.lab()
    post.hub()
    post.sky("mira.test")
    post.write()
    follow(post)

    async def story(watch: Watch) -> None:
        await watch.until(lambda: post.rows("SELECT COUNT(*) FROM issues") == [(5,)])
        await watch.until(lambda: post.rows("SELECT COUNT(*) FROM accounts") == [(1,)])
        catch_up(post)
        with post.world.lock:
            post.world.gitlab.create_issue(LAB, title="The tide turns")
            post.world.github.comment(REPOS[0], PR, "Please count twice.", OWNER)
            post.world.bluesky.post("mira.test", "Low water at noon.")
        await watch.until(lambda: post.rows("SELECT COUNT(*) FROM issues") == [(6,)])
        await watch.until(lambda: post.rows("SELECT body FROM feedback_events") == [("Please count twice.",)])
        await watch.until(lambda: post.rows("SELECT text FROM posts") == [("Low water at noon.",)])
        await watch.until(lambda: post.rows("SELECT COUNT(*) FROM dirty_sources") == [(0,)])

    report = post.serve(story)
    assert report.errors == {}
    assert post.rows("SELECT COUNT(*) FROM sync_runs WHERE status = 'running'") == [(0,)]
    assert set(post.rows("SELECT holder_host FROM leases")) == {(None,)}


@pytest.mark.parametrize(
    ("kind", "trouble"),
    [
        ("gitlab", "network"),
        ("github", "rate_limit"),
        *(
            deep(kind, trouble)
            for kind, trouble in (
                ("gitlab", "credentials"),
                ("gitlab", "rate_limit"),
                ("github", "network"),
                ("github", "credentials"),
            )
        ),
    ],
)
@gate_cases(1)
def test_a_failing_host_does_not_stop_the_others(post: Station, kind: str, trouble: str) -> None:
    with other_host() as away:
        fault = break_down(away, trouble)
        url = f"http://127.0.0.1:{free_port()}" if trouble == "network" else away.url
        post.lab()
        post.hub()
        name = f"{kind}:away" if kind == "gitlab" else f"github:away/{REPOS[0]}"
        if kind == "gitlab":
            post.lab("away", url)
        else:
            post.hub("away", url)
        post.write()

        async def story(watch: Watch) -> None:
            await watch.until(lambda: watch.job(name).state == "backing_off")
            failures = watch.job(name).failures
            for _ in range(2):
                await watch.rounds("gitlab:gitlab", 2)
                await watch.rounds(f"github:github/{REPOS[1]}", 2)
            assert watch.job(name).state == "backing_off"
            assert watch.job(name).failures == failures, "it is left alone for longer than the others wait"
            assert watch.job(name).last_error
            away_jobs = [job for job in post.jobs().values() if job.source == "away" and job.kind != "answers"]
            assert {job.state for job in away_jobs} == {"backing_off"}, "back-off is the source's, and visible"

        report = post.serve(story)
        assert set(report.errors) <= {job.name for job in report.jobs if job.source == "away"}
        assert fault is None or fault.fired
    assert post.rows("SELECT COUNT(*) FROM sync_runs WHERE status = 'running'") == [(0,)]


def break_down(away: Server, trouble: str) -> Fault | None:
    if trouble == "credentials":
        return away.world.faults.add("status", times=None, status=401)
    if trouble == "rate_limit":
        return away.world.faults.add("status", times=None, status=429, headers={"Retry-After": "3600"})
    return None


def test_a_source_that_recovers_catches_up(post: Station) -> None:
    fault = post.world.faults.add("status", "GET /projects", 2, status=503)
    post.lab()
    post.write()

    async def story(watch: Watch) -> None:
        await watch.until(lambda: watch.job("gitlab:gitlab").failures == 1)

    post.serve(story)
    assert fault.fired

    async def again(watch: Watch) -> None:
        # A new service tries at once, whatever the old one met.
        await watch.until(lambda: watch.job("gitlab:gitlab").failures == 0 and bool(post.rows("SELECT 1 FROM issues")))

    post.world.faults.faults.clear()
    post.serve(again)


def test_every_repository_is_polled_in_each_interval(post: Station) -> None:
    repos = tuple(f"octo/quay{number}" for number in range(8))
    for repo in repos:
        post.world.github.create_repo(repo)
        post.world.github.create_pull(repo, "A change", author=OWNER)
    post.hub(repos=repos, extra='fetch = "repo"')
    post.write()
    for repo in repos:
        follow(post, repo)
    turns: Counter[str] = Counter()

    async def story(watch: Watch) -> None:
        last = f"github:github/{repos[-1]}"
        await watch.rounds(last, 2)
        before = len(post.world.log)
        await watch.rounds(last, 4)
        log = post.world.log[before:]
        feeds = [target.partition("/pulls/")[0] for _, target, _ in log if "/pulls/comments" in target]
        turns.update(feeds)

    post.serve(story)
    assert len(turns) == len(repos)
    assert max(turns.values()) - min(turns.values()) <= 1


@pytest.mark.deep
def test_two_hundred_repositories_are_polled_in_each_interval(post: Station) -> None:
    """Far more than one after another would be: all that are due are one poll, one lease and one row."""
    repos = tuple(f"octo/berth{number:03}" for number in range(200))
    post.interval = 3.0
    with post.world.lock:
        # Without a token an answer "not modified" counts too, and six rounds of 200 repositories exceed the limit.
        post.world.github.settings.anonymous_limit = None
        for repo in repos:
            post.world.github.create_repo(repo)
            post.world.github.create_pull(repo, "A change", author=OWNER)
    post.hub(repos=repos, extra='fetch = "repo"\nmirror = "followed"')
    post.write()
    follow_all(post, repos)
    looks: list[dict[str, int]] = []

    async def story(watch: Watch) -> None:
        first, last = (f"github:github/{repo}" for repo in (repos[0], repos[-1]))
        await watch.rounds(first, 1)
        for _ in range(5):
            await watch.rounds(last, 1)
            looks.append({job.scope: job.started_at or 0 for job in post.jobs().values() if job.kind == "sync"})

    report = post.serve(story)
    assert report.errors == {}
    for earlier, later in zip(looks, looks[2:], strict=False):
        passed_over = [repo for repo in repos if later[repo] <= earlier[repo]]
        assert not passed_over, "nobody has a third turn while somebody waits for a first"
    (rows,) = post.rows("SELECT COUNT(*) FROM sync_runs WHERE command = 'lore sync'")
    assert rows[0] < len(repos) / 4, "a poll of all of them is one row of the ledger"


def follow_all(post: Station, repos: Sequence[str]) -> None:
    """Follow the pull request of each repository, as one program does."""
    app = post.app()

    async def inside() -> None:
        for repo in repos:
            await track(app, choose_repo(app.config, repo), pr=PR, issue=None)

    asyncio.run(inside())


@pytest.mark.parametrize("kind", ["gitlab", "github"])
def test_a_rate_limited_host_does_not_delay_others(post: Station, kind: str) -> None:
    with other_host() as away:
        away.world.faults.add("status", times=None, status=429, headers={"Retry-After": "120"})
        (post.lab if kind == "gitlab" else post.hub)()
        (post.lab if kind == "gitlab" else post.hub)("away", away.url)
        post.write()
        # Retries are what would wait: the server's pause is shorter than a command's patience.
        post.config.write_text(post.config.read_text().replace("max_retries = 0", "max_retries = 3"))
        mine = "gitlab:gitlab" if kind == "gitlab" else f"github:github/{REPOS[0]}"
        theirs = "gitlab:away" if kind == "gitlab" else f"github:away/{REPOS[0]}"

        async def story(watch: Watch) -> None:
            await watch.rounds(mine, 3)
            job = watch.job(theirs)
            assert (job.state, job.failures) == ("backing_off", 1)
            assert job.due_at is not None
            assert job.due_at - (job.finished_at or 0) >= 119_000

        post.serve(story)


def test_polling_continues_while_a_handler_runs(post: Station) -> None:
    script = post.folder / "handler.py"
    script.write_text("import time, pathlib, sys\npathlib.Path(sys.argv[1]).touch()\ntime.sleep(30)\n")
    begun = post.folder / "begun"
    post.hub(extra=f"handler = {json.dumps([sys.executable, str(script), str(begun)])}")
    post.write()
    follow(post)
    catch_up(post)
    post.world.github.comment(REPOS[0], PR, "First.", OWNER)

    async def story(watch: Watch) -> None:
        await watch.until(begun.exists)
        await watch.rounds(f"github:github/{REPOS[0]}", 3)
        assert watch.job(f"handler:github/{REPOS[0]}").state == "running"
        catch_up(post)
        with post.world.lock:
            post.world.github.comment(REPOS[0], PR, "Second.", OWNER)
        await watch.until(lambda: post.rows("SELECT COUNT(*) FROM feedback_events") == [(2,)])

    post.serve(story)
    assert post.rows("SELECT COUNT(*) FROM feedback_events WHERE processed_at IS NOT NULL") == [(0,)]
    # Interrupted, not failed: it is ready again at once.
    assert post.rows("SELECT COUNT(*) FROM feedback_events WHERE leased_until > 9e15") == [(0,)]


def test_commands_are_applied_and_answered_once(post: Station) -> None:
    post.hub(extra=f'operator_logins = ["{OWNER}"]')
    post.write()
    follow(post)
    catch_up(post)
    post.world.github.comment(REPOS[0], PR, "/lore status", OWNER)

    async def story(watch: Watch) -> None:
        await watch.until(lambda: post.rows("SELECT status FROM outbox") == [("observed",)])
        await watch.rounds(f"github:github/{REPOS[0]}", 3)

    post.serve(story)
    ours = [row for row in post.world.github.truth_comments(REPOS[0]) if "lore-action:" in row["body"]]
    assert len(ours) == 1


def test_stream_events_arrive_and_a_stream_stops_at_once(post: Station, monkeypatch: pytest.MonkeyPatch) -> None:
    # The stream is tried before the poll has stored the account, and again after this.
    monkeypatch.setattr(schedule, "FIRST_BACKOFF_SECONDS", 0.5)
    post.world.bluesky.create_account("mira.test")
    post.sky("mira.test", extra="stream = true\nmax_retries = 0")
    post.sections["bluesky"] = post.sections["bluesky"].replace("interval_minutes = 0.005", "interval_minutes = 60")
    post.write()

    async def story(watch: Watch) -> None:
        await watch.until(lambda: post.rows("SELECT COUNT(*) FROM accounts") == [(1,)])
        await watch.until(lambda: bool(post.world.bluesky.jetstream.open))
        catch_up(post)
        with post.world.lock:
            post.world.bluesky.post("mira.test", "High water at six.")
        await watch.until(lambda: post.rows("SELECT text FROM posts") == [("High water at six.",)])
        assert watch.job("bluesky:stream").state == "running"

    report = post.serve(story)
    assert report.seconds < 30
    assert post.rows("SELECT COUNT(*) FROM sync_runs WHERE status = 'running'") == [(0,)]


def test_a_command_on_a_merge_request_is_answered_while_the_service_runs(post: Station) -> None:
    post.lab(extra='operator_logins = ["mira"]\nwrite_interval_seconds = 0\n')
    post.write()
    catch_up(post)
    with post.world.lock:
        request = post.world.gitlab.create_merge_request(LAB, title="Follow the tide", author="robin")
    app = post.app()
    asyncio.run(track(app, choose_repo(app.config, LAB), pr=request.iid, issue=None))

    async def story(watch: Watch) -> None:
        await watch.until(lambda: post.rows("SELECT COUNT(*) FROM merge_requests WHERE title LIKE 'Follow%'") == [(1,)])
        catch_up(post)
        with post.world.lock:
            post.world.gitlab.add_note(request, "/lore status", author="mira")
        await watch.until(lambda: post.rows("SELECT status, scope_kind FROM outbox") == [("observed", "pr")])

    report = post.serve(story)
    assert report.errors == {}
    answers = [note for home in request.discussions for note in home.notes if "lore-action:" in note.body]
    assert len(answers) == 1
