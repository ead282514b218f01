"""Following a pull request. Owns its statuses, the steps between them, and what a look at the remote says of both.

Pure. Merged is tested before closed, because a merged pull request is closed too; what has ended never comes back
by itself. Refuses steps that are not in the table. A transport error is no verdict: it never gets here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from tidelore.core.config import RepoSettings
from tidelore.core.errors import IllegalTransition
from tidelore.core.model import PullRecord
from tidelore.store.work.tracked_pull_requests import TERMINAL

Status = Literal["awaiting_feedback", "blocked", "merged", "closed"]
PullVerdict = Literal["merged", "closed", "compare", "same"]
HeadVerdict = Literal["follow", "history_rewritten"]

HISTORY_REWRITTEN: Final = "history_rewritten"
HANDLER_FAILED: Final = "handler_failed"

STEPS: Mapping[str | None, frozenset[str]] = MappingProxyType(
    {
        None: frozenset({"awaiting_feedback"}),
        "awaiting_feedback": frozenset({"blocked", "merged", "closed"}),
        "blocked": frozenset({"awaiting_feedback", "merged", "closed"}),
        "closed": frozenset({"awaiting_feedback"}),
        "merged": frozenset(),
    }
)
"""From each status (None: not followed yet) to those it may step to. Only a person takes `closed` further."""


def check_step(before: str | None, after: str) -> None:
    """Raise IllegalTransition for a step that is not in the table."""
    if after not in STEPS.get(before, frozenset()):
        raise IllegalTransition(
            f"invalid pull request state change from {before or 'nothing'} to {after}", before=before, after=after
        )


def judge_pull(pull: PullRecord, last_seen_head_sha: str | None) -> PullVerdict:
    """Return what a look at a followed pull request says; 'compare' when its head is not the one last seen."""
    if pull.merged or pull.merged_at is not None:
        return "merged"
    if pull.state == "closed":
        return "closed"
    return "same" if pull.head_sha == last_seen_head_sha else "compare"


def judge_head(word: str) -> HeadVerdict:
    """Return what the compare endpoint's word for (last seen, new head) means for following the branch.

    Only a head that has the last one among its ancestors is followed; a word we do not know is no such proof.
    """
    return "follow" if word in {"ahead", "identical"} else HISTORY_REWRITTEN


def matches_rule(pull: PullRecord, settings: RepoSettings, *, opened_since: int | None = None) -> bool:
    """Return whether a pull request is to be followed by itself: by its author, or by one of its labels.

    One that has ended only if it was opened since the last look: it came and went between two polls.
    """
    if judge_pull(pull, None) in TERMINAL and (opened_since is None or pull.created_at < opened_since):
        return False
    authors = {name.casefold() for name in settings.track_authors}
    labels = {name.casefold() for name in settings.track_labels}
    return (pull.author is not None and pull.author.casefold() in authors) or any(
        label.casefold() in labels for label in pull.labels
    )
