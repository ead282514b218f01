"""The addresses of the pages. An address is stable: it names an item by its project and number, or a post by its URI.

Every part that comes from others is quoted, and links to other hosts are http(s) only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

PARTS = {"issue": "issues", "mr": "mrs", "topic": "topics"}
"""The part of an address that says what kind of item it names."""
KINDS = {part: kind for kind, part in PARTS.items()}

Query = Iterable[tuple[str, str]]


def item_address(kind: str, project: str, iid: int, at: str | None = None) -> str:
    """Return the address of an issue, merge request or topic; `at` tells two hosts with the same path apart."""
    path = f"/p/{quote(project)}/{PARTS[kind]}/{iid}"
    return path if at is None else with_query(path, [("at", at)])


def post_address(uri: str) -> str:
    """Return the address of a post."""
    return with_query("/post", [("uri", uri)])


def file_address(path: str, project: str | None = None) -> str:
    """Return the address of the history of a file."""
    return with_query("/files", [("path", path), *([("project", project)] if project else [])])


def account_address(name: str) -> str:
    """Return the address of a followed account."""
    return f"/accounts/{quote(name, safe='')}"


def reference_address(reference: str, project: str | None = None, thread: str | None = None) -> str:
    """Return the address that leads to whatever a reference names, or to a thread of it."""
    return with_query("/go", [("ref", reference), ("project", project or ""), ("thread", thread or "")])


def thread_address(page: str, thread: str) -> str:
    """Return the address of a thread on the page of its item."""
    return f"{page}{'&' if '?' in page else '?'}{urlencode({'thread': thread})}#{thread_anchor(thread)}"


def thread_anchor(thread: str) -> str:
    """Return the fragment that names a thread on its page."""
    return "thread_" + quote(thread, safe="")


def note_address(page: str, url: str | None) -> str | None:
    """Return the address of a note on the page of its item, by its address on its host; None if that names no note."""
    found = re.search(r"#(?:note_|issuecomment-|discussion_r|pullrequestreview-)([0-9]{1,19})$", url or "")
    return None if found is None else f"{page}{'&' if '?' in page else '?'}note={found[1]}#note_{found[1]}"


def section_of(path: str) -> str:
    """Return the address of the list that a page belongs to: the page of an issue belongs to `/issues`."""
    match path.strip("/").split("/"):
        case ["p", *_, part, _, "refresh" | "reply"]:
            return f"/{part}"
        case ["p", *_, part, _number]:
            return f"/{part}"
        case ["post"]:
            return "/posts"
        case ["coverage"]:
            return "/status"
        case [first, *_]:
            return f"/{first}"
    return "/"


def with_query(path: str, pairs: Query) -> str:
    """Return an address with a query; empty values are dropped."""
    query = urlencode([(name, value) for name, value in pairs if value != ""])
    return f"{path}?{query}" if query else path


def changed_query(pairs: Query, changes: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a query in which each changed name has the new value, or is gone for None; its page starts anew."""
    kept = [(name, value) for name, value in pairs if name not in changes and name != "after"]
    return [*kept, *((name, str(value)) for name, value in changes.items() if value is not None)]


def host(address: str) -> str:
    """Return the host that an address of another host names."""
    return urlsplit(address).hostname or address


def external(address: str | None) -> str | None:
    """Return an address of another host if a link may lead there: http(s) only."""
    if address is None:
        return None
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    return address if parts.scheme in {"http", "https"} and parts.netloc else None
