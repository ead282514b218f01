"""The feedback screen: tracked pull requests, pending events with their text, and the outbox."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from tidelore.app.console import BoardPull, ConsoleViews, FeedbackBoard
from tidelore.app.feedback_tracking import BLOCKED, Event, Reply
from tidelore.console.screen import ListScreen
from tidelore.console.style import age, clean_text, fields, short_names, state_label, timestamp
from tidelore.console.table import Cell, RowTable, TableColumn, TableRow
from tidelore.core.text import harmless, without_markdown

PULLS = (
    TableColumn("PULL REQUEST", yields="beginning"),
    TableColumn("STATUS"),
    TableColumn("WAIT", right=True, descending=True),
    TableColumn("BUSY", right=True, descending=True),
    TableColumn("SINCE", right=True),
    TableColumn("TITLE"),
)
EVENTS = (
    TableColumn("THREAD", yields="beginning"),
    TableColumn("KIND", spare=2),
    TableColumn("AUTHOR", yields="end"),
    TableColumn("AGE", right=True),
    TableColumn("TRIES", right=True, descending=True, spare=1),
    TableColumn("BODY"),
)
ANSWERS = (
    TableColumn("ID", right=True, descending=True),
    TableColumn("THREAD", yields="beginning"),
    TableColumn("STATUS"),
    TableColumn("FROM", spare=2),
    TableColumn("AGE", right=True),
    TableColumn("TRIES", right=True, descending=True, spare=1),
    TableColumn("BODY"),
)
TITLES = {"pulls": "Pull requests", "events": "Pending events", "answers": "Outbox"}
EMPTY = {
    "pulls": "No tracked pull requests. Add one with `lore feedback track`.",
    "events": "No pending events.",
    "answers": "No answers sent yet.",
}


class FeedbackScreen(ListScreen):
    """Pull requests, events and the outbox, one list at a time."""

    PLACE = "feedback"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "next_list", "View"),
        Binding("u", "unblock", "Unblock"),
        Binding("p", "pause", "Pause"),
        Binding("r", "retry", "Retry"),
    ]

    def tables(self) -> Iterable[RowTable]:
        for place, (name, columns) in enumerate({"pulls": PULLS, "events": EVENTS, "answers": ANSWERS}.items()):
            table = RowTable(columns, id=name, title=TITLES[name], empty=EMPTY[name])
            table.display = place == 0
            yield table

    def question(self, views: ConsoleViews, now_ms: int) -> FeedbackBoard:
        return views.feedback(now_ms)

    def show(self, answer: FeedbackBoard, now_ms: int) -> None:
        short = short_names([pull.reference for pull in answer.pulls])
        found = {
            "pulls": [_pull_line(pull, short[pull.reference], now_ms) for pull in answer.pulls],
            "events": [_event_line(event, now_ms) for event in answer.events],
            "answers": [_answer_line(row, now_ms) for row in answer.answers],
        }
        for name, lines in found.items():
            table = self.query_one(f"#{name}", RowTable)
            table.set_lines(lines)
            others = " · ".join(f"{TITLES[other]} {len(found[other]):,}" for other in found if other != name)
            table.border_title = f"[b]{TITLES[name]} {len(lines):,}[/b] · {others}"
        self.update_detail()

    def detail(self, line: TableRow) -> Text:
        record = line.record
        if isinstance(record, BoardPull):
            return _pull_detail(record, self.backend.now_ms, self.room)
        tell = _event_detail if isinstance(record, Event) else _answer_detail
        return tell(record, self.room)

    def address(self, line: TableRow) -> str | None:
        return line.record.url if isinstance(line.record, BoardPull | Event) else None

    def reference(self, line: TableRow) -> str | None:
        record = line.record
        if isinstance(record, BoardPull):
            return record.reference
        return str(record.thread)

    def action_next_list(self) -> None:
        """Show the next list."""
        names = list(TITLES)
        seen = next(name for name in names if self.query_one(f"#{name}").display)
        following = names[(names.index(seen) + 1) % len(names)]
        for name in names:
            self.query_one(f"#{name}").display = name == following
        self.action_clear()
        self.query_one(f"#{following}", RowTable).focus()
        self.update_detail()

    def action_unblock(self) -> None:
        """Unblock the selected pull request."""
        pull = self._chosen_pull()
        if pull is None or pull.status != BLOCKED:
            self.notify("Select a blocked pull request first.", severity="warning")
            return
        actions = self.backend.actions
        self.change(
            f"Unblock {pull.reference}?",
            f"Blocked: {clean_text(pull.blocked_reason)}. Fetches its head from GitHub, then delivers pending events.",
            lambda: "" if actions is None else actions.unblock(pull),
        )

    def action_pause(self) -> None:
        """Pause the events of a pull request, or resume them if paused."""
        pull = self._chosen_pull()
        if pull is None:
            self.notify("Select a pull request first.", severity="warning")
            return
        actions = self.backend.actions
        name = pull.reference
        self.change(
            f"Resume delivery of events for {name}?" if pull.paused else f"Pause delivery of events for {name}?",
            "Events are stored while it is paused and delivered after it is resumed.",
            lambda: "" if actions is None else actions.pause_pull(pull),
        )

    def action_retry(self) -> None:
        """Make the pending events of a thread available at once."""
        line = self.table.line
        if line is None or not isinstance(line.record, Event):
            self.notify("Select an event first (press v to show events).", severity="warning")
            return
        event, actions = line.record, self.backend.actions
        self.change(
            f"Retry the events of {event.thread} now?",
            "Resets the attempt counters of the pending events in this thread.",
            lambda: "" if actions is None else actions.retry_thread(event),
        )

    def _chosen_pull(self) -> BoardPull | None:
        line = self.table.line
        return line.record if line is not None and isinstance(line.record, BoardPull) else None


def _pull_line(pull: BoardPull, name: str, now_ms: int) -> TableRow:
    pending, at_work = pull.pending - pull.in_flight, pull.in_flight
    word, tone = state_label("paused" if pull.paused and pull.status != BLOCKED else pull.status)
    cells = (
        Cell(name, "strong"),
        Cell(word, tone),
        Cell(f"{pending:,}", "warn" if pending else "dim", pending),
        Cell(f"{at_work:,}", "" if at_work else "dim", at_work),
        Cell(age(pull.entered_at, now_ms), "", now_ms - pull.entered_at),
        Cell(clean_text(pull.title, 120)),
    )
    return TableRow(f"{pull.project_id}#{pull.pr_number}", cells, pull)


def _event_line(event: Event, now_ms: int) -> TableRow:
    cells = (
        Cell(event.thread, "strong"),
        Cell(event.kind.replace("_", " ")),
        Cell(clean_text(event.author, 30)),
        Cell(age(event.updated_at, now_ms), "", now_ms - event.updated_at),
        Cell(f"{event.attempts:,}", "bad" if event.attempts else "dim", event.attempts),
        Cell(without_markdown(clean_text(event.body, 120))[0]),
    )
    return TableRow(str(event.id), cells, event)


def _answer_line(row: Reply, now_ms: int) -> TableRow:
    word, tone = state_label(row.status)
    cells = (
        Cell(str(row.id), "", row.id),
        Cell(row.thread, "strong"),
        Cell(word, tone),
        Cell(row.source.replace("_", " ")),
        Cell(age(row.created_at, now_ms), "", now_ms - row.created_at),
        Cell(f"{row.attempts:,}", "" if row.attempts else "dim", row.attempts),
        Cell(without_markdown(clean_text(row.body, 120))[0]),
    )
    return TableRow(str(row.id), cells, row)


def _pull_detail(pull: BoardPull, now_ms: int, columns: int) -> Text:
    told = fields(
        [
            ("Pull request", pull.reference),
            ("Title", clean_text(pull.title)),
            ("Status", f"{state_label(pull.status)[0]} since {timestamp(pull.entered_at)}"),
            ("Blocked", clean_text(pull.blocked_reason)),
            ("Paused", "yes (events are not delivered)" if pull.paused else None),
            ("Author", clean_text(pull.author)),
            ("Branch", clean_text(pull.branch)),
            ("Head", pull.head_sha),
            ("Source issue", None if pull.issue_number is None else f"#{pull.issue_number}"),
            ("Tracked by", pull.tracked_by),
            ("Changed", f"{age(pull.pull_updated_at, now_ms)} ago" if pull.pull_updated_at else None),
            ("Page", clean_text(pull.url)),
        ],
        columns,
    )
    if pull.status == BLOCKED:
        told.append("\nNext step\n", "bold")
        told.append(f"lore feedback blocked unblock --pr {pull.reference}")
    return told


def _event_detail(event: Event, columns: int) -> Text:
    where = f"{event.path}:{event.line}" if event.path and event.line else event.path
    told = fields(
        [
            ("Thread", event.thread),
            ("Kind", event.kind.replace("_", " ")),
            ("Author", clean_text(event.author)),
            ("Place", clean_text(where)),
            ("Review", event.review_state),
            ("Written", timestamp(event.updated_at)),
            ("Attempts", str(event.attempts) if event.attempts else None),
            ("Last error", clean_text(event.last_error)),
            ("Again", timestamp(event.next_attempt_at)),
            ("Leased by", clean_text(event.leased_by) if event.leased_until else None),
            ("Page", clean_text(event.url)),
        ],
        columns,
    )
    told.append(f"\n{harmless(event.body)}")
    return told


def _answer_detail(row: Reply, columns: int) -> Text:
    told = fields(
        [
            ("Answer", str(row.id)),
            ("Thread", row.thread),
            ("Status", state_label(row.status)[0]),
            ("From", row.source.replace("_", " ")),
            ("Planned", timestamp(row.created_at)),
            ("Attempts", str(row.attempts) if row.attempts else None),
            ("Last attempt", timestamp(row.attempted_at)),
            ("Again", timestamp(row.next_attempt_at)),
            ("Last error", clean_text(row.last_error)),
        ],
        columns,
    )
    told.append(f"\n{harmless(row.body)}")
    return told
