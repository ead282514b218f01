"""Parse references that people write: items, posts, accounts, projects and times.

Items are written as 12, #12, !12, group/project!12 or a URL; posts as an at:// URI or a page of bsky.app; accounts as a
handle, a DID or the URL of a profile, list or starter pack; times as a duration, a date or a timestamp. Text that
cannot be parsed raises UserError with the accepted forms. Nothing is looked up here: only the store and the servers
know whether a handle or a project exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar, get_args

from msgspec import Struct

from tidelore.core.clock import parse_instant
from tidelore.core.errors import NotFound, UserError

T = TypeVar("T")


def match_one(wanted: str, candidates: Sequence[T], names: Callable[[T], Sequence[str]], what: str) -> T:
    """Return the one candidate that matches; the first of its `names` is shown to users."""
    exact = [candidate for candidate in candidates if wanted in names(candidate)]
    found = exact or [candidate for candidate in candidates if names(candidate)[0].endswith(f"/{wanted}")]
    if len(found) == 1:
        return found[0]
    shown = [names(candidate)[0] for candidate in found or candidates]
    if not found:
        known = f"known {what}s: {', '.join(shown)}" if shown else "run `lore sync` first"
        raise NotFound(f"no {what} matches {wanted!r}", fix=known, wanted=wanted)
    raise UserError(
        f"{wanted!r} matches {len(found)} {what}s",
        fix="name one of: " + ", ".join(shown),
        wanted=wanted,
        candidates=shown,
    )


_UNITS_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_DURATION = r"(\d{1,6})([mhdw])"
_DATE = r"\d{4}-\d\d-\d\d"


def parse_duration(text: str, option: str) -> float:
    """Parse a duration in seconds, or raise UserError with the accepted forms."""
    match = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if match is None:
        raise UserError(
            f"invalid value for {option}: {text!r}", fix="use a duration such as 30s, 5m, 2h or 1d", value=text
        )
    return int(match[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86_400}[match[2]]


def parse_since(text: str, now_ms: int, name: str = "--since") -> int:
    """Parse a time, or raise UserError with the accepted forms; `name` is what the reader calls the value."""
    match = re.fullmatch(_DURATION, text)
    if match:
        return max(now_ms - int(match[1]) * _UNITS_MS[match[2]], 0)
    try:
        return parse_instant(f"{text}T00:00:00Z" if re.fullmatch(_DATE, text) else text)
    except ValueError:
        raise UserError(
            f"invalid value for {name}: {text!r}",
            fix="use a duration (30m, 12h, 7d, 2w), a date (2026-03-01) or a timestamp with an offset",
            since=text,
        ) from None


def parse_horizon(text: str, now_ms: int) -> int:
    """Parse from when on items are mirrored: a date, a timestamp, or days or weeks before today; 0 for an empty text.

    A duration begins at midnight (UTC), so that it means the same instant all day. Raises UserError for other texts.
    """
    if not text:
        return 0
    try:
        if re.fullmatch(r"\d{1,6}[mh]", text):
            raise UserError("minutes and hours make no horizon")
        found = parse_since(text, now_ms)
    except UserError:
        raise UserError(
            f"could not parse {text!r} as a date or a duration",
            fix='use a date ("2025-01-01"), a timestamp with an offset, or days or weeks before today ("365d", "52w")',
        ) from None
    day = _UNITS_MS["d"]
    return found - found % day if re.fullmatch(_DURATION, text) else found


Kind = Literal["issue", "mr"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SIGNS: dict[Kind, str] = {"issue": "#", "mr": "!"}


def sign_of(kind: Kind, reference: str | None) -> str:
    """Return the sign before a number: that of the forge's own reference, because GitHub writes # for both kinds."""
    return "#" if reference is not None and "!" not in reference else SIGNS[kind]


NOUNS: dict[Kind, str] = {"issue": "an issue", "mr": "a merge request"}

_NUMBER = r"([0-9]{1,18})"
_SEGMENT = r"(?!-/)[\w.+~-]+"
_PATH = rf"{_SEGMENT}(?:/{_SEGMENT})*"
_WRITTEN = rf"(?:({_PATH})?([#!]))?{_NUMBER}"
_PAGES: dict[str, Kind] = {"issues": "issue", "work_items": "issue", "merge_requests": "mr", "pull": "mr"}
_ITEM_PAGE = rf"({'|'.join(_PAGES)})(?:/incident)?/{_NUMBER}(?:[/?#].*)?"
# GitLab separates the project from its pages by `/-/`; old URLs and GitHub do not, and a project may be called
# `issues`. So the unambiguous form is tried first.
_ADDRESSES = tuple(rf"(https?://[^/\s?#]+/({_PATH})){parting}{_ITEM_PAGE}" for parting in ("/-/", "/"))


