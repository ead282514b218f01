"""Whose certificates are trusted. Owns the private authority of `http.ca_file`, for everything that speaks TLS.

The machine's own authorities come with the context that is handed in; nothing here ever takes one away.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from tidelore.core.errors import ConfigError


def add_authority(context: ssl.SSLContext, ca_file: str) -> ssl.SSLContext:
    """Return the context with the private authorities added to what it trusts."""
    if not ca_file:
        return context
    try:
        context.load_verify_locations(Path(ca_file).expanduser())
    except OSError as error:  # ssl.SSLError, for a file that holds no certificate, is one
        detail = error.strerror or str(error)
    else:
        return context
    raise ConfigError(
        f"invalid http.ca_file: {ca_file}: {detail}",
        key="http.ca_file",
        fix="set it to a readable PEM file with the CA certificates",
    )


def is_untrusted(error: BaseException | None) -> bool:
    """Return whether a certificate that is not trusted is behind an error."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None
