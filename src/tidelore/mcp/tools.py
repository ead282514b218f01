"""The tools of the MCP server: their arguments, schemas and calls.

Arguments are Structs, from which the input schemas are generated; output schemas name the top-level fields of the
answers only, because every client pays for them in each session. A tool that writes says so (`writes`) and is offered
only if the server was started with permission to write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict, replace

from tidelore.app.answers import ChosenFields, Instant, means
from tidelore.app.reading.changes import ChangePage, ChangeQuestion, list_changes
from tidelore.app.reading.context import Context, ContextQuestion, read_context
from tidelore.app.reading.referring import find_thread, parse_any
from tidelore.app.reading.refreshing import Refreshed, refresh_items, with_open_threads
from tidelore.app.reading.threads import ThreadPage, ThreadQuestion, list_threads
from tidelore.app.searching import SearchPage, SearchQuestion, search
from tidelore.app.showing import ShowRequest, show_item, show_post, show_topic
from tidelore.app.wiring import App
from tidelore.app.writing.replying import ChangeState, ReplyTo, WriteAnswer, change_state, reply_to
from tidelore.core.errors import UserError
from tidelore.core.progress import OnProgress

JsonSchema = dict[str, Any]
_FOUND = frozenset({"reference", "type", "title", "state", "author", "updated_at", "snippet", "further"})
"""The fields of a search result that an agent needs; the others cost tokens."""


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a tool; they have the names of the question that is asked, and may be shorter in the schema."""


class SearchArguments(Arguments, frozen=True):
    text: Annotated[str, means('words, "phrases", -word, label:x, author:x')] = field(name="query")
    project: str | None = None
    type: Literal["issue", "mr", "discussion", "topic", "post"] | None = None
    limit: int = 5
    after: Annotated[str | None, means("next of the previous page")] = None
    max_tokens: int = 1000


class ShowArguments(Arguments, frozen=True):
    reference: Annotated[str, means("#12, !12, group/project!12, owner/repo#12 or URL")] = field(name="ref")
    project: str | None = None
    whole: Annotated[bool, means("all notes, newest kept, instead of the decisive ones")] = False
    skip: Annotated[int, means("with whole: next of the previous page")] = 0
    max_tokens: int = 1200


class ThreadsArguments(Arguments, frozen=True):
    reference: Annotated[str | None, means("one item; else all open ones")] = field(default=None, name="ref")
    project: str | None = None
    unresolved: bool = False
    waiting_on: Literal["me", "others"] | None = None
    limit: int = 20
    after: str | None = None
    max_tokens: int = 1500


class ChangesArguments(Arguments, frozen=True):
    since: Annotated[str, means("cursor of the last visit, or 12h, yesterday, 2026-03-01")] = "1d"
    after: str | None = None
    project: str | None = None
    max_tokens: int = 1500


class RefreshArguments(Arguments, frozen=True):
    refs: Annotated[list[str], means("at most 20")]
    project: str | None = None


class ReplyArguments(Arguments, frozen=True):
    reference: Annotated[str, means("item, thread id from threads, comment id, or URL")] = field(name="ref")
    body: Annotated[str | None, means("Markdown; omit to only resolve or reopen")] = None
    resolve: Annotated[bool | None, means("true resolves the thread (after the reply), false reopens it")] = None
    token_key: Annotated[str | None, means("one reply per key, whatever the text")] = field(default=None, name="key")
    project: str | None = None
    dry_run: bool = False


class ToolContext(Struct, frozen=True):
    """What a call of a tool is given: the application, and where progress is reported."""

    app: App
    on_progress: OnProgress


class LoreTool(Struct, frozen=True, kw_only=True):
    """A tool. `call` is synchronous and runs in a worker thread, or is a coroutine function for the network."""

    name: str
    description: str
    arguments: type[Arguments]
    call: Callable[[ToolContext, Any], Any] | None = None
    call_async: Callable[[ToolContext, Any], Awaitable[Any]] | None = None
    output: JsonSchema
    is_read_only: bool = True
    is_open_world: bool = False
    writes: bool = False

    @property
    def input(self) -> JsonSchema:
        """The schema of the arguments."""
        return input_schema(self.arguments)


def input_schema(shape: type[Struct]) -> JsonSchema:
    """Return the schema of arguments, in its shortest form."""
    _, parts = msgspec.json.schema_components([shape])
    properties = {name: _short(one) for name, one in parts[shape.__name__]["properties"].items()}
    required = parts[shape.__name__].get("required", [])
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


def _short(described: JsonSchema) -> JsonSchema:
    kept = next((one for one in described.get("anyOf", [described]) if one.get("type") != "null"), described)
    short = {name: kept[name] for name in ("type", "enum") if name in kept}
    if "enum" in short:
        short = {"enum": [value for value in short["enum"] if value is not None]}
    if kept.get("type") == "array":
        short["items"] = {"type": kept["items"]["type"]}
    if described.get("default") not in (None, False, 0):
        short["default"] = described["default"]
    return short | ({"description": described["description"]} if "description" in described else {})


