"""Where runs are opened."""

from tidelore.session import LEASE, Session, Workshop, acquire_lease, close_dead, open_run, open_session

__all__ = ["LEASE", "Session", "Workshop", "acquire_lease", "close_dead", "open_run", "open_session"]
