"""References to posts: an at:// address, or a page of bsky.app. Pure; owns their reading.

The authority may be a DID or a handle: which account it is, the store tells. Refuses anything else, naming the forms.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from msgspec import Struct

from tidelore.errors import UserError

COLLECTION = "app.bsky.feed.post"
_AUTHORITY = r"(did:[a-z]+:[A-Za-z0-9._:%-]+|(?:[A-Za-z0-9-]+\.)+[A-Za-z0-9-]+)"
_KEY = r"([A-Za-z0-9._:~-]{1,512})"
_ADDRESS = re.compile(rf"at://{_AUTHORITY}/([A-Za-z][A-Za-z0-9.-]*)/{_KEY}")
_PAGE = re.compile(rf"https?://[^/\s?#]+/profile/{_AUTHORITY}/post/{_KEY}/?(?:[?#].*)?", re.IGNORECASE)


class PostReference(Struct, frozen=True):
    """Whose post (a DID, or a handle), in which collection, under which key."""

    authority: str
    collection: str
    key: str

    @property
    def is_by_did(self) -> bool:
        return self.authority.startswith("did:")

    def address(self, did: str) -> str:
        """Return the post's address, which names its author by the DID."""
        return f"at://{did}/{self.collection}/{self.key}"


def parse_post_reference(text: str) -> PostReference:
    """Read a reference to a post."""
    word = text.strip()
    found = _ADDRESS.fullmatch(word)
    if found is not None:
        return PostReference(_authority(found[1]), found[2], found[3])
    found = _PAGE.fullmatch(unquote(word))
    if found is not None:
        return PostReference(_authority(found[1]), COLLECTION, found[2])
    raise UserError(
        f"could not parse {text!r} as a post",
        fix="use at://did:plc:…/app.bsky.feed.post/… or https://bsky.app/profile/…",
        reference=text,
    )


def _authority(text: str) -> str:
    """Handles are the same in whatever case; DIDs are not."""
    return text if text.startswith("did:") else text.lower()
