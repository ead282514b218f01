"""The search screen: results while typing, a preview, and one thread on the full screen.

Keywords are searched after each key press; if the embedding model runs in this process, semantic results follow.
Results of an older query are dropped. Remote text is cleaned before it is shown, so that it cannot control the
terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.events import Resize
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import DataTable, Input, Static

from tidelore.app.console import ConsoleViews, ReadingRow, found_row
from tidelore.app.searching import FoundThread, SearchPage
from tidelore.app.showing import (
    BriefPost,
    ShownDiscussion,
    ShownIssue,
    ShownMergeRequest,
    ShownNote,
    ShownPost,
    ShownTopic,
)
from tidelore.console.backend import Backend
from tidelore.console.replying import ReplyingScreen
from tidelore.console.screen import KeyBar, copy_text, filter_line, open_page
from tidelore.console.style import age, clean_text, fields, short_names, timestamp
from tidelore.console.table import NAME, Cell, RowTable, TableColumn, TableRow
from tidelore.core.errors import TideloreError
from tidelore.core.markdown import markdown_block
from tidelore.core.references import sign_of
from tidelore.core.text import harmless, width, without_markdown

if TYPE_CHECKING:
    from textual.worker import WorkType

_STEP = "    "


Thread = ShownIssue | ShownMergeRequest | ShownTopic | ShownPost


def thread_text(thread: Thread, columns: int = 0, *, titled: bool = True) -> Text:
    """Return a whole thread formatted for `columns`; `titled=False` leaves out the title."""
    if isinstance(thread, ShownTopic):
        return _topic(thread, columns, titled)
    return _post(thread, columns, titled) if isinstance(thread, ShownPost) else _item(thread, columns, titled)


def result_text(found: FoundThread) -> Text:
    """Return the best snippet of a result, with the matches highlighted."""
    text = Text()
    text.append(f"{found.reference}\n", "bold")
    text.append(f"{clean_text(found.title)}\n\n")
    snippet, highlights = without_markdown(found.snippet, found.highlights)
    seen = 0
    # Clean each piece separately: removed characters would shift the positions of the matches.
    for begin, end in highlights:
        text.append(harmless(snippet[seen:begin]))
        text.append(harmless(snippet[begin:end]), "bold reverse")
        seen = end
    text.append(harmless(snippet[seen:]))
    more = f" and {found.further:,} more place{'s' if found.further > 1 else ''}" if found.further else ""
    text.append(f"\n\nin {_kind(found.found_in)}{more}\n", "dim")
    return text


def _item(item: ShownIssue | ShownMergeRequest, columns: int, titled: bool) -> Text:  # noqa: FBT001
    sign = sign_of("mr" if isinstance(item, ShownMergeRequest) else "issue", item.reference)
    text = Text()
    if titled:
        text.append(f"{item.project}{sign}{item.iid}  {clean_text(item.title)}\n\n", "bold")
    facts: list[tuple[str, str | None]] = [
        ("State", item.state if item.deleted_at is None else f"{item.state}, deleted"),
        ("Author", _person(item.author)),
        ("Assignees", ", ".join(map(_person, item.assignees))),
        ("Labels", clean_text(", ".join(item.labels))),
        ("Milestone", clean_text(item.milestone)),
        ("Created", timestamp(item.created_at)),
        ("Updated", timestamp(item.updated_at)),
        ("Page", clean_text(item.web_url)),
    ]
    if isinstance(item, ShownMergeRequest):
        facts.insert(3, ("Reviewers", ", ".join(map(_person, item.reviewers))))
        facts.insert(1, ("Branch", clean_text(f"{item.source_branch} → {item.target_branch}")))
        facts.append(("Files", f"{len(item.files):,} changed" if item.files else None))
    text.append_text(fields(facts, columns))
    text.append("\n")
    text.append_text(prose(item.description or "(no description)", columns))
    text.append(f"\n{item.discussions_total:,} discussions\n", "bold")
    if not item.discussions_read:
        text.append("not fetched yet\n", "dim")
    for discussion in item.discussions:
        text.append("\n")
        text.append_text(_discussion(discussion, columns))
    return text


def prose(text: str, columns: int, indent: str = "") -> Text:
    """Return Markdown as lines of at most `columns`; without a width, as it is written."""
    if not columns:
        return Text("".join(f"{indent}{line}\n" for line in harmless(text).strip().split("\n")))
    return Text.from_ansi("\n".join(markdown_block(text, columns, indent))).append("\n")


def _discussion(discussion: ShownDiscussion, columns: int) -> Text:
    text = Text()
    for at, note in enumerate(discussion.notes):
        text.append("\n" if at else "")
        head = _note(note, _STEP if at else "", resolved=bool(discussion.resolved) and not at)
        text.append_text(head).append("\n")
        text.append_text(prose(note.body, columns, _STEP if at else ""))
    return text


def _note(note: ShownNote, indent: str, *, resolved: bool) -> Text:
    text = Text(indent)
    text.append(_person(note.author), "bold")
    text.append(f"  {timestamp(note.created_at)[:16]}", "dim")
    if note.internal:
        text.append("  [internal]", "bold")
    if note.place and not indent:
        text.append(f"  {clean_text(note.place)}", "italic")
    if resolved:
        text.append("  ✔ resolved", "bold")
    return text


def _topic(topic: ShownTopic, columns: int, titled: bool) -> Text:  # noqa: FBT001
    text = Text()
    if titled:
        text.append(f"{topic.reference}  {clean_text(topic.title)}\n\n", "bold")
    facts: list[tuple[str, str | None]] = [
        ("State", topic.state if topic.deleted_at is None else f"{topic.state}, deleted"),
        ("Category", clean_text(topic.category)),
        ("Answered", None if topic.answered is None else "yes" if topic.answered else "no"),
        ("Author", _person(topic.author)),
        ("Created", timestamp(topic.created_at)),
        ("Updated", timestamp(topic.updated_at)),
        ("Page", clean_text(topic.web_url)),
    ]
    text.append_text(fields(facts, columns))
    text.append("\n")
    text.append_text(prose(topic.body or "(no text)", columns))
    text.append(f"\n{topic.comments:,} comments\n", "bold")
    for comment in topic.thread:
        step = _STEP if comment.in_reply_to is not None else ""
        text.append(f"\n{step}{_person(comment.author)}", "bold")
        text.append(f"  {timestamp(comment.created_at)[:16]}{'  answer' if comment.answer else ''}\n", "dim")
        text.append_text(prose("(deleted)" if comment.deleted_at is not None else comment.body, columns, step))
    return text


def _post(post: ShownPost, columns: int, titled: bool) -> Text:  # noqa: FBT001
    text = Text()
    if titled:
        text.append(f"{post.kind.capitalize()} by @{clean_text(post.author)}\n\n", "bold")
    text.append(f"{harmless(post.text or '(no text)')}\n")
    if post.alt_text:
        text.append(f"\n{harmless(chr(10).join(post.alt_text))}\n", "italic")
    for link in post.links:
        text.append(f"\n{clean_text(link.title)}" if link.title else "", "bold")
        text.append(f"\n{clean_text(link.url, 300)}\n")
    text.append("\n")
    text.append_text(
        fields(
            [
                ("Address", post.uri),
                ("Page", clean_text(post.web_url)),
                ("Written", timestamp(post.created_at)),
                ("Edited", timestamp(post.edited_at)),
                ("Deleted", timestamp(post.deleted_at)),
                ("Answers", _named(post.parent, post.reply_to)),
                ("Quotes", _named(post.quoted, post.quotes)),
                ("Reposts", ", ".join(f"@{clean_text(name)}" for name in post.reposters)),
                ("Labels", clean_text("\n".join(post.labels))),
                ("Tags", clean_text("\n".join(post.tags))),
            ],
            columns,
        )
    )
    if post.replies_total:
        text.append(f"\n{post.replies_total:,} {'reply' if post.replies_total == 1 else 'replies'}\n", "bold")
    for reply in post.replies:
        text.append(f"\n@{clean_text(reply.author)}", "bold")
        text.append(f"  {timestamp(reply.created_at)[:16]}\n", "dim")
        text.append(f"{harmless(reply.text)}\n")
    return text


def _named(row: BriefPost | None, uri: str | None) -> str | None:
    return uri if row is None else f"@{clean_text(row.author)}: {clean_text(row.text, 120)}"


def _person(username: str | None) -> str:
    return f"@{clean_text(username)}" if username else "unknown"


def _kind(found_in: str) -> str:
    return {"mr": "the merge request", "issue": "the issue", "discussion": "a discussion"}.get(
        found_in, f"a {found_in}"
    )


class ThreadScreen(Screen[None]):
    """One complete thread; it is read when the screen is opened."""

    AUTO_FOCUS = "#thread"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Back"),
        Binding("a", "reply", "Reply"),
        Binding("o", "open", "Open"),
        Binding("c", "copy", "Copy"),
    ]

    def __init__(self, backend: Backend, found: ReadingRow, reply: Callable[[], None]) -> None:
        super().__init__()
        self._backend = backend
        self._found = found
        self._reply = reply

    def compose(self) -> ComposeResult:
        yield VerticalScroll(Static(Text("… loading", "dim"), id="text", markup=False), id="thread")
        yield KeyBar()

    def on_mount(self) -> None:
        scroll = self.query_one("#thread")
        scroll.border_title = self._found.reference.replace("[", "\\[")
        self.call_after_refresh(self._begin)

    @on(Resize)
    def _other_width(self) -> None:
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        """Read the thread; not before the layout, because its Markdown is rendered for a width."""
        self.run_worker(cast("WorkType[None]", self._read), exclusive=True, exit_on_error=False)

    async def _read(self) -> None:
        try:
            columns = self.query_one("#thread").scrollable_content_region.width
            # Rendered in the reader's thread, so that no key waits for it.
            text = await self._backend.search_reader.ask(
                lambda views: thread_text(views.read_thread(self._found), columns)
            )
        except TideloreError as error:
            text = Text(f"{error.message}\n{error.fix or ''}")
        self.query_one("#text", Static).update(text)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide the key `reply` where nothing can be changed."""
        return self._backend.actions is not None if action == "reply" else super().check_action(action, parameters)

    def action_reply(self) -> None:
        """Write a reply in the editor."""
        self._reply()

    def action_leave(self) -> None:
        """Go back to the results."""
        self.dismiss()

    def action_open(self) -> None:
        """Open the page in the browser."""
        open_page(self, self._found.web_url)

    def action_copy(self) -> None:
        """Copy the reference."""
        copy_text(self, self._found.reference)


