"""Reply and resolve from the page of an item, with forms that need no script.

Offered only where writing is allowed. Each form carries a key, so that a form that is sent twice takes effect once; the
same form with another text is another reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from hashlib import sha256
from typing import Literal, get_args

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tidelore.app.pages.items import read_item_page
from tidelore.app.wiring import App
from tidelore.app.writing.replying import ChangeState, ReplyTo, WriteAnswer, change_state, reply_to
from tidelore.core.errors import TideloreError, UserError
from tidelore.web.addresses import thread_anchor
from tidelore.web.items import kind_of, page_of, read_topic, show_request

Action = Literal["reply", "reply-resolve", "resolve", "unresolve"]


async def answer(app: App, request: Request, form: Mapping[str, str]) -> Response:
    """Do what a form asks for, then show the item with the outcome."""
    # In a thread with an event loop, because storing would block the loop that serves the pages.
    try:
        done = await run_in_threadpool(_carry_out, app, request, form)
    except TideloreError as error:
        raise _on_a_page(error) from None
    return RedirectResponse(_place_of(request, form, done), 303)


def _carry_out(app: App, request: Request, form: Mapping[str, str]) -> WriteAnswer:
    item = read_topic(app, request) if kind_of(request) == "topic" else read_item_page(app, show_request(request)).item
    thread = form.get("thread", "")
    reference = thread or request.query_params.get("at") or item.reference or ""
    project = item.project if thread else None
    action = form.get("action", "reply")
    if action not in get_args(Action):
        raise UserError(f"unknown action {action!r}", fix="go back, reload the page and try again")
    if action in ("resolve", "unresolve"):
        done, error = asyncio.run(
            change_state(app, ChangeState(reference=reference, resolved=action == "resolve", project=project))
        )
    else:
        text = form.get("body", "").replace("\r\n", "\n")
        wanted = ReplyTo(
            reference=reference,
            body=text,
            project=project,
            token_key=f"web {form.get('key', '')} {sha256(text.encode()).hexdigest()}",
            resolve=action == "reply-resolve",
        )
        done, error = asyncio.run(reply_to(app, wanted))
    if error is not None:
        raise error
    return done


def _place_of(request: Request, form: Mapping[str, str], done: WriteAnswer) -> str:
    """Return the address that shows the outcome: the new comment or the thread, if the copy has it already."""
    thread = form.get("thread", "")
    wrote = [("wrote", form.get("action", "reply")), ("later", "" if done.refreshed else "yes"), ("thread", thread)]
    address = page_of(request, *wrote)
    if not done.refreshed:
        return address
    if done.reply is not None and done.reply.comment_id is not None:
        kind = "comment" if kind_of(request) == "topic" else "note"
        return f"{address}#{kind}_{done.reply.comment_id}"
    return f"{address}#{thread_anchor(thread)}" if thread else address


def _on_a_page(error: TideloreError) -> TideloreError:
    """Return an error whose remedy can be followed in a browser."""
    if error.retryable:
        error.fix = "send it again; it takes effect once"
    return error
