"""Bugs of replies and resolutions: an effect twice, out of order, or after a refusal."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

ONE_EFFECT = "one effect"
NO_COMMANDS = "no commands in replies"

REPLIES = "tests/faces/test_replies.py"
KILLED = "tests/crash/test_writes.py"
TOPICS = "tests/faces/test_topic_replies.py"
QUICK_ACTIONS = "tests/unit/sources/gitlab/test_quick_actions.py"

MUTANTS = (
    Mutant(
        name="resolution-before-its-reply",
        invariant=ONE_EFFECT,
        file="store/work/outbox.py",
        before="_DUE, _IN_TURN, now=now_ms",
        after="_DUE, now=now_ms",
        test=f"{REPLIES}::test_a_lost_answer_to_a_reply_delays_the_resolution_until_the_reply_is_confirmed[gitlab]",
        why="A thread would be closed although its answer may never arrive.",
    ),
    Mutant(
        name="refused-reply-still-resolves",
        invariant=ONE_EFFECT,
        file="store/work/outbox.py",
        before='            mark_failed(tx, follower, "the reply before it was refused", now_ms)\n',
        after="            assert follower\n",
        test=f"{REPLIES}::test_a_refused_reply_is_not_followed_by_its_resolution[github]",
        why="The resolution of a refused reply would wait in the outbox for ever.",
    ),
    Mutant(
        name="resolved-thread-resolved-again",
        invariant=ONE_EFFECT,
        file="feedback/resolving.py",
        before="        if state == wanted.resolved:\n            return ResolvedState(None)\n",
        after="",
        test=f"{REPLIES}::test_resolving_and_reopening_change_the_server_once_each_and_the_copy_follows[gitlab]",
        why="Each repetition of the command would write to the server.",
    ),
    Mutant(
        name="unanswered-resolution-not-read-back",
        invariant=ONE_EFFECT,
        file="feedback/outbox.py",
        before="            done = None if row.resolves is None else await self._check_state(row)\n",
        after="            done = None\n",
        test=f"{REPLIES}::test_a_lost_answer_to_resolve_is_settled_by_reading_the_thread[gitlab]",
        why="A lost answer would leave the outcome open for a minute, although the thread shows it.",
    ),
    Mutant(
        name="reply-below-a-reply",
        invariant=ONE_EFFECT,
        file="store/work/reply_targets.py",
        before="COALESCE(c.in_reply_to, c.remote_id) FROM topics t",
        after="c.remote_id FROM topics t",
        test=f"{TOPICS}::test_a_reply_to_a_reply_and_every_form_of_reference_lead_to_the_thread",
        why="GitHub refuses a reply to a reply, and two names of one thread would lead to two replies.",
    ),
    Mutant(
        name="reply-searched-among-the-comments",
        invariant=ONE_EFFECT,
        file="sources/github/discussion_answers.py",
        before="        self._document = COMMENTS if place.reply_to is None else REPLIES\n",
        after="        self._node, self._document = place.discussion or '', COMMENTS\n",
        test=f"{TOPICS}::test_a_lost_answer_is_settled_by_finding_the_marker_in_the_discussion[True]",
        why="A reply whose answer was lost would not be found, and be posted again.",
    ),
    Mutant(
        name="code-block-trusted-after-other-blocks",
        invariant=NO_COMMANDS,
        file="sources/gitlab/quick_actions.py",
        before="        elif _OTHER_BLOCK.match(line):\n            all_agree = False\n",
        after="",
        test=f"{QUICK_ACTIONS}::test_a_line_that_some_version_of_gitlab_may_run_is_found",
        why="Text of others could close a block that only we see as open, and act with the rights of the token.",
    ),
    Mutant(
        name="quick-actions-posted-unasked",
        invariant=NO_COMMANDS,
        file="feedback/outbox.py",
        before="    lines = [] if answering.allow_commands else source.commands_in(answering.body)\n",
        after="    lines: list[str] = []\n",
        test=f"{REPLIES}::test_a_line_that_the_server_would_run_is_refused_and_runs_only_if_allowed[gitlab]",
        why="A reply that repeats text of others would close, assign or merge.",
    ),
)
