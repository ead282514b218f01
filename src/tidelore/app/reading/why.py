"""From a line in the user's git checkout to the conversation about it: `lore why`.

`git blame` names the commit; the commit, or the merge that brought it, belongs to a stored merge request: by the id of
its merge, squash or head commit, or by the number in the commit's message. The answer has the threads on that file,
nearest line first, and the notes that decided something. Reads the checkout and the local database only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

from msgspec import Struct

from tidelore.app.answers import Instant, answer_tokens, fitting, instant, means
from tidelore.app.reading.context import ContextItem, ContextNote, item_material
from tidelore.app.reading.git_checkout import Blame, Checkout, blame, commits_of, find_checkout, merges_of
from tidelore.app.reading.lockdown import Lockdown, find_lockdown
from tidelore.app.reading.threads import ListedThread, listed_thread
from tidelore.app.wiring import App
from tidelore.core.errors import NotFound, UserError
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import ProjectRow, list_projects, match_project
from tidelore.store.reading.file_history import request_with_number, requests_with_commits
from tidelore.store.reading.threads import ThreadFilter, find_threads, read_threads_page

_MOST_NOTES = 5
_NUMBERS = (
    r"See merge request \S*!(\d+)",
    r"Merge pull request #(\d+)",
    r"\(#(\d+)\)\s*$",
    r"\(!(\d+)\)\s*$",
    r"[Mm]erge request \S*!(\d+)",
)


class WhyCommit(Struct, frozen=True):
    """The commit that a line comes from."""

    sha: Annotated[str, means("its id")]
    author: Annotated[str, means("who wrote it", untrusted=True)]
    at: Annotated[Instant, means("when it was written")]
    summary: Annotated[str, means("the first line of its message", untrusted=True)]
    path: Annotated[str, means("the file as it was called there", untrusted=True)]
    line: Annotated[int | None, means("the line there, or null")]


class Why(Struct, frozen=True, kw_only=True):
    """The answer of `lore why`."""

    file: Annotated[str, means("the file in the checkout")]
    line: Annotated[int | None, means("the line, or null")]
    commit: WhyCommit
    found_by: Annotated[str, means("how the merge request was found: commit, merge or message")]
    names: Annotated[list[str], means("names of the file in the commits that were looked at", untrusted=True)]
    item: ContextItem
    threads: Annotated[list[ListedThread], means("threads on that file, the nearest line first")]
    notes: Annotated[list[ContextNote], means("notes that decided something, at most five")]
    truncated: Annotated[bool, means("whether --max-tokens left threads or notes out")]


class WhyQuestion(Struct, frozen=True, kw_only=True):
    """The place, as FILE or FILE:LINE, and the budget."""

    place: str
    project: str | None = None
    max_tokens: int = 2000


def explain_line(app: App, question: WhyQuestion) -> Why:
    """Return the conversation about a line."""
    file, line = _parse(question.place)
    checkout, path = find_checkout(file)
    origins = [blame(checkout, path, line)] if line is not None else commits_of(checkout, path)
    with app.reading() as database:
        project = _project_of(database, checkout, question.project or app.config.default_project)
        for origin in origins:
            found = _find_request(database, checkout, origin.sha, project)
            if found is not None:
                lockdown = find_lockdown(app, database)
                return _why(database, (path, line), origin, found, origins, question.max_tokens, lockdown)
    shown = origins[0]
    raise NotFound(
        f"no stored merge request belongs to commit {shown.sha[:12]} ({shown.summary})",
        fix="sync the project with `lore sync`, or name it with --project",
        commit=shown.sha,
    )


def _parse(place: str) -> tuple[str, int | None]:
    file, colon, number = place.rpartition(":")
    if colon and number.isascii() and number.isdecimal():
        if int(number) == 0:
            raise UserError("lines are counted from 1", fix="use FILE:LINE", place=place)
        return file, int(number)
    return place, None


def _project_of(database: Database, checkout: Checkout, named: str | None) -> ProjectRow | None:
    """Return the mirrored project of a checkout: the named one, or that of a remote; None if it cannot be told."""
    stored = list_projects(database)
    for address in checkout.remotes:
        path = re.sub(r"^(?:[\w+.-]+://)?[^/:]+(?::\d+(?=/))?[:/]", "", address).removesuffix("/").removesuffix(".git")
        found = [project for project in stored if project.path.casefold() == path.casefold()]
        if len(found) == 1 and not named:
            return found[0]
    if named:
        return match_project(database, named)
    return stored[0] if len(stored) == 1 else None


def _find_request(
    database: Database, checkout: Checkout, sha: str, project: ProjectRow | None
) -> tuple[int, str] | None:
    merges = merges_of(checkout, sha)
    project_id = None if project is None else project.id
    by_commit = requests_with_commits(database, [one for one, _ in merges], project_id)
    for place, (commit, message) in enumerate(merges):
        if commit in by_commit:
            return by_commit[commit], "merge" if place else "commit"
        numbers = [int(match[1]) for form in _NUMBERS for match in re.finditer(form, message, re.MULTILINE)]
        for number in numbers if project_id is not None else ():
            row_id = request_with_number(database, project_id or 0, number)
            if row_id is not None:
                return row_id, "message"
    return None


def _why(
    database: Database,
    place: tuple[str, int | None],
    origin: Blame,
    found: tuple[int, str],
    origins: Sequence[Blame],
    max_tokens: int,
    lockdown: Lockdown | None,
) -> Why:
    (path, line), (row_id, found_by) = place, found
    names = list(dict.fromkeys([path, *(one.path for one in origins)]))
    marks = find_threads(database, ThreadFilter(item=("mr", row_id)))
    read = read_threads_page(database, marks)
    threads = [listed_thread(mark, row if lockdown is None else lockdown.listed(row)) for mark, row in read]
    near = sorted((one for one in threads if one.path in names), key=lambda one: _distance(one, origin.line))
    material = item_material(database, "mr", row_id, max_tokens, lockdown)
    notes = material.notes[:_MOST_NOTES]
    commit = WhyCommit(origin.sha, origin.author, instant(origin.at), origin.summary, origin.path, origin.line)
    bare = Why(
        file=path, line=line, commit=commit, found_by=found_by, names=names, item=material.item, threads=[], notes=[],
        truncated=False,
    )  # fmt: skip
    used = answer_tokens(bare)
    kept = fitting(near, max_tokens, besides=used) if near else 0
    used += sum(answer_tokens(one) + 1 for one in near[:kept])
    said = fitting(notes, max_tokens, besides=used) if notes else 0
    cut = kept < len(near) or said < len(material.notes)
    return Why(
        file=path, line=line, commit=commit, found_by=found_by, names=names, item=material.item, threads=near[:kept],
        notes=sorted(notes[:said], key=lambda note: note.at), truncated=cut,
    )  # fmt: skip


def _distance(thread: ListedThread, line: int | None) -> int:
    if line is None or thread.line is None:
        return 10**9
    return abs(thread.line - line)
