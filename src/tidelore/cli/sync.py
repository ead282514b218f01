"""Update the local copy: `lore sync`, `lore ingest`, `lore generate-docs`, `lore embed`.

`lore sync` polls GitHub and Bluesky and runs every stage for all mirrored projects, or refreshes named items only
(`--issue`, `--mr`, `--retry-failed`). Reports are rendered in `output/runs.py`.
"""

from __future__ import annotations

from typing import Any

import click
from msgspec import UNSET

from tidelore.app.reports import DocumentCounts, EmbedCounts, MirrorRun, RefreshedItems
from tidelore.app.syncing import (
    STAGES,
    ItemsPlan,
    PollRun,
    Polls,
    SyncBudget,
    SyncOutcome,
    SyncPlan,
    SyncRequest,
    SyncRun,
    compute_embeddings,
    generate_documents,
    ingest,
    plan_sync,
    run_sync,
)
from tidelore.cli.command import Invocation, lore_command
from tidelore.cli.output.render import Output, plural
from tidelore.cli.output.runs import (
    STAGE_NAMES,
    embed_line,
    progress,
    report_lines,
    surgical_lines,
    sync_lines,
)


@lore_command(
    "sync",
    example="lore sync --project group/project",
    answer=(SyncRun, PollRun, RefreshedItems, SyncPlan, ItemsPlan),
)
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
@click.option(
    "--max-requests", type=click.IntRange(1), metavar="N", help="Send at most N requests; the next run continues."
)
@click.option(
    "--reserve-rate-limit",
    type=click.IntRange(0),
    metavar="N",
    help="Stop requests to a server when N requests are left of its rate limit.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be done, without lock, database or network.")
def sync_command(invocation: Invocation, /, **wanted: Any) -> Output:
    """Update the local copy.

    Polls GitHub and Bluesky as `lore poll` does. Reads the lists of the configured projects, then the
    discussions, events and files of changed items, verifies a share of the stored items, and updates search documents
    and embeddings. An interrupted sync continues where it stopped. Exits with 7 if some lists or sources could not be
    read; the rest is stored.

    With --issue and --mr, refreshes only the named items (at most 100). If one of them cannot be fetched, nothing is
    stored.

    With --max-requests or --reserve-rate-limit, stops when the requests are used up, says what is left and exits with
    5; the next run continues there.
    """
    request = SyncRequest(**wanted)
    if request.dry_run:
        plan = plan_sync(invocation.app(), request)
        return Output(plan, _items_plan_lines(plan) if isinstance(plan, ItemsPlan) else _plan_lines(plan))
    with progress(invocation) as on_progress:
        outcome = run_sync(invocation.logged_app(), request, on_progress)
    return Output(outcome.answer, _outcome_lines(outcome, request), outcome.error)


def _outcome_lines(outcome: SyncOutcome, request: SyncRequest) -> list[str]:
    answer = outcome.answer
    if isinstance(answer, RefreshedItems):
        return surgical_lines(answer, request.retry_failed)
    return [*_run_lines(answer, outcome), *(_budget_lines(answer.budget) if answer.budget is not UNSET else [])]


def _budget_lines(budget: SyncBudget) -> list[str]:
    lines = [f"Sent {plural(budget.requests, 'request')}."]
    lines += [f"  stopped: {reason}" for reason in budget.spent]
    lines += [f"  left: {name}" for name in budget.lists_left]
    return [*lines, f"  left: {plural(budget.accounts_left, 'account')}"] if budget.accounts_left else lines


def _run_lines(answer: SyncRun | PollRun, outcome: SyncOutcome) -> list[str]:
    lines = _poll_lines(answer.polled, outcome.failed) if answer.polled is not UNSET else []
    if isinstance(answer, SyncRun):
        return [*lines, *([""] if lines else []), *sync_lines(answer)]
    if "mirror" in outcome.failed:
        return [*lines, "", f"mirror: {outcome.failed['mirror']}"]
    made = answer.embeddings
    if made is UNSET or made is None:
        return lines
    return [*lines, f"Embeddings: {embed_line(made) if made.model else made.notice}"]


