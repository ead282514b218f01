"""Names of the AT Protocol: record addresses, record keys and where a person reads a post. Pure.

Owns their forms. A record key is usually a TID, which sorts and tells the instant of writing; its author may choose
another, so nothing here promises that it is one.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelore.sources.bluesky.payloads import POST

_DIGITS = {digit: value for value, digit in enumerate("234567abcdefghijklmnopqrstuvwxyz")}
_TID_LENGTH = 13


class RecordAddress(NamedTuple):
    """The parts of an `at://` address."""

    did: str
    collection: str
    rkey: str

    def __str__(self) -> str:
        return f"at://{self.did}/{self.collection}/{self.rkey}"


def split_uri(uri: str) -> RecordAddress:
    """Return the parts of an address, or raise ValueError."""
    parts = uri.split("/")
    if len(parts) == 5:
        scheme, empty, did, collection, rkey = parts
        if scheme == "at:" and not empty and did.startswith("did:") and collection and rkey:
            return RecordAddress(did, collection, rkey)
    raise ValueError(f"uri: not the address of a record: {uri[:200]!r}")


def tid_instant(rkey: str) -> int | None:
    """Return the instant in milliseconds that a record key tells, or None when it is no TID."""
    if len(rkey) != _TID_LENGTH or rkey[0] > "j":
        return None
    number = 0
    for digit in rkey:
        value = _DIGITS.get(digit)
        if value is None:
            return None
        number = number << 5 | value
    return (number >> 10) // 1000


def web_address(address: RecordAddress) -> str | None:
    """Return where a person reads a post; by DID, which outlives the handle."""
    if address.collection != POST:
        return None
    return f"https://bsky.app/profile/{address.did}/post/{address.rkey}"
