"""Update the local copy: `lore sync`, `lore ingest`, `lore generate-docs`, `lore embed`.

`lore sync` polls GitHub and Bluesky and runs every stage for all GitLab projects, or refreshes named items only
(`--issue`, `--mr`, `--retry-failed`). Reports are rendered in `output/runs.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from tidelore.cli.command import LoreCommand, invocation_of
from tidelore.cli.output.logs import set_up_logging
from tidelore.cli.output.render import Output, plural
from tidelore.cli.output.runs import (
    STAGES,
    SURGICAL_STAGES,
    embed_data,
    embed_line,
    progress,
    report_data,
    report_lines,
    surgical_data,
    surgical_lines,
    sync_data,
    sync_lines,
)
from tidelore.core.config import forge_hosts
from tidelore.core.errors import Cancelled, NotFound, PartialSuccess, TideloreError
from tidelore.core.references import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelore.app.wiring import App
    from tidelore.cli.command import Invocation
    from tidelore.core.config import Config
    from tidelore.sync.surgical_preflight import RequestedItem, SurgicalFlags


def plan_items(app: App, asked: Sequence[RequestedItem], flags: SurgicalFlags, left_out: Collection[str]) -> Output:
    """Return what would be fetched, without database and network."""
    from tidelore.sync.projects import check_configured
    from tidelore.sync.surgical_preflight import select

    check_configured(app.config)
    # Without the database, groups and renamed projects are not known, so names are used as given.
    choices = select(app.config, [], asked, flags.project)
    skipped = {"ingest", "dependents", "docs", "embed"} if flags.preflight_only else set(left_out)
    stages = [name for name in SURGICAL_STAGES if name not in {*skipped, "scrub"}]
    targets = [
        {
            "entity_type": outcome.entity_type,
            "iid": outcome.iid,
            "reference": outcome.reference,
            "source": outcome.source,
        }
        for outcome in (choice.begin() for choice in choices)
    ]
    lines = ["Dry run. Would fetch:"]
    lines += [f"  {target['reference']} from {target['source']}" for target in targets]
    lines.append(f"  stages: {', '.join(SURGICAL_STAGES[name] for name in stages)}")
    return Output({"dry_run": True, "targets": targets, "stages": stages, "left_out": sorted(left_out)}, lines)


def refresh_items(
    invocation: Invocation,
    app: App,
    asked: Sequence[RequestedItem],
    flags: SurgicalFlags,
    *,
    force: bool,
    wait_seconds: float,
) -> Output:
    """Refresh the named items, or those that an earlier run left."""
    from tidelore.app.mirroring import surgical_sync
    from tidelore.app.wiring import run_until_signalled
    from tidelore.sync.report import SurgicalReport, surgical_verdict

    report = SurgicalReport()
    error: TideloreError | None = None
    try:
        with progress(invocation) as on_progress:
            work = surgical_sync(
                app, asked, flags, report, force=force, wait_seconds=wait_seconds, on_progress=on_progress
            )
            run_until_signalled(work, "stored data is kept")
        error = surgical_verdict(report)
    except TideloreError as stopped:
        if report.run_id is None:
            raise
        error = stopped
        error.details.setdefault("run_id", report.run_id)
    invocation.open_store().close()  # reads the time of the last sync for the output
    return Output(surgical_data(report), surgical_lines(report, flags), error)


def mirrors_projects(config: Config) -> bool:
    """Return whether a project or group of a forge is configured to be mirrored."""
    return bool(forge_hosts(config))


def polled_sources(app: App) -> list[str]:
    """Return which of GitHub and Bluesky are configured for polling."""
    config = app.config
    found = ["github"] if any(host.repos for host in config.github) else []
    return [*found, "bluesky"] if config.bluesky.accounts or _follows(app) else found


def plan_polls(app: App, sources: list[str]) -> Output:
    """Return what a sync would poll, without lock or network."""
    from tidelore.app.feedback_polling import FeedbackPollRequest
    from tidelore.cli.poll import plan_bluesky, plan_github
    from tidelore.sync.account_poll import PollRequest as AccountRequest

    plans: dict[str, Callable[[], Output]] = {
        "github": lambda: plan_github(app.config, FeedbackPollRequest()),
        "bluesky": lambda: plan_bluesky(app, AccountRequest(())),
    }
    answers = {name: plans[name]() for name in sources}
    data = {"dry_run": True, "polled": {name: answer.data for name, answer in answers.items()}}
    return Output(data, [line for answer in answers.values() for line in answer.lines])


def run_polls(
    invocation: Invocation, app: App, sources: list[str], left_out: set[str], wanted: Mapping[str, Any]
) -> Output:
    """Poll each source; a failing source does not stop the others."""
    from tidelore.app.feedback_polling import FeedbackPollRequest
    from tidelore.cli.poll import poll_followed, poll_repositories
    from tidelore.sync.account_poll import PollRequest as AccountRequest

    force, full = bool(wanted["force"]), bool(wanted["full"])
    polls: dict[str, Callable[[], Output]] = {
        "github": lambda: poll_repositories(invocation, app, FeedbackPollRequest(full=full, force=force)),
        "bluesky": lambda: poll_followed(
            invocation, app, AccountRequest((), full=full, force=force, documents="docs" not in left_out)
        ),
    }
    data: dict[str, Any] = {}
    lines: list[str] = []
    errors: list[TideloreError] = []
    for name in sources:
        try:
            answer = polls[name]()
        except Cancelled:
            raise
        except TideloreError as error:
            answer = Output(None, [f"{name}: {error.message}"], error)
        data[name] = answer.data
        lines += answer.lines
        errors += [] if answer.error is None else [answer.error]
    if mirrors_projects(app.config):
        # The mirroring that follows embeds the documents of all sources.
        return Output(data, lines, errors[0] if errors else None)
    made = _embed(app) if "bluesky" in sources and "embed" not in left_out else None
    if made is not None:
        lines += made.lines
    invocation.open_store().close()  # reads the time of the last sync for the output
    whole = {"polled": data, "embeddings": None if made is None else made.data}
    return Output(whole, lines, errors[0] if errors else None)


def sync_everything(
    invocation: Invocation, app: App, sources: list[str], left_out: set[str], wanted: Mapping[str, Any]
) -> Output:
    """Poll GitHub and Bluesky, then mirror the forges; a failing source does not stop the others."""
    from msgspec.structs import replace

    polled = run_polls(invocation, app, sources, left_out, wanted)
    app = replace(app, config=_without(app.config, left_out))
    try:
        mirrored = _sync(invocation, app, left_out, wanted)
    except TideloreError as error:
        if isinstance(error, Cancelled) or polled.error is not None:
            raise
        mirrored = Output({}, [f"mirror: {error.message}"], error)
    errors = [answer.error for answer in (mirrored, polled) if answer.error is not None]
    data = {**mirrored.data, "polled": polled.data}
    return Output(data, [*polled.lines, "", *mirrored.lines], _combined(errors))


def _combined(errors: Sequence[TideloreError]) -> TideloreError | None:
    """Return the error of a sync of several sources: a partial success if one failed and the others were synced."""
    if len(errors) != 1 or isinstance(errors[0], PartialSuccess):
        return errors[0] if errors else None
    error = errors[0]
    return PartialSuccess(
        f"{error.message}; the other sources are synced",
        fix=error.fix,
        failed=[{"code": error.code, "message": error.message, **error.details}],
    )


def _embed(app: App) -> Output:
    from tidelore.app.documents import embed
    from tidelore.app.wiring import run_until_signalled

    made = run_until_signalled(embed(app))
    return Output(embed_data(made), [f"Embeddings: {embed_line(made) if made.model else made.notice}"])


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


@click.command("sync", cls=LoreCommand, example="lore sync --project group/project")
@click.option("-p", "--project", metavar="PATH", help="Only this configured project (path or unambiguous ending).")
@click.option(
    "--issue",
    metavar="REF",
    multiple=True,
    help="Only this issue: number, 'group/project#12' or URL (repeatable).",
)
@click.option(
    "--mr",
    metavar="REF",
    multiple=True,
    help="Only this merge request: number, 'group/project!12' or URL (repeatable).",
)
@click.option("--preflight-only", is_flag=True, help="Fetch the items of --issue and --mr without storing them.")
@click.option(
    "--retry-failed",
    metavar="RUN",
    type=click.IntRange(1, 2**63 - 1),
    help="Retry the items that this run could not refresh.",
)
@click.option("--full", is_flag=True, help="Read everything again from the beginning.")
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
@click.option(
    "--wait",
    metavar="SECONDS",
    type=click.FloatRange(0, 86_400),
    default=0.0,
    help="Wait this long for a lock held by another process.",
)
@click.option("--no-events", is_flag=True, help="Skip state, label and milestone events.")
@click.option("--no-file-changes", is_flag=True, help="Skip the changed files of merge requests.")
@click.option("--no-status", is_flag=True, help="Skip issue statuses.")
@click.option("--no-docs", is_flag=True, help="Do not update search documents; a later run will.")
@click.option("--no-embed", is_flag=True, help="Do not compute embeddings; a later run will.")
@click.option("--dry-run", is_flag=True, help="Print what would be done, without lock, database or network.")
@click.pass_context
def sync_command(ctx: click.Context, /, **wanted: Any) -> Output:
    """Update the local copy.

    Polls GitHub and Bluesky as `lore poll` does. Reads the lists of the configured GitLab projects, then the
    discussions, events and files of changed items, verifies a share of the stored items, and updates search documents
    and embeddings. An interrupted sync continues where it stopped. Exits with 7 if some lists or sources could not be
    read; the rest is stored.

    With --issue and --mr, refreshes only the named items (at most 100). If one of them cannot be fetched, nothing is
    stored.
    """
    from tidelore.sync.surgical_preflight import SurgicalFlags, check_flags, read_asked

    invocation = invocation_of(ctx)
    asked = [read_asked(text, kind) for kind in KINDS for text in wanted[kind]]
    flags = SurgicalFlags(**{name: wanted[name] for name in SurgicalFlags.__struct_fields__})
    check_flags(flags, asked)
    app = invocation.app()
    left_out = {name for name in ("events", "file_changes", "status", "docs", "embed") if wanted[f"no_{name}"]}
    if app.config.embedding.provider == "none":
        left_out.add("embed")
    surgical = bool(asked) or flags.retry_failed is not None
    polled = [] if surgical or flags.project else polled_sources(app)
    mirrored = mirrors_projects(app.config) or not polled
    if flags.dry_run and surgical:
        return plan_items(app, asked, flags, left_out)
    if flags.dry_run:
        plans = [_plan(app.config, flags.project, left_out)] if mirrored else []
        plans += [plan_polls(app, polled)] if polled else []
        return Output(
            {key: value for plan in plans for key, value in plan.data.items()},
            [line for plan in plans for line in plan.lines],
        )
    from msgspec.structs import replace

    set_up_logging(
        app.config, verbose=invocation.choices.verbose, quiet=invocation.choices.quiet or invocation.choices.robot
    )
    if polled and mirrored:
        return sync_everything(invocation, app, polled, left_out, wanted)
    if polled:
        return run_polls(invocation, app, polled, left_out, wanted)
    app = replace(app, config=_without(app.config, left_out))
    if surgical:
        flags = replace(flags, no_embed="embed" in left_out)
        return refresh_items(invocation, app, asked, flags, force=wanted["force"], wait_seconds=wanted["wait"])
    return _sync(invocation, app, left_out, wanted)


def _sync(invocation: Invocation, app: App, left_out: set[str], wanted: Mapping[str, Any]) -> Output:
    from tidelore.app.mirroring import sync
    from tidelore.app.wiring import run_until_signalled
    from tidelore.sources.ports import RESOURCES
    from tidelore.sync.mirror import MirrorRequest
    from tidelore.sync.report import run_verdict

    request = MirrorRequest(
        RESOURCES,
        wanted["project"],
        full=wanted["full"],
        force=wanted["force"],
        wait_seconds=wanted["wait"],
        statuses="status" not in left_out,
        documents="docs" not in left_out,
    )
    with progress(invocation) as on_progress:
        report, made = run_until_signalled(
            sync(app, request, embedding="embed" not in left_out, on_progress=on_progress)
        )
    invocation.open_store().close()  # reads the time of the last sync for the output
    return Output(sync_data(report, made), sync_lines(report, made), run_verdict(report.scopes, report.scrubbed))


def _without(config: Config, left_out: set[str]) -> Config:
    """Return the settings with some kinds of child items disabled for every project."""
    from msgspec.structs import replace

    names = {"events": "fetch_resource_events", "file_changes": "fetch_mr_diffs"}
    off: Mapping[str, Any] = {names[name]: False for name in left_out & names.keys()}
    if not off:
        return config
    hosts = tuple(
        replace(host, overrides=tuple(replace(override, **off) for override in host.overrides))
        for host in config.gitlab
    )
    return replace(config, sync=replace(config.sync, **off), gitlab=hosts)


def _plan(config: Config, project: str | None, left_out: set[str]) -> Output:
    from tidelore.sync.projects import check_configured

    check_configured(config)
    hosts = [
        {"source": host.name, "base_url": host.base_url, "projects": list(host.projects), "groups": list(host.groups)}
        for host in forge_hosts(config)
    ]
    stages = [name for name in STAGES if name not in left_out]
    lines = ["Dry run. A sync would read:"]
    for host in hosts:
        named = [*host["projects"], *(f"{group}/*" for group in host["groups"])]
        lines.append(f"  {host['source']} ({host['base_url']}): {', '.join(named)}")
    if project:
        lines.append(f"  only project {project!r}")
    lines.append(f"  stages: {', '.join(STAGES[name] for name in stages)}")
    kinds = sorted(name.replace("_", " ") for name in left_out - STAGES.keys())
    if kinds:
        lines.append(f"  skipped: {', '.join(kinds)}")
    data = {"dry_run": True, "hosts": hosts, "project": project, "stages": stages, "left_out": sorted(left_out)}
    return Output(data, lines)


@click.command("ingest", cls=LoreCommand, example="lore ingest --type issues")
@click.option(
    "--type",
    "resource",
    required=True,
    metavar="TYPE",
    help="What to fetch: issues or merge_requests.",
)
@click.option("-p", "--project", metavar="PATH", help="Only this configured project (path or unambiguous ending).")
@click.option("--full", is_flag=True, help="Read everything again from the beginning.")
@click.option("--no-status", is_flag=True, help="Skip issue statuses; a later run fetches them.")
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
@click.pass_context
def ingest_command(
    ctx: click.Context,
    resource: str,
    project: str | None,
    full: bool,  # noqa: FBT001
    no_status: bool,  # noqa: FBT001
    force: bool,  # noqa: FBT001
) -> Output:
    """Fetch issues or merge requests of the configured GitLab projects.

    Includes discussions, notes and resource events, the status of issues, and the closing issues and changed files of
    merge requests. Reads only changes since the last run. Unlike `lore sync`, updates no documents and no embeddings.
    """
    from tidelore.app.mirroring import mirror
    from tidelore.app.wiring import run_until_signalled
    from tidelore.sync.mirror import MirrorRequest
    from tidelore.sync.report import run_verdict

    invocation = invocation_of(ctx)
    app = invocation.app()
    set_up_logging(
        app.config, verbose=invocation.choices.verbose, quiet=invocation.choices.quiet or invocation.choices.robot
    )
    request = MirrorRequest((resource,), project, full=full, force=force, statuses=not no_status)
    with progress(invocation) as on_progress:
        report = run_until_signalled(mirror(app, request, f"lore ingest --type {resource}", on_progress))
    invocation.open_store().close()  # reads the time of the last sync for the output
    return Output(report_data(report), report_lines(report, resource), run_verdict(report.scopes, report.scrubbed))


@click.command("generate-docs", cls=LoreCommand, example="lore generate-docs --full")
@click.option("--full", is_flag=True, help="Check every item, not only changed ones.")
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
@click.pass_context
def generate_docs_command(ctx: click.Context, full: bool, force: bool) -> Output:  # noqa: FBT001
    """Update the search documents of changed items.

    `lore sync` does this too. Unchanged documents are not rewritten.
    """
    from tidelore.app.documents import document
    from tidelore.app.wiring import run_until_signalled
    from tidelore.core.errors import PartialSuccess

    invocation = invocation_of(ctx)
    app = invocation.app()
    set_up_logging(
        app.config, verbose=invocation.choices.verbose, quiet=invocation.choices.quiet or invocation.choices.robot
    )
    with progress(invocation) as on_progress:
        made = run_until_signalled(document(app, full=full, force=force, on_progress=on_progress))
    invocation.open_store().close()
    data = {name: getattr(made, name) for name in ("regenerated", "unchanged", "removed", "failed")}
    line = f"{plural(made.regenerated, 'document')} written, {made.unchanged:,} unchanged, {made.removed:,} removed"
    error = None
    if made.failed:
        error = PartialSuccess(
            f"{plural(made.failed, 'source')} could not be converted to a document; will retry",
            fix="run `lore check` and report its output",
            failed=made.failed,
        )
    return Output(data, [line], error)


@click.command("embed", cls=LoreCommand, example="lore embed")
@click.option("--full", is_flag=True, help="Recompute all embeddings.")
@click.pass_context
def embed_command(ctx: click.Context, full: bool) -> Output:  # noqa: FBT001
    """Compute missing embeddings of search documents.

    `lore sync` does this too. Takes no lock, so other commands may run at the same time.
    """
    from tidelore.app.documents import embed
    from tidelore.app.wiring import run_until_signalled

    invocation = invocation_of(ctx)
    app = invocation.app()
    set_up_logging(
        app.config, verbose=invocation.choices.verbose, quiet=invocation.choices.quiet or invocation.choices.robot
    )
    with progress(invocation) as on_progress:
        made = run_until_signalled(
            embed(app, full=full, on_progress=on_progress), "embeddings computed so far are stored"
        )
    invocation.open_store().close()
    lines = [f"{embed_line(made)} in {made.seconds:.1f} s"] if made.model else []
    lines += [f"note: {made.notice}"] if made.notice and made.error is None else []
    return Output(embed_data(made), lines, made.error)
