"""Suggest what a shell may complete: references, labels, projects and users, from the local copy.

Never uses the network and never raises: without a database there is nothing to suggest. A database that does not answer
within a second is given up.
"""

from __future__ import annotations

import re
from contextlib import closing
from typing import NamedTuple

from tidelore.app.wiring import App
from tidelore.core.errors import TideloreError
from tidelore.core.references import Kind, sign_of
from tidelore.core.text import one_line, shorten
from tidelore.store.database.port import Database, Limits, Patience
from tidelore.store.mirror.kinds import PARENTS
from tidelore.store.reading.lists import names_beginning, recent_items

LIMIT = 50
_PARTS = re.compile(r"(?:(?P<project>[^#!]+)(?P<sign>[#!]))?(?P<digits>\d*)")
_TITLE = 60


class Suggestion(NamedTuple):
    """A word to complete to, and what it stands for."""

    word: str
    meaning: str = ""


def suggest_names(app: App, kind: str, begin: str) -> list[Suggestion]:
    """Return labels, projects or users that begin with a text."""
    try:
        with closing(_open(app)) as database:
            return [Suggestion(one_line(name)) for name in names_beginning(database, kind, begin, LIMIT)]
    except TideloreError:
        return []


def suggest_references(app: App, kinds: tuple[Kind, ...], begin: str) -> list[Suggestion]:
    """Return references to items, the newest update first.

    Digits are completed to numbers, anything else to full references such as group/project#12.
    """
    parts = _PARTS.fullmatch(begin)
    try:
        with closing(_open(app)) as database:
            if parts is None:
                return [
                    Suggestion(f"{project.word}{'#' if 'issue' in kinds else '!'}", "project")
                    for project in (Suggestion(name) for name in names_beginning(database, "project", begin, LIMIT))
                ]
            found = [one for kind in kinds for one in _items(database, kind, parts["project"], parts["digits"])]
    except TideloreError:
        return []
    if parts["project"] or not begin:
        return [Suggestion(full, title) for full, _, title in found if full.startswith(begin)]
    return list({number: Suggestion(number, f"{full} {title}") for full, number, title in reversed(found)}.values())[
        ::-1
    ]


def _items(database: Database, kind: Kind, project: str | None, digits: str) -> list[tuple[str, str, str]]:
    found = recent_items(database, PARENTS[kind], project, digits, LIMIT)
    return [
        (
            f"{item.project}{sign_of(kind, item.references_short)}{item.iid}",
            str(item.iid),
            shorten(one_line(item.title), _TITLE),
        )
        for item in found
    ]


def _open(app: App) -> Database:
    return app.open_store(patience=Patience(Limits(lock=1, statement=1, idle=1, connect=1)))
