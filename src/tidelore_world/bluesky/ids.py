"""Identifiers of the AT Protocol: DIDs, record keys (TIDs), content ids and record addresses.

Owns their forms. Pure. Invariants: a TID sorts as its instant does; an edit changes the CID, and no two
records share one (on the real network two records with equal content do).
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import lru_cache
from typing import Any

_TID_DIGITS = "234567abcdefghijklmnopqrstuvwxyz"
_TID_LENGTH = 13
# CIDv1, dag-cbor, sha2-256 with 32 bytes: what makes every record's CID begin with `bafyrei`.
_CID_PREFIX = bytes((0x01, 0x71, 0x12, 0x20))
# The first of the six digits behind the fixed prefix still holds two of its bits: it is never below `a`.
_LEAST_RANK = _TID_DIGITS.index("a") << 25
_RAW_PREFIX = bytes((0x01, 0x55, 0x12, 0x20))


def did_of(seed: str) -> str:
    """A `did:plc` that follows from a text."""
    return f"did:plc:{_base32(hashlib.sha256(seed.encode()).digest())[:24]}"


def tid_of(us: int, clock_id: int = 0) -> str:
    """The record key of an instant in microseconds."""
    number = (us << 10) | clock_id
    return "".join(_TID_DIGITS[(number >> shift) & 31] for shift in range(5 * (_TID_LENGTH - 1), -1, -5))


def cid_of(rkey: str, value: Any) -> str:
    """The content id of a record; the key takes part, so that a feed never holds one CID twice."""
    text = json.dumps([rkey, value], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return f"b{_base32(_CID_PREFIX + hashlib.sha256(text.encode()).digest())}"


@lru_cache(maxsize=65_536)
def blob_cid_of(seed: str) -> str:
    """The content id of an uploaded file, made from a text that stands for it."""
    return f"b{_base32(_RAW_PREFIX + hashlib.sha256(seed.encode()).digest())}"


def cid_rank(cid: str) -> int:
    """A number of nine digits that orders content ids as their text does, as far as it reaches."""
    rank = 0
    for digit in cid[7:13]:
        rank = rank * 32 + _TID_DIGITS.index(digit)
    return rank - _LEAST_RANK


def record_uri(did: str, collection: str, rkey: str) -> str:
    """The `at://` address of a record."""
    return f"at://{did}/{collection}/{rkey}"


def split_uri(uri: str) -> tuple[str, str, str]:
    """DID, collection and record key of an `at://` address; ValueError for anything else."""
    scheme, _, rest = uri.partition("://")
    parts = rest.split("/")
    if scheme != "at" or len(parts) != 3:
        raise ValueError(f"not a record address: {uri!r}")
    return parts[0], parts[1], parts[2]


def _base32(data: bytes) -> str:
    return base64.b32encode(data).decode().lower().rstrip("=")
