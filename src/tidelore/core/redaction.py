"""Removes secrets from text that people or log files will see.

Invariant: a secret that is passed in never survives, nor its percent-encoded form; a credential in a place where
credentials are expected (query parameter, userinfo, authorisation header, well-known token prefix) does not survive
either. Imports no HTTP library: offline commands use this module for their logs.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterable, Mapping
from urllib.parse import quote

MASK = "***"

# A shorter "secret" would redact ordinary words; no forge issues one.
_SHORTEST_SECRET = 4

_QUERY = re.compile(
    r"""(?ix) (?<![a-z0-9_])
        ((?:private|access|job|oauth|refresh|id)_token | token | api_?key | client_secret | password)
        = [^&\#\s"'<>]+"""
)
# In a PostgreSQL URL everything up to the last @, because a password may contain unescaped characters.
_USERINFO = re.compile(r"(?i)\b(?:(postgres(?:ql)?(?:\+\w+)?://)[^\s\"'<>]*@|([a-z][a-z0-9+.-]*://)[^/\s?#\"'<>]*@)")
_HEADER = re.compile(
    r"""(?ix) \b (private-token | job-token | (?:proxy-)?authorization) (["']?\s*[:=,]\s*(?:b?["'])?)
        (?:(?:bearer|basic|token)\s+)? [^\s"',]+"""
)
# The last alternative is a JSON Web Token, with which a GitHub App authenticates.
_PREFIXED = re.compile(r"\b(?:gl[a-z]{2,5}-|gh[pousr]_|github_pat_|eyJ[A-Za-z0-9_\-]*\.eyJ)[A-Za-z0-9_\-.]{12,}")

# Fields that logging itself sets on a record: they contain no secrets, and formatters read them.
_OWN_FIELDS = frozenset(
    {
        "name",
        "levelname",
        "pathname",
        "filename",
        "module",
        "funcName",
        "threadName",
        "processName",
        "taskName",
    }
)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Return `text` with every secret replaced by `***`."""
    for secret in sorted(set(secrets), key=len, reverse=True):
        if len(secret) < _SHORTEST_SECRET:
            continue
        text = text.replace(secret, MASK)
        encoded = quote(secret, safe="")
        if encoded != secret:
            text = text.replace(encoded, MASK)
    text = _USERINFO.sub(rf"\1\2{MASK}@", text)
    text = _QUERY.sub(rf"\1={MASK}", text)
    text = _HEADER.sub(rf"\1\2{MASK}", text)
    return _PREFIXED.sub(MASK, text)


class RedactFilter(logging.Filter):
    """Redacts log records: message, arguments, extra fields, traceback. Attach it to handlers.

    A filter on a logger does not apply to records of its children; a filter on a handler applies to everything.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        self._secrets = tuple(secrets)

    def __repr__(self) -> str:
        return f"RedactFilter({len(self._secrets)} secrets)"

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact the record in place and accept it."""
        record.msg = redact(record.getMessage(), self._secrets)
        record.args = None
        if record.exc_info and record.exc_info[0] is not None:
            record.exc_text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            # A formatter that renders exc_info itself would print the secret again.
            record.exc_info = None
        for name, value in list(record.__dict__.items()):
            if name not in _OWN_FIELDS:
                record.__dict__[name] = self._clean(value)
        return True

    def _clean(self, value: object) -> object:
        if isinstance(value, str):
            return redact(value, self._secrets)
        if isinstance(value, Mapping):
            return {name: self._clean(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._clean(item) for item in value]
        return value
