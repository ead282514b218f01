"""The answer of `lore worker`. Imports no event loop, so that help and robot-docs can use it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from tidelore.app.answers import means

CONCURRENCY = 4
"""How many scopes a worker works on at once, if --concurrency is not given."""


class WorkerSummary(Struct, kw_only=True):
    """What a worker did."""

    worker: Annotated[str, means("name of the worker: machine and process")]
    seconds: Annotated[float, means("how long it ran")]
    ended: Annotated[int, means("turns of scopes that ended")]
    failing: Annotated[list[str], means("scopes whose last turn in this worker failed")]
