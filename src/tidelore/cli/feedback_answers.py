"""`lore feedback reply|comment`: posts replies, each exactly once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidelore.cli.face import Face, LoreCommand, face_of
from tidelore.cli.feedback_data import answer_data
from tidelore.cli.feedback_threads import ISSUE, PR, REPO, repo_and_number, repo_of_either
from tidelore.cli.logs import set_up_logging
from tidelore.cli.render import Answer
from tidelore.core.errors import UserError

if TYPE_CHECKING:
    from tidelore.feedback.outbox import AnswerRequest
    from tidelore.feedback.repositories import ConfiguredRepo

_MOST_BYTES = 1_000_000
_BODY = "File with the text in Markdown; - for stdin."
_KEY = "Idempotency key: one comment is posted per key, whatever the text."


@click.command("reply", cls=LoreCommand, example="lore feedback reply --pr 12 --to 1234567 --body-file reply.md")
@REPO
@click.option("--pr", metavar="REF", required=True, help="Pull request: number, owner/repo#12 or URL.")
@click.option("--to", metavar="COMMENT", type=click.IntRange(1, 2**63 - 1), help="Id of the comment to reply to.")
@click.option("--body-file", metavar="FILE", required=True, help=_BODY)
@click.option("--token-key", metavar="KEY", help=_KEY)
@click.pass_context
def reply_command(
    ctx: click.Context, repo: str | None, pr: str, to: int | None, body_file: str, token_key: str | None
) -> Answer:
    """Reply on a pull request.

    With --to, a review comment is answered in its thread. The reply is stored before it is sent and posted exactly
    once, so the command can be repeated safely. If the outcome is unknown (exit 7), the next `lore poll github` settles
    it.
    """
    from tidelore.feedback.outbox import AnswerRequest

    face = face_of(ctx)
    place, number = repo_and_number(face.app().config, repo, pr)
    body = _read_body(body_file)
    return _post(face, place, AnswerRequest("pr", number, body, "reply", to, token_key))


@click.command("comment", cls=LoreCommand, example="lore feedback comment --issue 7 --body-file comment.md")
@REPO
@PR
@ISSUE
@click.option("--body-file", metavar="FILE", required=True, help=_BODY)
@click.option("--token-key", metavar="KEY", help=_KEY)
@click.pass_context
def comment_command(
    ctx: click.Context, repo: str | None, pr: str | None, issue: str | None, body_file: str, token_key: str | None
) -> Answer:
    """Comment on a pull request or an issue.

    Like `lore feedback reply`, the comment is posted exactly once, so the command can be repeated safely.
    """
    from tidelore.feedback.outbox import AnswerRequest

    face = face_of(ctx)
    if pr is not None and issue is not None:
        raise UserError("--pr and --issue cannot be combined", fix="pass only one of them")
    place, pull, found = repo_of_either(face.app().config, repo, pr, issue)
    body = _read_body(body_file)
    if pull is not None:
        return _post(face, place, AnswerRequest("pr", pull, body, "comment", None, token_key))
    assert found is not None
    return _post(face, place, AnswerRequest("issue", found, body, "comment", None, token_key))


def _post(face: Face, place: ConfiguredRepo, answering: AnswerRequest) -> Answer:
    from tidelore.app.feedback_tracking import post_answer
    from tidelore.app.wiring import run_until_signalled

    app = face.app()
    set_up_logging(app.config, verbose=face.choices.verbose, quiet=face.choices.quiet or face.choices.robot)
    fate = "the reply may be stored; `lore poll github` completes it, and repeating the command posts it only once"
    posted = run_until_signalled(post_answer(app, place, answering), fate)
    row = posted.row
    comment = f", comment {row.comment_id}" if row.comment_id else ""
    told = f"Reply {row.id} on {row.repo_full_name}#{row.scope_number}: {row.status}{comment}"
    return Answer({"answer": answer_data(row)}, [told], posted.error)


def _read_body(name: str) -> str:
    """Return the text of the file, or raise UserError."""
    try:
        if name == "-":
            content = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UserError(
            f"cannot read {name}: {error.strerror}", fix="pass a file name, or - for stdin", file=name
        ) from None
    try:
        if len(content) <= _MOST_BYTES:
            return content.decode()
    except UnicodeDecodeError:
        raise UserError(f"{name} is not UTF-8", fix="convert the file to UTF-8", file=name) from None
    raise UserError(f"{name} is too large for a comment", fix="shorten it or post it in parts", file=name)
