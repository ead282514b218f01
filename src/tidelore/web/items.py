"""The pages about one thing: an issue or merge request, a topic, a post, a file, an account; and the refresh.

A long conversation is shown in parts, each below the size limit of a page.
"""

from __future__ import annotations

import asyncio
from typing import Any

from markupsafe import Markup
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tidelore.app.accounts import show_account
from tidelore.app.listing import FileRequest, PostRequest, file_history, list_posts_with_authors, post_authors
from tidelore.app.pages.items import ItemPage, ThreadContext, TimelineEvent, locate, read_item_page, refresh_item
from tidelore.app.showing import (
    ShownDiscussion,
    ShownIssue,
    ShownMergeRequest,
    ShownNote,
    ShownTopic,
    ShownTopicComment,
    ShowRequest,
    show_post,
    show_topic,
)
from tidelore.app.status import show_run
from tidelore.app.wiring import App
from tidelore.core.errors import NotFound, SurgicalPreflightFailed, TideloreError, UserError
from tidelore.core.references import KINDS as ITEM_KINDS
from tidelore.core.references import Kind
from tidelore.web.addresses import (
    KINDS,
    changed_query,
    item_address,
    post_address,
    thread_address,
    thread_anchor,
    with_query,
)
from tidelore.web.hunks import HunkLine, parse_hunk
from tidelore.web.markdown import count_images, render_markdown
from tidelore.web.rendering import Page, Site, render, wants_json

PART_BYTES = 60_000
"""About how many bytes of a conversation one page shows; its last entry may exceed them."""
ENTRY_NOTES = 10
ENTRY_CHARACTERS = 5_000
"""How many notes and characters of a thread one entry shows; a longer thread goes on in the next entry."""
EXCERPT = 1_500
"""Characters of a discussion that the page of a file shows."""
MOST_FILES = 60
MOST_LINKED = 30


class Entry(Struct, frozen=True, kw_only=True):
    """One entry of a timeline: notes of a discussion, or events that happened together."""

    at: int
    discussion: ShownDiscussion | None = None
    notes: tuple[ShownNote, ...] = ()
    continued: bool = False
    context: ThreadContext | None = None
    events: tuple[TimelineEvent, ...] = ()
    hunk: tuple[HunkLine, ...] = ()


class Part(Struct, frozen=True, kw_only=True):
    """A part of a conversation: its rendered entries, how many come before it, and where the next part begins."""

    entries: list[Markup]
    before: int
    total: int
    next: int | None


class ThreadCounts(Struct, frozen=True, kw_only=True):
    """How many discussions an item has, as in the lists; how many of its threads are resolved, and how many are not.

    `address` is that of the first thread that is not.
    """

    discussions: int
    resolved: int
    unresolved: int
    address: str | None


def item_page(site: Site, app: App, request: Request) -> Page:
    """Show an issue, merge request or topic with its conversation."""
    kind = kind_of(request)
    if kind == "topic":
        return _topic_page(site, app, request)
    shown = read_item_page(app, show_request(request))
    item, images = shown.item, request.query_params.get("images") == "yes"
    entries = _timeline(shown)
    reply = with_query(f"{request.url.path}/reply", [("at", request.query_params.get("at", ""))])
    shared = {"item": item, "images": images, "project": item.project, "reply_address": reply}
    above = render_markdown(item.description, project=item.project, base=item.web_url, images=images)
    wanted = _place_of(entries, request.query_params.get("thread", ""), request.query_params.get("note", ""))
    part = _part(site, request, "_entry.html", [{"entry": entry} for entry in entries], shared, len(above), wanted)
    texts = [item.description, *(note.body for thread in item.discussions for note in thread.notes)]
    return Page(
        template="item.html",
        title=f"{item.title} · {item.reference or _written(request)}",
        data=shown,
        images=images,
        context={
            **_place(request, texts),
            **shared,
            "kind": kind,
            "part": part,
            "is_request": isinstance(item, ShownMergeRequest),
            "is_issue": isinstance(item, ShownIssue),
            "most_files": MOST_FILES,
            "most_linked": MOST_LINKED,
            "run": _run(app, request),
            "threads": _threads(request, entries, part),
            "has_details": _has_details(item),
            "system": request.query_params.get("system") == "yes",
        },
    )


