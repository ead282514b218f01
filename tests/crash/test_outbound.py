"""A process killed at every seam around a write, answers lost, writes that land late: one comment on the remote."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.situations.answers.hub import REPO, Hub, LateWorld
from tests.support.fork_server import fork_script

from tidelore.core.clock import SystemClock
from tidelore.core.config import GitHubHost
from tidelore.engine.crashpoint import Seam
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database
from tidelore_world.server import serve

DRIVER = Path(__file__).with_name("outbound_driver.py")
SETTLE_SECONDS = 0.8
"""How long a write may still be on its way; half of it is what our own process is given."""
LATE_SECONDS = (0.0, 0.1, 0.3, 0.5)
PATIENCE_SECONDS = 60.0
TRIALS = 200

SEAMS = (Seam.BEFORE_COMMIT, Seam.BEFORE_POST, Seam.AFTER_POST, Seam.INSIDE_COMMIT, Seam.AFTER_COMMIT)
"""In their order: claimed, the attempt durable, the answer here, the result written, the result durable."""
AFTER_THE_FACT = {Seam.AFTER_POST: "planned", Seam.INSIDE_COMMIT: "planned", Seam.AFTER_COMMIT: "observed"}
BEFORE_IT = {Seam.BEFORE_COMMIT: 0, Seam.BEFORE_POST: 1}
"""How many attempts are durable where nothing was written yet."""


class Quay(Hub):
    """A hub whose answers are posted by processes of their own."""

    address: str = ""

    def post_in_a_process(self, deadly: Seam | None = None, settle_seconds: float = SETTLE_SECONDS) -> int:
        """Let a process send what is due, to its end or to its death; return its exit code."""
        words = [self.address, self.url, str(settle_seconds), deadly.value if deadly else "none"]
        environ = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        process = fork_script(DRIVER, words, environ)
        _, stderr = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode in {0, -signal.SIGKILL}, stderr
        return process.wait()

    def send_until_done(self) -> None:
        """Send what is due again and again, as a poll does, until everything has come to its end."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.database.read("SELECT 1 FROM outbox WHERE status IN ('planned', 'posted')"):
            assert time.monotonic() < deadline, "never arrives"
            self.send_due()
            time.sleep(0.05)


@pytest.fixture
def quays(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[str], Quay]]:
    """A repository served beside a database of the dialect a case names."""
    world = LateWorld()
    world.github.create_repo(REPO)
    pull = world.github.create_pull(REPO, "Rename the crane", author="robin")
    opened: list[Database] = []
    with serve(world) as server:

        def quay(dialect: str) -> Quay:
            address = request.getfixturevalue(f"migrated_{dialect}_address")
            opened.append(open_database(address))
            host = GitHubHost(base_url=server.url, settle_write_seconds=SETTLE_SECONDS, write_interval_seconds=0)
            made = Quay(world, server.url, opened[-1], SystemClock(), host, pull.number)
            made.address = address
            made.project()
            return made

        yield quay
        world.wait_for_landings()
    for database in opened:
        database.close()


@pytest.mark.parametrize(
    ("dialect", "seam"),
    [*(("sqlite", seam) for seam in SEAMS), ("postgres", Seam.BEFORE_POST), ("postgres", Seam.AFTER_POST)],
)
def test_a_process_killed_around_a_write_leaves_one_comment(
    quays: Callable[[str], Quay], dialect: str, seam: Seam
) -> None:
    quay = quays(dialect)
    row = quay.intend()
    assert quay.post_in_a_process(seam, PATIENCE_SECONDS) == -signal.SIGKILL
    written = seam in AFTER_THE_FACT
    assert len(quay.remarks()) == written
    left = quay.row(row)
    held_ms = (left.claimed_until or 0) - quay.clock.now_ms()
    assert held_ms > SETTLE_SECONDS * 10_000 or left.status == "observed", "its claim would last much longer"
    assert (left.status, left.attempts) == (AFTER_THE_FACT.get(seam, "planned"), BEFORE_IT.get(seam, 1))
    began = time.monotonic()
    quay.send_until_done()
    assert time.monotonic() - began < SETTLE_SECONDS * 10, "nobody waits for the claim of the dead"
    (comment,) = quay.remarks()
    assert (quay.row(row).status, quay.row(row).comment_id) == ("observed", comment.id)
    assert quay.posts() == 1


@pytest.mark.parametrize("late", LATE_SECONDS)
def test_a_late_write_with_a_lost_response_leaves_one_comment(quays: Callable[[str], Quay], late: float) -> None:
    quay = quays("sqlite")
    row = quay.intend()
    quay.world.late_seconds = [late]
    assert quay.post_in_a_process() == 0
    assert quay.row(row).last_error == "unclear_write"
    quay.send_until_done()
    quay.world.wait_for_landings()
    assert len(quay.remarks()) == 1


def test_a_lost_response_followed_by_a_crash_leaves_one_comment(quays: Callable[[str], Quay]) -> None:
    quay = quays("sqlite")
    quay.intend()
    quay.world.github.settings.lost_answers = 1
    assert quay.post_in_a_process(Seam.AFTER_POST) == -signal.SIGKILL
    quay.send_until_done()
    assert len(quay.remarks()) == quay.posts() == 1


def test_concurrent_senders_leave_one_comment_per_reply(quays: Callable[[str], Quay]) -> None:
    quay = quays("sqlite")
    for number in range(8):
        quay.intend(f"Answer {number}")
    words = [quay.address, quay.url, str(SETTLE_SECONDS), "none"]
    rivals = [fork_script(DRIVER, words, os.environ) for _ in range(3)]
    for rival in rivals:
        rival.communicate(PATIENCE_SECONDS)
    assert [rival.wait() for rival in rivals] == [0, 0, 0]
    quay.send_until_done()
    assert len(quay.remarks()) == quay.posts() == 8


@pytest.mark.deep
@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_each_reply_is_one_comment_in_random_crash_and_loss_trials(quays: Callable[[str], Quay], dialect: str) -> None:
    """Each trial: an intent; a death at some seam or none; an answer lost, late or whole; then the next life."""
    quay, dice = quays(dialect), random.Random(20260302)
    quay.world.github.settings.content_per_minute = quay.world.github.settings.content_per_hour = 10_000
    deaths = 0
    for trial in range(TRIALS):
        row = quay.intend(f"Answer {trial}")
        fate = dice.choice(("whole", "lost", "late"))
        if fate == "lost":
            quay.world.github.settings.lost_answers = 1
        elif fate == "late":
            quay.world.late_seconds = [dice.choice(LATE_SECONDS)]
        deaths += quay.post_in_a_process(dice.choice((*SEAMS, None))) != 0
        quay.send_until_done()
        quay.world.wait_for_landings()
        quay.world.github.settings.lost_answers, quay.world.late_seconds = 0, []
        found = [comment for comment in quay.remarks() if row.token in comment.body]
        assert len(found) == 1, f"trial {trial} ({fate}) of seed 20260302"
        assert quay.row(row).comment_id == found[0].id
    assert deaths > TRIALS // 4
    assert len(quay.remarks()) == TRIALS
