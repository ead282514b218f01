"""Logging for commands that act. Owns the two formats; every record passes the redactor."""

from __future__ import annotations

import logging
import sys

import msgspec

from tidelore.clock import format_instant
from tidelore.config import Config
from tidelore.sources.redact import RedactFilter


class JsonFormatter(logging.Formatter):
    """One JSON object per record."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "at": format_instant(int(record.created * 1000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            entry["exception"] = record.exc_text
        return msgspec.json.encode(entry).decode()


def set_up_logging(config: Config, *, verbose: bool, quiet: bool) -> None:
    """Send our records to stderr, at the level that was asked for."""
    handler = logging.StreamHandler(sys.stderr)
    if config.log.format == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    handler.addFilter(RedactFilter(()))
    logger = logging.getLogger("tidelore")
    logger.handlers = [handler]
    logger.propagate = False
    level = "debug" if verbose else "error" if quiet else config.log.level
    # A terminal shows progress and results; 'info' there would only repeat them.
    logger.setLevel(logging.WARNING if level == "info" and config.log.format == "text" else level.upper())