_TOPIC_ADDRESS = rf"(https?://[^/\s?#]+/({_PATH}))/discussions/{_NUMBER}(?:[/?#].*)?"


class Reference(Struct, frozen=True):
    """A parsed reference: a number, the project if it was named, and the project's URL if one was given.

    `is_hashed`: written with `#`, which names an issue, and on GitHub a pull request too.
    """

    iid: int
    project: str | None = None
    address: str | None = None
    is_hashed: bool = False


def parse_reference(text: str, kind: Kind) -> Reference:
    """Parse a reference to an issue ('issue') or a merge request ('mr').

    Whether `#12` may name a merge request depends on its forge, so that is left to who resolves it.
    """
    word = text.strip()
    found = read_reference(word)
    if found is not None:
        meant, reference = found
        if meant not in (None, kind) and not reference.is_hashed:
            raise wrong_kind(word, kind, reference)
        return reference
    if re.fullmatch(_TOPIC_ADDRESS, word, re.IGNORECASE):
        raise UserError(f"{word} is not {NOUNS[kind]}", fix=f"use `lore show topic '{word}'`", reference=word)
    sign = SIGNS[kind]
    raise UserError(
        f"could not parse {text!r} as {NOUNS[kind]}",
        fix=f"use a number, {sign}12, group/project{sign}12 or a URL",
        reference=text,
    )


def parse_topic_reference(text: str) -> Reference:
    """Parse a reference to a topic."""
    word = text.strip()
    # Asked first, here and below, because compiling a pattern of addresses takes longer than reading an item.
    address = re.fullmatch(_TOPIC_ADDRESS, word, re.IGNORECASE) if "://" in word else None
    if address is not None:
        return Reference(int(address[3]), address[2], address[1])
    found = _read_written(word)
    if found is not None and found[0] != "mr":
        return found[1]
    raise UserError(
        f"could not parse {text!r} as a topic",
        fix="use a number, #12, owner/repo#12 or the URL of a discussion",
        reference=text,
    )


def read_reference(word: str) -> tuple[Kind | None, Reference] | None:
    """Parse a reference; return its kind (None if its form does not show it) and the reference, or None."""
    return _read_written(word) or _read_address(word)


def other_kind(kind: Kind) -> Kind:
    """Return the other kind."""
    return "mr" if kind == "issue" else "issue"


def _read_written(word: str) -> tuple[Kind | None, Reference] | None:
    match = re.fullmatch(_WRITTEN, word)
    if match is None:
        return None
    kind = next((kind for kind in KINDS if SIGNS[kind] == match[2]), None)
    return kind, Reference(int(match[3]), match[1], is_hashed=match[2] == "#")


def _read_address(word: str) -> tuple[Kind | None, Reference] | None:
    for pattern in _ADDRESSES:
        match = re.fullmatch(pattern, word, re.IGNORECASE)
        if match is not None:
            return _PAGES[match[3].lower()], Reference(int(match[4]), match[2], match[1])
    return None


_COMMENT_KINDS = {
    "note_": "note",
    "issuecomment-": "issue_comment",
    "discussion_r": "review_comment",
    "r": "review_comment",
    "pullrequestreview-": "review_summary",
    "discussioncomment-": "topic_comment",
}
_COMMENT = rf"(?:(?P<page>https?://[^\s#]+))?#?(?P<form>{'|'.join(_COMMENT_KINDS)}){_NUMBER}"


class CommentReference(Struct, frozen=True):
    """A parsed reference to a comment: its id, its kind if the form shows it, and the URL of its item if given."""

    id: int
    kind: str | None = None
    page: str | None = None


def parse_comment_reference(text: str) -> CommentReference | None:
    """Parse the fragment of a comment's URL (`note_123`, `issuecomment-123`), alone or in the URL; else return None.

    A number alone may be the id of a comment, too.
    """
    word = text.strip()
    match = re.fullmatch(_COMMENT, word)
    if match is not None and ("#" in word or (match["page"] is None and match["form"] != "r")):
        return CommentReference(int(match[3]), _COMMENT_KINDS[match["form"]], match["page"])
    return CommentReference(int(word)) if re.fullmatch(_NUMBER, word) else None


def wrong_kind(word: str, kind: Kind, reference: Reference) -> UserError:
    """Return the error for a reference that names an item of the other kind."""
    # Quoted, because `#`, `!`, `?` and `&` are special characters in shells.
    again = f"'{word}'" if reference.project else str(reference.iid)
    return UserError(
        f"{word} is not {NOUNS[kind]}",
        fix=f"use `lore show {other_kind(kind)} {again}`",
        reference=word,
    )


