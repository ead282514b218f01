"""`lore sync`: runs every stage for all projects, or for named items only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tidelore.cli import surgical as surgery
from tidelore.cli import sync_polls
from tidelore.cli.embed import embed_data, embed_line
from tidelore.cli.face import LoreCommand, face_of
from tidelore.cli.logs import set_up_logging
from tidelore.cli.progress import progress
from tidelore.cli.render import Answer, plural
from tidelore.cli.runs import report_data, scrub_lines, seen_of, trouble_lines
from tidelore.cli.stages import CHILDREN, STAGES, documents_data, documents_line, notice_lines, stage_line
from tidelore.cli.sync_polls import polled_sources
from tidelore.core.references import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelore.app.wiring import App
    from tidelore.cli.face import Face
    from tidelore.core.config import Config
    from tidelore.core.progress import EmbedReport
    from tidelore.sync.report import RunReport


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
def command(ctx: click.Context, /, **wanted: Any) -> Answer:
    """Update the local copy.

    Reads the lists of the configured GitLab projects, then the discussions, events and files of changed items,
    verifies a share of the stored items, and updates search documents and embeddings. An interrupted sync continues
    where it stopped. Exits with 7 if some lists could not be read; the rest is stored.

    Without GitLab projects, polls GitHub and Bluesky as `lore poll` does.

    With --issue and --mr, refreshes only the named items (at most 100). If one of them cannot be fetched, nothing is
    stored.
    """
    from tidelore.sync.surgical_preflight import SurgicalFlags, check_flags, read_asked

    face = face_of(ctx)
    asked = [read_asked(text, kind) for kind in KINDS for text in wanted[kind]]
    flags = SurgicalFlags(**{name: wanted[name] for name in SurgicalFlags.__struct_fields__})
    check_flags(flags, asked)
    app = face.app()
    left_out = {name for name in ("events", "file_changes", "status", "docs", "embed") if wanted[f"no_{name}"]}
    if app.config.embedding.provider == "none":
        left_out.add("embed")
    surgical = bool(asked) or flags.retry_failed is not None
    polled = [] if surgical or flags.project else polled_sources(app)
    if flags.dry_run and polled:
        return sync_polls.plan(app, polled)
    if flags.dry_run:
        return surgery.plan(app, asked, flags, left_out) if surgical else _plan(app.config, flags.project, left_out)
    from msgspec.structs import replace

    set_up_logging(app.config, verbose=face.choices.verbose, quiet=face.choices.quiet or face.choices.robot)
    if polled:
        return sync_polls.run(face, app, polled, left_out, wanted)
    app = replace(app, config=_without(app.config, left_out))
    if surgical:
        flags = replace(flags, no_embed="embed" in left_out)
        return surgery.run(face, app, asked, flags, force=wanted["force"], wait_seconds=wanted["wait"])
    return _sync(face, app, left_out, wanted)


def _sync(face: Face, app: App, left_out: set[str], wanted: Mapping[str, Any]) -> Answer:
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
    with progress(face) as on_progress:
        report, made = run_until_signalled(
            sync(app, request, embedding="embed" not in left_out, on_progress=on_progress)
        )
    face.open_store().close()  # so that the answer says how fresh the copy is now
    return Answer(_data(report, made), _lines(report, made), run_verdict(report.scopes, report.scrubbed))


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


def _plan(config: Config, project: str | None, left_out: set[str]) -> Answer:
    from tidelore.sync.projects import check_configured

    check_configured(config)
    hosts = [
        {"source": host.name, "base_url": host.base_url, "projects": list(host.projects), "groups": list(host.groups)}
        for host in config.gitlab
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
    return Answer(data, lines)


def _data(report: RunReport, made: EmbedReport | None) -> dict[str, Any]:
    data = report_data(report)
    data["documents"] = documents_data(report.documents)
    data["embeddings"] = None if made is None else embed_data(made)
    data["stage_timings_ms"] = {name: round(seconds * 1000) for name, seconds in report.stage_seconds.items()}
    return data


def _children(report: RunReport) -> str:
    """Return what was fetched below the items, and of how many items it could not be or has to be again."""
    seen = seen_of(report.scopes)
    children = [child for scope in report.scopes for child in scope.children.values()]
    parts = [plural(seen[key], word) for key, word in CHILDREN.items() if seen[key]]
    failed = sum(child.tally.failed for child in children)
    waiting = sum(child.tally.waiting for child in children)
    parts += [f"{failed:,} failed"] if failed else []
    parts += [f"{waiting:,} not settled"] if waiting else []
    due = any(child.due for child in children if child.unavailable is None)
    return ", ".join(parts) or ("none found" if due else "none due")


def _lines(report: RunReport, vectors: EmbedReport | None) -> list[str]:
    """Return one line per stage, then the problems, then the cost."""
    tallies = [scope.tally for scope in report.scopes]
    told = {
        "ingest": f"{sum(t.created for t in tallies):,} new, {sum(t.changed for t in tallies):,} changed",
        "dependents": _children(report),
        "scrub": "; ".join(scrub_lines(report)) if report.scrubbed else "no stored items yet",
    }
    if report.documents is not None:
        told["docs"] = documents_line(report.documents)
    if vectors is not None:
        told["embed"] = embed_line(vectors) if vectors.model else "none made"
    troubled = {
        "ingest": any(scope.error for scope in report.scopes),
        "dependents": any(child.tally.failed for scope in report.scopes for child in scope.children.values()),
        "scrub": any(scope.error for scope in report.scrubbed),
        "docs": report.documents is not None and report.documents.failed > 0,
        "embed": vectors is not None and vectors.notice is not None,
    }
    lines = [
        stage_line(STAGES[name], told[name], seconds, troubled=troubled[name])
        for name, seconds in report.stage_seconds.items()
    ]
    lines += trouble_lines(report.scopes)
    lines += notice_lines(vectors)
    lines.append(f"Run {report.run_id}: {plural(report.requests, 'request')} in {report.seconds:.1f} s")
    return lines
