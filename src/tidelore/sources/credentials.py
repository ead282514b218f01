"""Finds the token for a host: in the configured environment variable, the keyring, or the forge's command-line tool.

Tokens are never read from argv or the configuration file. A host on this machine needs none. Must not print or store
tokens.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from msgspec import Struct

from tidelore.core.errors import CredentialsMissing
from tidelore.http.tls import is_loopback

_TOOL_SECONDS = 10


class Token(Struct, frozen=True):
    """A token and where it was found. Its repr does not contain the token."""

    value: str
    origin: str

    def __repr__(self) -> str:
        return f"Token(from {self.origin})"


def find_token(
    base_url: str, variable: str, tool: Sequence[str], environ: Mapping[str, str], source: str
) -> Token | None:
    """Return the token for a host, None for a host on this machine without one, or raise CredentialsMissing."""
    value = environ.get(variable, "").strip() if variable else ""
    if value:
        return Token(value, f"${variable}")
    if is_loopback(base_url):
        return None
    host = urlsplit(base_url).hostname or ""
    found = _from_keyring(host) or _from_tool(tool)
    if found is not None:
        return found
    raise CredentialsMissing(
        f"no token for {source} ({host})",
        fix=f"export {variable or 'the variable named in token_env'}, or sign in with `{tool[0]} auth login`",
        source=source,
        token_env=variable or None,
    )


def _from_keyring(host: str) -> Token | None:
    try:
        keyring = importlib.import_module("keyring")
        value = keyring.get_password("tidelore", host)
    except Exception:  # noqa: BLE001 - a missing, locked or broken keyring is skipped
        return None
    return Token(value, "keyring") if value else None


def _from_tool(tool: Sequence[str]) -> Token | None:
    program = shutil.which(tool[0])
    if program is None:
        return None
    try:
        answer = subprocess.run(  # noqa: S603 - a fixed command of the forge's own tool
            [program, *tool[1:]], capture_output=True, text=True, timeout=_TOOL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    value = answer.stdout.strip()
    return Token(value, tool[0]) if answer.returncode == 0 and value else None