def show_request(request: Request) -> ShowRequest:
    """Return the issue or merge request that the address of a page names."""
    values = request.query_params
    asked = kind_of(request)
    kind = next((kind for kind in ITEM_KINDS if kind == asked), None)
    if kind is None:
        raise UserError("topics cannot be refreshed one by one", fix="use `lore sync`")
    project, iid = request.path_params["project"], str(request.path_params["iid"])
    # Where two hosts have a project with this path, `at` is the item's address on its host.
    named: dict[str, Any] = {"reference": values["at"]} if values.get("at") else {"reference": iid, "project": project}
    return ShowRequest(kind=kind, system=values.get("system") == "yes", **named)


def kind_of(request: Request) -> str:
    """Return the kind of item that the address of a page names: issue, mr or topic."""
    part = request.path_params["part"]
    if part not in KINDS:
        raise NotFound("This page does not exist.", fix="use the links above, or the search")
    return KINDS[part]


def _written(request: Request) -> str:
    return f"{request.path_params['project']} {request.path_params['iid']}"


def _place(request: Request, texts: list[str | None]) -> dict[str, Any]:
    """Return what the templates of all conversations need: addresses of their variants, and whether images wait."""
    path, query = request.url.path, request.query_params.multi_items()
    kept = [(name, value) for name, value in query if name not in {"run", "from", "wrote", "later", "thread", "note"}]
    return {
        "images_waiting": sum(count_images(text) for text in texts),
        "images_address": with_query(path, changed_query(kept, {"images": "yes"})),
        "system_address": with_query(path, changed_query(kept, {"system": "yes"})),
        "plain_address": with_query(path, changed_query(kept, {"system": None})),
        "start_address": with_query(path, kept),
        "at": request.query_params.get("at", ""),
        "wrote": request.query_params.get("wrote", ""),
        "later": request.query_params.get("later") == "yes",
    }


def _run(app: App, request: Request) -> Any:
    """Return the run of the refresh that led here, or None."""
    text = request.query_params.get("run", "")
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        return None
    try:
        return show_run(app, int(text))
    except NotFound:
        return None


def _timeline(shown: ItemPage) -> list[Entry]:
    """Return discussions and events by time; events of one person within a minute are one entry."""
    contexts = {context.id: context for context in shown.threads}
    entries = []
    for thread in shown.item.discussions:
        context = contexts.get(thread.id)
        hunk = tuple(parse_hunk(context.diff_hunk)) if context is not None else ()
        shared: dict[str, Any] = {"at": thread.notes[0].created_at, "discussion": thread, "context": context}
        first, *rest = _portions(thread.notes)
        entries.append(Entry(**shared, notes=first, hunk=hunk))
        entries += [Entry(**shared, notes=notes, continued=True) for notes in rest]
    group: list[TimelineEvent] = []
    for event in shown.timeline:
        if group and (group[0].actor != event.actor or event.created_at - group[0].created_at > 60_000):
            entries.append(Entry(at=group[0].created_at, events=tuple(group)))
            group = []
        group.append(event)
    if group:
        entries.append(Entry(at=group[0].created_at, events=tuple(group)))
    return sorted(entries, key=lambda entry: entry.at)


def _portions(notes: list[ShownNote]) -> list[tuple[ShownNote, ...]]:
    """Return the notes of a thread in portions of a limited size, each of at least one note."""
    found: list[tuple[ShownNote, ...]] = []
    size = 0
    for note in notes:
        size += len(note.body)
        if found and len(found[-1]) < ENTRY_NOTES and size <= ENTRY_CHARACTERS:
            found[-1] = (*found[-1], note)
        else:
            found.append((note,))
            size = len(note.body)
    return found


def _part(
    site: Site,
    request: Request,
    template: str,
    contexts: list[dict[str, Any]],
    shared: dict[str, Any],
    above: int,
    wanted: int = 0,
) -> Part:
    """Render the entries of one page: from the asked one on, until the page is full.

    `above` is the size of the text above the first entry. Where no entry is asked for and the first page ends before
    the one that is `wanted`, the page begins with that.
    """
    text = request.query_params.get("from", "0")
    if not (text.isascii() and text.isdecimal() and len(text) < 9):
        raise UserError(f"invalid value for from: {text!r}", fix="use a number", value=text)
    start = min(int(text), max(len(contexts) - 1, 0))
    part = _part_from(site, request, template, contexts, shared, 0 if start else above, start)
    if start or part.next is None or wanted < part.next:
        return part
    return _part_from(site, request, template, contexts, shared, 0, wanted)