POST_COLLECTION = "app.bsky.feed.post"
_AUTHORITY = r"(did:[a-z]+:[A-Za-z0-9._:%-]+|(?:[A-Za-z0-9-]+\.)+[A-Za-z0-9-]+)"
_RECORD_KEY = r"([A-Za-z0-9._:~-]{1,512})"
_POST_ADDRESS = rf"at://{_AUTHORITY}/([A-Za-z][A-Za-z0-9.-]*)/{_RECORD_KEY}"
_POST_PAGE = rf"https?://[^/\s?#]+/profile/{_AUTHORITY}/post/{_RECORD_KEY}/?(?:[?#].*)?"


class PostReference(Struct, frozen=True):
    """A parsed reference to a post: its author (DID or handle), collection and record key."""

    authority: str
    collection: str
    key: str

    @property
    def is_by_did(self) -> bool:
        return self.authority.startswith("did:")

    def address(self, did: str) -> str:
        """Return the post's URI, which identifies the author by DID."""
        return f"at://{did}/{self.collection}/{self.key}"


def parse_post_reference(text: str) -> PostReference:
    """Parse a reference to a post."""
    word = text.strip()
    found = re.fullmatch(_POST_ADDRESS, word) if "://" in word else None
    if found is not None:
        return PostReference(_authority(found[1]), found[2], found[3])
    if ":" in word or "%" in word:
        # Not at the top: it loads more than most commands need.
        from urllib.parse import unquote

        found = re.fullmatch(_POST_PAGE, unquote(word), re.IGNORECASE)
    if found is not None:
        return PostReference(_authority(found[1]), POST_COLLECTION, found[2])
    raise UserError(
        f"could not parse {text!r} as a post",
        fix="use at://did:plc:…/app.bsky.feed.post/… or https://bsky.app/profile/…",
        reference=text,
    )


def _authority(text: str) -> str:
    """Normalise an author: handles are case-insensitive, DIDs are not."""
    return text if text.startswith("did:") else text.lower()


ACCOUNT_LIST = "app.bsky.graph.list"
STARTER_PACK = "app.bsky.graph.starterpack"
NO_HANDLE = "handle.invalid"
"""The handle that the network shows for an account while its handle is invalid or belongs to another account."""

_ACCOUNT_NAME = r"did:[a-z]+:[A-Za-z0-9._:%-]+|(?:[A-Za-z0-9-]+\.)+[A-Za-z0-9-]+"
_PROFILE_PAGE = r"https?://[^/\s]+/profile/([^/\s?#]+)/?(?:[?#]\S*)?"
_LIST_FORMS = (
    (r"(?i:https?://[^/\s]+/profile/([^/\s?#]+)/lists/([^/\s?#]+)/?(?:[?#]\S*)?)", ACCOUNT_LIST),
    (r"(?i:https?://[^/\s]+/(?:starter-pack|start)/([^/\s?#]+)/([^/\s?#]+)/?(?:[?#]\S*)?)", STARTER_PACK),
    (rf"at://([^/\s]+)/{re.escape(ACCOUNT_LIST)}/([^/\s]+)", ACCOUNT_LIST),
    (rf"at://([^/\s]+)/{re.escape(STARTER_PACK)}/([^/\s]+)", STARTER_PACK),
)


class MemberList(Struct, frozen=True):
    """A list or starter pack, standing for its members; `text` is the original spelling."""

    owner: str
    collection: str
    rkey: str
    text: str


class FileNames(Struct, frozen=True):
    """The contents of a file of names: accounts and lists, the line of each, and the words that are neither."""

    targets: list[str | MemberList]
    lines: dict[str, int]
    refused: dict[str, UserError]


def parse_target(text: str) -> str | MemberList:
    """Parse an account, list or starter pack."""
    word = text.strip()
    for form, collection in _LIST_FORMS:
        found = re.fullmatch(form, word)
        if found is not None:
            return MemberList(clean_name(found[1]), collection, found[2], word)
    return clean_name(word)


def clean_name(text: str) -> str:
    """Return the handle or DID from a name, an @name or the URL of a profile."""
    word = text.strip()
    page = re.fullmatch(_PROFILE_PAGE, word, re.IGNORECASE)
    name = (page[1] if page else word).removeprefix("at://").removeprefix("@")
    if re.fullmatch(_ACCOUNT_NAME, name) is None:
        raise UserError(
            f"could not parse {text!r} as a Bluesky account",
            fix="use a handle like alice.bsky.social, a DID like did:plc:… or the URL of a profile",
            account=text,
        )
    return name if name.startswith("did:") else name.lower()


def parse_names(text: str) -> FileNames:
    """Parse a file of names: one or more per line, with or without @; a # starts a comment."""
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
    """Remove a comment. In a line with a URL only a # after a space starts one: others may start a fragment."""
    return re.sub(r"(^|\s)#.*", "", line) if "://" in line else line.partition("#")[0]
