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
AGAIN_SECONDS = 0.05
"""How long after it was discarded the exception is raised again."""


class _Ended(KeyboardInterrupt):
    """Raised by the signal handler. An interrupt, because an event loop swallows other exceptions in callbacks."""


def _discarded(trouble: sys.UnraisableHookArgs) -> None:
    """Say nothing of errors while the program is ending, which reports the end itself; only raise the end again."""
    if issubclass(trouble.exc_type, _Ended):
        # The signal came while a finaliser or a callback ran, out of which nothing can be raised.
        signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)


@contextmanager
def heard(actions: Mapping[int, Callable[[], object]]) -> Iterator[None]:
    """Let the running loop handle signals for the length of the block."""
    # Imported here because commands without an event loop use this module too and must not load asyncio.
    import asyncio

    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in actions}
    for number, act in actions.items():
        loop.add_signal_handler(number, act)
    try:
        yield
    finally:
        for number, handler in before.items():
            # The loop itself would restore the default handler instead of the previous one.
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextmanager
def ended_in_order(fate: str) -> Iterator[None]:
    """Leave the block with `Cancelled` when the program is asked to terminate, so that cleanup code runs."""

    def end(_number: int, _frame: FrameType | None) -> None:
        for number in ENDING:
            # A second signal must not interrupt the cleanup.
            signal.signal(number, signal.SIG_IGN)
        # Objects interrupted during construction, such as an event loop, would print errors when collected.
        sys.unraisablehook = _discarded
        raise _Ended

    before = {number: signal.signal(number, end) for number in (*ENDING, signal.SIGALRM)}
    try:
        yield
    except _Ended:
        raise Cancelled(f"interrupted; {fate}", fix="run the command again") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
