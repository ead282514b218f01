"""Action tokens: the marker in every comment we post.

The same intent gets the same token in every process, so posting it twice makes one comment (invariant 6). Tokens are
signed with a secret of this database, so others cannot compute one. A body that already contains a marker is refused.
Pure: no I/O.
"""

from __future__ import annotations

import hmac
import re
from typing import Literal

import msgspec
from msgspec import Struct

from tidelore.core.errors import UserError

LONGEST_COMMENT = 65_536
"""The most characters GitHub accepts in a comment, including the marker."""

ScopeKind = Literal["pr", "issue", "topic"]

_MARKER = re.compile(r"<!-- lore-action:([0-9a-f]{64}) -->")
_GAP = "\n\n"


class Intent(Struct, frozen=True):
    """Identifies a comment to post: where it goes, on whose behalf (`source`), and a key that distinguishes it.

    The repository is given by its id on the server, because its name may change. `key` is chosen by the caller; by
    default it is the body.
    """

    host: str
    repo_id: int
    scope_kind: ScopeKind
    scope_number: int
    reply_to: int | None
    source: str
    key: str


def action_token(intent: Intent, secret: bytes) -> str:
    """Return the token of an intent: its signature with the secret of this database, as 64 hex digits."""
    if not secret:
        raise ValueError("cannot sign a token: the secret is empty")
    return hmac.digest(secret, msgspec.json.encode(intent, order="sorted"), "sha256").hex()


def marker(token: str) -> str:
    """Return the marker of a token: an HTML comment, which is not displayed."""
    return f"<!-- lore-action:{token} -->"


def with_marker(body: str, token: str) -> str:
    """Return a body with its marker, or raise UserError if it is empty, too long or has a marker already."""
    if not body.strip():
        raise UserError("the comment is empty", fix="write some text")
    if _MARKER.search(body):
        raise UserError(
            "the text already contains an action marker", fix="remove the marker; one is added automatically"
        )
    marked = f"{body.rstrip()}{_GAP}{marker(token)}"
    if len(marked) > LONGEST_COMMENT:
        longest = LONGEST_COMMENT - len(_GAP) - len(marker(token))
        raise UserError(
            f"the text has {len(body.rstrip()):,} characters, the limit is {longest:,}",
            fix="shorten it or post it in parts",
            longest=longest,
        )
    return marked


def find_markers(body: str) -> tuple[str, ...]:
    """Return the tokens of the markers in a body, each once, in order."""
    return tuple(dict.fromkeys(_MARKER.findall(body)))


def is_same_login(author: str | None, login: str) -> bool:
    """Return whether an author is the account with this login; logins are case-insensitive on the server."""
    return author is not None and author.casefold() == login.casefold()
