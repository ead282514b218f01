"""Find the stored item that a reference of any kind names, an issue, merge request, topic or post, and its web page.

Parsing refuses what cannot be a reference before anything is opened; finding needs the database.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

from msgspec import Struct

from tidelore.app.answers import means
from tidelore.app.wiring import App
from tidelore.core.errors import NotFound, UserError
from tidelore.core.references import (
    KINDS,
    SIGNS,
    Kind,
    PostReference,
    Reference,
    parse_post_reference,
    parse_reference,
    parse_topic_reference,
)
from tidelore.store.database.port import Database
from tidelore.store.reading.changes import read_changed
from tidelore.store.reading.conversations import resolve
from tidelore.store.reading.found_documents import ThreadKey
from tidelore.store.reading.posts import resolve_post
from tidelore.store.reading.topics import resolve_topic

_THREAD_TYPES: dict[Kind | None, str] = {"issue": "issue", "mr": "merge_request", None: "topic"}


class AnyReference(Struct, frozen=True):
    """A parsed reference with its possible meanings: a bare number can be an issue, merge request or topic (None)."""

    text: str
    meanings: dict[Kind | None, Reference]
    post: PostReference | None = None


def parse_any(text: str) -> AnyReference:
    """Parse a reference of any kind; raise UserError with the accepted forms."""
    try:
        return AnyReference(text, {}, parse_post_reference(text))
    except UserError:
        pass
    found: dict[Kind | None, Reference] = {}
    for kind in KINDS:
        with suppress(UserError):
            found[kind] = parse_reference(text, kind)
    with suppress(UserError):
        found[None] = parse_topic_reference(text)
    if not found:
        raise UserError(
            f"could not parse {text!r} as an issue, merge request, topic or post",
            fix="use #12 for an issue, !12 for a merge request, group/project!12, a URL, or at://… for a post",
            reference=text,
        )
    return AnyReference(text, found)


def find_thread(
    database: Database, reference: AnyReference, project: str | None = None, default: str = "", *, first: bool = False
) -> ThreadKey:
    """Return the one stored item that a reference names; with `first`, an issue if it is also a merge request."""
    if reference.post is not None:
        return ThreadKey("post", resolve_post(database, reference.post))
    rows: dict[Kind | None, int] = {}
    missing: NotFound | None = None
    for kind, reading in reference.meanings.items():
        if rows and first:
            break
        try:
            if kind is not None:
                rows[kind] = resolve(database, kind, reading, project=project, default=default)
            elif not rows:
                # Where a forge has topics, they share their numbers with issues and merge requests.
                rows[None] = resolve_topic(database, reading, project=project, default=default)
        except NotFound as error:
            missing = missing or error
        except UserError:
            # `#12` names an issue, and a merge request only where it is stored under that sign.
            if kind != "mr" or not reading.is_hashed:
                raise
    if not rows and missing is not None:
        raise missing
    if len(rows) > 1:
        both = " or ".join(f"'{SIGNS[kind]}{reference.meanings[kind].iid}'" for kind in rows if kind is not None)
        raise UserError(
            f"{reference.text} is both an issue and a merge request", fix=f"use {both}", reference=reference.text
        )
    ((kind, row_id),) = rows.items()
    return ThreadKey(_THREAD_TYPES[kind], row_id)


class OpenedItem(Struct, frozen=True):
    """The answer of `lore open`."""

    reference: Annotated[str, means("the item as it was named")]
    type: Annotated[str, means("issue, merge_request, topic or post")]
    title: Annotated[str, means("its title", untrusted=True)]
    web_url: Annotated[str, means("its address")]


def find_page(app: App, reference: str, project: str | None = None) -> OpenedItem:
    """Return the page of the item that a reference names."""
    meant = parse_any(reference)
    with app.reading() as database:
        found = find_thread(database, meant, project, app.config.default_project)
        row = read_changed(database, found.type, [found.id])[found.id]
    if row.web_url is None:
        raise NotFound(f"no address of {reference} is stored", fix="refresh it with `lore sync`", reference=reference)
    return OpenedItem(reference, found.type, row.title, row.web_url)
