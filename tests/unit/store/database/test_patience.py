"""Pauses of connections, which end when the program is asked to stop."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from time import monotonic

from tidelore.store.database.port import Patience

LONG = 30.0


def test_a_pause_lasts_its_time_while_the_program_runs_on() -> None:
    patience = Patience()
    began = monotonic()
    assert patience.pause(0.05)
    assert patience.pause(0)
    assert monotonic() - began >= 0.05
    assert not patience.ended


def test_every_waiting_thread_wakes_when_the_program_is_asked_to_stop_and_none_waits_afterwards() -> None:
    patience = Patience()
    interrupted: list[str] = []
    patience.join(1, lambda: interrupted.append("statement"))
    began = monotonic()
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(patience.pause, LONG) for _ in range(3)]
        patience.end()
        patience.end()
        assert [one.result() for one in waiting] == [False, False, False]
    assert not patience.pause(LONG)
    assert patience.ended
    assert interrupted == ["statement", "statement"]
    assert monotonic() - began < LONG
