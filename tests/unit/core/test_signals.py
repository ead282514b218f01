"""Whoever is asked to end ends, wherever the question comes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

import pytest

from tidelore.core.errors import Cancelled
from tidelore.core.signals import ENDING, ended_in_order


@pytest.fixture(autouse=True)
def _hook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_cancels_the_block_and_the_old_handler_is_restored(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Cancelled, match="interrupted; nothing is lost"), ended_in_order("nothing is lost"):
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


def test_a_signal_during_an_event_loop_callback_still_cancels() -> None:
    async def go_on() -> None:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
        await asyncio.sleep(5)
        raise AssertionError

    with pytest.raises(Cancelled), ended_in_order("nothing is lost"):
        asyncio.run(go_on())


class Closing:
    """Something in whose finaliser the signal comes."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


def outlive(closing: list[Closing]) -> None:
    """Let go of an object, and wait for the end that its finaliser could not raise."""
    closing.clear()
    until = time.monotonic() + 10
    while time.monotonic() < until:
        time.sleep(0.01)
    pytest.fail("the signal was lost")


def test_a_signal_during_a_finaliser_out_of_which_nothing_can_be_raised_ends_the_block_too() -> None:
    with pytest.raises(Cancelled), ended_in_order("nothing is lost"):
        outlive([Closing()])
