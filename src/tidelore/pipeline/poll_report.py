"""What a poll cycle did, account by account. Owns the lines a cycle logs, its summary, and the verdict over it.

Only accounts with something to tell are kept, and of very many not all: a cycle over any number stays small.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from tidelore.core.errors import PartialSuccess, TideloreError
from tidelore.engine.intake import Tally
from tidelore.pipeline.report import DocumentReport

MOST_TOLD = 2000
"""How many accounts without trouble a report keeps; the log tells of all."""


class AccountReport(Struct):
    """One account of a cycle. `initial` while its first look-back is not whole; `behind` when more is left to read."""

    did: str
    handle: str
    mode: str
    initial: bool
    tally: Tally = field(default_factory=Tally)
    links: int = 0
    behind: bool = False
    refused: str | None = None
    error: TideloreError | None = None
    next_poll_at: int | None = None
    renamed_from: str | None = None

    @property
    def posts(self) -> int:
        return self.tally.created + self.tally.changed

    @property
    def is_troubled(self) -> bool:
        """Whether some of it could not be fetched."""
        return bool(self.refused or self.error or self.tally.quarantined)

    @property
    def is_told(self) -> bool:
        """Whether there is anything to say of it."""
        return bool(self.initial or self.posts or self.behind or self.renamed_from or self.is_troubled)


class PollReport(Struct):
    """One whole cycle. `active` accounts brought something new; `left` ones stay due, their server being out."""

    run_id: int
    accounts: int = 0
    active: int = 0
    posts: int = 0
    urls: int = 0
    pages: int = 0
    unavailable: int = 0
    failed: int = 0
    left: int = 0
    requests: int = 0
    seconds: float = 0.0
    told: list[AccountReport] = field(default_factory=list)
    verified: list[AccountReport] = field(default_factory=list)
    unresolved: dict[str, TideloreError] = field(default_factory=dict)
    outages: dict[str, TideloreError] = field(default_factory=dict)
    documents: DocumentReport | None = None
    taken_over: str | None = None
    crashed_runs: list[int] = field(default_factory=list)

    def add(self, account: AccountReport) -> None:
        """Count one account in."""
        self.accounts += 1
        self.active += account.posts > 0
        self.posts += account.posts
        self.urls += account.links
        self.pages += account.tally.pages
        self.unavailable += account.refused is not None
        self.failed += account.error is not None
        if account.is_told and (account.is_troubled or len(self.told) < MOST_TOLD):
            self.told.append(account)


def account_line(account: AccountReport) -> str | None:
    """Return the line that tells of an account; nothing for one that is read already and brought nothing new."""
    if account.refused is not None:
        return f"[SKIP] {account.handle}: Account unavailable (invalid/deleted/private): {account.refused}"
    if account.error is not None:
        return f"[ERROR] {account.handle}: {account.error.message}"
    if not account.initial and not account.posts:
        return None
    word = "INITIAL" if account.initial else "POLL"
    found = f"{account.posts} posts, {account.links} URLs across {account.tally.pages} pages"
    return f"[{word}] {account.handle}: {found}"


def volume_line(handle: str) -> str:
    """Return the line that tells that one page was not enough."""
    return f"[POLL] {handle}: High volume detected, fetching more pages"


def verdict(report: PollReport) -> TideloreError | None:
    """Return the error a cycle as a whole ends with, if any. Whoever is unavailable is reported, not a failure."""
    failed = [account for account in report.told if account.error is not None]
    errors: Sequence[TideloreError] = [
        *report.outages.values(),
        *(account.error for account in failed if account.error is not None),
        *report.unresolved.values(),
    ]
    if not errors:
        return None
    if report.accounts == report.failed and len({type(error) for error in errors}) == 1:
        return errors[0]
    parts = [f"{report.failed:,} of {report.accounts:,} accounts could not be read"] if report.failed else []
    parts += [f"{report.left:,} postponed to the next poll"] if report.left else []
    parts += [f"{len(report.unresolved):,} configured accounts were not found"] if report.unresolved else []
    return PartialSuccess(
        f"{', '.join(parts)}; everything else is stored",
        fix=errors[0].fix or "run the command again; `lore accounts list` shows the errors",
        failed=[
            {"account": account.handle, "code": account.error.code, "message": account.error.message}
            for account in failed
            if account.error is not None
        ],
        unresolved=sorted(report.unresolved) or None,
    )
