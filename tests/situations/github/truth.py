"""Compares the stored copy of a repository with the simulated GitHub, item by item."""

from __future__ import annotations

from tidelore.store.database.port import Database
from tidelore_world.demo.truth_github import comparisons
from tidelore_world.github.forge import GitHubForge


def differences(database: Database, forge: GitHubForge, repo: str) -> list[str]:
    """Return every difference between the copy of a repository and the world; empty if there is none."""
    path = forge.repository(repo).full_name
    found: list[str] = []
    for name, held, true in comparisons(database, forge, path):
        found += [f"{name} {key}: missing" for key in sorted(true.keys() - held.keys(), key=str)]
        found += [f"{name} {key}: extra" for key in sorted(held.keys() - true.keys(), key=str)]
        both = sorted(held.keys() & true.keys(), key=str)
        found += [f"{name} {key}: {held[key]!r} instead of {true[key]!r}" for key in both if held[key] != true[key]]
    return found
