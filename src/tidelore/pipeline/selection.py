"""Which items a surgical sync means. Pure: the words of the command line, settings and stored projects in, targets out.

Refuses what is no reference, what names the other kind, more than a hundred items, and flags that contradict each
other: before anything is opened. Invariant: an item that was named twice is one target.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from tidelore.core.config import Config, GitLabHost, gitlab_host
from tidelore.core.errors import NotFound, UserError
from tidelore.core.references import NOUNS, SIGNS, Kind, Reference, match_one, other_kind, read_reference
from tidelore.pipeline.projects import Chosen, name_projects
from tidelore.pipeline.surgical_report import (
    ENTITY_TYPES,
    KINDS,
    EntityOutcome,
    read_outcomes,
    reference_of,
    to_retry,
)
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.runs import RunRecord

MOST = 100
RESOURCES: dict[Kind, str] = {"issue": "issues", "mr": "merge_requests"}


class Asked(Struct, frozen=True):
    """An item as the caller named it."""

    kind: Kind
    reference: Reference


class Choice(Struct, frozen=True):
    """An item of a project that is known by its configured name."""

    kind: Kind
    iid: int
    source: str
    configured: str
    path: str

    @property
    def reference(self) -> str:
        return reference_of(self.path, self.kind, self.iid)

    def begin(self) -> EntityOutcome:
        """Return the outcome of this item before anything was done about it."""
        return EntityOutcome(ENTITY_TYPES[self.kind], self.iid, self.reference, self.source, self.configured)


class Flags(Struct, frozen=True):
    """The flags of a sync that bear on items."""

    full: bool = False
    no_docs: bool = False
    no_embed: bool = False
    dry_run: bool = False
    preflight_only: bool = False
    project: str | None = None
    retry_failed: int | None = None


def read_asked(text: str, kind: Kind) -> Asked:
    """Read one value of `--issue` or `--mr`."""
    word, sign = text.strip(), SIGNS[kind]
    found = read_reference(word)
    if found is None or found[1].iid == 0:
        raise UserError(
            f"--{kind} {text!r} names no {NOUNS[kind].partition(' ')[2]}",
            fix=f"write a positive number, '{sign}12', 'group/project{sign}12', or the web address",
            option=f"--{kind}",
            value=text,
        )
    meant, reference = found
    if meant not in (None, kind):
        raise UserError(
            f"--{kind} {text!r} names {NOUNS[other_kind(kind)]}",
            fix=f"use --{other_kind(kind)} '{word}'",
            option=f"--{kind}",
            value=text,
        )
    return Asked(kind, reference)


def check_flags(flags: Flags, asked: Sequence[Asked]) -> None:
    """Refuse flags that contradict each other, and too many items."""
    for wrong, message, fix in _contradictions(flags, surgical=bool(asked) or flags.retry_failed is not None):
        if wrong:
            raise UserError(message, fix=fix)
    if asked and flags.retry_failed is not None:
        raise UserError(
            "--retry-failed cannot be combined with --issue or --mr",
            fix="run two separate commands",
        )
    _check_count(len({(one.kind, one.reference.iid) for one in asked}))


def _contradictions(flags: Flags, *, surgical: bool) -> Iterator[tuple[bool, str, str]]:
    retrying = flags.retry_failed is not None
    yield (
        flags.preflight_only and not surgical,
        "--preflight-only requires --issue or --mr",
        "add --issue or --mr; use `lore doctor` to check the hosts",
    )
    yield (
        surgical and flags.full,
        "--full cannot be combined with --issue, --mr or --retry-failed",
        "remove --full: named items are always read completely",
    )
    yield (
        surgical and flags.no_docs and not flags.no_embed,
        "with --issue or --mr, --no-docs requires --no-embed",
        "add --no-embed, or remove --no-docs",
    )
    yield (
        retrying and flags.dry_run,
        "--dry-run cannot be combined with --retry-failed",
        f"`lore sync-runs show {flags.retry_failed}` shows what would be retried",
    )
    yield (
        retrying and flags.project is not None,
        "--project cannot be combined with --retry-failed",
        "remove --project",
    )


def select(config: Config, known: Sequence[ProjectRow], asked: Sequence[Asked], project: str | None) -> list[Choice]:
    """Return each item once, with its project: the one it names, else `project`, else the default one."""
    found = {}
    for one in asked:
        chosen = _place(config, known, one, project)
        choice = Choice(one.kind, one.reference.iid, chosen.source, chosen.configured, chosen.path)
        found[choice.source, choice.configured, choice.kind, choice.iid] = choice
    _check_count(len(found))
    return list(found.values())


def choose_again(config: Config, run: RunRecord) -> list[Choice]:
    """Return what is left of an earlier run, as it was meant then."""
    if run.mode != "surgical":
        raise UserError(
            f"run {run.id} cannot be retried: it did not sync named items",
            fix=f"run `{run.command}` to continue",
            run_id=run.id,
        )
    if run.status == "running":
        raise UserError(f"run {run.id} is still running", fix="wait for it to finish", run_id=run.id)
    outcomes = to_retry(read_outcomes(run.outcomes_json), failed=run.status not in ("succeeded", "partial"))
    for outcome in outcomes:
        if gitlab_host(config, outcome.source) is None:
            raise UserError(
                f"{outcome.reference} belongs to {outcome.source!r}, which is no longer configured",
                fix="add the host to the configuration file again",
                source=outcome.source,
            )
    return [
        Choice(
            KINDS[outcome.entity_type],
            outcome.iid,
            outcome.source,
            outcome.project,
            outcome.reference[: outcome.reference.rindex(SIGNS[KINDS[outcome.entity_type]])],
        )
        for outcome in outcomes
    ]


def _check_count(count: int) -> None:
    if count > MOST:
        raise UserError(
            f"Too many surgical targets ({count}). Maximum is {MOST}.",
            fix="name fewer items, or run `lore sync` without --issue and --mr",
            targets=count,
            maximum=MOST,
        )


def _place(config: Config, known: Sequence[ProjectRow], asked: Asked, project: str | None) -> Chosen:
    reference = asked.reference
    if reference.address is not None:
        host, path = _host_of(config, reference.address)
        return _project_of((host,), known, path)
    name = reference.project or project or config.default_project
    if not name:
        raise UserError(
            f"{SIGNS[asked.kind]}{reference.iid} has no project: --issue and --mr require one",
            fix=f"add --project (-p), set default_project, or write group/project{SIGNS[asked.kind]}{reference.iid}",
        )
    return _project_of(config.gitlab, known, name)


def _host_of(config: Config, address: str) -> tuple[GitLabHost, str]:
    """Return the host a web address belongs to, and the path of the project there."""
    for host in config.gitlab:
        root = f"{host.base_url.rstrip('/')}/"
        if address.lower().startswith(root.lower()):
            return host, address[len(root) :]
    raise UserError(
        f"no configured host serves {address}",
        fix=f"configured: {', '.join(host.base_url for host in config.gitlab) or 'none'}",
        address=address,
    )


def _project_of(hosts: Sequence[GitLabHost], known: Sequence[ProjectRow], name: str) -> Chosen:
    """Return the one configured project that is meant; one of a configured group need not be stored yet."""
    candidates = {(one.source, one.configured): one for host in hosts for one in _candidates(host, known)}
    try:
        return match_one(name, list(candidates.values()), lambda one: (one.path, one.configured), "configured project")
    except NotFound:
        grouped = [host for host in hosts if name.startswith(tuple(f"{group}/" for group in host.groups))]
        if len(grouped) != 1:
            raise
        return Chosen(grouped[0].name, name, name)


def _candidates(host: GitLabHost, known: Sequence[ProjectRow]) -> Iterator[Chosen]:
    """Yield what is configured by name, and what is stored of the configured groups."""
    yield from name_projects(host, known)
    roots = tuple(f"{group}/" for group in host.groups)
    for row in known:
        if row.source == host.name and row.path.startswith(roots) and row.configured not in host.projects:
            yield Chosen(row.source, row.configured, row.path)
