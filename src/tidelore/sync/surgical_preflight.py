"""Choose the items of a surgical sync, and fetch and check all of them before anything is written.

Choosing is pure: command line, settings and stored projects in, items out; invalid references, contradicting flags and
more than a hundred items are rejected before anything is opened. Fetching is concurrent, with a time limit per item,
and collects all failures instead of stopping at the first. A source that rejects the credentials or limits the rate
gets no more requests. Nothing is written here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from tidelore.core.concurrency import gather
from tidelore.core.config import Config, ForgeHost, forge_host, forge_hosts
from tidelore.core.errors import (
    CredentialsMissing,
    CredentialsRejected,
    NotFound,
    QueryLimited,
    RateLimited,
    RemoteError,
    RemoteNotFound,
    TideloreError,
    UserError,
)
from tidelore.core.model import Item, ListedRecord, ParentRecord, ProjectRecord, PullIssueRecord
from tidelore.core.references import NOUNS, SIGNS, Kind, Reference, match_one, other_kind, read_reference
from tidelore.engine.ports import Page
from tidelore.http.limits import SourceOutages
from tidelore.sources.ports import ProjectSource
from tidelore.store.database.port import Database
from tidelore.store.mirror.page_writer import holds
from tidelore.store.mirror.projects import ProjectRow, find_configured
from tidelore.store.work.runs import RunRecord
from tidelore.sync.projects import ChosenProject, confirm_address, name_projects
from tidelore.sync.report import (
    ENTITY_KINDS,
    ENTITY_TYPES,
    FETCH,
    EntityOutcome,
    read_outcomes,
    to_retry,
)

MOST = 100
RESOURCES: dict[Kind, str] = {"issue": "issues", "mr": "merge_requests"}


class RequestedItem(Struct, frozen=True):
    """An item as named on the command line."""

    kind: Kind
    reference: Reference


class ChosenItem(Struct, frozen=True):
    """An item with its project, by configured name."""

    kind: Kind
    iid: int
    source: str
    configured: str
    path: str
    sign: str = ""

    @property
    def reference(self) -> str:
        return f"{self.path}{self.sign or SIGNS[self.kind]}{self.iid}"

    def begin(self) -> EntityOutcome:
        """Return the initial outcome of this item."""
        return EntityOutcome(ENTITY_TYPES[self.kind], self.iid, self.reference, self.source, self.configured)


class SurgicalFlags(Struct, frozen=True):
    """The flags of `lore sync` that affect named items."""

    full: bool = False
    no_docs: bool = False
    no_embed: bool = False
    dry_run: bool = False
    preflight_only: bool = False
    project: str | None = None
    retry_failed: int | None = None


def read_asked(text: str, kind: Kind) -> RequestedItem:
    """Parse a value of `--issue` or `--mr`."""
    word, sign = text.strip(), SIGNS[kind]
    found = read_reference(word)
    if found is None or found[1].iid == 0:
        raise UserError(
            f"--{kind} {text!r} names no {NOUNS[kind].partition(' ')[2]}",
            fix=f"use a positive number, '{sign}12', 'group/project{sign}12', or the web address",
            option=f"--{kind}",
            value=text,
        )
    meant, reference = found
    requested = RequestedItem(kind, reference)
    if meant not in (None, kind) and not reference.is_hashed:
        raise _other_kind(requested, text)
    return requested


def _other_kind(asked: RequestedItem, text: str | None = None) -> UserError:
    word = text or f"{asked.reference.project or ''}#{asked.reference.iid}"
    return UserError(
        f"--{asked.kind} {word!r} names {NOUNS[other_kind(asked.kind)]}",
        fix=f"use --{other_kind(asked.kind)} '{word.strip()}'",
        option=f"--{asked.kind}",
        value=word,
    )


def check_flags(flags: SurgicalFlags, asked: Sequence[RequestedItem]) -> None:
    """Raise UserError for contradicting flags or too many items."""
    for wrong, message, fix in _contradictions(flags, surgical=bool(asked) or flags.retry_failed is not None):
        if wrong:
            raise UserError(message, fix=fix)
    if asked and flags.retry_failed is not None:
        raise UserError(
            "--retry-failed cannot be combined with --issue or --mr",
            fix="run two separate commands",
        )
    _check_count(len({(one.kind, one.reference.iid) for one in asked}))


def _contradictions(flags: SurgicalFlags, *, surgical: bool) -> Iterator[tuple[bool, str, str]]:
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


def select(
    config: Config, known: Sequence[ProjectRow], asked: Sequence[RequestedItem], project: str | None
) -> list[ChosenItem]:
    """Return each item once, with its project: the one in its reference, else `project`, else the default project."""
    found = {}
    for one in asked:
        chosen = _place(config, known, one, project)
        host = forge_host(config, chosen.source)
        if one.kind == "mr" and one.reference.is_hashed and (host is None or host.sign != "#"):
            raise _other_kind(one)
        sign = host.sign if host is not None and one.kind == "mr" else ""
        choice = ChosenItem(one.kind, one.reference.iid, chosen.source, chosen.configured, chosen.path, sign)
        found[choice.source, choice.configured, choice.kind, choice.iid] = choice
    _check_count(len(found))
    return list(found.values())


def choose_again(config: Config, run: RunRecord) -> list[ChosenItem]:
    """Return the items of an earlier run that need a retry, with the projects resolved then."""
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
        if forge_host(config, outcome.source) is None:
            raise UserError(
                f"{outcome.reference} belongs to {outcome.source!r}, which is no longer configured",
                fix="add the host to the configuration file again",
                source=outcome.source,
            )
    return [
        ChosenItem(
            ENTITY_KINDS[outcome.entity_type],
            outcome.iid,
            outcome.source,
            outcome.project,
            *_split(outcome.reference),
        )
        for outcome in outcomes
    ]


def _split(reference: str) -> tuple[str, str]:
    """Return the path and the sign of a full reference."""
    at = max(reference.rfind(sign) for sign in SIGNS.values())
    return reference[:at], reference[at]


def _check_count(count: int) -> None:
    if count > MOST:
        raise UserError(
            f"Too many surgical targets ({count}). Maximum is {MOST}.",
            fix="name fewer items, or run `lore sync` without --issue and --mr",
            targets=count,
            maximum=MOST,
        )


def _place(config: Config, known: Sequence[ProjectRow], asked: RequestedItem, project: str | None) -> ChosenProject:
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
    return _project_of(forge_hosts(config), known, name)


def _host_of(config: Config, address: str) -> tuple[ForgeHost, str]:
    """Return the host of a web address, and the path of the project on it."""
    hosts = forge_hosts(config)
    for host in hosts:
        root = f"{host.web_url.rstrip('/')}/"
        if address.lower().startswith(root.lower()):
            return host, address[len(root) :]
    raise UserError(
        f"no configured host serves {address}",
        fix=f"configured: {', '.join(host.web_url for host in hosts) or 'none'}",
        address=address,
    )


def _project_of(hosts: Sequence[ForgeHost], known: Sequence[ProjectRow], name: str) -> ChosenProject:
    """Return the configured project with this name; a project of a configured group need not be stored yet."""
    candidates = {(one.source, one.configured): one for host in hosts for one in _candidates(host, known)}
    try:
        return match_one(name, list(candidates.values()), lambda one: (one.path, one.configured), "configured project")
    except NotFound:
        grouped = [host for host in hosts if name.startswith(tuple(f"{group}/" for group in host.groups))]
        if len(grouped) != 1:
            raise
        return ChosenProject(grouped[0].name, name, name)


def _candidates(host: ForgeHost, known: Sequence[ProjectRow]) -> Iterator[ChosenProject]:
    """Yield the projects configured by name, then the stored projects of configured groups."""
    yield from name_projects(host, known)
    roots = tuple(f"{group}/" for group in host.groups)
    for row in known:
        if row.source == host.name and row.path.startswith(roots) and row.configured not in host.projects:
            yield ChosenProject(row.source, row.configured, row.path)


T = TypeVar("T")

NOT_FOUND, PROJECT_MISMATCH, UNREADABLE = "NOT_FOUND", "PROJECT_MISMATCH", "UNREADABLE"
TIMEOUT, FETCH_ERROR = "TIMEOUT", "FETCH_ERROR"


class ItemRefusal(Struct, frozen=True):
    """Why an item cannot be used: a machine-readable code and a message."""

    code: str
    message: str


class ItemProject(Struct, frozen=True):
    """The project of an item: its stored row, or the record just fetched from the forge."""

    remote_id: int
    row: ProjectRow | None = None
    record: ProjectRecord | None = None


class PreflightItem(Struct, frozen=True):
    """An item that was fetched and checked, and may be written."""

    choice: ChosenItem
    outcome: EntityOutcome
    home: ItemProject
    item: Item[ParentRecord]


class _Whereabouts(Struct, frozen=True):
    """The project ids in a payload; a merge request belongs to its target project."""

    project_id: object = None
    target_project_id: object = None


def code_of(error: TideloreError) -> str:
    """Return the failure code of an error."""
    if isinstance(error, CredentialsRejected | CredentialsMissing):
        return "AUTH_FAILED"
    if isinstance(error, RateLimited | QueryLimited):
        return "RATE_LIMITED"
    if isinstance(error, RemoteNotFound):
        return NOT_FOUND
    return TIMEOUT if isinstance(error, RemoteError) and error.reason == "timeout" else FETCH_ERROR


def check_response(page: Page[ListedRecord], remote_id: int) -> Item[ParentRecord] | ItemRefusal:
    """Return the item of a response, or why it cannot be used."""
    if page.rejected:
        return ItemRefusal(UNREADABLE, page.rejected[0].error)
    if not page.items:
        return ItemRefusal(NOT_FOUND, "not found, or the token has no access")
    item = page.items[0]
    if isinstance(item.record, PullIssueRecord):
        number = item.record.iid
        return ItemRefusal(NOT_FOUND, f"number {number} is a pull request; use --mr {number}")
    said = msgspec.json.decode(item.payload, type=_Whereabouts)
    project_id = said.project_id if said.target_project_id is None else said.target_project_id
    if project_id not in (None, remote_id):
        return ItemRefusal(PROJECT_MISMATCH, f"the server returned project {project_id} instead of {remote_id}")
    return Item(item.version, item.at, item.payload, item.record)


class Preflight(Struct):
    """Fetches items into `fetched`, and records failures in their outcomes."""

    database: Database
    config: Config
    sources: Mapping[str, ProjectSource]
    fetched: list[PreflightItem] = field(default_factory=list)
    outages: SourceOutages = field(default_factory=lambda: SourceOutages(most=None))

    async def run(self, pairs: Sequence[tuple[ChosenItem, EntityOutcome]]) -> None:
        """Fetch every item, even if others fail; `fetched` keeps the order of the request."""
        gate = asyncio.Semaphore(self.config.sync.dependent_concurrency)
        projects = list(dict.fromkeys((choice.source, choice.configured) for choice, _ in pairs))
        found = await gather(self._ask(gate, source, partial(self._find, source, name)) for source, name in projects)
        homes = dict(zip(projects, found, strict=True))

        async def one(choice: ChosenItem, outcome: EntityOutcome) -> PreflightItem | None:
            home = homes[choice.source, choice.configured]
            if isinstance(home, ItemRefusal):
                outcome.fail(FETCH, home.code, home.message)
                return None
            got = await self._ask(gate, choice.source, partial(self._fetch, choice, home))
            if isinstance(got, ItemRefusal):
                self._refuse(choice, outcome, home, got)
                return None
            outcome.fetched = True
            return PreflightItem(choice, outcome, home, got)

        answers = await gather(one(choice, outcome) for choice, outcome in pairs)
        self.fetched = [answer for answer in answers if answer is not None]

    async def _ask(
        self, gate: asyncio.Semaphore, source: str, question: Callable[[], Awaitable[T | ItemRefusal]]
    ) -> T | ItemRefusal:
        """Make a request within the time limit; return a refusal for any failure."""
        async with gate:
            known = self.outages.reason(source) or self.sources[source].closed
            if known is not None:
                return ItemRefusal(code_of(known), known.message)
            seconds = self.config.sync.surgical_entity_timeout_seconds
            try:
                async with asyncio.timeout(seconds):
                    return await question()
            except TimeoutError:
                return ItemRefusal(TIMEOUT, f"no response within {seconds:g} seconds")
            except RemoteError as error:
                self.outages.failed(source, error)
                return ItemRefusal(code_of(error), error.message)

    async def _find(self, source: str, configured: str) -> ItemProject | ItemRefusal:
        row = find_configured(self.database, source, configured)
        await confirm_address(self.config, self.sources[source], row)
        if row is not None:
            return ItemProject(row.remote_id, row)
        record = await self.sources[source].resolve(configured)
        return ItemProject(record.remote_id, record=record)

    async def _fetch(self, choice: ChosenItem, home: ItemProject) -> Item[ParentRecord] | ItemRefusal:
        source, resource = self.sources[choice.source], RESOURCES[choice.kind]
        if resource not in source.resources:
            return ItemRefusal(NOT_FOUND, f"{choice.source} has no {resource.replace('_', ' ')}")
        lister = source.listing(resource, home.remote_id)
        try:
            page = await lister.fetch_one(str(choice.iid))
        except RemoteNotFound:
            # A missing item gives an empty page, so it is the project that was not found.
            return ItemRefusal(NOT_FOUND, f"project {choice.path} not found, or the token has no access")
        return check_response(page, home.remote_id)

    def _refuse(self, choice: ChosenItem, outcome: EntityOutcome, home: ItemProject, why: ItemRefusal) -> None:
        row = home.row
        held = row is not None and why.code == NOT_FOUND and holds(self.database, choice.kind, row.id, choice.iid)
        message = f"{why.message}; the local copy was not changed" if held else why.message
        outcome.fail(FETCH, why.code, message, held=held)
