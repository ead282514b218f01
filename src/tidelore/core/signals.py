"""Handle signals for the length of a block, and restore the handlers that were set before.

`heard` is for a running event loop. `ended_in_order` is for a block that must be cleaned up when the program is
terminated: it turns SIGTERM and SIGHUP into an exception in the main thread.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from tidelore.core.errors import Cancelled

ENDING = (signal.SIGTERM, signal.SIGHUP)


class _Ended(KeyboardInterrupt):
    """Somebody asked for the end. An interrupt, because a loop keeps whatever else is raised in its callbacks."""


def _say_nothing(_trouble: object) -> None:
    """The program is ending, and says so itself."""


@contextmanager
def heard(actions: Mapping[int, Callable[[], object]]) -> Iterator[None]:
    """Let the running loop act on signals for the length of the block."""
    # Here, and not above: commands that run no loop listen too, and load none for that.
    import asyncio

    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in actions}
    for number, act in actions.items():
        loop.add_signal_handler(number, act)
    try:
        yield
    finally:
        for number, handler in before.items():
            # The loop alone would put back the default, whatever was there.
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextmanager
def ended_in_order(fate: str) -> Iterator[None]:
    """Leave the block by `Cancelled` when the program is asked to end, so that what is inside is cleaned up."""

    def end(_number: int, _frame: FrameType | None) -> None:
        for number in ENDING:
            # Asked again, the end goes on: it must not be torn out of its cleaning up.
            signal.signal(number, signal.SIG_IGN)
        # What is torn out of its own making, such as a loop, would complain of that when it is collected.
        sys.unraisablehook = _say_nothing
        raise _Ended

    before = {number: signal.signal(number, end) for number in ENDING}
    try:
        yield
    except _Ended:
        raise Cancelled(f"interrupted; {fate}", fix="run the command again") from None
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