def _part_from(
    site: Site,
    request: Request,
    template: str,
    contexts: list[dict[str, Any]],
    shared: dict[str, Any],
    size: int,
    start: int,
) -> Part:
    entries: list[Markup] = []
    for context in contexts[start:]:
        html = Markup(render(site, request, template, **shared, **context))  # noqa: S704 - a template's own output
        size += len(html.encode())
        if entries and size > PART_BYTES:
            break
        entries.append(html)
    end = start + len(entries)
    return Part(entries=entries, before=start, total=len(contexts), next=end if end < len(contexts) else None)


def _place_of(entries: list[Entry], thread: str, note: str) -> int:
    """Return the number of the first entry of a thread, or of the entry with a note; or 0."""
    for at, one in enumerate(entries):
        if one.discussion is not None and (one.discussion.id == thread or note in {str(each.id) for each in one.notes}):
            return at
    return 0


def _threads(request: Request, entries: list[Entry], part: Part) -> ThreadCounts:
    """Return how many threads are resolved, how many are not, and the address of the first of these."""
    found = [
        (at, one.discussion)
        for at, one in enumerate(entries)
        if one.discussion is not None and one.discussion.resolvable and not one.continued
    ]
    open_ones = [(at, thread) for at, thread in found if thread.resolved is False]
    address = None
    if open_ones:
        at, thread = open_ones[0]
        shown = part.before <= at < part.before + len(part.entries)
        address = f"#{thread_anchor(thread.id)}" if shown else thread_address(page_of(request), thread.id)
    return ThreadCounts(
        discussions=sum(
            not one.continued and any(not note.system for note in one.discussion.notes)
            for one in entries
            if one.discussion is not None
        ),
        resolved=sum(bool(thread.resolved) for _, thread in found),
        unresolved=len(open_ones),
        address=address,
    )


def _has_details(item: ShownIssue | ShownMergeRequest) -> bool:
    """Return whether the column of details shows anything."""
    shared = (item.labels, item.assignees, item.milestone, item.closed_at)
    if isinstance(item, ShownIssue):
        return any((*shared, item.status, item.due_date, item.confidential, item.time_spent_seconds, item.closed_by))
    return any((*shared, item.reviewers, item.merged_at, item.merge_status, item.closes_issues, item.files))


def _topic_page(site: Site, app: App, request: Request) -> Page:
    topic = read_topic(app, request)
    images = request.query_params.get("images") == "yes"
    reply = with_query(f"{request.url.path}/reply", [("at", request.query_params.get("at", ""))])
    shared = {"item": topic, "images": images, "project": topic.project, "reply_address": reply}
    contexts = _comment_contexts(topic)
    above = render_markdown(topic.body, project=topic.project, base=topic.web_url, images=images)
    return Page(
        template="topic.html",
        title=f"{topic.title} · {topic.reference}",
        data=topic,
        images=images,
        context={
            **_place(request, [topic.body, *(comment.body for comment in topic.thread)]),
            **shared,
            "kind": "topic",
            "part": _part(site, request, "_comment.html", contexts, shared, len(above)),
        },
    )


def read_topic(app: App, request: Request) -> ShownTopic:
    """Return the topic that the address of a page names."""
    values = request.query_params
    project, iid = request.path_params["project"], str(request.path_params["iid"])
    return show_topic(app, values["at"]) if values.get("at") else show_topic(app, iid, project)


def _comment_contexts(topic: ShownTopic) -> list[dict[str, Any]]:
    """Return what each entry shows; the last entry of a thread has the form for a reply, so it names the thread."""
    found = _comments(topic)
    contexts: list[dict[str, Any]] = []
    for place, (first, replies) in enumerate(found):
        is_last = place + 1 == len(found) or found[place + 1][0] is not None
        top = first.id if first is not None else replies[0].in_reply_to
        thread = {"id": f"discussioncomment-{top}", "resolvable": False} if is_last else None
        contexts.append({"comment": first, "replies": replies, "thread": thread})
    return contexts


def _comments(topic: ShownTopic) -> list[tuple[ShownTopicComment | None, list[ShownTopicComment]]]:
    """Return the comments, each with its replies; many replies go on in further entries without the comment."""
    found: list[tuple[ShownTopicComment | None, list[ShownTopicComment]]] = []
    size = 0
    for comment in topic.thread:
        size += len(comment.body)
        if comment.in_reply_to is None:
            found.append((comment, []))
            size = len(comment.body)
        elif found and len(found[-1][1]) < ENTRY_NOTES and size <= ENTRY_CHARACTERS:
            found[-1][1].append(comment)
        else:
            found.append((None, [comment]))
            size = len(comment.body)
    return found


