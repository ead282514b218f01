"""Reply and resolve: `lore reply`, `lore resolve`, `lore unresolve`."""

from __future__ import annotations

from typing import Any

import click

from tidelore.app.wiring import run_until_signalled
from tidelore.app.writing.replying import ChangeState, ReplyTo, WriteAnswer, change_state, reply_to
from tidelore.cli.command import Invocation, lore_command
from tidelore.cli.feedback_events import QUICK_ACTIONS, naming_quick_actions, read_body
from tidelore.cli.output.render import Output
from tidelore.core.errors import TideloreError, UserError
from tidelore.core.text import one_line

_FATE = "the change may be stored; repeating the command makes it only once"
_PROJECT = click.option("-p", "--project", metavar="PATH", help="The project, if REF does not name it.")
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Print the exact requests instead of sending them.")
_NO_REFRESH = click.option("--no-refresh", is_flag=True, help="Do not read the item again afterwards.")


@lore_command("reply", example="lore reply 'group/project!12' 'Done in 4f2a.'", answer=WriteAnswer)
@click.argument("reference", metavar="REF")
@click.argument("body", metavar="[BODY]", required=False)
@click.option("--body-file", metavar="FILE", help="File with the text in Markdown; - for stdin.")
@click.option("--resolve", is_flag=True, help="Resolve the thread after the reply is posted.")
@click.option("--token-key", metavar="KEY", help="Idempotency key: one reply per key, whatever the text.")
@QUICK_ACTIONS
@_PROJECT
@_DRY_RUN
@_NO_REFRESH
def reply_command(invocation: Invocation, /, **wanted: Any) -> Output:
    """Reply to an item, thread or comment.

    REF is an item ('#12', '!12', 'group/project!12'), the id of a thread or comment as `lore threads` and `lore show`
    print it, or the URL of any of them. BODY is Markdown; `-` reads it from stdin. The reply is stored before it is
    sent and posted exactly once, so the command can be repeated safely; the same text in another thread is another
    reply. If the outcome is unknown (exit 7), repeat the command; `lore poll` settles it too.
    """
    text = _text(wanted.pop("body"), wanted.pop("body_file"))
    request = ReplyTo(body=text, refresh=not wanted.pop("no_refresh"), **wanted)
    with naming_quick_actions():
        done, error = run_until_signalled(reply_to(invocation.logged_app(), request), _FATE)
    return Output(done, _lines(done, error), error)


@lore_command("resolve", example="lore resolve review_comment:1234567", answer=WriteAnswer)
@click.argument("reference", metavar="REF")
@_PROJECT
@_DRY_RUN
@_NO_REFRESH
def resolve_command(invocation: Invocation, /, **wanted: Any) -> Output:
    """Resolve a review thread.

    REF is the id of the thread as `lore threads` prints it, or the id or URL of one of its comments. A thread that is
    resolved already is left alone. The command can be repeated safely.
    """
    return _change(invocation, resolved=True, **wanted)


@lore_command("unresolve", example="lore unresolve review_comment:1234567", answer=WriteAnswer)
@click.argument("reference", metavar="REF")
@_PROJECT
@_DRY_RUN
@_NO_REFRESH
def unresolve_command(invocation: Invocation, /, **wanted: Any) -> Output:
    """Reopen a resolved review thread.

    REF is the id of the thread as `lore threads` prints it, or the id or URL of one of its comments.
    """
    return _change(invocation, resolved=False, **wanted)


def _change(invocation: Invocation, *, resolved: bool, no_refresh: bool, **wanted: Any) -> Output:
    request = ChangeState(resolved=resolved, refresh=not no_refresh, **wanted)
    done, error = run_until_signalled(change_state(invocation.logged_app(), request), _FATE)
    return Output(done, _lines(done, error), error)


def _text(body: str | None, file: str | None) -> str:
    if (body is None) == (file is None):
        raise UserError("expected either BODY or --body-file", fix="pass the text, - for stdin, or --body-file FILE")
    return read_body(file or "-") if file is not None or body == "-" else body or ""


def _lines(done: WriteAnswer, error: TideloreError | None) -> list[str]:
    where = done.reference if done.thread is None else f"{done.reference}, thread {one_line(done.thread)}"
    if done.requests:
        return [line for one in done.requests for line in (f"{one.method} {one.url}", f"  {_json(one.body)}")]
    lines = []
    if done.reply is not None:
        comment = f", comment {done.reply.comment_id}" if done.reply.comment_id else ""
        lines.append(f"Reply on {where}: {done.reply.status}{comment}")
    if done.state is not None:
        already = "" if done.resolution is not None else " already"
        lines.append(f"Thread {one_line(done.thread or '')} of {done.reference}: {done.state}{already}")
    if done.refresh_error is not None and error is None:
        click.echo(f"the local copy will show it after the next sync: {done.refresh_error}", err=True)
    return lines


def _json(value: object) -> str:
    import msgspec

    return msgspec.json.encode(value).decode()
