"""Where a source is named: the rest of the program treats all sources alike.

What counts are identifiers, imports and words of the program (texts without a blank). Docstrings, comments, and texts
for people may name a source; in the store texts are SQL and count too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source_tree import Module, read_modules

SOURCES = ("gitlab", "github", "bluesky")
HOME = ("core.config", "core.config_checks", "core.config_file", "core.references")
"""The modules outside `sources/` that know every source by name."""

KNOWN: dict[str, frozenset[str]] = {
    "gitlab": frozenset(
        {
            "app.service_jobs",  # the key that a message about an empty configuration names
            "sync.projects",  # the same
            *("app.syncing", "cli.audit", "cli.poll", "cli.sync"),  # the words of the command line
            "cli.setup",  # what `lore init` writes
        }
    ),
    "github": frozenset(
        {
            # Feedback: the words of the commands that poll and audit it, and its lists of comments.
            *("feedback.delivery", "feedback.report", "feedback.repositories"),
            "store.mirror.cursors",  # the scopes of its comment lists
            # Commands that poll it, audit it, or accept a repository under a known name.
            *("app.auditing", "app.console", "app.sources", "app.syncing"),
            *("cli.audit", "cli.poll", "cli.sync"),
            "cli.setup",  # what `lore init` writes
            *("core.extras", "core.redaction"),  # an extra, and the form of its tokens
        }
    ),
    "bluesky": frozenset(
        {
            # Accounts and posts: only Bluesky has them.
            *("sync.account_poll", "sync.account_reading", "sync.account_stream", "sync.account_verification"),
            *("sync.accounts", "sync.diagnosis", "store.mirror.accounts", "store.mirror.cursors"),
            *("app.accounts", "app.console", "app.mirroring", "app.positions", "app.service_jobs", "app.sources"),
            *("app.syncing", "cli.audit", "cli.poll", "cli.sync"),
        }
    ),
}
"""The modules that name a source today. A module leaves the list when it no longer does; a new one needs a reason."""


def named_sources(root: Path) -> dict[str, dict[str, str]]:
    """Return, for each source, the modules that name it, with the first place."""
    found: dict[str, dict[str, str]] = {source: {} for source in SOURCES}
    for module in read_modules(root):
        if module.room == "sources" or module.name in HOME:
            continue
        for line, text in _words(module):
            for source in SOURCES:
                if source in text.lower():
                    found[source].setdefault(module.name, f"{module.path.relative_to(root)}:{line}: {text[:60]}")
    return found


def _words(module: Module) -> Iterator[tuple[int, str]]:
    documentation = {id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(module.tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in documentation:
                if module.room == "store" or " " not in text:
                    yield node.lineno, text
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.arg(arg=text):
                yield node.lineno, text
            case ast.FunctionDef(name=text) | ast.AsyncFunctionDef(name=text) | ast.ClassDef(name=text):
                yield node.lineno, text
            case ast.Import() | ast.ImportFrom():
                names = [alias.name for alias in node.names]
                origin = node.module if isinstance(node, ast.ImportFrom) else None
                yield node.lineno, ".".join([origin or "", *names])
