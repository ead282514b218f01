"""`lore feedback`: tracked pull requests, their events and replies."""

from __future__ import annotations

import click

from tidelore.cli import feedback_answers, feedback_events, feedback_lists, feedback_tracking
from tidelore.cli.face import LoreGroup, global_options


@click.group(
    "feedback",
    cls=LoreGroup,
    help="Track pull requests, process their comments and reply.",
    no_args_is_help=True,
    params=global_options(),
    example="lore feedback next --wait --poll",
)
def command() -> None:
    pass


for _inner in (
    feedback_tracking.track_command,
    feedback_tracking.untrack_command,
    feedback_lists.list_command,
    feedback_lists.show_command,
    feedback_events.next_command,
    feedback_events.peek_command,
    feedback_events.ack_command,
    feedback_events.nack_command,
    feedback_answers.reply_command,
    feedback_answers.comment_command,
    feedback_tracking.resume_command,
    feedback_tracking.blocked_command,
):
    command.add_command(_inner)
