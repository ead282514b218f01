"""Benchmark `reads`: what a read of the copy costs when the copy is a hundred times as big.

Whole processes are timed, in turn, so that each sees the same machine; medians are compared. The big copy is the
small one many times over.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shutil import copyfile

import apsw

from benchmarks.cold_start import alternate
from benchmarks.findings import Finding
from benchmarks.multiply import multiply
from benchmarks.scale import Scale
from benchmarks.workplace import copy_world, served_world
from benchmarks.world_server import Contents

BOUND = 3.0
NOTES_EACH = 15
COMMANDS = {"lore list mrs": ("list", "mrs"), "lore show mr": ("show", "mr")}


def run(scale: Scale) -> Iterator[Finding]:
    """Fill two copies and read them."""
    lore = str(Path(sys.executable).with_name("lore"))
    contents = Contents(10, scale.few_notes // NOTES_EACH + 1, discussions=5, notes=3, events=2, files=4)
    with tempfile.TemporaryDirectory() as folder:
        few, many = (Path(folder) / name for name in ("few.db", "many.db"))
        with served_world(contents) as url:
            copy_world(url, few)
        settle(few)
        copyfile(few, many)
        multiply(many, -(-scale.many_notes // scale.few_notes))
        sizes = {path: _size(path) for path in (few, many)}
        commands = {
            f"{title} {path.name}": (lore, "--db", str(path), *words, *_number(path, words))
            for title, words in COMMANDS.items()
            for path in (few, many)
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LORE_", "PYTHON"))}
        seconds = alternate(commands, {**kept, "XDG_CONFIG_HOME": folder}, scale.starts)
    for title in COMMANDS:
        small, big = seconds[f"{title} {few.name}"], seconds[f"{title} {many.name}"]
        yield Finding("reads", f"{title}, {sizes[few]}", small * 1000, "ms")
        yield Finding("reads", f"{title}, {sizes[many]}", big * 1000, "ms")
        yield Finding("reads", f"{title}, big copy / small copy", big / small, "x", BOUND)


def settle(path: Path) -> None:
    """Bring everything into the one file, so that copying it copies all."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _size(path: Path) -> str:
    connection = apsw.Connection(str(path))
    notes, requests = (connection.execute(f"SELECT COUNT(*) FROM {table}").get for table in ("notes", "merge_requests"))
    connection.close()
    return f"{notes:,} notes of {requests:,} MRs"


def _number(path: Path, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the number of a merge request from the middle, where a command wants one."""
    if words[0] != "show":
        return ()
    connection = apsw.Connection(str(path))
    found = connection.execute(
        "SELECT iid FROM merge_requests ORDER BY id LIMIT 1 OFFSET (SELECT COUNT(*) / 2 FROM merge_requests)"
    ).get
    connection.close()
    return (str(found),)
