"""`lore similar`: finds similar threads and posts."""

from __future__ import annotations

from typing import Any

import click

from tidelore.cli.face import LoreCommand, face_of
from tidelore.cli.render import Answer
from tidelore.core.errors import NotFound, UserError
from tidelore.core.extras import require
from tidelore.core.references import KINDS, SIGNS, Kind, PostReference, Reference, parse_post_reference, parse_reference
from tidelore.store.database.port import Database
from tidelore.store.reading.conversations import resolve
from tidelore.store.reading.posts import resolve_post

_TYPES: dict[Kind, str] = {"issue": "issue", "mr": "merge_request"}


@click.command("similar", cls=LoreCommand, example="lore similar 'group/project!12'")
@click.argument("reference", metavar="REF")
@click.option("-p", "--project", metavar="PATH", help="Project (path or unambiguous ending).")
@click.option("-n", "--limit", type=click.IntRange(1, 100), default=10, help="Number of threads to show.")
@click.option("--fields", metavar="A,B", help="Only these fields of the items in JSON.")
@click.option("--json", "as_json", is_flag=True, help="Same as --robot.")
@click.pass_context
def command(ctx: click.Context, /, reference: str, **wanted: Any) -> Answer:
    """Find threads similar to an issue, merge request or post.

    REF is '#12', '!12', 'group/project!12', a URL, an at:// URI, or a number that only one kind of item has. Compares
    stored embeddings (see `lore embed`) and needs no network.
    """
    require("vectors", "`lore similar`", ["numpy"])
    from tidelore.cli.search_page import item_of, read_fields
    from tidelore.cli.search_text import result_lines
    from tidelore.search.find import SearchResults
    from tidelore.search.query import Query
    from tidelore.search.semantic import find_similar
    from tidelore.store.reading.documents import ThreadKey

    face = face_of(ctx)
    face.choices.robot |= wanted["as_json"]
    chosen = read_fields(wanted["fields"])
    post = _post_reading(reference)
    meant = {} if post is not None else _readings(reference)
    default = face.app().config.default_project
    database = face.open_store()
    try:
        if post is not None:
            thread = ThreadKey("post", resolve_post(database, post))
        else:
            kind, row_id = _resolved(database, reference, meant, wanted["project"], default)
            thread = ThreadKey(_TYPES[kind], row_id)
        threads = find_similar(database, thread, wanted["limit"])
    finally:
        database.close()
    if face.choices.robot:
        return Answer({"items": [item_of(thread, chosen) for thread in threads], "total": len(threads), "next": None})
    found = SearchResults(threads, len(threads), "semantic")
    return Answer(None, result_lines(found, Query(), 0, explain=False))


def _post_reading(reference: str) -> PostReference | None:
    """Return the parsed post reference, or None if it is something else."""
    try:
        return parse_post_reference(reference)
    except UserError:
        return None


def _readings(reference: str) -> dict[Kind, Reference]:
    """Return the possible meanings of a reference: a bare number can be an issue or a merge request."""
    found: dict[Kind, Reference] = {}
    refused: UserError | None = None
    for kind in KINDS:
        try:
            found[kind] = parse_reference(reference, kind)
        except UserError as error:
            refused = error
    if not found and refused is not None:
        raise UserError(
            f"could not parse {reference!r} as an issue, merge request or post",
            fix="use #12 for an issue, !12 for a merge request, group/project!12, a URL, or at://… for a post",
            reference=reference,
        )
    return found


def _resolved(
    database: Database, reference: str, meant: dict[Kind, Reference], project: str | None, default: str
) -> tuple[Kind, int]:
    rows: dict[Kind, int] = {}
    missing: NotFound | None = None
    for kind, reading in meant.items():
        try:
            rows[kind] = resolve(database, kind, reading, project=project, default=default)
        except NotFound as error:
            missing = missing or error
    if not rows and missing is not None:
        raise missing
    if len(rows) > 1:
        both = " or ".join(f"'{SIGNS[kind]}{reading.iid}'" for kind, reading in meant.items())
        raise UserError(f"{reference} is both an issue and a merge request", fix=f"use {both}", reference=reference)
    ((kind, row_id),) = rows.items()
    return kind, row_id