def _poll_lines(polled: Polls, failed: dict[str, str]) -> list[str]:
    from tidelore.cli.poll import accounts_lines, repos_lines

    lines = []
    for found in (polled.github, polled.gitlab):
        lines += repos_lines(found)[:-1] if found is not UNSET and found is not None else []
    if polled.bluesky is not UNSET:
        lines += [f"bluesky: {failed['bluesky']}"] if polled.bluesky is None else accounts_lines(polled.bluesky)
    return lines


def _items_plan_lines(plan: ItemsPlan) -> list[str]:
    lines = ["Dry run. Would fetch:"]
    lines += [f"  {target.reference} from {target.source}" for target in plan.targets]
    names = STAGE_NAMES | {"ingest": "items"}
    return [*lines, f"  stages: {', '.join(names[name] for name in plan.stages)}"]


def _plan_lines(plan: SyncPlan) -> list[str]:
    from tidelore.cli.poll import accounts_plan_lines, repos_plan_lines

    lines = []
    if plan.hosts is not UNSET and plan.stages is not UNSET and plan.left_out is not UNSET:
        lines.append("Dry run. A sync would read:")
        for host in plan.hosts:
            named = [*host.projects, *(f"{group}/*" for group in host.groups)]
            lines.append(f"  {host.source} ({host.base_url}): {', '.join(named)}")
        if plan.project:
            lines.append(f"  only project {plan.project!r}")
        lines.append(f"  stages: {', '.join(STAGE_NAMES[name] for name in plan.stages)}")
        kinds = [name.replace("_", " ") for name in plan.left_out if name not in STAGES]
        lines += [f"  skipped: {', '.join(kinds)}"] if kinds else []
    if plan.polled is not UNSET:
        for found in (plan.polled.github, plan.polled.gitlab):
            lines += [] if found is UNSET else repos_plan_lines(found)
        lines += [] if plan.polled.bluesky is UNSET else accounts_plan_lines(plan.polled.bluesky)
    return lines


@lore_command("ingest", example="lore ingest --type issues", answer=MirrorRun)
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
def ingest_command(
    invocation: Invocation,
    resource: str,
    project: str | None,
    full: bool,  # noqa: FBT001
    no_status: bool,  # noqa: FBT001
    force: bool,  # noqa: FBT001
) -> Output:
    """Fetch issues or merge requests of the configured projects.

    Includes discussions, notes and resource events, the status of issues, and the closing issues and changed files of
    merge requests. Reads only changes since the last run. Unlike `lore sync`, updates no documents and no embeddings.
    """
    with progress(invocation) as on_progress:
        run, error = ingest(
            invocation.logged_app(),
            resource,
            on_progress,
            project=project,
            full=full,
            force=force,
            statuses=not no_status,
        )
    return Output(run, report_lines(run, resource), error)


@lore_command("generate-docs", example="lore generate-docs --full", answer=DocumentCounts)
@click.option("--full", is_flag=True, help="Check every item, not only changed ones.")
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
def generate_docs_command(invocation: Invocation, full: bool, force: bool) -> Output:  # noqa: FBT001
    """Update the search documents of changed items.

    `lore sync` does this too. Unchanged documents are not rewritten.
    """
    with progress(invocation) as on_progress:
        made, error = generate_documents(invocation.logged_app(), on_progress, full=full, force=force)
    line = f"{plural(made.regenerated, 'document')} written, {made.unchanged:,} unchanged, {made.removed:,} removed"
    return Output(made, [line], error)


@lore_command("embed", example="lore embed", answer=EmbedCounts)
@click.option("--full", is_flag=True, help="Recompute all embeddings.")
def embed_command(invocation: Invocation, full: bool) -> Output:  # noqa: FBT001
    """Compute missing embeddings of search documents.

    `lore sync` does this too. Takes no lock, so other commands may run at the same time.
    """
    with progress(invocation) as on_progress:
        made, error = compute_embeddings(invocation.logged_app(), on_progress, full=full)
    lines = [f"{embed_line(made)} in {made.seconds:.1f} s"] if made.model else []
    lines += [f"note: {made.notice}"] if made.notice and error is None else []
    return Output(made, lines, error)