async def refresh(app: App, request: Request) -> Response:
    """Fetch the item from its host, then show it with the outcome of the run."""
    from starlette.concurrency import run_in_threadpool

    asked = show_request(request)
    # In a thread with an event loop, because storing would block the loop that serves the pages.
    try:
        answer = await run_in_threadpool(_refreshed, app, asked.kind, asked.reference, asked.project)
    except TideloreError as error:
        if error.retryable or isinstance(error, SurgicalPreflightFailed):
            # Its own remedy names commands; here the button is the command.
            error.fix = "the copy is unchanged; try again later, or check the host with `lore doctor`"
        raise
    return RedirectResponse(page_of(request, ("run", str(answer.run_id or ""))), 303)


def page_of(request: Request, *more: tuple[str, str]) -> str:
    """Return the address of the item that a form was sent from."""
    address = item_address(kind_of(request), request.path_params["project"], request.path_params["iid"])
    return with_query(address, [("at", request.query_params.get("at", "")), *more])


def _refreshed(app: App, kind: Kind, reference: str, project: str | None) -> Any:
    return asyncio.run(refresh_item(app, kind, reference, project))


def go(app: App, request: Request) -> Response:
    """Redirect to the page of whatever a reference names."""
    reference = request.query_params.get("ref", "").strip()
    if not reference:
        raise UserError("no reference given", fix="use #12, !12, group/project#12, a URL or at://…")
    found = locate(app, reference, _project_of(reference, request.query_params.get("project")))
    if found.uri is not None:
        return RedirectResponse(post_address(found.uri), 303)
    assert found.project is not None
    assert found.iid is not None
    at = found.web_url if "://" in reference else None
    address, thread = item_address(found.type, found.project, found.iid, at), request.query_params.get("thread", "")
    return RedirectResponse(thread_address(address, thread) if thread else address, 303)


def _project_of(reference: str, project: str | None) -> str | None:
    """Return the project that completes a reference; none where the reference names one itself."""
    return project if project and reference[:1] in "#!0123456789" else None


def post_page(_site: Site, app: App, request: Request) -> Page:
    """Show a post with its context and replies."""
    uri = request.query_params.get("uri", "")
    post = show_post(app, uri)
    near = [one for one in (post.parent, post.quoted, *post.replies) if one is not None]
    authors = post_authors(app, [post.uri, post.repeats, post.reply_to, post.quotes, *(one.uri for one in near)])
    context = {"post": post, "authors": authors}
    return Page(template="post.html", title=f"Post by @{post.author}", data=post, context=context)


def file_page(_site: Site, app: App, request: Request) -> Page:
    """Show the merge requests that changed a file, and its discussions; without a path, ask for one."""
    from tidelore.app.pages.items import stored_projects

    values = request.query_params
    path = values.get("path", "").strip()
    projects = [project.path for project in stored_projects(app)]
    context: dict[str, Any] = {
        "excerpt": EXCERPT,
        "asked": path,
        "project": values.get("project", ""),
        "projects": projects,
        "candidates": [],
        "most_files": MOST_FILES,
    }
    if not path:
        return Page(template="file.html", title="Files", data=None, context=context)
    wanted = FileRequest(path=path, project=values.get("project") or None, discussions=True, limit=50)
    try:
        story = file_history(app, wanted)
    except UserError as error:
        if wants_json(request) or not error.details.get("candidates"):
            raise
        context["candidates"] = error.details["candidates"]
        return Page(template="file.html", title=f"{path} – Files", data=None, context=context)
    context["project"] = story.project
    return Page(template="file.html", title=f"{story.path} · {story.project}", data=story, context=context)


def account_page(_site: Site, app: App, request: Request) -> Page:
    """Show a followed account with its newest posts."""
    account = show_account(app, request.path_params["name"])
    found, authors = list_posts_with_authors(app, PostRequest(author=account.did, limit=20))
    return Page(
        template="account.html",
        title=f"@{account.handle}",
        data=account,
        context={
            "account": account,
            "posts": found.items,
            "total": found.total,
            "authors": authors,
            "shared": frozenset(),
        },
    )
