"""The service for a week of its own time, with trouble, restarts and new settings: true in the end, and no larger."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from statistics import median

import pytest
from tests.databases.postgres_server import PostgresServer
from tests.soak.week import HOUR, Week, open_week

DOWN_HOURS = 24.0
QUIET_HOURS = 120


@pytest.fixture(autouse=True)
def _own_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("LORE_", "XDG_", "GITLAB_", "GITHUB_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


def tell(week: Week, hours: float, server: PostgresServer | None = None) -> tuple[list[int], list[int], list[int]]:
    """Live through so many hours; return what the second and the last third occupied, and the descriptors.

    Restarts belong to the first third: after that one process goes on, so that nothing it piles up is thrown away. A
    server of the database cuts the connections now and then.
    """
    week.start()
    third = hours / 3
    memory: list[list[int]] = [[], []]
    descriptors: list[int] = []
    down = (third, min(third + DOWN_HOURS, 2 * third))
    hour = 0.0
    while hour < hours:
        week.live()
        is_down = down[0] <= hour < down[1]
        if is_down:
            week.calm()
            week.away.world.faults.add("disconnect", times=None)
        elif week.dice.random() < 0.3:
            week.trouble()
        else:
            week.calm()
        if hour < third and week.dice.random() < 0.15:
            week.stop(week.dice.choice((signal.SIGTERM, signal.SIGKILL)))
            week.start()
        elif week.dice.random() < 0.1:
            week.reload()
        if server is not None and week.dice.random() < 0.3:
            assert server.cut(week.db) > 0
        week.pass_time(HOUR)
        hour += 1
        if is_down:
            assert week.late() <= {"away"}, "who is healthy keeps its bound while another is down"
            assert hour < down[0] + 4 or week.late() == {"away"}
        if hour > third:
            memory[hour > 2 * third].append(week.memory_kb())
            descriptors.append(week.descriptors())
    return memory[0], memory[1], descriptors


def finish(week: Week) -> None:
    """Let everything arrive in quiet, and end in order. What no list tells of is found by verification, bit by bit."""
    week.calm()
    for _ in range(QUIET_HOURS // 6):
        week.pass_time(6 * HOUR)
        if not week.differences():
            break
    assert week.late() == set()
    week.stop()
    week.assert_copy_is_true()
    assert '"job_crashed"' not in week.log.read_text()


@pytest.mark.deep
def test_after_hours_with_faults_and_a_restart_the_copy_is_exact(tmp_path: Path, sqlite_address: str) -> None:
    with open_week(tmp_path, sqlite_address, 11) as week:
        _, _, descriptors = tell(week, 15)
        assert_no_descriptor_is_left(descriptors)
        finish(week)


@pytest.mark.deep
def test_after_a_week_with_faults_and_restarts_the_copy_is_exact_and_no_larger(
    tmp_path: Path, sqlite_address: str
) -> None:
    with open_week(tmp_path, sqlite_address, 12) as week:
        second, last, descriptors = tell(week, 7 * 24)
        assert week.starts > 5
        assert_same_space(second, last, descriptors)
        finish(week)


@pytest.mark.deep
def test_after_two_days_of_cut_connections_the_copy_is_exact_and_no_larger(
    tmp_path: Path, postgres_server: PostgresServer, postgres_address: str
) -> None:
    with open_week(tmp_path, postgres_address, 13) as week:
        second, last, descriptors = tell(week, 2 * 24, postgres_server)
        assert week.starts > 1
        assert_same_space(second, last, descriptors)
        finish(week)


def assert_same_space(second: list[int], last: list[int], descriptors: list[int]) -> None:
    """The last third needs no more room than the second, and no more descriptors."""
    assert median(last) <= median(second) * 1.05, (second, last)
    assert_no_descriptor_is_left(descriptors)


def assert_no_descriptor_is_left(descriptors: list[int]) -> None:
    """The second half has no more of them than the first; a moment with a request more under way may have two."""
    half = len(descriptors) // 2
    assert median(descriptors[half:]) <= median(descriptors[:half]), descriptors
    assert max(descriptors[half:]) <= max(descriptors[:half]) + 2, descriptors
