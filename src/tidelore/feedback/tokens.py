"""Action tokens: the marker in every comment we post.

The same intent gets the same token in every process, so posting it twice makes one comment (invariant 6). Tokens are
signed with a secret of this database, so nobody else can compute one. A body that already contains a marker is
refused. Pure: no I/O.
"""

from __future__ import annotations

import hmac
import re
from typing import Literal

import msgspec
from msgspec import Struct

from tidelore.core.errors import UserError

LONGEST_COMMENT = 65_536
"""How many characters GitHub takes in one comment, the mark included."""

ScopeKind = Literal["pr", "issue"]

_MARKER = re.compile(r"<!-- lore-action:([0-9a-f]{64}) -->")
_GAP = "\n\n"


class Intent(Struct, frozen=True):
    """What a comment is meant to be: where it stands, on whose behalf, and what makes it different from the next.

    The repository is named by the remote's number: its name may change. `key` is the caller's own word for the
    occasion, or the body where there is none.
    """

    host: str
    repo_id: int
    scope_kind: ScopeKind
    scope_number: int
    reply_to: int | None
    source: str
    key: str


def action_token(intent: Intent, secret: bytes) -> str:
    """Return the 64 hex digits that stand for an intent: its signature with the secret of this copy."""
    if not secret:
        raise ValueError("a token is signed with a secret, and there is none")
    return hmac.digest(secret, msgspec.json.encode(intent, order="sorted"), "sha256").hex()


def marker(token: str) -> str:
    """Return the mark of a token, invisible to whoever reads the comment."""
    return f"<!-- lore-action:{token} -->"


def with_marker(body: str, token: str) -> str:
    """Return a body as it is posted, or raise UserError when no comment can be made of it."""
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
    """Return the tokens of the marks in a body, each once, in their order."""
    return tuple(dict.fromkeys(_MARKER.findall(body)))


def is_same_login(author: str | None, login: str) -> bool:
    """Return whether an author is the account with this login; logins have no case on the remote."""
    return author is not None and author.casefold() == login.casefold()
