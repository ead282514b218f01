"""Content addresses. Owns how a payload's bytes become the name it is stored and compared under."""

from __future__ import annotations

from hashlib import blake2b


def digest(payload: bytes) -> bytes:
    """Return the content address of a payload."""
    return blake2b(payload, digest_size=20).digest()
