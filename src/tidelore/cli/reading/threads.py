"""List review threads and discussions: `lore threads`.

Reads the local database only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from tidelore.app.reading.threads import ListedThread, RequestedReview, ThreadPage, ThreadQuestion, list_threads
from tidelore.cli.command import Invocation, lore_command
from tidelore.cli.options import (
    after_option,
    freshness_options,
    item_fields,
    json_option,
    lockdown_option,
    max_tokens_option,
    only_project,
    open_first,
    refresh_first,
)
from tidelore.cli.output.render import Output, ago, open_page, plural, when
from tidelore.cli.output.table import line_columns, on_terminal, table
from tidelore.core.text import one_line, shorten, without_markdown

_STEP = "  "
_WAITS = {
    "review thread": "waiting on me",
    "mention": "mentions you",
    "reply": "reply to you",
    "own item": "on your item",
}


@lore_command("threads", example="lore threads --waiting-on me", answer=ThreadPage)
@click.argument("reference", metavar="[REF]", required=False)
@click.option("--unresolved", is_flag=True, help="Only threads that are not resolved, or whose state is unknown.")
@click.option("--mine", is_flag=True, help="Only threads on your items, with your notes, or that mention you.")
@click.option(
    "--waiting-on",
    type=click.Choice(["me", "others"]),
    help="Only threads that wait for your answer, or for the answer of others.",
)
@only_project
@click.option(
    "--state",
    type=click.Choice(["opened", "closed", "merged", "locked", "all"]),
    help="Only items in this state; without REF, only open ones by default.",
)
@click.option(
    "-n", "--limit", type=click.IntRange(1, 1000), help="Number of threads to show: 20, or 10 with --waiting-on me."
)
@after_option
@max_tokens_option
@lockdown_option
@freshness_options
@item_fields
@json_option
@open_first
def threads_command(invocation: Invocation, /, **wanted: Any) -> Output:
    """List review threads and discussions, newest note first.

    REF is an issue or merge request: a number, '#12', '!12', 'group/project!12' or a URL. Without it, the threads of
    all open items. A thread waits for you if the last note is another person's and you wrote in the thread, own the
    item (author or assignee) or are mentioned; it waits for others if the last note is yours. Those that wait for you
    are ordered by urgency: unresolved review threads, mentions, replies to you, comments on your items; merge requests
    that wait for your review come before them. Your login is `login` of the host in the configuration, or what the
    host reported to `lore doctor` or the first `lore sync`.
    """
    robot, in_browser = invocation.choices.robot, wanted.pop("in_browser")
    budget = wanted.pop("max_tokens")
    refresh_first(invocation, wanted, wanted["reference"], wanted["project"])
    page = list_threads(invocation.app(), ThreadQuestion(**wanted, max_tokens=budget if robot else None))
    if in_browser:
        open_page(page.items[0].url if page.items else None)
    return Output(page, () if robot else thread_lines(page), paged=True)


def thread_lines(page: ThreadPage) -> list[str]:
    """Return the page as text: a paragraph for each thread on a terminal, a row in a pipe."""
    if not on_terminal():
        rows = [
            [when(one.last_at), one.state or "-", one.reference, one.place or "-", one.last_by or "-", one.id,
             one.last or one.opening]
            for one in page.items
        ]  # fmt: skip
        return table(["LAST", "STATE", "ITEM", "PLACE", "BY", "ID", "TEXT"], rows)
    columns = line_columns()
    lines = request_lines(page.review_requests, page.review_requests_total or 0, columns)
    if not page.items:
        return [*lines, "Threads: no matches"]
    lines.append(f"Threads (showing {len(page.items):,} of {page.total:,})")
    for thread in page.items:
        lines += ["", *(line for line in _paragraph(thread, columns))]
    if page.notice:
        lines += ["", f"({page.notice})"]
    elif page.next:
        lines += ["", f"(more: --limit, or --after {page.next})"]
    return lines


def request_lines(requests: Sequence[RequestedReview], total: int, columns: int) -> list[str]:
    """Return the merge requests that wait for our review as text, followed by an empty line."""
    if not requests:
        return []
    lines = [click.style(f"Waiting for your review ({total:,})", bold=True)]
    for one in requests:
        said = f"{one.reference}  {one.title} (@{one.author or 'unknown'}, {ago(one.updated_at)})"
        lines.append(_STEP + shorten(one_line(said), columns - len(_STEP)))
    return [*lines, ""]


def _paragraph(thread: ListedThread, columns: int) -> Iterator[str]:
    where = f"  {one_line(thread.place)}" if thread.place else ""
    head = shorten(f"{thread.reference}{where}", columns)
    yield click.style(head, fg="cyan")
    yield _STEP + click.style(shorten(one_line(thread.title), columns - 2), bold=True)
    facts = [
        thread.state or "",
        "outdated" if thread.outdated else "",
        _WAITS[thread.why] if thread.why else f"waiting on {thread.waiting_on}" if thread.waiting_on else "",
        plural(thread.notes, "note"),
        f"last by @{thread.last_by or 'unknown'} {ago(thread.last_at)}",
    ]
    yield _STEP + shorten(one_line(", ".join(fact for fact in facts if fact)), columns - 2)
    said = [(thread.started_by, thread.opening)]
    said += [] if thread.last is None else [(thread.last_by, thread.last)]
    for author, text in said:
        yield _STEP + shorten(f"@{author or 'unknown'}: {without_markdown(one_line(text))[0]}", columns - 2)
    yield _STEP + click.style(shorten(f"thread {thread.id}", columns - 2), dim=True)
