"""The accounts screen: followed Bluesky accounts, their state and their next poll."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.widgets import Input

from tidelore.app.accounts import Account
from tidelore.app.console import ConsoleViews
from tidelore.console.screen import ListScreen
from tidelore.console.style import age, clean_text, duration, fields, state_label, timestamp
from tidelore.console.table import NAME, Cell, RowTable, TableColumn, TableRow

ACCOUNTS = (
    # Wide enough to tell accounts apart whose names begin alike.
    TableColumn("ACCOUNT", yields="end", least=NAME),
    TableColumn("STATE"),
    TableColumn("NEXT", right=True),
    TableColumn("READ", right=True, spare=1),
    TableColumn("POSTED", right=True),
    TableColumn("POSTS", right=True, descending=True),
    TableColumn("FAILED", right=True, descending=True, spare=2),
)
EMPTY = "No accounts yet. Add one with `lore accounts add`."


class AccountsScreen(ListScreen):
    """Accounts by handle. The filter runs in the database, because it may hold more accounts than are shown."""

    PLACE = "accounts"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("p", "pause", "Pause")]

    def tables(self) -> Iterable[RowTable]:
        yield RowTable(ACCOUNTS, id="accounts", title="Accounts", empty=EMPTY)

    def question(self, views: ConsoleViews, now_ms: int) -> list[Account]:  # noqa: ARG002
        return views.accounts(self.query_one("#filter", Input).value.strip().removeprefix("@"))

    def show(self, answer: list[Account], now_ms: int) -> None:
        table = self.query_one("#accounts", RowTable)
        table.empty = "No account matches; Esc clears the filter." if self.query_one("#filter", Input).value else EMPTY
        table.set_lines([_line(account, now_ms) for account in answer])
        self.update_detail()

    @on(Input.Changed, "#filter")
    def _reload_now(self) -> None:
        self.reload_now()

    def detail(self, line: TableRow) -> Text:
        account: Account = line.record
        return fields(
            [
                ("Account", f"@{account.handle}"),
                ("Name", clean_text(account.display_name)),
                ("DID", account.did),
                ("State", state_label(account.state)[0]),
                ("Why", clean_text(account.reason)),
                ("Mode", account.mode),
                ("Poll interval", duration(account.interval_seconds)),
                ("Next", timestamp(account.next_poll_at)),
                ("Last poll", timestamp(account.last_polled_at)),
                ("Last post", timestamp(account.last_post_at)),
                ("Posts fetched", f"{account.posts_fetched_count:,}"),
                ("Failures", f"{account.failures:,}" if account.failures else None),
                ("Last error", clean_text(account.last_error)),
                ("Followed", f"{timestamp(account.created_at)} by {_adder(account.added_by)}"),
            ],
            self.room,
        )

    def address(self, line: TableRow) -> str | None:
        return f"https://bsky.app/profile/{line.record.did}"

    def reference(self, line: TableRow) -> str | None:
        return str(line.record.handle)

    def action_pause(self) -> None:
        """Pause an account, or resume it if paused."""
        line = self.table.line
        if line is None:
            self.notify("Select an account first.", severity="warning")
            return
        account: Account = line.record
        actions = self.backend.actions
        resumes = account.state == "paused"
        self.change(
            f"Resume polling @{account.handle}?" if resumes else f"Pause @{account.handle}?",
            "Polling continues from its last position."
            if resumes
            else "It is not polled until you resume it. Stored posts are kept.",
            lambda: "" if actions is None else actions.pause_account(account),
        )


def _line(account: Account, now_ms: int) -> TableRow:
    word, tone = state_label(account.state)
    due = account.next_poll_at
    told = "—" if due is None else "now" if due < now_ms + 1000 else age(due, now_ms)
    cells = (
        Cell(f"@{clean_text(account.handle)}", "strong"),
        Cell(word, tone),
        Cell(told, "", due or 0),
        Cell(age(account.last_polled_at, now_ms), "", -(account.last_polled_at or 0)),
        Cell(age(account.last_post_at, now_ms), "", -(account.last_post_at or 0)),
        Cell(f"{account.posts_fetched_count:,}", "", account.posts_fetched_count),
        Cell(f"{account.failures:,}", "bad" if account.failures else "dim", account.failures),
    )
    return TableRow(account.did, cells, account)


def _adder(added_by: str) -> str:
    return "the configuration" if added_by.startswith("config:") else clean_text(added_by)
