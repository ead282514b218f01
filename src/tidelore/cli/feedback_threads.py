"""The options --repo, --pr, --issue and --head-sha, and how they are parsed together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from tidelore.core.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelore.core.config import Config
    from tidelore.feedback.repositories import ConfiguredRepo

_SHA = re.compile(r"[0-9a-fA-F]{7,64}")

REPO: Callable[..., Any] = click.option(
    "--repo", metavar="OWNER/REPO", help="Repository; optional if only one is configured."
)
PR: Callable[..., Any] = click.option("--pr", metavar="REF", help="Pull request: number, owner/repo#12 or URL.")
ISSUE: Callable[..., Any] = click.option("--issue", metavar="REF", help="Issue: number, owner/repo#12 or URL.")
HEAD: Callable[..., Any] = click.option(
    "--head-sha", metavar="SHA", help="Commit to continue from instead of the current head."
)


def repo_and_number(config: Config, repo: str | None, pr: str) -> tuple[ConfiguredRepo, int]:
    """Return the repository and the number of the pull request."""
    from tidelore.feedback.repositories import choose_repo, parse_thread

    thread = parse_thread(pr, "pr")
    return choose_repo(config, repo, thread), thread.number


def repo_of_either(
    config: Config, repo: str | None, pr: str | None, issue: str | None
) -> tuple[ConfiguredRepo, int | None, int | None]:
    """Return the repository, the pull request and the issue; at least one of the two must be given."""
    from tidelore.feedback.repositories import choose_repo, parse_thread

    pull = None if pr is None else parse_thread(pr, "pr")
    found = None if issue is None else parse_thread(issue, "issue")
    named = pull if pull is not None and (pull.repo or found is None) else found
    if named is None:
        raise UserError("no pull request or issue given", fix="pass --pr or --issue")
    place = choose_repo(config, repo, named)
    for thread in (pull, found):
        if thread is not None and thread.repo is not None and choose_repo(config, None, thread) != place:
            raise UserError(
                f"{thread.repo} and {place.name} are different repositories", fix="name threads of one repository"
            )
    return place, None if pull is None else pull.number, None if found is None else found.number


def read_head(head_sha: str | None) -> str | None:
    """Return the commit in lower case, or raise UserError."""
    if head_sha is not None and not _SHA.fullmatch(head_sha):
        raise UserError(f"invalid value for --head-sha: {head_sha!r}", fix="use 7 to 64 hexadecimal digits")
    return None if head_sha is None else head_sha.lower()
