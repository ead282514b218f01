"""Set up logging: text or JSON, to stderr or to the log file. Every record passes the redactor."""

from __future__ import annotations

import logging
import os
import sys
from io import TextIOWrapper

import msgspec

from tidelore.core.clock import format_instant
from tidelore.core.config import Config
from tidelore.core.errors import ConfigError
from tidelore.core.redaction import RedactFilter


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object: the standard fields, then those given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "at": format_instant(int(record.created * 1000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {name: value for name, value in _facts(record).items() if name not in entry}
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            entry["exception"] = record.exc_text
        return msgspec.json.encode(entry, enc_hook=str).decode()


def _facts(record: logging.LogRecord) -> dict[str, object]:
    """Return the fields that the caller added as `extra`."""
    plain = logging.makeLogRecord({}).__dict__.keys() | {"message", "asctime"}
    return {name: value for name, value in record.__dict__.items() if name not in plain}


def set_up_logging(config: Config, *, verbose: bool, quiet: bool, service: bool = False) -> None:
    """Send log records to stderr or to the configured file, at the configured level.

    A `service` prints no report at its end, so it logs what it does, with timestamps.
    """
    handler = _open_handler(config)
    if config.log.format == "json":
        handler.setFormatter(JsonFormatter())
    elif service or config.log.file:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    else:
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    handler.addFilter(RedactFilter(()))
    logger = logging.getLogger("tidelore")
    before, logger.handlers = logger.handlers, [handler]
    for old in before:
        old.close()
    logger.propagate = False
    level = "debug" if verbose else "error" if quiet else config.log.level
    # A terminal shows progress and results; 'info' there would only repeat them.
    repeats = level == "info" and config.log.format == "text" and not service and not config.log.file
    logger.setLevel(logging.WARNING if repeats else level.upper())


def _open_handler(config: Config) -> logging.Handler:
    if not config.log.file:
        return logging.StreamHandler(sys.stderr)
    from logging.handlers import RotatingFileHandler
    from pathlib import Path

    class PrivateFileHandler(RotatingFileHandler):
        """Creates its file, also after a rotation, for this user alone: a log names people and addresses."""

        def _open(self) -> TextIOWrapper:
            return TextIOWrapper(open(self.baseFilename, "ab", opener=_private), encoding=self.encoding)

    path = Path(config.log.file).expanduser()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        size = int(config.log.max_megabytes * 1_000_000)
        return PrivateFileHandler(path, maxBytes=size, backupCount=config.log.keep, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"cannot write the log to {path}: {error.strerror}",
            fix="correct log.file, or remove it to log to stderr",
            key="log.file",
        ) from None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
