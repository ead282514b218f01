"""Ask the user's own git checkout which commit a line comes from, and which merge brought it.

Runs `git` with fixed arguments, never with text of a remote system as an option. Writes nothing, and uses no network.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import Struct

from tidelore.core.errors import NotFound, UserError

_TIMEOUT_SECONDS = 30
_MOST_COMMITS = 20


class Blame(Struct, frozen=True):
    """The commit that a line comes from, and the file and line as they were called there."""

    sha: str
    author: str
    at: int
    summary: str
    path: str
    line: int | None


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


def blame(checkout: Checkout, path: str, line: int) -> Blame:
    """Return where a line comes from; changes of white space and moved lines are followed."""
    said = _git(checkout.folder, "blame", "-w", "-M", "--porcelain", "-L", f"{line},{line}", "--", path)
    head, *rest = said.splitlines()
    sha, original = head.split()[:2]
    if set(sha) == {"0"}:
        raise NotFound(f"line {line} of {path} is not committed yet", fix="commit it, or name another line", path=path)
    facts = dict(one.partition(" ")[::2] for one in rest if not one.startswith("\t"))
    at = int(facts.get("author-time", "0")) * 1000
    return Blame(sha, facts.get("author", ""), at, facts.get("summary", ""), facts.get("filename", path), int(original))


def commits_of(checkout: Checkout, path: str) -> list[Blame]:
    """Return the last commits that changed a file, newest first; renames are followed."""
    form = "--format=%x01%H%x00%an%x00%at%x00%s"
    said = _git(checkout.folder, "log", "--follow", "--name-only", f"-n{_MOST_COMMITS}", form, "--", path)
    found = []
    for entry in said.split("\x01")[1:]:
        head, *names = entry.strip("\n").split("\n")
        sha, author, at, summary = head.split("\x00")
        called = next((name for name in names if name), path)
        found.append(Blame(sha, author, int(at) * 1000, summary, called, None))
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
