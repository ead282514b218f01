"""`lore sync` without GitLab projects: polls GitHub and Bluesky, so that one command updates every set-up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidelore.cli.embed import embed_data, embed_line
from tidelore.cli.render import Answer
from tidelore.core.errors import NotFound, TideloreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelore.app.wiring import App
    from tidelore.cli.face import Face


def polled_sources(app: App) -> list[str]:
    """Return what there is to poll in place of GitLab; nothing where a GitLab project is configured."""
    config = app.config
    if any(host.projects or host.groups for host in config.gitlab):
        return []
    found = ["github"] if any(host.repos for host in config.github) else []
    return [*found, "bluesky"] if config.bluesky.accounts or _follows(app) else found


def plan(app: App, sources: list[str]) -> Answer:
    """Return what a sync would poll, without lock or network."""
    from tidelore.app.feedback_polling import FeedbackPollRequest
    from tidelore.cli import poll_bluesky, poll_github
    from tidelore.sync.account_poll import PollRequest as AccountRequest

    plans: dict[str, Callable[[], Answer]] = {
        "github": lambda: poll_github.plan(app.config, FeedbackPollRequest()),
        "bluesky": lambda: poll_bluesky.plan(app, AccountRequest(())),
    }
    answers = {name: plans[name]() for name in sources}
    data = {"dry_run": True, "polled": {name: answer.data for name, answer in answers.items()}}
    return Answer(data, [line for answer in answers.values() for line in answer.lines])


def run(face: Face, app: App, sources: list[str], left_out: set[str], wanted: Mapping[str, Any]) -> Answer:
    """Poll each source; one that fails does not keep the others from being polled."""
    from tidelore.app.feedback_polling import FeedbackPollRequest
    from tidelore.cli import poll_bluesky, poll_github
    from tidelore.sync.account_poll import PollRequest as AccountRequest

    force, full = bool(wanted["force"]), bool(wanted["full"])
    polls: dict[str, Callable[[], Answer]] = {
        "github": lambda: poll_github.run(face, app, FeedbackPollRequest(full=full, force=force)),
        "bluesky": lambda: poll_bluesky.run(
            face, app, AccountRequest((), full=full, force=force, documents="docs" not in left_out)
        ),
    }
    data: dict[str, Any] = {}
    lines: list[str] = []
    errors: list[TideloreError] = []
    for name in sources:
        try:
            answer = polls[name]()
        except TideloreError as error:
            answer = Answer(None, [f"{name}: {error.message}"], error)
        data[name] = answer.data
        lines += answer.lines
        errors += [] if answer.error is None else [answer.error]
    made = _embed(app) if "bluesky" in sources and "embed" not in left_out else None
    if made is not None:
        lines += made.lines
    face.open_store().close()  # so that the answer says how fresh the copy is now
    whole = {"polled": data, "embeddings": None if made is None else made.data}
    return Answer(whole, lines, errors[0] if errors else None)


def _embed(app: App) -> Answer:
    from tidelore.app.documents import embed
    from tidelore.app.wiring import run_until_signalled

    made = run_until_signalled(embed(app))
    return Answer(embed_data(made), [f"Embeddings: {embed_line(made) if made.model else made.notice}"])


def _follows(app: App) -> bool:
    from tidelore.store.mirror.accounts import count_accounts

    try:
        database = app.open_store()
    except NotFound:
        return False
    try:
        return bool(count_accounts(database))
    finally:
        database.close()
