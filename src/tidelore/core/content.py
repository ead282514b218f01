"""Content addresses: the digest under which a payload is stored and compared.

Takes blake2b from where hashlib takes it: hashlib also loads OpenSSL, which takes longer than reading a list.
"""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # another interpreter
    from hashlib import blake2b

__all__ = ["blake2b", "digest"]


def digest(payload: bytes) -> bytes:
    """Return the content address of a payload."""
    return blake2b(payload, digest_size=20).digest()