def output_schema(shape: type[Struct], *names: str) -> JsonSchema:
    """Return the schema of an answer: the types of its top-level fields, or of those named."""
    _, parts = msgspec.json.schema_components([shape], schema_hook=_instant_schema)
    fields = parts[shape.__name__]["properties"]
    types = {name: _type(fields[name]) for name in names or fields}
    return {"type": "object", "properties": types}


def _type(described: JsonSchema) -> JsonSchema:
    found = [one.get("type", "object") for one in described.get("anyOf", [described])]
    return {"type": found[0] if len(found) == 1 else found}


def _instant_schema(kind: type) -> JsonSchema:
    if kind is Instant:
        return {"type": "string"}
    raise NotImplementedError(kind)


def _search(context: ToolContext, wanted: SearchArguments) -> Any:
    page = search(context.app, SearchQuestion(**asdict(wanted), fields=_FOUND))
    return replace(page, items=[]), [ChosenFields.of(item, _FOUND) for item in page.items]


def show_any(app: App, wanted: ShowArguments) -> Any:
    """Return what a reference of any kind names: the context of an item, or all of it with `whole`."""
    named: dict[str, Any] = {"reference": wanted.reference, "project": wanted.project, "max_tokens": wanted.max_tokens}
    with app.reading() as database:
        kind = find_thread(database, parse_any(wanted.reference), wanted.project, app.config.default_project).type
    if kind == "post":
        return show_post(app, wanted.reference, wanted.max_tokens)
    if not wanted.whole:
        return read_context(app, ContextQuestion(**named))
    if kind == "topic":
        return show_topic(app, **named, skip=wanted.skip)
    return show_item(app, ShowRequest(kind="issue" if kind == "issue" else "mr", skip=wanted.skip, **named))


def _threads(context: ToolContext, wanted: ThreadsArguments) -> ThreadPage:
    return list_threads(context.app, ThreadQuestion(**asdict(wanted)))


def _changes(context: ToolContext, wanted: ChangesArguments) -> ChangePage:
    return list_changes(context.app, ChangeQuestion(**asdict(wanted)))


async def _refresh(context: ToolContext, wanted: RefreshArguments) -> Refreshed:
    done = await refresh_items(context.app, wanted.refs, wanted.project, context.on_progress)
    return await asyncio.to_thread(with_open_threads, context.app, done)


async def _reply(context: ToolContext, wanted: ReplyArguments) -> WriteAnswer:
    if wanted.body is None:
        if wanted.resolve is None:
            raise UserError("neither body nor resolve is given", fix="pass body to reply, or resolve")
        change = ChangeState(
            reference=wanted.reference, resolved=wanted.resolve, project=wanted.project, dry_run=wanted.dry_run
        )
        done, error = await change_state(context.app, change, context.on_progress)
    else:
        if wanted.resolve is False:
            raise UserError("a reply cannot reopen its thread", fix="reopen it in a call without body")
        answer = ReplyTo(**asdict(wanted) | {"resolve": bool(wanted.resolve)})
        done, error = await reply_to(context.app, answer, context.on_progress)
    if error is not None:
        raise error
    return done


TOOLS: tuple[LoreTool, ...] = (
    LoreTool(
        name="search",
        description="Find issues, merge/pull requests, discussions and posts in the local copy; best thread first, "
        "with the passage that matches.",
        arguments=SearchArguments,
        call=_search,
        output=output_schema(SearchPage, "items", "total", "next", "truncated", "notice"),
    ),
    LoreTool(
        name="show",
        description="Show one item: description, decisive notes, unresolved threads, linked items, files, events.",
        arguments=ShowArguments,
        call=lambda context, wanted: show_any(context.app, wanted),
        output=output_schema(Context, "item", "notes", "threads", "linked", "left_out", "truncated")
        | {"additionalProperties": True},
    ),
    LoreTool(
        name="threads",
        description="List review threads with id, file, line, state and last speaker; waiting_on: me lists what "
        "needs my answer.",
        arguments=ThreadsArguments,
        call=_threads,
        output=output_schema(ThreadPage),
    ),
    LoreTool(
        name="changes",
        description="List items that changed, newest first. Keep cursor and pass it as since next time.",
        arguments=ChangesArguments,
        call=_changes,
        output=output_schema(ChangePage),
    ),
    LoreTool(
        name="refresh",
        description="Fetch these items from the server now and list their unresolved threads; the other tools read "
        "the copy.",
        arguments=RefreshArguments,
        call_async=_refresh,
        output=output_schema(Refreshed),
        is_read_only=False,
        is_open_world=True,
    ),
    LoreTool(
        name="reply",
        description="Post a reply to an item or thread on the server, or resolve or reopen a thread. Posted exactly "
        "once: repeat the same call after an error marked retryable.",
        arguments=ReplyArguments,
        call_async=_reply,
        output=output_schema(WriteAnswer, "reference", "thread", "reply", "resolution", "state", "requests"),
        is_read_only=False,
        is_open_world=True,
        writes=True,
    ),
)
"""The tools in the order in which they are listed."""
