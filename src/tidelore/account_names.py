"""Names of Bluesky accounts as people write them: handles, DIDs, addresses of profiles, lists and starter packs. Pure.

Owns what is accepted. Refuses the address of anything else, a post or a feed, because it would not say whom it means.
"""

from __future__ import annotations

import re

from msgspec import Struct

from tidelore.errors import UserError

LIST = "app.bsky.graph.list"
STARTER_PACK = "app.bsky.graph.starterpack"

_NAME = re.compile(r"did:[a-z]+:[A-Za-z0-9._:%-]+|(?:[A-Za-z0-9-]+\.)+[A-Za-z0-9-]+")
_PAGE = re.compile(r"https?://[^/\s]+/profile/([^/\s?#]+)/?(?:[?#]\S*)?", re.IGNORECASE)
_LIST_FORMS = (
    (re.compile(r"https?://[^/\s]+/profile/([^/\s?#]+)/lists/([^/\s?#]+)/?(?:[?#]\S*)?", re.IGNORECASE), LIST),
    (re.compile(r"https?://[^/\s]+/(?:starter-pack|start)/([^/\s?#]+)/([^/\s?#]+)/?(?:[?#]\S*)?", re.I), STARTER_PACK),
    (re.compile(rf"at://([^/\s]+)/{re.escape(LIST)}/([^/\s]+)"), LIST),
    (re.compile(rf"at://([^/\s]+)/{re.escape(STARTER_PACK)}/([^/\s]+)"), STARTER_PACK),
)


class MemberList(Struct, frozen=True):
    """A list or starter pack, whose members are meant; `text` is how it was written."""

    owner: str
    collection: str
    rkey: str
    text: str


class FileNames(Struct, frozen=True):
    """What a file names: accounts and lists, on which line each was written, and the words that are neither."""

    targets: list[str | MemberList]
    lines: dict[str, int]
    refused: dict[str, UserError]


def parse_target(text: str) -> str | MemberList:
    """Return the account, list or starter pack that a person wrote."""
    word = text.strip()
    for form, collection in _LIST_FORMS:
        found = form.fullmatch(word)
        if found is not None:
            return MemberList(clean_name(found[1]), collection, found[2], word)
    return clean_name(word)


def clean_name(text: str) -> str:
    """Return the handle or DID that a person wrote, as a name, an @name or the address of a profile."""
    word = text.strip()
    page = _PAGE.fullmatch(word)
    name = (page[1] if page else word).removeprefix("at://").removeprefix("@")
    if _NAME.fullmatch(name) is None:
        raise UserError(
            f"could not parse {text!r} as a Bluesky account",
            fix="use a handle like alice.bsky.social, a DID like did:plc:… or the URL of a profile",
            account=text,
        )
    return name if name.startswith("did:") else name.lower()


def parse_names(text: str) -> FileNames:
    """Return the names in a file: one or more on a line, with or without @; what follows a # is a remark."""
    targets: dict[str | MemberList, None] = {}
    lines: dict[str, int] = {}
    refused: dict[str, UserError] = {}
    for number, line in enumerate(text.splitlines(), 1):
        for word in re.split(r"[\s,;]+", _without_remark(line)):
            if not word:
                continue
            try:
                target = parse_target(word)
            except UserError as error:
                lines.setdefault(word, number)
                refused.setdefault(word, error)
                continue
            lines.setdefault(target if isinstance(target, str) else target.text, number)
            targets[target] = None
    return FileNames(list(targets), lines, refused)


def _without_remark(line: str) -> str:
    """In a line with an address only a # behind a space begins a remark: others may begin a fragment."""
    return re.sub(r"(^|\s)#.*", "", line) if "://" in line else line.partition("#")[0]