RESULTS = (
    TableColumn("THREAD", yields="beginning"),
    TableColumn("STATE"),
    TableColumn("UPDATED", right=True),
    TableColumn("TITLE"),
)
EMPTY = "Results appear as you type."
LIMIT = 50
PAUSE_SECONDS = 0.12
"""How long to wait for the next key press before searching."""


class ResultTable(RowTable):
    """The results; Enter opens the thread of one."""

    IS_READ: ClassVar[bool] = True
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Read")]


class SearchScreen(ReplyingScreen):
    """The query input, its results, and a preview of the selected thread."""

    PLACE = "search"
    AUTO_FOCUS = "#query"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "ask", "Search", key_display="/"),
        Binding("escape", "swap", "Query/results"),
    ]

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._previewed: FoundThread | None = None

    def body(self) -> Iterable[Widget]:
        yield Input(placeholder='keywords, "a phrase", -excluded, label:bug, author:mira, since:7d', id="query")
        yield filter_line()
        results = ResultTable(RESULTS, id="results", title="Results", empty=EMPTY)
        behind = VerticalScroll(Static("", id="detail", markup=False), id="behind")
        yield Container(Vertical(results, id="lists"), behind, id="browse")

    def question(self, views: ConsoleViews, now_ms: int) -> None:
        """Do nothing: results change only when the query changes."""

    def show(self, answer: None, now_ms: int) -> None:
        pass

    @on(Input.Changed, "#query")
    def _typed(self, event: Input.Changed) -> None:
        self.run_in_background(partial(self._search, event.value), "search")

    @on(Input.Submitted, "#query")
    def _to_results(self) -> None:
        self.query_one(RowTable).focus()

    @on(DataTable.RowSelected, "#results")
    def _chosen(self) -> None:
        line = self.table.line
        if line is not None:
            self.app.push_screen(ThreadScreen(self.backend, found_row(line.record), self.action_reply))

    def update_detail(self) -> None:
        """Show the snippet at once, and the whole thread as soon as it is read."""
        line = self.table.line
        if line is None:
            self.query_one("#detail", Static).update(Text())
        elif self._previewed != line.record:
            self.query_one("#behind", VerticalScroll).scroll_home(animate=False)
            self.query_one("#detail", Static).update(result_text(line.record))
            self.run_in_background(partial(self._preview, line.record), "preview")
        self._previewed = None if line is None else line.record

    def selected(self) -> ReadingRow | None:
        line = self.table.line
        return None if line is None else found_row(line.record)

    def address(self, line: TableRow) -> str | None:
        return str(line.record.web_url) if line.record.web_url else None

    def action_ask(self) -> None:
        """Focus the query input."""
        self.query_one("#query", Input).focus()

    def action_swap(self) -> None:
        """Move the focus between the query input and the results."""
        (self.table if self.query_one("#query", Input).has_focus else self.query_one("#query", Input)).focus()

    async def _search(self, text: str) -> None:
        await self.backend.app.clock.sleep(PAUSE_SECONDS)
        table = self.query_one("#results", RowTable)
        if not text.strip():
            table.empty = EMPTY
            table.set_lines([])
            table.border_title = "Results"
            self.update_detail()
            return
        try:
            self._tell(await self.backend.search_reader.ask(lambda views: views.by_words(text, LIMIT)))
            found = await self.backend.search_reader.ask(lambda views: views.by_meaning(text, LIMIT))
        except TideloreError as error:
            table.border_title = clean_text(f"{error.message} · {error.fix or ''}", 120).replace("[", "\\[")
            return
        if found is not None:
            self._tell(found)

    def _tell(self, found: SearchPage) -> None:
        table = self.query_one("#results", RowTable)
        table.empty = found.notice or "No results."
        short = short_names([result.reference for result in found.items])
        table.set_lines([_line(result, short[result.reference], self.backend.now_ms) for result in found.items])
        how = "by keyword and meaning" if found.mode == "hybrid" else "by keyword"
        title = f"{found.total:,} found {how}"
        if found.notice and found.items:
            # What is the matter, and how to mend it where there is room for that.
            fits = width(f"{title} · {found.notice}") <= table.size.width - 4
            title += f" · {found.notice if fits else found.notice.partition(':')[0]}"
        table.border_title = title.replace("[", "\\[")
        self.update_detail()

    async def _preview(self, found: FoundThread) -> None:
        await self.backend.app.clock.sleep(PAUSE_SECONDS)
        try:
            columns = self.room
            thread = await self.backend.search_reader.ask(
                lambda views: thread_text(views.read_thread(found_row(found)), columns, titled=False)
            )
        except TideloreError:
            return
        whole = result_text(found)
        whole.append(f"{'─' * 20}\n", "dim")
        whole.append_text(thread)
        self.query_one("#detail", Static).update(whole)


def _line(found: FoundThread, short: str, now_ms: int) -> TableRow:
    name = short if found.project else f"@{found.author or '?'}"
    told = found.title if found.project else found.snippet
    cells = (
        Cell(clean_text(name, 48 if found.project else NAME), "strong"),
        Cell(clean_text(found.state), "dim"),
        Cell(age(found.updated_at, now_ms), "", now_ms - found.updated_at),
        Cell(clean_text(told, 300)),
    )
    return TableRow(found.reference, cells, found)
