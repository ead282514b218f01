"""Documents made by commands that hold another lease than the one documents are written under.

Owns that two commands never write documents at the same time: whoever comes second leaves them to the other.
"""

from __future__ import annotations

import logging

from msgspec.structs import replace

from tidelore.core.errors import LockHeld
from tidelore.pipeline.documents import make_documents
from tidelore.pipeline.report import DocumentReport, OnProgress, silent
from tidelore.session import LEASE, Session, acquire_lease

_LOG = logging.getLogger(__name__)


async def make_documents_aside(session: Session, on_progress: OnProgress = silent) -> DocumentReport | None:
    """Make the documents of what is marked; None when another command is at it, which then makes them."""
    try:
        lease = acquire_lease(session.shop, force=False, name=LEASE)
    except LockHeld as error:
        _LOG.info("documents were not updated: %s", error.message)
        return None
    try:
        return await make_documents(replace(session, held=lease), on_progress)
    finally:
        lease.release()
