"""One found thread, whole. Owns the way from a search result to everything the copy holds of it; asks nobody."""

from __future__ import annotations

from tidelore.core.errors import UserError
from tidelore.core.references import KINDS, parse_post_reference, parse_reference
from tidelore.search.results import ThreadResult
from tidelore.store.database.port import Database
from tidelore.store.reading.conversations import Conversation, read_conversation, resolve
from tidelore.store.reading.posts import PostDetails, read_post, resolve_post


def read_thread(database: Database, found: ThreadResult) -> Conversation | PostDetails:
    """Return the issue, merge request or post a result leads to."""
    if found.type == "post":
        return read_post(database, resolve_post(database, parse_post_reference(found.reference)))
    kind = next(kind for kind in KINDS if kind == found.type)
    try:
        row_id = resolve(database, kind, parse_reference(found.reference, kind))
    except UserError:
        # Two hosts have a project of this path: the web address tells them apart.
        if found.web_url is None:
            raise
        row_id = resolve(database, kind, parse_reference(found.web_url, kind))
    return read_conversation(database, kind, row_id)
