"""The options that several commands have, each declared once, and how their values are read.

Lists and exports choose items by the same filters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from tidelore.app.answers import parse_page_token
from tidelore.cli.command import Invocation, set_choice
from tidelore.cli.output.render import say_note
from tidelore.core.clock import SystemClock
from tidelore.core.errors import UserError
from tidelore.core.references import parse_duration, parse_since

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def combine(*decorators: Decorator) -> Decorator:
    """Return what adds several options, in this order."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return add


def _fields(text: str) -> Decorator:
    return click.option("--fields", metavar="A,B", expose_value=False, callback=set_choice("fields"), help=text)


fields_option = _fields("Only these fields in JSON.")
item_fields = _fields("Only these fields of the items in JSON.")
json_option = click.option(
    "--json", is_flag=True, expose_value=False, callback=set_choice("robot"), help="Same as --robot."
)
project_option = click.option("-p", "--project", metavar="PATH", help="Project (path or unambiguous ending).")
only_project = click.option("-p", "--project", metavar="PATH", help="Only this project (path or unambiguous ending).")
after_option = click.option("--after", metavar="TOKEN", help="Continue after the page that returned this `data.next`.")
max_tokens_option = click.option(
    "--max-tokens", type=click.IntRange(256), help="With --robot: limit the answer to this number of tokens."
)
open_first = click.option("--open", "in_browser", is_flag=True, help="Open the first item in the browser.")
label_option = click.option(
    "--label", "labels", multiple=True, metavar="NAME", help="Only items with this label (repeatable)."
)


def lockdown_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option of commands that can leave out the text of people without write access."""
    return click.option(
        "--lockdown",
        is_flag=True,
        expose_value=False,
        callback=set_choice("lockdown"),
        help="Leave out text of people without write access.",
    )(function)


def duration_option(end: str) -> Callable[[Any], Any]:
    """Return the option of commands that run for a given time."""
    return click.option(
        "--for",
        "seconds",
        metavar="DURATION",
        callback=read_seconds,
        help=f"Stop after this time, such as 90s, 5m or 2h; default: run until {end}.",
    )


def read_seconds(_context: click.Context, _option: click.Parameter, text: str | None) -> float | None:
    """Return the value of --for in seconds; a number without a unit is in seconds already."""
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = parse_duration(text, "--for")
    if not 0.1 <= seconds < float("inf"):
        raise UserError(f"invalid value for --for: {text!r}", fix="use at least 0.1 seconds", value=text)
    return seconds


def freshness_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of commands that can refresh what they show."""
    wait = click.option("--max-wait", metavar="DURATION", default="10s", help="With --max-age: wait at most this long.")
    age = click.option("--max-age", metavar="DURATION", help="Refresh first what is older, such as 5m; 0s always.")
    return age(wait(function))


def refresh_first(
    invocation: Invocation, wanted: dict[str, Any], reference: str | Sequence[str] | None, project: str | None
) -> None:
    """Take --max-age and --max-wait out of the options; refresh what is too old. `meta` says the age of the oldest."""
    max_age, max_wait = wanted.pop("max_age"), wanted.pop("max_wait")
    if max_age is None:
        return
    from tidelore.app.reading.refreshing import be_fresh

    if reference is None:
        raise UserError("--max-age needs REF", fix="name an item, or run `lore sync` first")
    bounds = parse_duration(max_age, "--max-age"), parse_duration(max_wait, "--max-wait")
    references = [reference] if isinstance(reference, str) else reference
    found = be_fresh(invocation.app(), references, project, *bounds)
    invocation.choices.freshness = found
    if found.problem and not invocation.choices.robot and not invocation.choices.quiet:
        say_note(f"{found.problem}; showing the stored version")


def author_filter(noun: str) -> Decorator:
    """Return the option that chooses what one user wrote."""
    return click.option("--author", metavar="USER", help=f"Only {noun} written by this user.")


def since_filter(noun: str) -> Decorator:
    """Return the option that chooses what was updated lately."""
    return click.option("--since", metavar="WHEN", help=f"Only {noun} updated since: 12h, 7d, 2w or 2026-03-01.")


def _state_filter(noun: str, *states: str) -> Decorator:
    return click.option("--state", type=click.Choice(states), default="all", help=f"Only {noun} in this state.")


def _deleted_filter(noun: str) -> Decorator:
    return click.option("--deleted", is_flag=True, help=f"Only deleted {noun} instead.")


def _item_filters(*own: Decorator) -> Decorator:
    return combine(
        *own,
        author_filter("items"),
        click.option("--assignee", metavar="USER", help="Only items assigned to this user."),
        label_option,
        click.option("--milestone", metavar="TITLE", help="Only items in this milestone."),
        only_project,
        since_filter("items"),
        _deleted_filter("items"),
    )


issue_filters = _item_filters(
    _state_filter("items", "opened", "closed", "all"),
    click.option("--status", metavar="NAME", help="Only issues with this work item status."),
)
merge_request_filters = _item_filters(
    _state_filter("items", "opened", "merged", "closed", "locked", "all"),
    click.option("--draft/--no-draft", default=None, help="Only drafts, or only non-drafts."),
    click.option("--reviewer", metavar="USER", help="Only merge requests with this reviewer."),
    click.option("--target-branch", metavar="NAME", help="Only merge requests into this branch."),
    click.option("--source-branch", metavar="NAME", help="Only merge requests from this branch."),
)
topic_filters = combine(
    _state_filter("topics", "opened", "closed", "all"),
    click.option("--answered/--unanswered", default=None, help="Only topics with an answer, or only those without."),
    click.option("--category", metavar="NAME", help="Only topics in this category."),
    author_filter("topics"),
    only_project,
    since_filter("topics"),
    _deleted_filter("topics"),
)
post_filters = combine(
    click.option("--author", metavar="HANDLE", help="Only posts of this account (handle or DID)."),
    click.option("--since", metavar="WHEN", help="Only posts since: 12h, 7d, 2w or 2026-03-01."),
    _deleted_filter("posts"),
)


def read_filters(wanted: dict[str, Any]) -> None:
    """Parse the values of filters in place."""
    wanted["since"] = parse_since(wanted["since"], SystemClock().now_ms()) if wanted["since"] else None
    if wanted.get("state") == "all":
        wanted["state"] = None
    if wanted.get("after"):
        wanted["after"] = parse_page_token(wanted["after"])
