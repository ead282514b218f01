"""The files a pull request changes: which they are after a push, and how GitHub shows them.

Owns the shape of `/pulls/{n}/files` and the invented hunks. Refuses to know requests. Invariant: a patch depends on
the file alone, so the same head always shows the same text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from tidelore_world.github.records import FileChange

MOST_FILES = 3000
"""The endpoint shows no more; its documentation says so."""

DEFAULT_FILE = "src/main.py"

_OLD = ("    retries = 3", "    cursor = None", "    limit = settings.get('limit')", "    log.info('done')")
_NEW = ("    retries = policy.retries", "    cursor = store.cursor(scope)", "    metrics.observe(elapsed)")


def changed_files(before: Sequence[FileChange], given: Sequence[FileChange | str]) -> tuple[FileChange, ...]:
    """The files of a pull request after it changes some more; a file changed again is shown as it is changed last."""
    files = {file.filename: file for file in before}
    for entry in given:
        file = FileChange(entry) if isinstance(entry, str) else entry
        if file.previous_filename is not None:
            files.pop(file.previous_filename, None)
        files[file.filename] = file
    if not files:
        files[DEFAULT_FILE] = FileChange(DEFAULT_FILE)
    return tuple(files[name] for name in sorted(files))


def file_payload(base: str, html: str, head_sha: str, file: FileChange) -> dict[str, Any]:
    """One file as `/pulls/{n}/files` shows it; a binary or very large one has no `patch`."""
    path = quote(file.filename)
    shown: dict[str, Any] = {
        "sha": blob_sha(file),
        "filename": file.filename,
        "status": file.status,
        "additions": file.additions,
        "deletions": file.deletions,
        "changes": file.additions + file.deletions,
        "blob_url": f"{html}/blob/{head_sha}/{path}",
        "raw_url": f"{html}/raw/{head_sha}/{path}",
        "contents_url": f"{base}/contents/{path}?ref={head_sha}",
    }
    text = patch_of(file)
    if text is not None:
        shown["patch"] = text
    if file.previous_filename is not None:
        shown["previous_filename"] = file.previous_filename
    return shown


def blob_sha(file: FileChange) -> str:
    """The id of a file's content."""
    text = f"{file.filename}\n{file.status}\n{file.additions}\n{file.deletions}\n{file.patch}"
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def patch_of(file: FileChange) -> str | None:
    """The text of a file's diff: what was given, none, or an invented one of the right size."""
    if file.has_own_patch or file.additions + file.deletions == 0:
        return file.patch
    stem = PurePosixPath(file.filename).stem
    seed = sum(file.filename.encode())
    lines = [f" def {stem.replace('-', '_')}(batch, clock):"]
    lines += [f"-{_OLD[(seed + index) % len(_OLD)]}" for index in range(file.deletions)]
    lines += [f"+{_NEW[(seed + index) % len(_NEW)]}" for index in range(file.additions)]
    lines += ["     return Outcome(batch.id, len(batch.entries))"]
    start = 0 if file.status == "added" else 1 + seed % 180
    return f"@@ -{start},{file.deletions + 2} +{max(1, start)},{file.additions + 2} @@\n" + "\n".join(lines)


def hunk_at(path: str, line: int | None) -> str:
    """The piece of a diff that a review comment stands at."""
    if line is None:
        return ""
    stem = PurePosixPath(path).stem.replace("-", "_")
    new = _NEW[line % len(_NEW)]
    return f"@@ -{max(1, line - 2)},3 +{max(1, line - 2)},4 @@ def {stem}(batch, clock):\n     if not batch:\n+{new}"
