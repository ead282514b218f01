"""From a line in the user's git checkout to the conversation about it: `lore why`.

`git blame` names the commit; the commit, or the merge that brought it, belongs to a stored merge request: by the id of
its merge, squash or head commit, or by the number in the commit's message. The answer has the threads on that file,
nearest line first, and the notes that decided something. Reads the checkout and the local database only: `git` is run
with fixed arguments, never with text of a remote system as an option; it writes nothing and uses no network.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Annotated

from msgspec import Struct

from tidelore.app.answers import Instant, answer_tokens, fitting, means
from tidelore.app.reading.context import ContextItem, ContextNote, item_material
from tidelore.app.reading.lockdown import Lockdown, find_lockdown
from tidelore.app.reading.threads import ListedThread, listed_thread
from tidelore.app.wiring import App
from tidelore.core.errors import NotFound, UserError
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import ProjectRow, list_projects, match_project
from tidelore.store.reading.file_history import request_with_number, requests_with_commits
from tidelore.store.reading.threads import ThreadFilter, find_threads, read_threads_page

_MOST_NOTES = 5
_MOST_COMMITS = 20
_TIMEOUT_SECONDS = 30
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
    origin: WhyCommit,
    found: tuple[int, str],
    origins: Sequence[WhyCommit],
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
    bare = Why(
        file=path, line=line, commit=origin, found_by=found_by, names=names, item=material.item, threads=[], notes=[],
        truncated=False,
    )  # fmt: skip
    used = answer_tokens(bare)
    kept = fitting(near, max_tokens, besides=used) if near else 0
    used += sum(answer_tokens(one) + 1 for one in near[:kept])
    said = fitting(notes, max_tokens, besides=used) if notes else 0
    cut = kept < len(near) or said < len(material.notes)
    return Why(
        file=path, line=line, commit=origin, found_by=found_by, names=names, item=material.item, threads=near[:kept],
        notes=sorted(notes[:said], key=lambda note: note.at), truncated=cut,
    )  # fmt: skip


def _distance(thread: ListedThread, line: int | None) -> int:
    if line is None or thread.line is None:
        return 10**9
    return abs(thread.line - line)


class Checkout(Struct, frozen=True):
    """A work tree: its folder, and the addresses of its remotes."""

    folder: str
    remotes: tuple[str, ...]


def find_checkout(file: str) -> tuple[Checkout, str]:
    """Return the work tree that a file belongs to, and the file's path in it."""
    folder = os.path.dirname(os.path.abspath(file))  # noqa: PTH100, PTH120 - pathlib is slow to import
    if not os.path.isdir(folder):  # noqa: PTH112
        raise UserError(f"no such folder: {folder}", fix="name a file of a git checkout", file=file)
    top = _git(folder, "rev-parse", "--show-toplevel").strip()
    addresses = [line.split()[1] for line in _git(top, "remote", "-v").splitlines() if len(line.split()) > 1]
    inside = os.path.relpath(os.path.realpath(file), os.path.realpath(top))
    return Checkout(top, tuple(dict.fromkeys(addresses))), inside.replace(os.sep, "/")


def blame(checkout: Checkout, path: str, line: int) -> WhyCommit:
    """Return where a line comes from; changes of white space and moved lines are followed."""
    said = _git(checkout.folder, "blame", "-w", "-M", "--porcelain", "-L", f"{line},{line}", "--", path)
    head, *rest = said.splitlines()
    sha, original = head.split()[:2]
    if set(sha) == {"0"}:
        raise NotFound(f"line {line} of {path} is not committed yet", fix="commit it, or name another line", path=path)
    facts = dict(one.partition(" ")[::2] for one in rest if not one.startswith("\t"))
    at = Instant(int(facts.get("author-time", "0")) * 1000)
    said_by, summary = facts.get("author", ""), facts.get("summary", "")
    return WhyCommit(sha, said_by, at, summary, facts.get("filename", path), int(original))


def commits_of(checkout: Checkout, path: str) -> list[WhyCommit]:
    """Return the last commits that changed a file, newest first; renames are followed."""
    form = "--format=%x01%H%x00%an%x00%at%x00%s"
    said = _git(checkout.folder, "log", "--follow", "--name-only", f"-n{_MOST_COMMITS}", form, "--", path)
    found = []
    for entry in said.split("\x01")[1:]:
        head, *names = entry.strip("\n").split("\n")
        sha, author, at, summary = head.split("\x00")
        called = next((name for name in names if name), path)
        found.append(WhyCommit(sha, author, Instant(int(at) * 1000), summary, called, None))
    if not found:
        raise NotFound(f"git knows no commit of {path}", fix="name a file that is committed", path=path)
    return found


def merges_of(checkout: Checkout, sha: str) -> list[tuple[str, str]]:
    """Return the commit itself and the merges that brought it to the branch checked out, nearest first: id, message."""
    own = _git(checkout.folder, "log", "-n1", "--format=%H%x00%B", sha)
    form = "--format=%x01%H%x00%B"
    after = _git(checkout.folder, "log", "--merges", "--ancestry-path", "--reverse", form, f"{sha}..HEAD")
    found = [own, *after.split("\x01")[1 : _MOST_COMMITS + 1]]
    return [(one.partition("\x00")[0].strip(), one.partition("\x00")[2].strip()) for one in found]


def _git(folder: str, *arguments: str) -> str:
    import subprocess

    environ = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C.UTF-8", "GIT_PAGER": "cat"}
    try:
        done = subprocess.run(  # noqa: S603 - fixed commands of git; paths come after `--`
            ["git", "-C", folder, *arguments],  # noqa: S607 - the user's own git
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            env=environ,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"git could not be run: {error}", fix="install git, or call lore where git works") from None
    if done.returncode:
        return _refused(done.stderr.decode(errors="replace"), arguments)
    return done.stdout.decode(errors="replace")


def _refused(said: str, arguments: Sequence[str]) -> str:
    reason = said.strip().splitlines()[-1] if said.strip() else f"git {arguments[0]} failed"
    if "not a git repository" in said:
        raise UserError("not inside a git checkout", fix="call it in the checkout of a mirrored project")
    raise UserError(f"git {arguments[0]}: {reason.removeprefix('fatal: ')}", fix="check the file and the line")
