"""Whom we follow on Bluesky: how each account stands and when it is asked next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.widgets import Input

from tidelore.console.browsing import BrowseScreen
from tidelore.console.table import Cell, Column, Line, RowTable
from tidelore.console.words import fields, moment, remote, since, span, state
from tidelore.store.database.port import Database
from tidelore.store.mirror.accounts import AccountRow
from tidelore.store.work import activity

ACCOUNTS = (
    Column("ACCOUNT", yields="end"),
    Column("STATE"),
    Column("NEXT", right=True),
    Column("READ", right=True),
    Column("POSTED", right=True),
    Column("POSTS", right=True, descending=True),
    Column("FAILED", right=True, descending=True),
)
EMPTY = "No accounts yet. Add one with `lore accounts add`."


class AccountsScreen(BrowseScreen):
    """Accounts by handle; the filter is put to the database, which may hold more than the screen."""

    PLACE = "accounts"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("p", "pause", "Pause")]

    def tables(self) -> Iterable[RowTable]:
        yield RowTable(ACCOUNTS, id="accounts", title="Accounts", empty=EMPTY)

    def question(self, database: Database, now_ms: int) -> list[AccountRow]:  # noqa: ARG002
        return activity.accounts(database, self.query_one("#filter", Input).value.strip().removeprefix("@"))

    def show(self, answer: list[AccountRow], now_ms: int) -> None:
        table = self.query_one("#accounts", RowTable)
        table.empty = "No account matches; Esc clears the filter." if self.query_one("#filter", Input).value else EMPTY
        table.set_lines([_line(account, now_ms) for account in answer])
        self.tell_detail()

    @on(Input.Changed, "#filter")
    def _look_again(self) -> None:
        self.look_again()

    def detail(self, line: Line) -> Text:
        account: AccountRow = line.record
        return fields(
            [
                ("Account", f"@{account.handle}"),
                ("Name", remote(account.display_name)),
                ("DID", account.did),
                ("State", state(account.state)[0]),
                ("Why", remote(account.reason)),
                ("Mode", account.mode or "default (bluesky.mode)"),
                ("Poll interval", span(account.interval_seconds)),
                ("Next", moment(account.next_poll_at) if account.state != "paused" else None),
                ("Last poll", moment(account.last_polled_at)),
                ("Last post", moment(account.last_post_at)),
                ("Posts fetched", f"{account.posts_fetched_count:,}"),
                ("Failures", f"{account.failures:,}" if account.failures else None),
                ("Last error", remote(account.last_error)),
                ("Followed", f"{moment(account.created_at)} by {account.added_by}"),
            ],
            self.room,
        )

    def address(self, line: Line) -> str | None:
        return f"https://bsky.app/profile/{line.record.did}"

    def reference(self, line: Line) -> str | None:
        return str(line.record.handle)

    def action_pause(self) -> None:
        """Ask an account no more, or again."""
        line = self.table.line
        if line is None:
            self.notify("Select an account first.", severity="warning")
            return
        account: AccountRow = line.record
        hands = self.desk.hands
        resumes = account.state == "paused"
        self.change(
            f"Resume polling @{account.handle}?" if resumes else f"Pause @{account.handle}?",
            "Polling continues from its last position."
            if resumes
            else "It is not polled until you resume it. Stored posts are kept.",
            lambda: "" if hands is None else hands.pause_account(account),
        )


def _line(account: AccountRow, now_ms: int) -> Line:
    word, tone = state(account.state)
    paused = account.state == "paused"
    due = account.next_poll_at <= now_ms
    cells = (
        Cell(f"@{remote(account.handle)}", "strong"),
        Cell(word, tone),
        Cell("—" if paused else "now" if due else since(account.next_poll_at, now_ms), "", account.next_poll_at),
        Cell(since(account.last_polled_at, now_ms), "", -(account.last_polled_at or 0)),
        Cell(since(account.last_post_at, now_ms), "", -(account.last_post_at or 0)),
        Cell(f"{account.posts_fetched_count:,}", "", account.posts_fetched_count),
        Cell(f"{account.failures:,}", "bad" if account.failures else "dim", account.failures),
    )
    return Line(account.did, cells, account)
