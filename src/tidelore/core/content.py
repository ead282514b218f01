"""Content addresses: the digest under which a payload is stored and compared.

A module by itself because it loads hashlib, which most offline reads do not need.
"""

from __future__ import annotations

from hashlib import blake2b


def digest(payload: bytes) -> bytes:
    """Return the content address of a payload."""
    return blake2b(payload, digest_size=20).digest()
